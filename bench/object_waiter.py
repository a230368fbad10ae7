"""What a person sees in one cluster, by watches: which objects are there and complete."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from random import Random
from typing import TypeAlias

from msgspec import Struct

from hanse.kube.client import Client
from hanse.kube.transport import Transport
from hanse.kube.watch_events import Applied, Listed
from hanse.kube.watcher import follow
from hanse.model.objects import Object

WaitName: TypeAlias = Callable[[Object], str | None]
"""The name that an object is waited for by; None while it is not complete, or nobody's."""


class WatchScope(Struct, frozen=True):
    """What to look at in a cluster."""

    kinds: tuple[type[Object], ...]
    namespace: str
    mark: WaitName


class ObjectWaiter:
    """The objects of one namespace that were ever complete; others wait for names among them."""

    def __init__(self, look: WatchScope) -> None:
        self.look = look
        self._complete: set[str] = set()
        self._waiting: list[tuple[set[str], asyncio.Future[None]]] = []

    async def follow(self, way: Transport, kind: type[Object], started: asyncio.Event) -> None:
        """Look until cancelled; a server may end a watch that is read too slowly, so resume."""
        events = follow(Client(way), kind, namespace=self.look.namespace, random=Random(0))
        async with aclosing(events) as told:
            async for event in told:
                match event:
                    case Listed(objects):
                        for obj in objects:
                            self.take(obj)
                        started.set()
                    case Applied(obj):
                        self.take(obj)
                    case _:
                        pass

    def take(self, obj: Object) -> None:
        """An object as it is now."""
        name = self.look.mark(obj)
        if name is None:
            return
        self._complete.add(name)
        for missing, found in self._waiting:
            missing.discard(name)
            if not missing and not found.done():
                found.set_result(None)

    async def until(self, names: set[str]) -> None:
        """Wait until all of these are complete."""
        missing = names - self._complete
        if not missing:
            return
        waiting = (missing, asyncio.get_running_loop().create_future())
        self._waiting.append(waiting)
        try:
            await waiting[1]
        finally:
            self._waiting.remove(waiting)


@asynccontextmanager
async def object_waiters(
    transports: Mapping[str, Transport], looks: Mapping[str, WatchScope]
) -> AsyncIterator[dict[str, ObjectWaiter]]:
    """One look at each cluster, from now on, until the block ends."""
    seen = {cluster: ObjectWaiter(looks[cluster]) for cluster in transports}
    started: list[asyncio.Event] = []
    tasks: list[asyncio.Task[None]] = []
    async with asyncio.TaskGroup() as group:
        for cluster, sight in seen.items():
            for kind in sight.look.kinds:
                started.append(asyncio.Event())
                watch = sight.follow(transports[cluster], kind, started[-1])
                tasks.append(group.create_task(watch, name=f"see {cluster}"))
        try:
            for one in started:
                await one.wait()
            yield seen
        finally:
            for task in tasks:
                task.cancel()
