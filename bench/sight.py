"""What a person sees in one cluster, by one watch: which ConfigMaps are there and complete."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager

import msgspec
from msgspec import Struct

from hanse.kube.request import Request, Transport
from hanse.testing.toy import OFFER, OFFERED


class _Meta(Struct, frozen=True, gc=False):
    name: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class Seen(Struct, frozen=True, gc=False):
    """A ConfigMap, as far as it is looked at."""

    metadata: _Meta = _Meta()
    data: dict[str, str] = {}


class _Event(Struct, frozen=True, gc=False):
    type: str
    object: Seen


_event = msgspec.json.Decoder(_Event)


def is_complete(seen: Seen, sources: int) -> bool:
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
    """The complete ConfigMaps of one namespace; others can wait for names among them."""

    def __init__(self, sources: int) -> None:
        self.complete: set[str] = set()
        self._sources = sources
        self._waiting: list[tuple[set[str], asyncio.Future[None]]] = []

    def take(self, line: bytes) -> None:
        """One line of the watch."""
        event = _event.decode(line)
        name = event.object.metadata.name
        if event.type in ("ADDED", "MODIFIED") and is_complete(event.object, self._sources):
            self.complete.add(name)
            for missing, found in self._waiting:
                missing.discard(name)
                if not missing and not found.done():
                    found.set_result(None)

    async def until(self, names: set[str]) -> None:
        """Wait until all of these are complete."""
        missing = names - self.complete
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
    """One watch in each cluster, from now on, until the block ends."""
    seen = {cluster: Sight(sources) for cluster in ways}
    async with AsyncExitStack() as stack, asyncio.TaskGroup() as group:
        tasks = []
        for cluster, way in ways.items():
            path = f"/api/v1/namespaces/{namespaces[cluster]}/configmaps"
            query = (("watch", "true"), ("timeoutSeconds", "3000"))
            lines = await stack.enter_async_context(way.stream(Request("GET", path, query)))
            tasks.append(group.create_task(_follow(lines, seen[cluster]), name=f"see {cluster}"))
        try:
            yield seen
        finally:
            for task in tasks:
                task.cancel()


async def _follow(lines: AsyncIterator[bytes], sight: Sight) -> None:
    async for line in lines:
        sight.take(line)
    raise ConnectionError("a watch of the benchmark itself ended")
