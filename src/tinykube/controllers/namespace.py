"""The end of a namespace: all that is in it goes first, and it says what it is waiting for."""

from collections import Counter
from collections.abc import Iterable
from datetime import datetime

from msgspec import Struct

from tinykube.controllers.conditions import merge_conditions, new_condition, status_patch
from tinykube.controllers.controller import (
    DONE,
    NAMESPACES,
    Delete,
    Key,
    Lister,
    Replace,
    Result,
    Write,
)
from tinykube.controllers.objects import (
    is_deleting,
    name_of,
    namespace_of,
    spec_of,
    status_of,
)
from tinykube.resources import Object, Resource
from tinykube.storage import Change

FINALIZER = "kubernetes"
_FINE = (
    (
        "NamespaceDeletionDiscoveryFailure",
        "ResourcesDiscovered",
        "All resources successfully discovered",
    ),
    (
        "NamespaceDeletionGroupVersionParsingFailure",
        "ParsedGroupVersions",
        "All legacy kube types successfully parsed",
    ),
    (
        "NamespaceDeletionContentFailure",
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
    ("NamespaceContentRemaining", "ContentRemoved", "All content successfully removed"),
    (
        "NamespaceFinalizersRemaining",
        "ContentHasNoFinalizers",
        "All content-preserving finalizers finished",
    ),
)


class NamespaceContent(Struct, frozen=True):
    """What is left of one resource in a namespace."""

    resource: Resource
    objects: tuple[Object, ...]


class NamespaceController:
    """Wakes with a namespace that ends, and with all that changes in it until it is gone."""

    name = "namespace"
    watches: frozenset[str] = frozenset()

    def keys_for(self, change: Change, lister: Lister) -> Iterable[Key]:
        if change.store == NAMESPACES:
            if change.type != "DELETED" and is_deleting(change.object):
                yield Key(NAMESPACES, "", name_of(change.object))
            return
        space = namespace_of(change.object)
        found = lister.get(NAMESPACES, "", space) if space else None
        if found is not None and is_deleting(found):
            yield Key(NAMESPACES, "", space)

    def reconcile(self, key: Key, lister: Lister) -> Result:
        namespace = lister.get(NAMESPACES, "", key.name)
        if namespace is None or not is_deleting(namespace):
            return DONE
        left = [
            NamespaceContent(resource, tuple(lister.objects(resource.store, key.name)))
            for resource in lister.registry.stored()
            if resource.namespaced
        ]
        content = [one for one in left if one.objects]
        return decide(namespace, content, lister.now, lister.last_error(self.name, key))


def decide(
    namespace: Object, content: Iterable[NamespaceContent], now: datetime, last_error: str = ""
) -> Result:
    """Delete what nobody deletes yet; then wait and say for what; then let the namespace go."""
    if FINALIZER not in (spec_of(namespace).get("finalizers") or ()):
        return DONE
    held = list(content)
    deletions: list[Write] = [
        Delete(one.resource.store, obj)
        for one in held
        for obj in one.objects
        if not is_deleting(obj)
    ]
    told = _told(namespace, held, now, last_error) if last_error or not deletions else ()
    if deletions:
        return Result((*told, *deletions))
    return Result(told) if held else Result((_released(namespace),))


def _told(
    namespace: Object, content: list[NamespaceContent], now: datetime, last_error: str
) -> tuple[Write, ...]:
    """Conditions that name what remains and whose finalizers hold it."""
    if not content:
        return ()
    amounts = sorted(
        f"{one.resource.plural}.{one.resource.group} has {len(one.objects)} resource instances"
        for one in content
    )
    holders = Counter(
        finalizer
        for one in content
        for obj in one.objects
        for finalizer in obj["metadata"].get("finalizers") or ()
    )
    kept = sorted(f"{name} in {count} resource instances" for name, count in holders.items())
    bad = {
        "NamespaceContentRemaining": (
            "SomeResourcesRemain",
            f"Some resources are remaining: {', '.join(amounts)}",
        )
    }
    if kept:
        text = f"Some content in the namespace has finalizers remaining: {', '.join(kept)}"
        bad["NamespaceFinalizersRemaining"] = ("SomeFinalizersRemain", text)
    if last_error:
        text = f"Failed to delete all resource types, 1 remaining: {last_error}"
        bad["NamespaceDeletionContentFailure"] = ("ContentDeletionFailed", text)
    wanted = [
        new_condition(kind, True, *bad[kind])
        if kind in bad
        else new_condition(kind, False, reason, text)
        for kind, reason, text in _FINE
    ]
    standing = status_of(namespace)
    conditions = merge_conditions(standing.get("conditions") or (), wanted, now)
    return status_patch(NAMESPACES, namespace, {**standing, "conditions": conditions})


def _released(namespace: Object) -> Replace:
    finalizers = [one for one in spec_of(namespace)["finalizers"] if one != FINALIZER]
    spec = {**spec_of(namespace), "finalizers": finalizers}
    return Replace(NAMESPACES, {**namespace, "spec": spec}, subresource="finalize")
