"""The namespace controller: deletes the content of a terminating namespace, then its finalizer."""

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
_SUCCESS_CONDITIONS = (
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
    """The remaining objects of one resource in a namespace."""

    resource: Resource
    objects: tuple[Object, ...]


class NamespaceController:
    """Enqueues a terminating namespace, for its own changes and those of its content."""

    name = "namespace"
    watches: frozenset[str] = frozenset()

    def keys_for(self, change: Change, lister: Lister) -> Iterable[Key]:
        """The changed namespace, or that of a changed object, but only if it is terminating."""
        if change.store == NAMESPACES:
            if change.type != "DELETED" and is_deleting(change.object):
                yield Key(NAMESPACES, "", name_of(change.object))
            return
        namespace_name = namespace_of(change.object)
        found = lister.get(NAMESPACES, "", namespace_name) if namespace_name else None
        if found is not None and is_deleting(found):
            yield Key(NAMESPACES, "", namespace_name)

    def reconcile(self, key: Key, lister: Lister) -> Result:
        """The writes that delete a terminating namespace's content, and then its finalizer.

        No writes for any other namespace.
        """
        namespace = lister.get(NAMESPACES, "", key.name)
        if namespace is None or not is_deleting(namespace):
            return DONE
        contents = [
            NamespaceContent(resource, tuple(lister.objects(resource.store, key.name)))
            for resource in lister.registry.stored()
            if resource.namespaced
        ]
        content = [one for one in contents if one.objects]
        return sync_namespace(namespace, content, lister.now, lister.last_error(self.name, key))


def sync_namespace(
    namespace: Object, content: Iterable[NamespaceContent], now: datetime, last_error: str = ""
) -> Result:
    """The writes that delete the content, report what remains, and finally remove the finalizer.

    No writes if spec.finalizers lacks `kubernetes`. Terminating objects are not deleted again.
    While content is deleted, the status is written only after an error.
    """
    if FINALIZER not in (spec_of(namespace).get("finalizers") or ()):
        return DONE
    remaining = list(content)
    deletions: list[Write] = [
        Delete(one.resource.store, obj)
        for one in remaining
        for obj in one.objects
        if not is_deleting(obj)
    ]
    status_writes = (
        _status_writes(namespace, remaining, now, last_error) if last_error or not deletions else ()
    )
    if deletions:
        return Result((*status_writes, *deletions))
    return Result(status_writes) if remaining else Result((_remove_finalizer(namespace),))


def _status_writes(
    namespace: Object, content: list[NamespaceContent], now: datetime, last_error: str
) -> tuple[Write, ...]:
    """The status patch with conditions that name remaining resources and finalizers.

    Also the last error of a deletion, if any. Empty without content.
    """
    if not content:
        return ()
    resource_counts = sorted(
        f"{one.resource.plural}.{one.resource.group} has {len(one.objects)} resource instances"
        for one in content
    )
    finalizer_counts = Counter(
        finalizer
        for one in content
        for obj in one.objects
        for finalizer in obj["metadata"].get("finalizers") or ()
    )
    finalizers_text = sorted(
        f"{name} in {count} resource instances" for name, count in finalizer_counts.items()
    )
    failures = {
        "NamespaceContentRemaining": (
            "SomeResourcesRemain",
            f"Some resources are remaining: {', '.join(resource_counts)}",
        )
    }
    if finalizers_text:
        text = (
            f"Some content in the namespace has finalizers remaining: {', '.join(finalizers_text)}"
        )
        failures["NamespaceFinalizersRemaining"] = ("SomeFinalizersRemain", text)
    if last_error:
        text = f"Failed to delete all resource types, 1 remaining: {last_error}"
        failures["NamespaceDeletionContentFailure"] = ("ContentDeletionFailed", text)
    desired = [
        new_condition(type_, True, *failures[type_])
        if type_ in failures
        else new_condition(type_, False, reason, text)
        for type_, reason, text in _SUCCESS_CONDITIONS
    ]
    existing = status_of(namespace)
    conditions = merge_conditions(existing.get("conditions") or (), desired, now)
    return status_patch(NAMESPACES, namespace, {**existing, "conditions": conditions})


def _remove_finalizer(namespace: Object) -> Replace:
    """The PUT to /finalize that removes the `kubernetes` finalizer from the spec."""
    finalizers = [one for one in spec_of(namespace)["finalizers"] if one != FINALIZER]
    spec = {**spec_of(namespace), "finalizers": finalizers}
    return Replace(NAMESPACES, {**namespace, "spec": spec}, subresource="finalize")
