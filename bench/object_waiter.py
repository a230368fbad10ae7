"""Waits, by watches, until named objects of a cluster exist and are complete."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from random import Random
from typing import TypeAlias

from msgspec import Struct

from hanse.kube.client import Client
from hanse.kube.transport import Transport
from hanse.kube.watch_events import Applied, Listed
from hanse.kube.watcher import list_and_watch
from hanse.model.objects import Object

WaitName: TypeAlias = Callable[[Object], str | None]
"""The name that an object is waited for by; None while it is incomplete or not waited for."""


class WatchScope(Struct, frozen=True):
    """The kinds to watch in a namespace, and how their objects are named."""

    kinds: tuple[type[Object], ...]
    namespace: str
    mark: WaitName


class ObjectWaiter:
    """Collects the objects of a namespace that were ever complete, and waits for names."""

    def __init__(self, look: WatchScope) -> None:
        self.look = look
        self._complete: set[str] = set()
        self._waiting: list[tuple[set[str], asyncio.Future[None]]] = []

    async def list_and_watch(
        self, transport: Transport, kind: type[Object], started: asyncio.Event
    ) -> None:
        """Watch until cancelled; resume, since a server may end a watch that is read too slowly."""
        events = list_and_watch(
            Client(transport), kind, namespace=self.look.namespace, random=Random(0)
        )
        async with aclosing(events) as stream:
            async for event in stream:
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
        """Record an object if it is complete."""
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
    """Watch each cluster from now on until the block ends."""
    waiters = {cluster: ObjectWaiter(looks[cluster]) for cluster in transports}
    started: list[asyncio.Event] = []
    tasks: list[asyncio.Task[None]] = []
    async with asyncio.TaskGroup() as group:
        for cluster, waiter in waiters.items():
            for kind in waiter.look.kinds:
                started.append(asyncio.Event())
                watch = waiter.list_and_watch(transports[cluster], kind, started[-1])
                tasks.append(group.create_task(watch, name=f"watch {cluster}"))
        try:
            for one in started:
                await one.wait()
            yield waiters
        finally:
            for task in tasks:
                task.cancel()
