"""Which keys a changed object concerns: its controller, and whoever's selector matches it."""

from collections.abc import Iterator

from tinykube.controllers.controller import Key, View
from tinykube.controllers.objects import (
    controller_of,
    labels_of,
    name_of,
    namespace_of,
    selects,
    spec_of,
)
from tinykube.storage import Change


def owner_key(change: Change, kind: str, store: str) -> Iterator[Key]:
    """The controller of the given kind, of the object as it is and as it was."""
    named: set[str] = set()
    for obj in (change.object, change.before):
        ref = controller_of(obj) if obj is not None else None
        if ref is not None and ref.get("kind") == kind:
            named.add(ref["name"])
    for name in named:
        yield Key(store, namespace_of(change.object), name)


def selecting_keys(change: Change, store: str, view: View) -> Iterator[Key]:
    """The owners whose selectors match an object that has no controller, and so may adopt it."""
    obj = change.object
    if change.type == "DELETED" or controller_of(obj) is not None:
        return
    for owner in view.objects(store, namespace_of(obj)):
        if selects(spec_of(owner).get("selector"), labels_of(obj)):
            yield Key(store, namespace_of(owner), name_of(owner))
