"""Controller references: claiming and releasing objects, and the keys of their controllers."""

from collections.abc import Iterable, Iterator

from msgspec import Struct

from tinykube.controllers.controller import CONTROLLER_REVISIONS, PODS, Key, Lister, Patch
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
    """The objects that an owner controls, and the writes that adopt or release others."""

    claimed: tuple[Object, ...]
    writes: tuple[Patch, ...] = ()


def claim_objects(owner: Object, store: str, lister: Lister) -> ClaimResult:
    """The objects of a store that an owner claims, and the patches that adopt or release others.

    Claimed are those that it controls and that match its selector; `plan_claims` says which others
    are adopted or released. Nothing is sent.
    """
    orphans = lister.orphans(store, namespace_of(owner))
    return plan_claims(owner, store, lister.controlled(store, owner), orphans)


def plan_claims(
    owner: Object, store: str, controlled: Iterable[Object], orphans: Iterable[Object]
) -> ClaimResult:
    """The controlled objects that match the owner's selector, and patches for others.

    The patches release controlled objects that do not match, and adopt orphans that do, but no
    terminating ones. An adopted object counts as claimed from the next reconcile on, when it has
    the reference. A terminating owner adopts nothing.
    """
    selector = spec_of(owner).get("selector")
    claimed: list[Object] = []
    writes: list[Patch] = []
    for obj in controlled:
        if selector_matches(selector, labels_of(obj)):
            claimed.append(obj)
        elif not is_deleting(obj):
            writes.append(release_patch(owner, store, obj))
    if not is_deleting(owner):
        writes += [
            adoption_patch(owner, store, obj)
            for obj in orphans
            if not is_deleting(obj)
            and controller_reference_of(obj) is None
            and selector_matches(selector, labels_of(obj))
        ]
    return ClaimResult(tuple(claimed), tuple(writes))


def adoption_patch(owner: Object, store: str, obj: Object) -> Patch:
    """The write that adds the controller reference to an orphan."""
    references = [*owner_references_of(obj), owner_reference(owner)]
    return Patch(store, obj, {"metadata": {"ownerReferences": references}})


def release_patch(owner: Object, store: str, obj: Object) -> Patch:
    """The write that removes all references to an owner, by its uid, from an object."""
    kept = [ref for ref in owner_references_of(obj) if ref.get("uid") != uid_of(owner)]
    return Patch(store, obj, {"metadata": {"ownerReferences": kept or None}})


class WorkloadClaims(Struct, frozen=True):
    """The pods and revisions that an owner controls, and the writes that adopt or release."""

    pods: tuple[Object, ...]
    revisions: tuple[Object, ...]
    writes: tuple[Patch, ...] = ()


def claim_pods_and_revisions(owner: Object, lister: Lister) -> WorkloadClaims:
    """What `claim_objects` gives for the pods and ControllerRevisions of an owner."""
    pods = claim_objects(owner, PODS, lister)
    revisions = claim_objects(owner, CONTROLLER_REVISIONS, lister)
    return WorkloadClaims(pods.claimed, revisions.claimed, (*pods.writes, *revisions.writes))


def owner_keys(change: Change, kind: str, store: str, lister: Lister) -> Iterator[Key]:
    """The keys of the controllers of this kind that an object has and had before the change.

    For an object without controller also those of objects in `store` whose selectors match it,
    unless it is deleted or a ControllerRevision: an orphaned revision is claimed with the next
    change of its owner.
    """
    yield from controller_keys(change, kind, store)
    if change.store != CONTROLLER_REVISIONS:
        yield from _potential_owner_keys(change, store, lister)


def controller_keys(change: Change, kind: str, store: str) -> Iterator[Key]:
    """The key of the object's controller of the given kind, before and after the change.

    None if there is no such controller; `store` is that of the controller.
    """
    names: set[str] = set()
    for obj in (change.object, change.before):
        ref = controller_reference_of(obj) if obj is not None else None
        if ref is not None and ref.get("kind") == kind:
            names.add(ref["name"])
    for name in names:
        yield Key(store, namespace_of(change.object), name)


def _potential_owner_keys(change: Change, store: str, lister: Lister) -> Iterator[Key]:
    """The keys of owners whose selectors match an orphan, which may adopt it.

    None for a deleted object, or one that has a controller.
    """
    obj = change.object
    if change.type == "DELETED" or controller_reference_of(obj) is not None:
        return
    for owner in lister.objects(store, namespace_of(obj)):
        if selector_matches(spec_of(owner).get("selector"), labels_of(obj)):
            yield Key(store, namespace_of(owner), name_of(owner))
