"""Checks that a feature writes only what its watches declare, which its RBAC rules come from."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import TypeAlias

from hanse.model.facts import ClusterState, Role
from hanse.model.objects import ClusterId, Object, object_ref
from hanse.model.plan import Feature
from hanse.model.snapshot import Snapshot, Watch, Writes
from hanse.runtime.actions import Action, Create, Delete, Update
from hanse.runtime.ownership import Owner, owner_of


class UndeclaredWrite(Exception):
    """A feature plans a write that its watches do not declare: a mistake in the feature."""


def require_declared_writes(
    actions: Iterable[Action], watches: Iterable[Watch], roles: dict[str, frozenset[Role]]
) -> None:
    """Raise `UndeclaredWrite` for an action that no watch of the feature declares.

    `roles` are those of each connected cluster: a watch counts in clusters of its role.
    """
    declared = tuple(watches)
    for action in actions:
        obj, needed = _needed_right(action)
        granted = Writes.NOTHING
        for watch in declared:
            if _covers(watch, obj, roles.get(action.where, frozenset())):
                granted |= watch.writes
        if not granted & needed:
            verb = type(action).__name__.lower()
            raise UndeclaredWrite(f"{verb} of {object_ref(obj)} in {action.where} is not declared")


ManagedWatches: TypeAlias = Mapping[type[Object], Sequence[Watch]]


def managed_watches(feature: Feature) -> ManagedWatches:
    """The watches of a feature that declare OBJECTS or REMOVAL, by kind: what it may delete.

    Kinds without such a watch are absent.
    """
    owned = Writes.OBJECTS | Writes.REMOVAL
    by_kind: dict[type[Object], list[Watch]] = {}
    for watch in feature.watches:
        if watch.writes & owned:
            by_kind.setdefault(watch.kind, []).append(watch)
    return by_kind


def managed_objects(
    owned: Iterable[tuple[ClusterId, Owner, Object]], managed: ManagedWatches, snapshot: Snapshot
) -> Iterator[tuple[ClusterId, Owner, Object]]:
    """The objects of a key that it owns through a connection that its feature writes to.

    A watch in `managed` must cover the object in a role of its cluster. If any names the object's
    namespace, in whatever role, only one that does counts: a cluster may be connected under several
    ids and roles, as a member that hosts the broker is.
    """
    for where, owner, obj in owned:
        state = snapshot.fact(ClusterState, where)
        roles = state.roles if state is not None else frozenset()
        watches = managed.get(type(obj), ())
        covering = [watch for watch in watches if _covers(watch, obj, roles)]
        if any(w.namespace for w in covering) or (
            covering and not any(_is_scoped_to(watch, obj) for watch in watches)
        ):
            yield where, owner, obj


def features_by_kind(
    features: Sequence[Feature],
) -> dict[type[Object], list[tuple[Feature, frozenset[Role]]]]:
    """For each kind, the features that watch it, with the roles of the clusters they watch."""
    by_kind: dict[type[Object], list[tuple[Feature, frozenset[Role]]]] = {}
    for feature in features:
        for kind in {w.kind for w in feature.watches}:
            roles = frozenset(w.role for w in feature.watches if w.kind is kind)
            by_kind.setdefault(kind, []).append((feature, roles))
    return by_kind


def _needed_right(action: Action) -> tuple[Object, Writes]:
    """The object that an action writes, and the rights of which one is needed.

    That is OBJECTS for a create, update or deletion. An object without an owner may also be created
    by MISSING and updated by FIELDS, any may be deleted by REMOVAL; the update of a subresource
    needs STATUS.
    """
    match action:
        case Create(_, obj):
            ours = owner_of(obj) is not None
            return obj, Writes.OBJECTS if ours else Writes.OBJECTS | Writes.MISSING
        case Delete(_, base):
            return base, Writes.OBJECTS | Writes.REMOVAL
        case Update(_, base) if action.subresource:
            return base, Writes.STATUS
        case Update(_, base):
            ours = owner_of(base) is not None
            return base, Writes.OBJECTS if ours else Writes.OBJECTS | Writes.FIELDS


def _is_scoped_to(watch: Watch, obj: Object) -> bool:
    """Whether a watch of one namespace, in whatever role, covers an object by kind and name."""
    return bool(watch.namespace) and _covers(watch, obj, {watch.role})


def _covers(watch: Watch, obj: Object, roles: AbstractSet[Role]) -> bool:
    """Whether a watch covers an object in a cluster of these roles, whatever its label selector."""
    meta = obj.metadata
    return (
        watch.role in roles
        and watch.kind is type(obj)
        and watch.namespace in ("", meta.namespace)
        and watch.name in ("", meta.name)
    )
