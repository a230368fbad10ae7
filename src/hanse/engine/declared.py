"""A feature writes only what it says it writes: its rights are made from the same words."""

from collections.abc import Iterable

from hanse.engine.actions import Action, Create, Delete, Update
from hanse.engine.ownership import owner_of
from hanse.model.facts import Role
from hanse.model.objects import Object, ref_of
from hanse.model.snapshot import Watch, Writes


class UndeclaredWrite(Exception):
    """A feature plans a write that its watches do not declare: a mistake in the feature."""


def require_declared(
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
            raise UndeclaredWrite(f"{verb} of {ref_of(obj)} in {action.where} is not declared")


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
    return watch.namespace in ("", obj.metadata.namespace)
