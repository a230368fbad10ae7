"""Controller references: claiming and releasing objects, and the keys of their controllers."""

from collections.abc import Iterable, Iterator

from msgspec import Struct

from tinykube.controllers.controller import Key, Lister, Patch
from tinykube.controllers.objects import (
    controller_reference_of,
    is_deleting,
    labels_of,
    name_of,
    namespace_of,
    owner_reference,
    owner_references_of,
    selector_matches,
    spec_of,
    uid_of,
)
from tinykube.resources import Object
from tinykube.storage import Change


class ClaimResult(Struct, frozen=True):
    """What a controller object holds, and the writes by which it takes and releases."""

    held: tuple[Object, ...]
    writes: tuple[Patch, ...] = ()


def claim_objects(owner: Object, store: str, lister: Lister) -> ClaimResult:
    """Claim the objects of one store that an owner's selector matches."""
    orphans = lister.orphans(store, namespace_of(owner))
    return plan_claims(owner, store, lister.controlled(store, owner), orphans)


def plan_claims(
    owner: Object, store: str, controlled: Iterable[Object], orphans: Iterable[Object]
) -> ClaimResult:
    """Keep what is controlled and matches, let go what no longer does, adopt matching orphans.

    An adopted object counts as held from the next look on, when it carries its owner.
    """
    selector = spec_of(owner).get("selector")
    held: list[Object] = []
    writes: list[Patch] = []
    for one in controlled:
        if selector_matches(selector, labels_of(one)):
            held.append(one)
        elif not is_deleting(one):
            writes.append(release_patch(owner, store, one))
    if not is_deleting(owner):
        writes += [
            adoption_patch(owner, store, one)
            for one in orphans
            if not is_deleting(one)
            and controller_reference_of(one) is None
            and selector_matches(selector, labels_of(one))
        ]
    return ClaimResult(tuple(held), tuple(writes))


def adoption_patch(owner: Object, store: str, one: Object) -> Patch:
    """The write that makes an owner the controller of an orphan."""
    references = [*owner_references_of(one), owner_reference(owner)]
    return Patch(store, one, {"metadata": {"ownerReferences": references}})


def release_patch(owner: Object, store: str, one: Object) -> Patch:
    """The write that takes an owner's reference from an object."""
    kept = [ref for ref in owner_references_of(one) if ref.get("uid") != uid_of(owner)]
    return Patch(store, one, {"metadata": {"ownerReferences": kept or None}})


def controller_keys(change: Change, kind: str, store: str) -> Iterator[Key]:
    """The controller of the given kind, of the object as it is and as it was."""
    named: set[str] = set()
    for obj in (change.object, change.before):
        ref = controller_reference_of(obj) if obj is not None else None
        if ref is not None and ref.get("kind") == kind:
            named.add(ref["name"])
    for name in named:
        yield Key(store, namespace_of(change.object), name)


def potential_owner_keys(change: Change, store: str, lister: Lister) -> Iterator[Key]:
    """The owners whose selectors match an object that has no controller, and so may adopt it."""
    obj = change.object
    if change.type == "DELETED" or controller_reference_of(obj) is not None:
        return
    for owner in lister.objects(store, namespace_of(obj)):
        if selector_matches(spec_of(owner).get("selector"), labels_of(obj)):
            yield Key(store, namespace_of(owner), name_of(owner))
