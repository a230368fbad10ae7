"""Checks and small transformations of objects that are written."""

from typing import Any

from tinykube import serializer
from tinykube.builtin_resources import BUILTINS
from tinykube.builtin_types import type_of
from tinykube.errors import (
    bad_request,
    method_not_allowed,
    not_allowed,
    not_found,
)
from tinykube.handlers.calls import Call
from tinykube.rbac.attributes import Attributes
from tinykube.resources import Object, Resource
from tinykube.storage import Storage
from tinykube.strategy import Strategy, desired_state

_NAMESPACES = BUILTINS.paths["", "v1", "namespaces"]
_STATUS_KEEPS_LABELS = frozenset(("deployments.apps", "replicasets.apps", "daemonsets.apps"))


def create_attributes(call: Call) -> Attributes:
    """The attributes to authorize as `create` for a PUT that creates its object."""
    resource, target = call.resource, call.target
    return Attributes(
        "create",
        group=resource.group,
        resource=resource.plural,
        namespace=target.namespace,
        name=target.name,
    )


def require_name(call: Call) -> None:
    """Raise 405 if a PUT or PATCH names a collection and no object."""
    if not call.target.name:
        raise method_not_allowed()


def check_name(meta: dict[str, object], name: str) -> None:
    """Raise 400 if the name in the object is missing or differs from the one in the URL."""
    sent = meta.get("name", "")
    if sent != name:
        if not sent:
            raise bad_request(
                f"the name of the object ({name} based on URL) was undeterminable: "
                "name must be provided"
            )
        raise bad_request(
            f"the name of the object ({sent}) does not match the name on the URL ({name})"
        )


def reset_status(resource: Resource, obj: Object) -> None:
    """Remove the status of a custom object in place; make that of a built-in one empty."""
    if resource.custom is not None:
        obj.pop("status", None)
    elif "status" in obj:
        obj["status"] = serializer.empty_status(type_of(resource.api_version, resource.kind))


def with_new_status(resource: Resource, new: Object, old: Object) -> Object:
    """The old object with the new status, and the metadata that a status update may change.

    Of custom resources only uid and resourceVersion of the new metadata are taken, for the
    preconditions; of Deployments, ReplicaSets and DaemonSets all but labels, of others all. A
    status that is missing in the new object is removed.
    """
    status = {"status": new["status"]} if "status" in new else {}
    rest = {key: value for key, value in old.items() if key not in ("status", "metadata")}
    if resource.custom is not None:
        versions = {
            key: new["metadata"][key]
            for key in ("resourceVersion", "uid")
            if key in new["metadata"]
        }
        meta = {key: value for key, value in old["metadata"].items() if key not in versions}
        meta.pop("resourceVersion", None)
        return {**rest, "metadata": {**meta, **versions}, **status}
    meta = dict(new["metadata"])
    if resource.store in _STATUS_KEEPS_LABELS:
        meta.pop("labels", None)
        if "labels" in old["metadata"]:
            meta["labels"] = old["metadata"]["labels"]
    return {**rest, "metadata": meta, **status}


def spec_changed(resource: Resource, strategy: Strategy, new: Object, old: Object) -> bool:
    """Whether an update changes more than metadata and status, and so increments the generation.

    Annotations count for some kinds; the status does for custom resources without the subresource
    `status`.
    """
    if resource.custom is not None and resource.subresource("status") is None:
        return {**new, "metadata": None} != {**old, "metadata": None}
    if strategy.counts_annotations:
        annotations = [side["metadata"].get("annotations") for side in (new, old)]
        if annotations[0] != annotations[1]:
            return True
    return desired_state(new) != desired_state(old)


def deletion_is_complete(resource: Resource, new: Object, old: Object) -> bool:
    """Whether an update completes the deletion of an object, which is then to be removed.

    It does if the object has a deletionTimestamp and no grace period, and the update leaves no
    finalizer; of a namespace, also none in its spec.
    """
    before = old["metadata"]
    if not before.get("deletionTimestamp") or new["metadata"].get("finalizers"):
        return False
    if resource.store == "namespaces" and (new.get("spec") or {}).get("finalizers"):
        return False
    return not before.get("deletionGracePeriodSeconds")


def etcd_key(resource: Resource, meta: dict[str, str]) -> str:
    """The key under /registry that the API server would use, for messages only."""
    folder = f"{resource.group}/{resource.plural}" if resource.custom else resource.plural
    return "/".join(
        part for part in ("/registry", folder, meta.get("namespace", ""), meta["name"]) if part
    )


def check_namespace(
    storage: Storage, resource: Resource, namespace: str, meta: dict[str, Any]
) -> None:
    """Raise 404 for a missing, 403 for a terminating namespace.

    Cluster-scoped resources, an empty namespace and reviews are not checked.
    """
    if not resource.namespaced or not namespace or "list" not in resource.verbs:
        return
    found = storage.get("namespaces", "", namespace)
    if found is None:
        raise not_found(_NAMESPACES, namespace)
    if found["metadata"].get("deletionTimestamp"):
        cause = {
            "reason": "NamespaceTerminating",
            "message": f"namespace {namespace} is being terminated",
            "field": "metadata.namespace",
        }
        why = (
            f"unable to create new content in namespace {namespace} because it is being terminated"
        )
        name = meta.get("name") or meta.get("generateName", "")
        raise not_allowed(resource, name, why, [cause])
