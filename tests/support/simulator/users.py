"""What users made, so that laws can require it to be there unchanged."""

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from hanse.kube.client import Client
from hanse.kube.requests import JsonPatch
from hanse.kube.transport import Transport
from hanse.model.kinds.core import Namespace, Pod
from hanse.model.objects import ClusterId, K, Object, Wire

Place = tuple[ClusterId, type[Object], str, str]
"""Cluster, kind, namespace and name of an object."""

_ASSIGNED = (Namespace, Pod)
"""Kinds whose spec is completed by the cluster itself: only their identity is a user's."""


class UserObjects:
    """Every object that a user created and did not delete, with its last content."""

    def __init__(self) -> None:
        self._objects: dict[Place, tuple[str, Wire]] = {}
        self.version = 0
        """Another number once anything that users have is recorded anew."""

    def __iter__(self) -> Iterator[tuple[Place, tuple[str, Wire]]]:
        return iter(list(self._objects.items()))

    def __contains__(self, place: object) -> bool:
        return place in self._objects

    def record(self, cluster: ClusterId, obj: Any) -> None:
        """Record an object as a user left it."""
        self.version += 1
        self._objects[_place(cluster, obj)] = (obj.metadata.uid, content_of(obj))

    def update(self, cluster: ClusterId, obj: Any) -> None:
        """Record an edit, if the object is a user's own."""
        if _place(cluster, obj) in self._objects:
            self.record(cluster, obj)

    def forget(self, matches: Callable[[Place], bool]) -> None:
        """Forget objects that users deleted, or lost by their own doing."""
        self.version += 1
        self._objects = {place: kept for place, kept in self._objects.items() if not matches(place)}

    def saved(self, cluster: ClusterId) -> dict[Place, tuple[str, Wire]]:
        """What users have in a cluster now, for a backup."""
        return {place: kept for place, kept in self._objects.items() if place[0] == cluster}

    def restore(self, cluster: ClusterId, saved: dict[Place, tuple[str, Wire]]) -> None:
        """Go back to what users had in a cluster when it was backed up."""
        self.forget(lambda place: place[0] == cluster)
        self._objects.update(saved)


class UserClient(Client):
    """A client of a user, whose objects are recorded."""

    def __init__(self, transport: Transport, cluster: ClusterId, objects: UserObjects) -> None:
        super().__init__(transport, field_manager="somebody")
        self._cluster = cluster
        self._objects = objects

    async def create(self, obj: K, *, dry_run: bool = False) -> K:
        made = await super().create(obj, dry_run=dry_run)
        if not dry_run:
            self._objects.record(self._cluster, made)
        return made

    async def patch(
        self,
        kind: type[K],
        name: str,
        namespace: str,
        change: Wire | JsonPatch,
        *,
        subresource: str = "",
        dry_run: bool = False,
    ) -> K:
        changed = await super().patch(
            kind, name, namespace, change, subresource=subresource, dry_run=dry_run
        )
        if not dry_run:
            self._objects.update(self._cluster, changed)
        return changed

    async def delete(self, kind: type[K], name: str, namespace: str, **how: str) -> K | None:
        place = (self._cluster, kind, namespace, name)
        self._objects.forget(lambda other: other == place)
        return await super().delete(kind, name, namespace, **how)


def content_of(obj: Any) -> Wire:
    """What a user wrote into an object: everything but metadata and status."""
    if isinstance(obj, _ASSIGNED):
        return {}
    wire: Wire = msgspec.to_builtins(obj, str_keys=True)
    return {name: value for name, value in wire.items() if name not in ("metadata", "status")}


def _place(cluster: ClusterId, obj: Any) -> Place:
    return (cluster, type(obj), obj.metadata.namespace, obj.metadata.name)
