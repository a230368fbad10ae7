"""What would be: plans over what was seen and what somebody might apply. Nothing is written."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Generic

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from hanse.model.objects import ClusterId, ClusterObjectRef, K, Object, merge, object_ref
from hanse.model.plan import Plan
from hanse.model.snapshot import Lister, ObjectChange, Snapshot
from hanse.runtime.declared_writes import managed_objects, managed_watches
from hanse.runtime.diff import Action, Create, Delete, Obstacle, Update, diff, target_ref
from hanse.runtime.ownership import OwnershipIndex
from hanse.runtime.reconciler import Reconciler
from hanse.runtime.workqueue import Item

ROUNDS = 20
"""Consequences of consequences that are followed; more means that a plan does not settle."""


class Preview(Struct, frozen=True):
    """The writes that would follow, in order, and what would stand in their way."""

    actions: tuple[Action, ...] = ()
    obstacles: tuple[Obstacle, ...] = ()
    warnings: dict[ClusterObjectRef, str] = {}
    """By what is written: what would be said with it that is not as somebody wished."""


class Overlay(Generic[K]):
    """A store as it would be; indexes are computed for the few objects that differ."""

    def __init__(self, below: Lister[K], indexes: Mapping[str, Any]) -> None:
        self._below = below
        self._indexes = indexes
        self._over: dict[tuple[str, str], K | None] = {}

    @property
    def synced(self) -> bool:
        return self._below.synced

    def put(self, obj: K) -> None:
        self._over[obj.metadata.namespace, obj.metadata.name] = obj

    def remove(self, obj: Object) -> None:
        self._over[obj.metadata.namespace, obj.metadata.name] = None

    def get(self, namespace: str, name: str) -> K | None:
        if (namespace, name) in self._over:
            return self._over[namespace, name]
        return self._below.get(namespace, name)

    def unreadable_reason(self, namespace: str, name: str) -> str:
        return (
            ""
            if (namespace, name) in self._over
            else self._below.unreadable_reason(namespace, name)
        )

    def all(self) -> Iterator[K]:
        return self._laid_over(self._below.all(), lambda _: True)

    def in_namespace(self, namespace: str) -> Iterator[K]:
        below = self._below.in_namespace(namespace)
        return self._laid_over(below, lambda o: o.metadata.namespace == namespace)

    def by(self, index: str, value: str) -> Iterator[K]:
        find = self._indexes[index].values
        return self._laid_over(self._below.by(index, value), lambda o: value in find(o))

    def _laid_over(self, below: Iterable[K], chosen: Any) -> Iterator[K]:
        for obj in below:
            if (obj.metadata.namespace, obj.metadata.name) not in self._over:
                yield obj
        for over in self._over.values():
            if over is not None and chosen(over):
                yield over


def preview(reconciler: Reconciler, applied: Iterable[tuple[ClusterId, Object]]) -> Preview:
    """Everything that this agent would write if these objects were applied in these clusters."""
    return _Simulation(reconciler).after(applied)


class _Simulation:
    """Carries plans out on overlays until nothing more follows."""

    def __init__(self, reconciler: Reconciler) -> None:
        live = reconciler.snapshot()
        self._reconciler = reconciler
        self._stores = {
            place: [Overlay(store, store.indexes) for store in stores]
            for place, stores in reconciler.informers.stores.items()
        }
        self._seen = Snapshot(self._stores, reconciler.informers.facts, live.now, live.local)
        self._owned = OwnershipIndex()
        for where, obj in reconciler.owned.objects():
            self._owned.update(where, None, obj)
        self._due: dict[Item, None] = {}

    def after(self, applied: Iterable[tuple[ClusterId, Object]]) -> Preview:
        for where, obj in applied:
            self._apply(where, obj)
        actions: list[Action] = []
        obstacles: dict[Any, Obstacle] = {}
        warnings: dict[ClusterObjectRef, str] = {}
        for _ in range(ROUNDS):
            due, self._due = self._due, {}
            if not due:
                break
            for name, key in due:
                feature = self._reconciler.features[name]
                plan = feature.plan(key, self._seen)
                owned = managed_objects(
                    self._owned.of(name, key), managed_watches(feature), self._seen
                )
                wanted = diff(name, key, plan, owned, self._seen)
                obstacles.update({o.place: o for o in wanted.obstacles})
                warnings.update(_warnings(plan, wanted.actions))
                for action in wanted.actions:
                    actions.append(action)
                    self._carry_out(action)
        return Preview(tuple(actions), tuple(obstacles.values()), warnings)

    def _carry_out(self, action: Action) -> None:
        match action:
            case Create(where, obj):
                self._put(where, _made(obj))
            case Update(where, base, change):
                after = merge(msgspec.to_builtins(base, str_keys=True), change)
                self._put(where, msgspec.convert(after, type(base)))
            case Delete(where, base):
                self._change(where, base, None)

    def _apply(self, where: ClusterId, obj: Object) -> None:
        """What a person applies: what he does not say of an object that stands, stays."""
        before = self._seen.get(where, type(obj), obj.metadata.name, obj.metadata.namespace)
        self._change(where, before, _made(obj) if before is None else _applied(obj, before))

    def _put(self, where: ClusterId, obj: Object) -> None:
        before = self._seen.get(where, type(obj), obj.metadata.name, obj.metadata.namespace)
        if before is not None:
            meta = replace(obj.metadata, uid=before.metadata.uid)
            obj = replace(obj, metadata=meta)
        self._change(where, before, obj)

    def _change(self, where: ClusterId, before: Object | None, after: Object | None) -> None:
        known = after if after is not None else before
        assert known is not None, "a change has at least one side"
        for store in self._stores.get((where, object_ref(known).kind), ()):
            if after is not None:
                store.put(after)
            else:
                store.remove(known)
        self._owned.update(where, before, after)
        change = ObjectChange(where, before, after)
        for feature in self._reconciler.enqueuer.features_watching(change):
            self._due.update(
                {(feature.name, key): None for key in feature.keys_for(change, self._seen)}
            )


def _warnings(plan: Plan, actions: Iterable[Action]) -> dict[ClusterObjectRef, str]:
    """What a plan says of the objects that it writes, as far as people have to look at it."""
    said: dict[ClusterObjectRef, list[str]] = {target_ref(action): [] for action in actions}
    for notice in plan.events:
        place = notice.recorded_with or notice.place
        if notice.type == "Warning" and place in said:
            said[place].append(notice.message)
    return {place: "; ".join(texts) for place, texts in said.items() if texts}


def _applied(obj: Object, before: Object) -> Object:
    """An object over the one that stands: status and others' marks are not a person's to say."""
    meta, known = obj.metadata, before.metadata
    both = replace(
        known,
        labels={**known.labels, **meta.labels},
        annotations={**known.annotations, **meta.annotations},
        finalizers=meta.finalizers or known.finalizers,
        owner_references=meta.owner_references or known.owner_references,
    )
    after = replace(obj, metadata=both)
    if type(obj).has_status_subresource and hasattr(obj, "status"):
        after = replace(after, status=getattr(before, "status"))  # noqa: B009 - not every kind has
    return after


def _made(obj: Object) -> Object:
    """The object as if an API server had taken it."""
    meta = obj.metadata
    return replace(obj, metadata=replace(meta, uid=meta.uid or f"new {meta.name}"))
