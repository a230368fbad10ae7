"""Systems that are not clusters (a name server, a load balancer, a VPC), seen as if they were.

A small adapter lists, creates, updates and deletes; the engine's own comparison, ownership and
retries serve it as they serve clusters.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from datetime import timedelta
from hashlib import blake2b
from random import Random
from typing import Any, Protocol, runtime_checkable

import msgspec
from msgspec.structs import replace

from hanse.kube.errors import AlreadyExists, Conflict, KubeError, NotFound, Status
from hanse.kube.retry import retry_delay
from hanse.kube.watch_events import Interrupted, Listed, NotServed, Progress, WatchEvent
from hanse.model.objects import K, Object, Wire, merge

READS = 3
"""How often a list is read anew because of our own writes meanwhile."""


class ExternalSystem(Protocol):
    """What an adapter does; it raises `Unreachable` and the other errors of `hanse.kube.errors`.

    Objects are whole: `update` replaces one. A system without versions of its own may leave
    `resource_version` empty; then it is compared before it is written.
    """

    @property
    def kinds(self) -> Sequence[type[Object]]: ...

    async def list(self, kind: type[K]) -> Sequence[K]: ...

    async def create(self, obj: K) -> K: ...

    async def update(self, obj: K) -> K: ...

    async def delete(self, obj: K) -> None: ...


@runtime_checkable
class SupportsRead(Protocol):
    """What an adapter also does where a list costs much: it gives one object, or `NotFound`."""

    async def read(self, kind: type[K], name: str) -> K: ...


POLL_INTERVAL = timedelta(seconds=30)


class ExternalApi:
    """An outside system as the engine's `Api`: polled, and compared first."""

    def __init__(
        self, system: ExternalSystem, every: Callable[[], timedelta] = lambda: POLL_INTERVAL
    ) -> None:
        self._system = system
        self._every = every
        self._random = Random()  # noqa: S311 - spreads retries, guards nothing
        self._round = 0
        self._versions: dict[tuple[Any, str, str], tuple[bytes, int]] = {}
        self._writes = 0

    async def follow(
        self, kind: type[K], *, namespace: str, labels: str, fields: str
    ) -> AsyncGenerator[WatchEvent[K], None]:
        """List again and again; selectors are left to whoever reads."""
        assert not namespace, "outside systems have no namespaces to watch by themselves"
        assert not labels, "outside systems are watched whole"
        assert not fields, "outside systems are watched whole"
        if kind not in self._system.kinds:
            yield NotServed()
            await asyncio.get_running_loop().create_future()
        failures = 0
        while True:
            wait = self._every().total_seconds()
            try:
                listed = await self._listed(kind)
            except KubeError as error:
                if not failures:
                    yield Interrupted(error)
                wait = self._wait_after(error, failures)
                failures += 1
            else:
                yield listed
                if failures:
                    yield Progress(listed.resource_version)
                failures = 0
            await asyncio.sleep(wait)

    def _wait_after(self, error: KubeError, failures: int) -> float:
        """Sooner than usual, so that a system that is back is seen soon."""
        delay = retry_delay(error, failures, self._random)
        usual = self._every()
        return min(delay or usual, usual).total_seconds()

    async def list(
        self, kind: type[K], *, namespace: str = "", labels: str = "", fields: str = ""
    ) -> Listed[K]:
        listed = await self._listed(kind)
        chosen = tuple(
            o
            for o in listed.objects
            if namespace in ("", o.metadata.namespace)
            and fields in ("", f"metadata.name={o.metadata.name}")
            and (not labels or labels in o.metadata.labels)
        )
        return Listed(chosen, listed.resource_version)

    async def read(self, kind: type[K], name: str, namespace: str = "") -> K:
        if isinstance(self._system, SupportsRead):
            return self._versioned(await self._system.read(kind, name))
        for obj in (await self._listed(kind)).objects:
            if (obj.metadata.namespace, obj.metadata.name) == (namespace, name):
                return obj
        raise NotFound(Status(404, "NotFound", f"{kind.kind} {name} is not there"))

    async def create(self, obj: K) -> K:
        try:
            await self.read(type(obj), obj.metadata.name, obj.metadata.namespace)
        except NotFound:
            return self._wrote(await self._system.create(obj))
        raise AlreadyExists(Status(409, "AlreadyExists", f"{obj.metadata.name} exists already"))

    async def patch(
        self, kind: type[K], name: str, namespace: str, change: Wire, *, subresource: str = ""
    ) -> K:
        assert subresource in ("", "status"), f"no subresource {subresource} outside"
        standing = await self.read(kind, name, namespace)
        wanted_version = change.get("metadata", {}).get("resourceVersion", "")
        self._require_version(standing, wanted_version)
        after = msgspec.convert(merge(msgspec.to_builtins(standing), change), kind)
        return self._wrote(await self._system.update(after))

    async def delete(
        self, kind: type[K], name: str, namespace: str, *, uid: str = "", resource_version: str = ""
    ) -> K | None:
        standing = await self.read(kind, name, namespace)
        if uid and standing.metadata.uid != uid:
            raise Conflict(Status(409, "Conflict", f"{name} is another object now"))
        self._require_version(standing, resource_version)
        await self._system.delete(standing)
        self._writes += 1
        self._versions.pop(_place(standing), None)  # the same again is another object
        return None

    async def discover(self) -> None:
        """The kinds of an outside system are those of its adapter."""

    async def identity(self) -> str:
        """Polled as it is, it needs nobody to ask whether it answers."""
        return ""

    async def close(self) -> None:
        """Adapters hold what they hold; nothing is held here."""

    async def _listed(self, kind: type[K]) -> Listed[K]:
        for _ in range(READS):
            writes = self._writes
            found = tuple(await self._system.list(kind))
            if writes == self._writes:
                break  # else what was written while it was read may be lacking
        objects = tuple(self._versioned(o) for o in found)
        there = {_place(o) for o in objects}
        for place in [p for p in self._versions if p[0] == kind.kind and p not in there]:
            del self._versions[place]
        return Listed(objects, str(self._round))

    def _wrote(self, obj: K) -> K:
        self._writes += 1
        return self._versioned(obj)

    def _require_version(self, standing: Object, version: str) -> None:
        if version and version != standing.metadata.resource_version:
            name = standing.metadata.name
            raise Conflict(Status(409, "Conflict", f"{name} was changed by somebody else"))

    def _versioned(self, obj: K) -> K:
        """Versions that grow when the content changes; a name without a uid serves as one."""
        meta = obj.metadata
        content = replace(obj, metadata=replace(meta, resource_version="", uid=""))
        digest = blake2b(msgspec.json.encode(content), digest_size=16).digest()
        place = _place(obj)
        known = self._versions.get(place)
        if known is None or known[0] != digest:
            self._round += 1
            known = self._versions[place] = (digest, self._round)
        uid = meta.uid or f"{meta.namespace}/{meta.name}"
        versioned = replace(meta, resource_version=str(known[1]), uid=uid)
        return replace(obj, metadata=versioned)


def _place(obj: Object) -> tuple[Any, str, str]:
    return (type(obj).kind, obj.metadata.namespace, obj.metadata.name)
