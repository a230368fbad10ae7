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


_NOT_RUNNING = ("Pending", "Succeeded", "Failed")


def violated_budget(pod: Object, storage: Storage) -> str:
    """The name of the first budget of the pod's namespace that forbids its eviction now, or empty.

    A budget applies by its selector, and to no pod that is pending, finished or being deleted.
    """
    if _needs_no_budget(pod):
        return ""
    namespace = pod["metadata"]["namespace"]
    labels = pod["metadata"].get("labels") or {}
    for budget in storage.objects("poddisruptionbudgets.policy", namespace):
        spec = budget["spec"]
        if spec.get("selector") is None or not matches_labels(spec["selector"], labels):
            continue
        if not _is_allowed(pod, spec, namespace, storage):
            return str(budget["metadata"]["name"])
    return ""


def _needs_no_budget(pod: Object) -> bool:
    """Whether the eviction of a pod disrupts nothing: it does not run, or is being deleted."""
    phase = (pod.get("status") or {}).get("phase")
    return phase in _NOT_RUNNING or bool(pod["metadata"].get("deletionTimestamp"))


def _is_allowed(pod: Object, spec: dict[str, Any], namespace: str, storage: Storage) -> bool:
    """Whether one budget allows the eviction of a pod: more pods are healthy than it requires.

    For an unhealthy pod it is enough that as many are healthy as it requires, if it requires any;
    with AlwaysAllow an unhealthy pod always may be evicted.
    """
    healthy, required = _health(spec, namespace, storage)
    if not _is_healthy(pod):
        if spec.get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
            return True
        if healthy >= required > 0:
            return True
    return healthy > required


def _health(spec: dict[str, Any], namespace: str, storage: Storage) -> tuple[int, int]:
    """How many pods of a budget are healthy, and how many it requires.

    Percentages and maxUnavailable refer to the sum of the replicas that the controllers of its pods
    want. Without minAvailable and maxUnavailable it requires none.
    """
    pods = [
        pod
        for pod in storage.objects("pods", namespace)
        if matches_labels(spec["selector"], pod["metadata"].get("labels") or {})
    ]
    expected = sum(_controller_replicas(pods, storage))
    healthy = sum(map(_is_healthy, pods))
    if spec.get("maxUnavailable") is not None:
        desired = max(expected - _resolve_percentage(spec["maxUnavailable"], expected), 0)
    else:
        desired = _resolve_percentage(spec.get("minAvailable") or 0, expected)
    return healthy, desired


def _controller_replicas(pods: Iterable[Object], storage: Storage) -> Iterator[int]:
    """spec.replicas of each StatefulSet, ReplicaSet or Deployment that controls a pod, once.

    0 for a controller that does not exist or does not say.
    """
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


def _resolve_percentage(value: int | str, expected: int) -> int:
    """A number as it is, or a percentage of the expected pods, rounded up."""
    if isinstance(value, int):
        return value
    return ceil(expected * int(value.removesuffix("%")) / 100)
