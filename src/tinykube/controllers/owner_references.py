"""Who belongs to whom: adoption of what a selector matches, release of what it no longer does."""

from collections.abc import Iterable

from msgspec import Struct

from tinykube.controllers.controller import Patch, View
from tinykube.controllers.objects import (
    controller_of,
    is_deleting,
    labels_of,
    namespace_of,
    owner_reference,
    owners_of,
    selects,
    spec_of,
    uid_of,
)
from tinykube.resources import Object


class Claims(Struct, frozen=True):
    """What a controller object holds, and the writes by which it takes and releases."""

    held: tuple[Object, ...]
    writes: tuple[Patch, ...] = ()


def claim(owner: Object, store: str, view: View) -> Claims:
    """Claim the objects of one store that an owner's selector matches."""
    orphans = view.orphans(store, namespace_of(owner))
    return claimed(owner, store, view.controlled(store, owner), orphans)


def claimed(
    owner: Object, store: str, controlled: Iterable[Object], orphans: Iterable[Object]
) -> Claims:
    """Keep what is controlled and matches, let go what no longer does, adopt matching orphans.

    An adopted object counts as held from the next look on, when it carries its owner.
    """
    selector = spec_of(owner).get("selector")
    held: list[Object] = []
    writes: list[Patch] = []
    for one in controlled:
        if selects(selector, labels_of(one)):
            held.append(one)
        elif not is_deleting(one):
            writes.append(released(owner, store, one))
    if not is_deleting(owner):
        writes += [
            adopted(owner, store, one)
            for one in orphans
            if not is_deleting(one)
            and controller_of(one) is None
            and selects(selector, labels_of(one))
        ]
    return Claims(tuple(held), tuple(writes))


def adopted(owner: Object, store: str, one: Object) -> Patch:
    """The write that makes an owner the controller of an orphan."""
    references = [*owners_of(one), owner_reference(owner)]
    return Patch(store, one, {"metadata": {"ownerReferences": references}})


def released(owner: Object, store: str, one: Object) -> Patch:
    """The write that takes an owner's reference from an object."""
    kept = [ref for ref in owners_of(one) if ref.get("uid") != uid_of(owner)]
    return Patch(store, one, {"metadata": {"ownerReferences": kept or None}})
