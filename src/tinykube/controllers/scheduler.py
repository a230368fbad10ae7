"""Assigning pods to nodes: the emptiest ready node that a pod may run on."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from tinykube.controllers.conditions import merge_conditions, new_condition, status_patch
from tinykube.controllers.controller import (
    DONE,
    NODES,
    PODS,
    VOLUME_CLAIMS,
    Create,
    Key,
    Lister,
    RecordEvent,
    Result,
)
from tinykube.controllers.objects import (
    is_condition_true,
    is_deleting,
    is_finished,
    key_of,
    labels_of,
    name_of,
    namespace_of,
    requirement_matches,
    spec_of,
    status_of,
)
from tinykube.resources import Object
from tinykube.storage import Change

_COMPONENT = "default-scheduler"
_GATED = "Scheduling is blocked due to non-empty scheduling gates"


class Scheduler:
    """Wakes with an unassigned pod, and all of them with a node or a claim they may wait for."""

    name = "scheduler"
    watches = frozenset((PODS, NODES, VOLUME_CLAIMS))

    def __init__(self) -> None:
        self._assumed: dict[Key, str] = {}
        """Nodes of pods whose bindings are still under way, or all would go to the same one."""

    def keys_for(self, change: Change, lister: Lister) -> Iterable[Key]:
        if change.store == PODS:
            if not spec_of(change.object).get("nodeName") and change.type != "DELETED":
                yield key_of(PODS, change.object)
            return
        space = namespace_of(change.object)
        for key in lister.pods_on(""):
            if change.store == NODES or key.namespace == space:
                yield key

    def reconcile(self, key: Key, lister: Lister) -> Result:
        pod = lister.get(PODS, key.namespace, key.name)
        if pod is None or not _is_ours(pod):
            return DONE
        if spec_of(pod).get("schedulingGates"):
            return _unassigned(pod, "SchedulingGated", _GATED, lister.now)
        if trouble := _claim_trouble(pod, lister):
            return _unassigned(pod, "Unschedulable", trouble, lister.now)
        nodes = tuple(lister.objects(NODES))
        chosen = choose_node(pod, nodes, self._load(key, nodes, lister))
        if not chosen:
            return unschedulable(pod, len(nodes), lister.now)
        self._assumed[key] = chosen
        return bind(pod, chosen)

    def _load(self, key: Key, nodes: Sequence[Object], lister: Lister) -> Counter[str]:
        for other in tuple(self._assumed):
            pod = lister.get(PODS, other.namespace, other.name)
            if other == key or pod is None or spec_of(pod).get("nodeName"):
                del self._assumed[other]
        load = Counter(self._assumed.values())
        for node in nodes:
            load[name_of(node)] += len(lister.pods_on(name_of(node)))
        return load


def choose_node(pod: Object, nodes: Sequence[Object], load: Mapping[str, int]) -> str:
    """The node with the fewest pods among those that take this one; empty when none does."""
    fitting = [name_of(node) for node in nodes if is_schedulable(node) and node_fits(node, pod)]
    return min(fitting, key=lambda name: (load.get(name, 0), name), default="")


def bind(pod: Object, node: str) -> Result:
    """Assign a pod to a node."""
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name_of(pod), "namespace": namespace_of(pod)},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }
    text = f"Successfully assigned {namespace_of(pod)}/{name_of(pod)} to {node}"
    return Result(
        (
            Create(PODS, binding, subresource="binding"),
            RecordEvent(pod, "Scheduled", text, _COMPONENT),
        )
    )


def unschedulable(pod: Object, nodes: int, now: datetime) -> Result:
    """Say once that no node takes a pod."""
    text = f"0/{nodes} nodes are available: {nodes} node(s) didn't match what the pod asks for."
    told = _unassigned(pod, "Unschedulable", text, now)
    event = RecordEvent(pod, "FailedScheduling", text, _COMPONENT, warning=True)
    return Result((*told.writes, event)) if told.writes else told


def is_schedulable(node: Object) -> bool:
    """Whether a node takes new pods at all."""
    return (
        is_condition_true(node, "Ready")
        and not spec_of(node).get("unschedulable")
        and not is_deleting(node)
    )


def node_fits(node: Object, pod: Object) -> bool:
    """Whether a pod's selector, affinity and tolerations let it run on a node."""
    labels = labels_of(node)
    wanted = spec_of(pod).get("nodeSelector") or {}
    if any(labels.get(key) != value for key, value in wanted.items()):
        return False
    return _is_near(node, pod) and _is_tolerated(node, pod)


def _is_near(node: Object, pod: Object) -> bool:
    affinity = ((spec_of(pod).get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    )
    if not affinity:
        return True
    fields = {"metadata.name": name_of(node)}
    return any(
        all(
            requirement_matches(rule, labels_of(node))
            for rule in term.get("matchExpressions") or ()
        )
        and all(requirement_matches(rule, fields) for rule in term.get("matchFields") or ())
        for term in affinity.get("nodeSelectorTerms") or ()
        if term.get("matchExpressions") or term.get("matchFields")
    )


def _is_tolerated(node: Object, pod: Object) -> bool:
    tolerations = spec_of(pod).get("tolerations") or ()
    return all(
        any(_tolerates(toleration, taint) for toleration in tolerations)
        for taint in spec_of(node).get("taints") or ()
        if taint.get("effect") in ("NoSchedule", "NoExecute")
    )


def _tolerates(toleration: Object, taint: Object) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint.get("effect"):
        return False
    if toleration.get("key") and toleration["key"] != taint.get("key"):
        return False
    if toleration.get("operator") == "Exists":
        return True
    return bool(toleration.get("key")) and toleration.get("value", "") == taint.get("value", "")


def _is_ours(pod: Object) -> bool:
    named = spec_of(pod).get("schedulerName") or _COMPONENT
    assigned = spec_of(pod).get("nodeName")
    return named == _COMPONENT and not assigned and not is_deleting(pod) and not is_finished(pod)


def _claim_trouble(pod: Object, lister: Lister) -> str:
    """What is wrong with the claims that a pod mounts; empty when nothing is."""
    for volume in spec_of(pod).get("volumes") or ():
        name = (volume.get("persistentVolumeClaim") or {}).get("claimName")
        if not name:
            continue
        claim = lister.get(VOLUME_CLAIMS, namespace_of(pod), name)
        if claim is None:
            return f'persistentvolumeclaim "{name}" not found'
        if status_of(claim).get("phase") != "Bound":
            return "pod has unbound immediate PersistentVolumeClaims"
    return ""


def _unassigned(pod: Object, reason: str, message: str, now: datetime) -> Result:
    standing = status_of(pod).get("conditions") or []
    wanted = new_condition("PodScheduled", False, reason, message)
    others = [one for one in standing if one.get("type") != "PodScheduled"]
    told = merge_conditions(standing, [wanted], now, probed=True)
    status = {**status_of(pod), "phase": "Pending", "conditions": [*others, *told]}
    return Result(status_patch(PODS, pod, status))
