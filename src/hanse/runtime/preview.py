"""A dry run: plans over the snapshot as it would be if objects were applied. Writes nothing."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Generic

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from hanse.model.objects import (
    ClusterId,
    ClusterObjectRef,
    K,
    Object,
    apply_merge_patch,
    object_ref,
)
from hanse.model.plan import Plan
from hanse.model.snapshot import Lister, ObjectChange, Snapshot
from hanse.runtime.actions import Action, Create, Delete, Obstacle, Update, target_ref
from hanse.runtime.declared_writes import managed_objects, managed_watches
from hanse.runtime.diff import diff
from hanse.runtime.ownership import OwnershipIndex
from hanse.runtime.reconciler import Reconciler
from hanse.runtime.workqueue import Item

MAX_ROUNDS = 20
"""Rounds of plans over the results of earlier plans; more means that they do not settle."""


class Preview(Struct, frozen=True):
    """The writes that would follow, in order, and the obstacles to others."""

    actions: tuple[Action, ...] = ()
    obstacles: tuple[Obstacle, ...] = ()
    warnings: dict[ClusterObjectRef, str] = {}
    """The messages of Warning Events that would be recorded, by the object written."""


class Overlay(Generic[K]):
    """A store with a few objects changed; these are looked up in indexes by scanning."""

    def __init__(self, below: Lister[K], indexes: Mapping[str, Any]) -> None:
        """An overlay without changes; `indexes`, by name, are those of the store below."""
        self._below = below
        self._indexes = indexes
        self._over: dict[tuple[str, str], K | None] = {}

    @property
    def synced(self) -> bool:
        """Whether the store below is synced."""
        return self._below.synced

    @property
    def version(self) -> int:
        """The version of the store below."""
        return self._below.version

    def put(self, obj: K) -> None:
        """Show this object in place of the one below; the store below does not change."""
        self._over[obj.metadata.namespace, obj.metadata.name] = obj

    def remove(self, obj: Object) -> None:
        """Hide the object of this namespace and name; the store below does not change."""
        self._over[obj.metadata.namespace, obj.metadata.name] = None

    def get(self, namespace: str, name: str) -> K | None:
        """The object as previewed (None: deleted); else the one in the store below."""
        if (namespace, name) in self._over:
            return self._over[namespace, name]
        return self._below.get(namespace, name)

    def unreadable_reason(self, namespace: str, name: str) -> str:
        """Why the store below cannot decode an object; empty for one that was changed here."""
        return (
            ""
            if (namespace, name) in self._over
            else self._below.unreadable_reason(namespace, name)
        )

    def all(self) -> Iterator[K]:
        """All objects without removed ones: first those of the store below, then those put here."""
        return self._merge_overlay(self._below.all(), lambda _: True)

    def in_namespace(self, namespace: str) -> Iterator[K]:
        """The objects of a namespace: first those of the store below, then those put here."""
        below = self._below.in_namespace(namespace)
        return self._merge_overlay(below, lambda o: o.metadata.namespace == namespace)

    def by(self, index: str, value: str) -> Iterator[K]:
        """The objects under a value of an index, those put here last.

        Raises KeyError for an unknown index.
        """
        find = self._indexes[index].values
        return self._merge_overlay(self._below.by(index, value), lambda o: value in find(o))

    def _merge_overlay(self, below: Iterable[K], selected: Any) -> Iterator[K]:
        """The objects below that are not replaced or removed, then the selected of the overlay."""
        for obj in below:
            if (obj.metadata.namespace, obj.metadata.name) not in self._over:
                yield obj
        for over in self._over.values():
            if over is not None and selected(over):
                yield over


def preview(reconciler: Reconciler, applied: Iterable[tuple[ClusterId, Object]]) -> Preview:
    """Everything that this agent would write if these objects were applied in these clusters.

    Only keys that the objects, and what follows from them, concern are planned, for at most
    MAX_ROUNDS. Nothing is sent; a pause of the agent, backoff and held deletions do not count.
    """
    return _Simulation(reconciler).run(applied)


class _Simulation:
    """Applies plans to overlays until nothing more follows."""

    def __init__(self, reconciler: Reconciler) -> None:
        """Lay an overlay over each store of the reconciler, which is not changed."""
        live = reconciler.snapshot()
        self._reconciler = reconciler
        self._stores = {
            place: [Overlay(store, store.indexes) for store in stores]
            for place, stores in reconciler.informers.stores.items()
        }
        self._snapshot = Snapshot(self._stores, reconciler.informers.facts, live.now, live.local)
        self._owned = OwnershipIndex()
        for where, obj in reconciler.owned.objects():
            self._owned.update(where, None, obj)
        self._due: dict[Item, None] = {}

    def run(self, applied: Iterable[tuple[ClusterId, Object]]) -> Preview:
        """Apply objects to overlays, then plan and apply what follows, for at most MAX_ROUNDS.

        Returns the actions of all rounds in order, and the last obstacle and warnings of each
        object. An error of a feature is raised.
        """
        for where, obj in applied:
            self._apply_manifest(where, obj)
        actions: list[Action] = []
        obstacles: dict[Any, Obstacle] = {}
        warnings: dict[ClusterObjectRef, str] = {}
        for _ in range(MAX_ROUNDS):
            due, self._due = self._due, {}
            if not due:
                break
            for name, key in due:
                feature = self._reconciler.features[name]
                plan = feature.plan(key, self._snapshot)
                owned = managed_objects(
                    self._owned.of(name, key), managed_watches(feature), self._snapshot
                )
                found = diff(name, key, plan, owned, self._snapshot)
                obstacles.update({o.target: o for o in found.obstacles})
                warnings.update(_warnings(plan, found.actions))
                for action in found.actions:
                    actions.append(action)
                    self._apply_action(action)
        return Preview(tuple(actions), tuple(obstacles.values()), warnings)

    def _apply_action(self, action: Action) -> None:
        """Apply an action to the previewed stores only; nothing is sent to a cluster."""
        match action:
            case Create(where, obj):
                self._put(where, _created(obj))
            case Update(where, base, change):
                after = apply_merge_patch(msgspec.to_builtins(base, str_keys=True), change)
                self._put(where, msgspec.convert(after, type(base)))
            case Delete(where, base):
                self._change(where, base, None)

    def _apply_manifest(self, where: ClusterId, obj: Object) -> None:
        """Create an object in the overlays, or replace an existing one with it.

        Metadata that it does not set stays, its labels and annotations are merged, and status stays
        where that is a subresource; all its other fields replace those that are there.
        """
        before = self._snapshot.get(where, type(obj), obj.metadata.name, obj.metadata.namespace)
        self._change(where, before, _created(obj) if before is None else _merged(obj, before))

    def _put(self, where: ClusterId, obj: Object) -> None:
        """Create or replace an object in the overlays; one that replaces another gets its uid."""
        before = self._snapshot.get(where, type(obj), obj.metadata.name, obj.metadata.namespace)
        if before is not None:
            meta = replace(obj.metadata, uid=before.metadata.uid)
            obj = replace(obj, metadata=meta)
        self._change(where, before, obj)

    def _change(self, where: ClusterId, before: Object | None, after: Object | None) -> None:
        """Change an object in overlays and ownership index (None as `before` or `after`: absent).

        The keys that features map the change to are planned in the next round.
        """
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
                {(feature.name, key): None for key in feature.keys_for(change, self._snapshot)}
            )


def _warnings(plan: Plan, actions: Iterable[Action]) -> dict[ClusterObjectRef, str]:
    """The messages of a plan's Warning Events, joined by `; `, by written object.

    Only of Events that are recorded with the write of one of the actions.
    """
    messages: dict[ClusterObjectRef, list[str]] = {target_ref(action): [] for action in actions}
    for request in plan.events:
        place = request.recorded_with or request.target
        if request.type == "Warning" and place in messages:
            messages[place].append(request.message)
    return {place: "; ".join(texts) for place, texts in messages.items() if texts}


def _merged(obj: Object, before: Object) -> Object:
    """An applied object merged with the existing one, whose uid and other metadata stay.

    Labels and annotations are merged, the applied ones win; finalizers and owner references stay if
    none are applied. The existing status stays if the kind has that subresource.
    """
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


def _created(obj: Object) -> Object:
    """The object with its uid, or with a made-up one if it has none."""
    meta = obj.metadata
    return replace(obj, metadata=replace(meta, uid=meta.uid or f"new {meta.name}"))
