"""The snapshot: a read-only view of cached objects and facts during one synchronous plan."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from enum import Flag, auto
from itertools import chain
from typing import Any, Generic, Protocol, TypeVar

from msgspec import Struct

from hanse.model.facts import ClusterState, F, Fact, Facts, KindServed, Phase, Role
from hanse.model.objects import ClusterId, ClusterObjectRef, K, Kind, Object, ObjectRef

K_co = TypeVar("K_co", bound=Object, covariant=True)


class Index(Struct, Generic[K], frozen=True):
    """An index over objects of a kind: its name, and the values that an object has in it."""

    kind: type[K]
    name: str
    values: Callable[[K], Iterable[str]]


class Writes(Flag):
    """What a feature writes of a kind that it watches."""

    NOTHING = 0
    OBJECTS = auto()
    """Create, patch and delete."""
    FIELDS = auto()
    """Patch objects of others."""
    STATUS = auto()
    """Patch the status subresource."""
    MISSING = auto()
    """Create objects that are missing, without owning them."""
    REMOVAL = auto()
    """Delete what others created, or an agent did when the feature had more to do."""


class Watch(Struct, frozen=True):
    """A kind that a feature watches in every cluster of a role.

    A feature also watches what it writes, and declares it by `writes`: the runtime owns only what
    it watches, and an agent gets only the RBAC permissions that its watches need.
    """

    role: Role
    kind: type[Object]
    namespace: str = ""
    labels: str = ""
    """Equality and existence terms only: `app=web,tier`."""
    indexes: tuple[Index[Any], ...] = ()
    writes: Writes = Writes.NOTHING
    name: str = ""
    """The only object to watch: an agent may then read no other of its namespace."""
    optional: bool = False
    """Whether it is done without where the agent may not read it."""
    reason: str = ""
    """Why the feature reads or writes it: the explanation of the rights that follow from it."""
    only_with: str = ""
    """What must run or be chosen for it to be used, such as `Antrea`; empty if nothing special."""


class Lister(Protocol[K_co]):
    """The read-only interface of a store."""

    @property
    def synced(self) -> bool:
        """Whether the kind was listed in full once."""
        ...

    @property
    def version(self) -> int:
        """The latest resourceVersion that a list or watch has reported; 0 without any."""
        ...

    def get(self, namespace: str, name: str) -> K_co | None:
        """The object of that name; None if it is not in the store."""

    def all(self) -> Iterable[K_co]: ...

    def in_namespace(self, namespace: str) -> Iterable[K_co]: ...

    def by(self, index: str, value: str) -> Iterable[K_co]:
        """The objects that an index has under a value."""
        ...

    def unreadable_reason(self, namespace: str, name: str) -> str:
        """Why an object cannot be decoded as its kind; empty if it can."""
        ...


Stores = Mapping[tuple[ClusterId, Kind], Sequence[Lister[Any]]]


class Snapshot:
    """A view of live stores and facts, valid until the plan that reads it returns."""

    def __init__(self, stores: Stores, facts: Facts, now: datetime, local: ClusterId) -> None:
        """A view of these stores and facts, which are not copied, by the agent of `local`."""
        self._stores = stores
        self._facts = facts
        self.now = now
        self.local = local

    def get(self, where: ClusterId, kind: type[K], name: str, namespace: str = "") -> K | None:
        """The object of that name as last observed; None if absent or not watched."""
        for store in self._stores.get((where, kind.kind), ()):
            found: K | None = store.get(namespace, name)
            if found is not None:
                return found
        return None

    def find(self, target: ClusterObjectRef) -> Object | None:
        """The object of a reference; None if it does not exist or is not watched."""
        for store in self._stores.get((target.where, target.ref.kind), ()):
            found: Object | None = store.get(target.ref.namespace, target.ref.name)
            if found is not None:
                return found
        return None

    def find_named(
        self, where: ClusterId, kind: str, name: str, namespace: str = ""
    ) -> ObjectRef | None:
        """The reference of an object by the name of its kind, whatever its group.

        None if absent or not watched; of several the first.
        """
        for (cluster, one), stores in self._stores.items():
            if (cluster, one.name) == (where, kind) and any(s.get(namespace, name) for s in stores):
                return ObjectRef(one, name, namespace)
        return None

    def unreadable_reason(self, target: ClusterObjectRef) -> str:
        """Why an object cannot be decoded as its kind; empty where it can, or is not watched."""
        for store in self._stores.get((target.where, target.ref.kind), ()):
            if reason := store.unreadable_reason(target.ref.namespace, target.ref.name):
                return reason
        return ""

    def all(self, where: ClusterId, kind: type[K]) -> Iterator[K]:
        """Every watched object of a kind in a cluster."""
        return _distinct([store.all() for store in self._stores_of(where, kind)])

    def in_namespace(self, where: ClusterId, kind: type[K], namespace: str) -> Iterator[K]:
        """Every watched object of a kind in one namespace."""
        stores = self._stores_of(where, kind)
        return _distinct([store.in_namespace(namespace) for store in stores])

    def by(self, where: ClusterId, index: Index[K], value: str) -> Iterator[K]:
        """Every object under a value of an index."""
        stores = self._stores_of(where, index.kind)
        return _distinct([store.by(index.name, value) for store in stores])

    def synced(self, where: ClusterId, kind: type[Object] | None = None) -> bool:
        """Whether absence means absence: the cluster is synced or leaving, and the kind listed.

        Without a kind only the cluster counts.
        """
        state = self.fact(ClusterState, where)
        if state is None or state.phase not in (Phase.SYNCED, Phase.LEAVING):
            return False
        return kind is None or self.listed(where, kind)

    def listed(self, where: ClusterId, kind: type[Object]) -> bool:
        """Whether the kind was listed in full once, reachable now or not.

        False if it is not watched.
        """
        stores = self._stores.get((where, kind.kind), ())
        return bool(stores) and all(store.synced for store in stores)

    def seen_version(self, where: ClusterId, kind: type[Object]) -> int:
        """The resourceVersion up to which all watches of a kind have reported; 0 without any."""
        return min((s.version for s in self._stores.get((where, kind.kind), ())), default=0)

    def watches(self, where: ClusterId, kind: type[Object]) -> bool:
        """Whether a kind is watched in a cluster."""
        return bool(self._stores.get((where, kind.kind)))

    def serves(self, where: ClusterId, kind: type[Object]) -> bool | None:
        """Whether a cluster serves a kind; None while no informer of it has found out."""
        served = self.fact(KindServed, (where, kind.kind))
        return served.served if served is not None else None

    def listed_or_unserved(self, where: ClusterId, kind: type[Object]) -> bool:
        """Whether all objects of a kind are known: it was listed, or is not served."""
        return self.listed(where, kind) or self.serves(where, kind) is False

    def clusters(self, role: Role) -> tuple[ClusterId, ...]:
        """The clusters with a role, sorted, without those that this agent is leaving.

        The local cluster has role LOCAL also while it leaves its federation; with another role
        it is left out like the others.
        """
        found = [
            s.cluster
            for s in self.facts(ClusterState)
            if role in s.roles and (role is Role.LOCAL or not s.leaving)
        ]
        return tuple(sorted(found))

    def fact(self, type_: type[F], key: object) -> F | None:
        """The fact of that type and key, or None."""
        return self._facts.get(type_, key)

    def facts(self, type_: type[F]) -> Iterator[F]:
        """Every fact of a type."""
        return self._facts.all(type_)

    def _stores_of(self, where: ClusterId, kind: type[K]) -> Sequence[Lister[K]]:
        """The stores that have objects of a kind of a cluster."""
        return self._stores.get((where, kind.kind), ())


def _distinct(read: Sequence[Iterable[K]]) -> Iterator[K]:
    """What was read from each store of a kind; an object that several stores hold comes once."""
    if len(read) == 1:
        return iter(read[0])
    return distinct_objects(chain.from_iterable(read))


def distinct_objects(objects: Iterable[K]) -> Iterator[K]:
    """Each object once, by namespace and name: the first."""
    yielded: set[tuple[str, str]] = set()
    for obj in objects:
        name = (obj.metadata.namespace, obj.metadata.name)
        if name not in yielded:
            yielded.add(name)
            yield obj


class ObjectChange(Struct, frozen=True):
    """One object before and after; `live` if a watch reported it, not a list."""

    where: ClusterId
    before: Object | None
    after: Object | None
    live: bool = True

    @property
    def object(self) -> Object:
        """The object after the change; the one before if it was deleted."""
        found = self.after if self.after is not None else self.before
        assert found is not None, "a change has at least one side"
        return found

    @property
    def is_more_than_status(self) -> bool:
        """Whether the object appeared or is gone, or changed in any field but status.

        Of its metadata labels, annotations and deletion time count.
        """
        before, after = self.before, self.after
        if before is None or after is None:
            return True
        names = (name for name in after.__struct_fields__ if name not in ("metadata", "status"))
        meta, previous = after.metadata, before.metadata
        return any(getattr(before, name) != getattr(after, name) for name in names) or (
            (meta.labels, meta.annotations, meta.deletion_timestamp)
            != (previous.labels, previous.annotations, previous.deletion_timestamp)
        )


class FactChange(Struct, frozen=True):
    """One fact before and after."""

    before: Fact | None
    after: Fact | None

    @property
    def fact(self) -> Fact:
        """The fact after, or else before."""
        found = self.after if self.after is not None else self.before
        assert found is not None, "a change has at least one side"
        return found


Change = ObjectChange | FactChange
