"""The scale subresource."""

from typing import Any

from tinykube.custom_resources import at_path
from tinykube.errors import internal_error, invalid, invalid_object
from tinykube.resources import Object, Resource
from tinykube.selectors import selector_text

_METADATA = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


def scale_of(resource: Resource, obj: Object) -> Object:
    """An object's replicas as a Scale; 0 replicas are left out of its spec.

    Raises 500 if a custom resource has no desired replicas.
    """
    metadata = {key: obj["metadata"][key] for key in _METADATA if key in obj["metadata"]}
    wanted, present, selector = _replica_counts(resource, obj)
    status: dict[str, Any] = {"replicas": present}
    if selector:
        status["selector"] = selector
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": metadata,
        "spec": {"replicas": wanted} if wanted else {},
        "status": status,
    }


def _replica_counts(resource: Resource, obj: Object) -> tuple[int, int, str]:
    """Desired replicas, current replicas and selector; of custom resources by their scale paths.

    Raises 500 if a custom resource has no desired replicas.
    """
    if resource.custom is None:
        selector = selector_text(obj["spec"].get("selector") or {})
        present = (obj.get("status") or {}).get("replicas", 0)
        return obj["spec"].get("replicas", 0), present, selector
    paths = resource.custom.scale
    assert paths is not None
    wanted = at_path(obj, paths.spec_replicas_path)
    if wanted is None:
        raise internal_error(f'the spec replicas field "{paths.spec_replicas_path}" does not exist')
    selector = at_path(obj, paths.label_selector_path) if paths.label_selector_path else ""
    return wanted, at_path(obj, paths.status_replicas_path) or 0, selector or ""


def with_replicas(resource: Resource, obj: Object, scale: Object) -> Object:
    """A copy of the object with the replicas of a Scale, 0 if it has none.

    uid and resourceVersion of the Scale replace those of the object, as preconditions; without them
    the copy has no uid, and keeps its resourceVersion. Raises 422 for negative replicas.
    """
    replicas = (scale.get("spec") or {}).get("replicas", 0)
    name = obj["metadata"]["name"]
    if replicas < 0:
        error = invalid("spec.replicas", replicas, "must be greater than or equal to 0")
        raise invalid_object("Scale", "autoscaling", name, [error])
    path = ".spec.replicas"
    if resource.custom is not None and resource.custom.scale is not None:
        path = resource.custom.scale.spec_replicas_path
    made = _set_path(obj, path.strip(".").split("."), replicas)
    sent = scale.get("metadata") or {}
    metadata = dict(obj["metadata"])
    for key in ("resourceVersion", "uid"):
        metadata.pop(key)
        if sent.get(key):
            metadata[key] = sent[key]
    if "resourceVersion" not in metadata:
        metadata["resourceVersion"] = obj["metadata"]["resourceVersion"]
    return {**made, "metadata": metadata}


def _set_path(value: Any, path: list[str], leaf: Any) -> Any:
    """A copy with one value set at a path; what is no object on the way is replaced by one."""
    held = value if isinstance(value, dict) else {}
    inner = leaf if len(path) == 1 else _set_path(held.get(path[0]), path[1:], leaf)
    return {**held, path[0]: inner}
