"""A feature writes only what it says it writes: its rights are made from the same words."""

from collections.abc import Iterable, Iterator, Sequence

from hanse.model.facts import ClusterState, Role
from hanse.model.objects import ClusterId, Object, object_ref
from hanse.model.plan import Feature
from hanse.model.snapshot import Snapshot, Watch, Writes
from hanse.runtime.diff import Action, Create, Delete, Update
from hanse.runtime.ownership import Owner, owner_of


class UndeclaredWrite(Exception):
    """A feature plans a write that its watches do not declare: a mistake in the feature."""


def require_declared_writes(
    actions: Iterable[Action], watches: Iterable[Watch], roles: dict[str, frozenset[Role]]
) -> None:
    """Stop a plan that would need rights nobody gave it."""
    watched = tuple(watches)
    for action in actions:
        obj, needed = _needs(action)
        here = roles.get(action.where, frozenset())
        granted = Writes.NOTHING
        for watch in watched:
            if watch.role in here and watch.kind is type(obj) and _covers(watch, obj):
                granted |= watch.writes
        if not granted & needed:
            verb = type(action).__name__.lower()
            raise UndeclaredWrite(f"{verb} of {object_ref(obj)} in {action.where} is not declared")


def managed_watches(feature: Feature) -> tuple[Watch, ...]:
    """The watches of what a feature makes."""
    return tuple(watch for watch in feature.watches if Writes.OBJECTS in watch.writes)


def managed_objects(
    owned: Iterable[tuple[ClusterId, Owner, Object]], makes: Sequence[Watch], snapshot: Snapshot
) -> Iterator[tuple[ClusterId, Owner, Object]]:
    """What a key owns, by the ways on which its feature writes.

    One cluster may be connected under several names and roles: what is merely seen on another way,
    for another feature's sake, is not to be judged there.
    """
    for where, owner, obj in owned:
        state = snapshot.fact(ClusterState, where)
        roles = state.roles if state is not None else frozenset()
        if any(w.role in roles and w.kind is type(obj) and _covers(w, obj) for w in makes):
            yield where, owner, obj


def _needs(action: Action) -> tuple[Object, Writes]:
    match action:
        case Create(_, obj):
            ours = owner_of(obj) is not None
            return obj, Writes.OBJECTS if ours else Writes.OBJECTS | Writes.MISSING
        case Delete(_, base):
            return base, Writes.OBJECTS
        case Update(_, base) if action.subresource:
            return base, Writes.STATUS
        case Update(_, base):
            ours = owner_of(base) is not None
            return base, Writes.OBJECTS if ours else Writes.OBJECTS | Writes.FIELDS


def _covers(watch: Watch, obj: Object) -> bool:
    meta = obj.metadata
    return watch.namespace in ("", meta.namespace) and watch.name in ("", meta.name)


def features_by_kind(
    features: Sequence[Feature],
) -> dict[type[Object], list[tuple[Feature, frozenset[Role]]]]:
    """For each kind, the features that watch it, and in clusters of which roles."""
    watchers: dict[type[Object], list[tuple[Feature, frozenset[Role]]]] = {}
    for feature in features:
        for kind in {w.kind for w in feature.watches}:
            roles = frozenset(w.role for w in feature.watches if w.kind is kind)
            watchers.setdefault(kind, []).append((feature, roles))
    return watchers
