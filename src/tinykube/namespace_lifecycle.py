"""Objects can be created only in namespaces that exist and are not terminating."""

from typing import Any

from tinykube.builtin_resources import BUILTINS
from tinykube.errors import not_allowed, not_found
from tinykube.resources import Resource
from tinykube.storage import Storage

NAMESPACES = BUILTINS.paths["", "v1", "namespaces"]
IMMORTAL = frozenset(("default", "kube-system", "kube-public"))


def check_namespace(
    storage: Storage, resource: Resource, namespace: str, metadata: dict[str, Any]
) -> None:
    """Raise `StatusError` for a namespace that does not exist or is terminating."""
    if not resource.namespaced or not namespace or "list" not in resource.verbs:
        return
    found = storage.get("namespaces", "", namespace)
    if found is None:
        raise not_found(NAMESPACES, namespace)
    if found["metadata"].get("deletionTimestamp"):
        cause = {
            "reason": "NamespaceTerminating",
            "message": f"namespace {namespace} is being terminated",
            "field": "metadata.namespace",
        }
        why = (
            f"unable to create new content in namespace {namespace} because it is being terminated"
        )
        name = metadata.get("name") or metadata.get("generateName", "")
        raise not_allowed(resource, name, why, [cause])
