"""What a person sees in one cluster, by one watch: which ConfigMaps are there and complete."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from random import Random

from hanse.kube.client import Client
from hanse.kube.events import Applied, Listed
from hanse.kube.request import Transport
from hanse.kube.watching import follow
from hanse.model.kinds.core import ConfigMap
from hanse.testing.toy import OFFER, OFFERED


def is_complete(seen: ConfigMap, sources: int) -> bool:
    """Whether an object of the toy feature tells of as many clusters as there are."""
    name, data = seen.metadata.name, seen.data
    if name.startswith("copy-of-"):
        return len(data) == sources
    if name.startswith("receipt-of-"):
        return data.get("from", "").count(",") == sources - 1
    if name.startswith("sum."):
        return data.get("clusters", "").count(",") == sources - 1
    return OFFER not in seen.metadata.labels or OFFERED in seen.metadata.annotations


class Sight:
    """The ConfigMaps of one namespace that were ever complete; others wait for names among them."""

    def __init__(self, sources: int) -> None:
        self.begun = asyncio.Event()
        self._complete: set[str] = set()
        self._sources = sources
        self._waiting: list[tuple[set[str], asyncio.Future[None]]] = []

    async def follow(self, way: Transport, namespace: str) -> None:
        """Look until cancelled; a server may end a watch that is read too slowly, so resume."""
        events = follow(Client(way), ConfigMap, namespace=namespace, random=Random(0))
        async with aclosing(events) as told:
            async for event in told:
                match event:
                    case Listed(objects):
                        for obj in objects:
                            self.take(obj)
                        self.begun.set()
                    case Applied(obj):
                        self.take(obj)
                    case _:
                        pass

    def take(self, obj: ConfigMap) -> None:
        """An object as it is now."""
        if not is_complete(obj, self._sources):
            return
        name = obj.metadata.name
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
async def sights(
    ways: Mapping[str, Transport], namespaces: Mapping[str, str], sources: int
) -> AsyncIterator[dict[str, Sight]]:
    """One look at each cluster, from now on, until the block ends."""
    seen = {cluster: Sight(sources) for cluster in ways}
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(seen[cluster].follow(way, namespaces[cluster]), name=f"see {cluster}")
            for cluster, way in ways.items()
        ]
        try:
            for sight in seen.values():
                await sight.begun.wait()
            yield seen
        finally:
            for task in tasks:
                task.cancel()
