"""The garbage collector: deletes or orphans the dependents of deleted owners."""

from collections.abc import Iterable, Iterator
from datetime import timedelta

from msgspec import Struct

from tinykube.controllers.controller import (
    DONE,
    EVENTS,
    Delete,
    Key,
    Lister,
    Patch,
    Propagation,
    RecordEvent,
    Result,
    Write,
)
from tinykube.controllers.objects import (
    is_deleting,
    key_of,
    namespace_of,
    owner_references_of,
    uid_of,
)
from tinykube.resources import Object
from tinykube.storage import Change

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"
_UNKNOWN_KIND_RETRY = timedelta(seconds=30)


class OwnersByState(Struct, frozen=True):
    """The owner references of an object by the state of the owners."""

    solid: tuple[Object, ...] = ()
    dangling: tuple[Object, ...] = ()
    waiting: tuple[Object, ...] = ()
    """The owner is deleted in the foreground and waits for its dependents."""
    unknown: tuple[Object, ...] = ()
    """The owner's kind is not served (now), so its state is unknown."""
    misplaced: tuple[Object, ...] = ()
    """The object is cluster-scoped and the owner namespaced, which is invalid."""


class GarbageCollector:
    """Enqueues objects with owners, dependents of deleted owners, and owners that wait for them."""

    name = "garbage-collection"
    watches: frozenset[str] = frozenset()

    def keys_for(self, change: Change, lister: Lister) -> Iterable[Key]:
        """The key of an object that has owners or is terminating, and of its terminating owners.

        Also of its dependents if it is terminating or deleted. Nothing for a modification that
        leaves owners, finalizers and deletionTimestamp as they were.
        """
        obj, before = change.object, change.before
        if (
            change.type == "MODIFIED"
            and before is not None
            and _relevant_fields(before) == _relevant_fields(obj)
        ):
            return
        if change.type == "DELETED":
            yield from lister.dependents(uid_of(obj))
        elif _is_relevant(obj):
            yield key_of(change.store, obj)
            if is_deleting(obj):
                yield from lister.dependents(uid_of(obj))
        yield from self._terminating_owners(change, lister)

    def _terminating_owners(self, change: Change, lister: Lister) -> Iterator[Key]:
        """The keys of existing, terminating owners that an object has, or had before its change."""
        references = [
            *owner_references_of(change.object),
            *owner_references_of(change.before or {"metadata": {}}),
        ]
        for uid, reference in {ref.get("uid"): ref for ref in references}.items():
            key = _owner_key(reference, namespace_of(change.object), lister)
            owner = lister.get(key.store, key.namespace, key.name) if key is not None else None
            if (
                key is not None
                and owner is not None
                and uid_of(owner) == uid
                and is_deleting(owner)
            ):
                yield key

    def reconcile(self, key: Key, lister: Lister) -> Result:
        """The writes that finish a terminating owner's deletion, or collect an object with owners.

        The first are for a terminating object with the finalizer orphan or foregroundDeletion;
        without them it gets no writes. Events are never collected.
        """
        obj = lister.get(key.store, key.namespace, key.name)
        if obj is None or key.store == EVENTS:
            return DONE
        finalizers = obj["metadata"].get("finalizers") or ()
        if is_deleting(obj):
            if ORPHAN in finalizers:
                return _orphan_dependents(key.store, obj, lister)
            if FOREGROUND in finalizers:
                return _await_dependents(key.store, obj, lister)
            return DONE
        if not owner_references_of(obj):
            return DONE
        dependents = _existing_objects(lister.dependents(uid_of(obj)), lister)
        return plan_collection(
            key.store, obj, classify(obj, lister), [found.object for found in dependents]
        )


def plan_collection(
    store: str, obj: Object, owners: OwnersByState, dependents: list[Object]
) -> Result:
    """Delete an object whose owners are all absent; if one exists, remove references to the others.

    No I/O: returns the writes, none if no owner is absent. An owner deleted in the foreground
    counts as absent; the object is then deleted in the foreground, too, if it has dependents, and
    unblocks its owners first if one of these waits itself. Otherwise its finalizers decide the
    policy. Misplaced or unknown owners keep the object: the former record Events, the latter are
    retried.
    """
    if owners.misplaced or owners.unknown:
        events = [_invalid_namespace_event(obj, reference) for reference in owners.misplaced]
        return Result(tuple(events), _UNKNOWN_KIND_RETRY if owners.unknown else None)
    absent_uids = {ref.get("uid") for ref in (*owners.dangling, *owners.waiting)}
    if not absent_uids:
        return DONE
    if owners.solid:
        return Result((_without_owners(store, obj, absent_uids),))
    if owners.waiting and dependents:
        writes: tuple[Write, ...] = ()
        if any(_is_waiting(one) for one in dependents):
            # two objects that block each other would wait forever
            writes = (_unblock_owner_deletion(store, obj),)
        return Result((*writes, Delete(store, obj, "Foreground")))
    return Result((Delete(store, obj, _propagation_policy(obj)),))


def classify(obj: Object, lister: Lister) -> OwnersByState:
    """Classify the owner references of an object by the state of the owners."""
    by_state: dict[str, list[Object]] = {field: [] for field in OwnersByState.__struct_fields__}
    for reference in owner_references_of(obj):
        by_state[_owner_state(obj, reference, lister)].append(reference)
    return OwnersByState(**{field: tuple(found) for field, found in by_state.items()})


