"""Whether PodDisruptionBudgets allow the eviction of a pod, counted at the moment it is asked."""

from collections.abc import Iterable, Iterator
from math import ceil
from typing import Any

from tinykube.resources import Object
from tinykube.selectors import matches_labels
from tinykube.storage import Storage

_SCALED = {
    "StatefulSet": "statefulsets.apps",
    "ReplicaSet": "replicasets.apps",
    "Deployment": "deployments.apps",
}


def violated_budget(pod: Object, storage: Storage) -> str:
    """The name of the first budget of the pod's namespace that forbids its eviction now, or empty.

    A budget applies by its selector; one with AlwaysAllow does not to a pod that is not healthy.
    """
    namespace = pod["metadata"]["namespace"]
    labels = pod["metadata"].get("labels") or {}
    for budget in storage.objects("poddisruptionbudgets.policy", namespace):
        spec = budget["spec"]
        if spec.get("selector") is None or not matches_labels(spec["selector"], labels):
            continue
        always = spec.get("unhealthyPodEvictionPolicy") == "AlwaysAllow"
        if always and not _is_healthy(pod):
            continue
        if _disruptions_allowed(spec, namespace, storage) < 1:
            return str(budget["metadata"]["name"])
    return ""


def _disruptions_allowed(spec: dict[str, Any], namespace: str, storage: Storage) -> int:
    """Healthy pods of a budget minus those it requires; negative if too few are healthy already."""
    pods = [
        pod
        for pod in storage.objects("pods", namespace)
        if matches_labels(spec["selector"], pod["metadata"].get("labels") or {})
    ]
    expected = sum(_controllers(pods, storage))
    healthy = sum(map(_is_healthy, pods))
    if spec.get("maxUnavailable") is not None:
        desired = max(expected - _scaled(spec["maxUnavailable"], expected), 0)
    else:
        desired = _scaled(spec.get("minAvailable") or 0, expected)
    return healthy - desired


def _controllers(pods: Iterable[Object], storage: Storage) -> Iterator[int]:
    """spec.replicas of each StatefulSet, ReplicaSet or Deployment that controls a pod, or 0."""
    seen = set[str]()
    for pod in pods:
        for owner in pod["metadata"].get("ownerReferences") or ():
            if owner.get("controller") and owner["uid"] not in seen and owner["kind"] in _SCALED:
                seen.add(owner["uid"])
                namespace = pod["metadata"]["namespace"]
                found = storage.get(_SCALED[owner["kind"]], namespace, owner["name"])
                yield int(found["spec"].get("replicas") or 0) if found is not None else 0


def _is_healthy(pod: Object) -> bool:
    """Whether the condition Ready is True and the pod is not being deleted."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    ready = any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
    return ready and not pod["metadata"].get("deletionTimestamp")


def _scaled(value: int | str, expected: int) -> int:
    """A number as it is, or a percentage of the expected pods, rounded up."""
    if isinstance(value, int):
        return value
    return ceil(expected * int(value.removesuffix("%")) / 100)
