"""Garbage collection: what its owners leave behind goes with them, before them, or is let go."""

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
_UNKNOWN_KIND = timedelta(seconds=30)


class OwnersByState(Struct, frozen=True):
    """An object's owner references by what became of the owners."""

    solid: tuple[Object, ...] = ()
    dangling: tuple[Object, ...] = ()
    waiting: tuple[Object, ...] = ()
    """The owner is being deleted and waits for its dependents."""
    unknown: tuple[Object, ...] = ()
    """No such kind is served (now): nothing can be said."""
    misplaced: tuple[Object, ...] = ()
    """A cluster-scoped object cannot belong to a namespaced one."""


class GarbageCollector:
    """Wakes with owned objects, with the end of owners, and with owners that wait to end."""

    name = "garbage-collection"
    watches: frozenset[str] = frozenset()

    def keys_for(self, change: Change, lister: Lister) -> Iterable[Key]:
        obj, before = change.object, change.before
        if change.type == "MODIFIED" and before is not None and _tie(before) == _tie(obj):
            return
        if change.type == "DELETED":
            yield from lister.dependents(uid_of(obj))
        elif _is_tied(obj):
            yield key_of(change.store, obj)
            if is_deleting(obj):
                yield from lister.dependents(uid_of(obj))
        yield from self._waiting_owners(change, lister)

    def _waiting_owners(self, change: Change, lister: Lister) -> Iterator[Key]:
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
        obj = lister.get(key.store, key.namespace, key.name)
        if obj is None or key.store == EVENTS:
            return DONE
        finalizers = obj["metadata"].get("finalizers") or ()
        if is_deleting(obj):
            if ORPHAN in finalizers:
                return _let_go(key.store, obj, lister)
            if FOREGROUND in finalizers:
                return _await_dependents(key.store, obj, lister)
            return DONE
        if not owner_references_of(obj):
            return DONE
        dependents = _resolved(lister.dependents(uid_of(obj)), lister)
        return decide(key.store, obj, classify(obj, lister), [found.object for found in dependents])


def decide(store: str, obj: Object, owners: OwnersByState, dependents: list[Object]) -> Result:
    """Keep, free of dead owners, or delete an object, as its owners stand."""
    if owners.misplaced or owners.unknown:
        told = [_misplaced(obj, reference) for reference in owners.misplaced]
        return Result(tuple(told), _UNKNOWN_KIND if owners.unknown else None)
    gone = {ref.get("uid") for ref in (*owners.dangling, *owners.waiting)}
    if not gone:
        return DONE
    if owners.solid:
        return Result((_without_owners(store, obj, gone),))
    if owners.waiting and dependents:
        writes: tuple[Write, ...] = ()
        if any(_is_waiting(one) for one in dependents):
            # two that wait for each other would wait for ever
            writes = (_unblocked(store, obj),)
        return Result((*writes, Delete(store, obj, "Foreground")))
    return Result((Delete(store, obj, _propagation(obj)),))


def classify(obj: Object, lister: Lister) -> OwnersByState:
    """What became of each owner of an object."""
    sorted_out: dict[str, list[Object]] = {field: [] for field in OwnersByState.__struct_fields__}
    for reference in owner_references_of(obj):
        sorted_out[_fate(obj, reference, lister)].append(reference)
    return OwnersByState(**{field: tuple(found) for field, found in sorted_out.items()})


def _fate(obj: Object, reference: Object, lister: Lister) -> str:
    resource = lister.registry.of_kind(reference.get("apiVersion", ""), reference.get("kind", ""))
    if resource is None:
        return "unknown"
    if resource.namespaced and not namespace_of(obj):
        return "misplaced"
    space = namespace_of(obj) if resource.namespaced else ""
    owner = lister.get(resource.store, space, reference.get("name", ""))
    if owner is None or uid_of(owner) != reference.get("uid"):
        return "dangling"
    return "waiting" if _is_waiting(owner) else "solid"


def _owner_key(reference: Object, namespace: str, lister: Lister) -> Key | None:
    resource = lister.registry.of_kind(reference.get("apiVersion", ""), reference.get("kind", ""))
    if resource is None:
        return None
    space = namespace if resource.namespaced else ""
    return Key(resource.store, space, reference.get("name", ""))


class _Found(Struct, frozen=True):
    key: Key
    object: Object


def _resolved(keys: Iterable[Key], lister: Lister) -> list[_Found]:
    found = ((key, lister.get(key.store, key.namespace, key.name)) for key in keys)
    return [_Found(key, obj) for key, obj in found if obj is not None]


def _let_go(store: str, owner: Object, lister: Lister) -> Result:
    """Orphan every dependent, then let the owner end."""
    freed = [
        _without_owners(one.key.store, one.object, {uid_of(owner)})
        for one in _resolved(lister.dependents(uid_of(owner)), lister)
    ]
    return Result((*freed, _without_finalizer(store, owner, ORPHAN)))


def _await_dependents(store: str, owner: Object, lister: Lister) -> Result:
    """An owner ends once none of its dependents blocks it any more."""
    blocking = [
        one
        for one in _resolved(lister.dependents(uid_of(owner)), lister)
        for reference in owner_references_of(one.object)
        if reference.get("uid") == uid_of(owner) and reference.get("blockOwnerDeletion")
    ]
    return DONE if blocking else Result((_without_finalizer(store, owner, FOREGROUND),))


def _without_owners(store: str, obj: Object, uids: set[str | None]) -> Patch:
    kept = [ref for ref in owner_references_of(obj) if ref.get("uid") not in uids]
    return Patch(store, obj, {"metadata": {"ownerReferences": kept or None}})


def _without_finalizer(store: str, obj: Object, finalizer: str) -> Patch:
    kept = [one for one in obj["metadata"].get("finalizers") or () if one != finalizer]
    return Patch(store, obj, {"metadata": {"finalizers": kept or None}})


def _unblocked(store: str, obj: Object) -> Patch:
    freed = [{**ref, "blockOwnerDeletion": False} for ref in owner_references_of(obj)]
    return Patch(store, obj, {"metadata": {"ownerReferences": freed}})


def _misplaced(obj: Object, reference: Object) -> RecordEvent:
    text = (
        f"ownerRef [{reference.get('apiVersion')}/{reference.get('kind')}, "
        f"name: {reference.get('name')}, uid: {reference.get('uid')}] "
        f'does not exist in namespace "{namespace_of(obj)}"'
    )
    return RecordEvent(
        obj, "OwnerRefInvalidNamespace", text, "garbage-collector-controller", warning=True
    )


def _propagation(obj: Object) -> Propagation:
    finalizers = obj["metadata"].get("finalizers") or ()
    if ORPHAN in finalizers:
        return "Orphan"
    return "Foreground" if FOREGROUND in finalizers else "Background"


def _is_waiting(owner: Object) -> bool:
    return is_deleting(owner) and FOREGROUND in (owner["metadata"].get("finalizers") or ())


def _is_tied(obj: Object) -> bool:
    return bool(owner_references_of(obj)) or is_deleting(obj)


def _tie(obj: Object) -> tuple[object, ...]:
    """All of an object that garbage collection looks at."""
    metadata = obj["metadata"]
    return (
        metadata.get("ownerReferences"),
        metadata.get("finalizers"),
        metadata.get("deletionTimestamp"),
    )
