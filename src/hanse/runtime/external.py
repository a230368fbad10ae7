"""External systems (a name server, a load balancer, a VPC) behind the API of a cluster.

A small adapter lists, creates, updates and deletes objects; diff, ownership and retries are those
of clusters.
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
from hanse.kube.requests import JsonPatch
from hanse.kube.retry import retry_delay
from hanse.kube.watch_events import Interrupted, Listed, NotServed, Progress, WatchEvent
from hanse.kube.watcher import BeforeRelist
from hanse.model.objects import K, Object, Wire, apply_merge_patch
from hanse.runtime.api import ServerIdentity

MAX_READS = 3
"""How often a list is read again because we wrote meanwhile."""


class ExternalSystem(Protocol):
    """An adapter to an external system; it raises the errors of `hanse.kube.errors`.

    `update` replaces a whole object. A system without versions of its own leaves
    `resource_version` empty; an object is then read and compared before it is written.
    """

    @property
    def kinds(self) -> Sequence[type[Object]]:
        """The kinds that the system has; others are not served."""
        ...

    async def list(self, kind: type[K]) -> Sequence[K]:
        """All objects of a kind, also those of others."""
        ...

    async def create(self, obj: K) -> K:
        """Create an object, and return it as stored."""
        ...

    async def update(self, obj: K) -> K:
        """Replace a whole object, found by its name or uid, and return it as stored."""
        ...

    async def delete(self, obj: K) -> None:
        """Delete an object, found by its name or uid."""
        ...


@runtime_checkable
class SupportsRead(Protocol):
    """An adapter that reads one object, for systems in which a list is expensive."""

    async def read(self, kind: type[K], name: str) -> K:
        """Read one object by name; raises `NotFound` if it is absent."""
        ...


POLL_INTERVAL = timedelta(seconds=30)


class ExternalApi:
    """An external system as an `Api`: polled, with versions computed from the content."""

    def __init__(
        self, system: ExternalSystem, poll_interval: Callable[[], timedelta] = lambda: POLL_INTERVAL
    ) -> None:
        """Wrap an external system; nothing is listed yet.

        `poll_interval` is called before each wait, so that the interval may change.
        """
        self._system = system
        self._poll_interval = poll_interval
        self._random = Random()  # noqa: S311 - spreads retries, guards nothing
        self._round = 0
        self._versions: dict[tuple[Any, str, str], tuple[bytes, int]] = {}
        self._writes = 0

    async def list_and_watch(
        self,
        kind: type[K],
        *,
        namespace: str,
        labels: str,
        fields: str,
        before_relist: BeforeRelist | None = None,  # noqa: ARG002 - there are no Leases
    ) -> AsyncGenerator[WatchEvent[K], None]:
        """List at every poll interval and yield each list; a new failure yields `Interrupted` once.

        After a failure the next list follows after a backoff, and a `Progress` follows the list
        that succeeds. A kind that the system lacks yields `NotServed` and then nothing, for ever.
        Namespace and selectors must be empty; `before_relist` is not called.
        """
        assert not namespace, "external systems have no namespaces to watch by themselves"
        assert not labels, "external systems are watched whole"
        assert not fields, "external systems are watched whole"
        if kind not in self._system.kinds:
            yield NotServed()
            await asyncio.get_running_loop().create_future()
        failures, told = 0, ""
        while True:
            wait = self._poll_interval().total_seconds()
            try:
                listed = await self._list(kind)
            except KubeError as error:
                if not failures or str(error) != told:
                    told = str(error)
                    yield Interrupted(error)
                wait = self._retry_wait(error, failures)
                failures += 1
            else:
                yield listed
                if failures:
                    yield Progress(listed.resource_version)
                failures = 0
            await asyncio.sleep(wait)

    def _retry_wait(self, error: KubeError, failures: int) -> float:
        """Seconds until the next list after an error: its backoff, at most the poll interval."""
        delay = retry_delay(error, failures, self._random)
        interval = self._poll_interval()
        return min(delay or interval, interval).total_seconds()

    async def list(
        self, kind: type[K], *, namespace: str = "", labels: str = "", fields: str = ""
    ) -> Listed[K]:
        """List a kind, and select here by namespace, `metadata.name=…`, and presence of a label.

        `labels` is the key of one label; an empty selector selects all.
        """
        listed = await self._list(kind)
        chosen = tuple(
            o
            for o in listed.objects
            if namespace in ("", o.metadata.namespace)
            and fields in ("", f"metadata.name={o.metadata.name}")
            and (not labels or labels in o.metadata.labels)
        )
        return Listed(chosen, listed.resource_version)

    async def read(self, kind: type[K], name: str, namespace: str = "") -> K:
        """Read one object, from a list if the system cannot read one; with a computed version.

        Raises NotFound if it is absent. A system that can read one is asked by name alone.
        """
        if isinstance(self._system, SupportsRead):
            return self._versioned(await self._system.read(kind, name))
        for obj in (await self._list(kind)).objects:
            if (obj.metadata.namespace, obj.metadata.name) == (namespace, name):
                return obj
        raise NotFound(Status(404, "NotFound", f"{kind.kind} {name} is not there"))

    async def create(self, obj: K) -> K:
        """Create an object after a read has shown that it is absent; else raises AlreadyExists.

        Returns it as stored, with a computed version.
        """
        try:
            await self.read(type(obj), obj.metadata.name, obj.metadata.namespace)
        except NotFound:
            return self._count_write(await self._system.create(obj))
        raise AlreadyExists(Status(409, "AlreadyExists", f"{obj.metadata.name} exists already"))

    async def patch(
        self,
        kind: type[K],
        name: str,
        namespace: str,
        change: Wire | JsonPatch,
        *,
        subresource: str = "",
    ) -> K:
        """Read an object, apply a merge patch to it here, and send the whole object as an update.

        Returns it as stored. Raises NotFound if it is absent, and Conflict if the patch holds
        another resourceVersion than the one read; the uid in a patch is not compared.
        """
        assert subresource in ("", "status"), f"external systems have no subresource {subresource}"
        assert isinstance(change, dict), "external systems have no entries of several agents"
        observed = await self.read(kind, name, namespace)
        version = change.get("metadata", {}).get("resourceVersion", "")
        self._require_version(observed, version)
        after = msgspec.convert(apply_merge_patch(msgspec.to_builtins(observed), change), kind)
        return self._count_write(await self._system.update(after))

    async def delete(
        self, kind: type[K], name: str, namespace: str, *, uid: str = "", resource_version: str = ""
    ) -> K | None:
        """Delete an object and its stored version; returns None.

        Raises Conflict if a uid or version is given and differs, NotFound if the object is absent.
        """
        observed = await self.read(kind, name, namespace)
        if uid and observed.metadata.uid != uid:
            raise Conflict(Status(409, "Conflict", f"{name} is another object now"))
        self._require_version(observed, resource_version)
        await self._system.delete(observed)
        self._writes += 1
        self._versions.pop(_object_key(observed), None)  # an object created again is another one
        return None

    async def discover(self) -> None:
        """Return at once: the kinds of an external system are those of its adapter."""

    async def identity(self) -> ServerIdentity:
        """An empty identity: a polled system needs no probe."""
        return ServerIdentity()

    async def close(self) -> None:
        """Nothing to close: adapters own their connections."""

    async def _list(self, kind: type[K]) -> Listed[K]:
        """List a kind with versions, again (at most MAX_READS lists) if we wrote meanwhile.

        Also drops the stored versions of objects that are no longer listed.
        """
        for _ in range(MAX_READS):
            writes = self._writes
            found = tuple(await self._system.list(kind))
            if writes == self._writes:
                break  # else the list may lack what was written meanwhile
        objects = tuple(self._versioned(o) for o in found)
        there = {_object_key(o) for o in objects}
        for place in [p for p in self._versions if p[0] == kind.kind and p not in there]:
            del self._versions[place]
        return Listed(objects, str(self._round))

    def _count_write(self, obj: K) -> K:
        """The written object with its version.

        Counts the write, so that lists under way are repeated.
        """
        self._writes += 1
        return self._versioned(obj)

    def _require_version(self, observed: Object, version: str) -> None:
        """Raise `Conflict` if the object has another version than the one given; empty is any."""
        if version and version != observed.metadata.resource_version:
            name = observed.metadata.name
            raise Conflict(Status(409, "Conflict", f"{name} was changed by somebody else"))

    def _versioned(self, obj: K) -> K:
        """The object with a computed resourceVersion, which grows when its content changes.

        The version is stored by kind, namespace and name. Without a uid it gets `namespace/name` as
        one.
        """
        meta = obj.metadata
        content = replace(obj, metadata=replace(meta, resource_version="", uid=""))
        digest = blake2b(msgspec.json.encode(content), digest_size=16).digest()
        place = _object_key(obj)
        known = self._versions.get(place)
        if known is None or known[0] != digest:
            self._round += 1
            known = self._versions[place] = (digest, self._round)
        uid = meta.uid or f"{meta.namespace}/{meta.name}"
        versioned = replace(meta, resource_version=str(known[1]), uid=uid)
        return replace(obj, metadata=versioned)


def _object_key(obj: Object) -> tuple[Any, str, str]:
    """Kind, namespace and name of an object."""
    return (type(obj).kind, obj.metadata.namespace, obj.metadata.name)