def _owner_state(obj: Object, reference: Object, lister: Lister) -> str:
    """The state of a referenced owner: the name of a field of `OwnersByState`.

    `unknown` if its kind is not served, `misplaced` if it is namespaced and the object is not,
    `dangling` if it does not exist or has another uid, `waiting` if it is deleted in the
    foreground, else `solid`.
    """
    resource = lister.registry.of_kind(reference.get("apiVersion", ""), reference.get("kind", ""))
    if resource is None:
        return "unknown"
    if resource.namespaced and not namespace_of(obj):
        return "misplaced"
    namespace = namespace_of(obj) if resource.namespaced else ""
    owner = lister.get(resource.store, namespace, reference.get("name", ""))
    if owner is None or uid_of(owner) != reference.get("uid"):
        return "dangling"
    return "waiting" if _is_waiting(owner) else "solid"


def _owner_key(reference: Object, namespace: str, lister: Lister) -> Key | None:
    """The key of a referenced owner; None if its kind is unknown."""
    resource = lister.registry.of_kind(reference.get("apiVersion", ""), reference.get("kind", ""))
    if resource is None:
        return None
    namespace = namespace if resource.namespaced else ""
    return Key(resource.store, namespace, reference.get("name", ""))


class _StoredObject(Struct, frozen=True):
    key: Key
    object: Object


def _existing_objects(keys: Iterable[Key], lister: Lister) -> list[_StoredObject]:
    """The stored objects of the keys; absent ones are omitted."""
    found = ((key, lister.get(key.store, key.namespace, key.name)) for key in keys)
    return [_StoredObject(key, obj) for key, obj in found if obj is not None]


def _orphan_dependents(store: str, owner: Object, lister: Lister) -> Result:
    """The patches that remove every dependent's reference, then the owner's orphan finalizer."""
    orphaned = [
        _without_owners(one.key.store, one.object, {uid_of(owner)})
        for one in _existing_objects(lister.dependents(uid_of(owner)), lister)
    ]
    return Result((*orphaned, _without_finalizer(store, owner, ORPHAN)))


def _await_dependents(store: str, owner: Object, lister: Lister) -> Result:
    """The removal of the owner's foreground finalizer; nothing while a dependent blocks deletion.

    A dependent blocks it by blockOwnerDeletion in its owner reference.
    """
    blocking = [
        one
        for one in _existing_objects(lister.dependents(uid_of(owner)), lister)
        for reference in owner_references_of(one.object)
        if reference.get("uid") == uid_of(owner) and reference.get("blockOwnerDeletion")
    ]
    return DONE if blocking else Result((_without_finalizer(store, owner, FOREGROUND),))


def _without_owners(store: str, obj: Object, uids: set[str | None]) -> Patch:
    """The patch that removes the owner references with these uids from an object."""
    kept = [ref for ref in owner_references_of(obj) if ref.get("uid") not in uids]
    return Patch(store, obj, {"metadata": {"ownerReferences": kept or None}})


def _without_finalizer(store: str, obj: Object, finalizer: str) -> Patch:
    """The patch that removes a finalizer from an object."""
    kept = [one for one in obj["metadata"].get("finalizers") or () if one != finalizer]
    return Patch(store, obj, {"metadata": {"finalizers": kept or None}})


def _unblock_owner_deletion(store: str, obj: Object) -> Patch:
    """The patch that sets blockOwnerDeletion to false in all owner references of an object."""
    orphaned = [{**ref, "blockOwnerDeletion": False} for ref in owner_references_of(obj)]
    return Patch(store, obj, {"metadata": {"ownerReferences": orphaned}})


def _invalid_namespace_event(obj: Object, reference: Object) -> RecordEvent:
    """The warning Event for an owner reference of a cluster-scoped object to a namespaced one."""
    text = (
        f"ownerRef [{reference.get('apiVersion')}/{reference.get('kind')}, "
        f"name: {reference.get('name')}, uid: {reference.get('uid')}] "
        f'does not exist in namespace "{namespace_of(obj)}"'
    )
    return RecordEvent(
        obj, "OwnerRefInvalidNamespace", text, "garbage-collector-controller", warning=True
    )


def _propagation_policy(obj: Object) -> Propagation:
    """The policy by an object's finalizers: Orphan, Foreground, otherwise Background."""
    finalizers = obj["metadata"].get("finalizers") or ()
    if ORPHAN in finalizers:
        return "Orphan"
    return "Foreground" if FOREGROUND in finalizers else "Background"


def _is_waiting(owner: Object) -> bool:
    """Whether an owner is terminating with the finalizer foregroundDeletion."""
    return is_deleting(owner) and FOREGROUND in (owner["metadata"].get("finalizers") or ())


def _is_relevant(obj: Object) -> bool:
    """Whether the collector has to look at an object: it has owners or is being deleted."""
    return bool(owner_references_of(obj)) or is_deleting(obj)


def _relevant_fields(obj: Object) -> tuple[object, ...]:
    """An object's ownerReferences, finalizers and deletionTimestamp."""
    metadata = obj["metadata"]
    return (
        metadata.get("ownerReferences"),
        metadata.get("finalizers"),
        metadata.get("deletionTimestamp"),
    )
