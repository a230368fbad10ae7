"""The scheduler: binds a pod to the fitting node with the fewest pods."""

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
    """Enqueues an unassigned pod, and all unassigned pods for a node or claim."""

    name = "scheduler"
    watches = frozenset((PODS, NODES, VOLUME_CLAIMS))

    def __init__(self) -> None:
        self._assumed: dict[Key, str] = {}
        """Nodes of pods that are being bound, or all pods would get the same node."""

    def keys_for(self, change: Change, lister: Lister) -> Iterable[Key]:
        """The key of an unassigned pod.

        For a node those of all unassigned pods, for a claim those of its namespace.
        """
        if change.store == PODS:
            if not spec_of(change.object).get("nodeName") and change.type != "DELETED":
                yield key_of(PODS, change.object)
            return
        namespace = namespace_of(change.object)
        for key in lister.pods_on(""):
            if change.store == NODES or key.namespace == namespace:
                yield key

    def reconcile(self, key: Key, lister: Lister) -> Result:
        """The writes that bind a pod to a node, or set the condition why it is not scheduled.

        Events tell of a binding, and if no node fits. The pod counts for its node at once. Nothing
        for a pod that is assigned, terminating, finished, or of another scheduler.
        """
        pod = lister.get(PODS, key.namespace, key.name)
        if pod is None or not _needs_scheduling(pod):
            return DONE
        if spec_of(pod).get("schedulingGates"):
            return _set_unscheduled(pod, "SchedulingGated", _GATED, lister.now)
        if problem := _claim_problem(pod, lister):
            return _set_unscheduled(pod, "Unschedulable", problem, lister.now)
        nodes = tuple(lister.objects(NODES))
        self._forget_done_bindings(key, lister)
        node = choose_node(pod, nodes, self._pods_per_node(nodes, lister))
        if not node:
            return unschedulable(pod, len(nodes), lister.now)
        self._assumed[key] = node
        return binding_writes(pod, node)

    def _forget_done_bindings(self, key: Key, lister: Lister) -> None:
        """Forget the binding of a key, and all that are done or whose pod is gone."""
        for other in tuple(self._assumed):
            pod = lister.get(PODS, other.namespace, other.name)
            if other == key or pod is None or spec_of(pod).get("nodeName"):
                del self._assumed[other]

    def _pods_per_node(self, nodes: Sequence[Object], lister: Lister) -> Counter[str]:
        """The number of pods on each node, also finished ones and those that are being bound."""
        pods_per_node = Counter(self._assumed.values())
        for node in nodes:
            pods_per_node[name_of(node)] += len(lister.pods_on(name_of(node)))
        return pods_per_node


def choose_node(pod: Object, nodes: Sequence[Object], pods_per_node: Mapping[str, int]) -> str:
    """The name of the schedulable, fitting node with the fewest pods; empty if there is none.

    Of several with as few, the first by name.
    """
    fitting = [name_of(node) for node in nodes if is_schedulable(node) and node_fits(node, pod)]
    return min(fitting, key=lambda name: (pods_per_node.get(name, 0), name), default="")


def binding_writes(pod: Object, node: str) -> Result:
    """The writes that create the Binding of a pod to a node, and record the Event Scheduled."""
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
    """The patch of the phase to Pending and PodScheduled to False, with a warning Event.

    Nothing, not even the Event, if it is so already.
    """
    text = f"0/{nodes} nodes are available: {nodes} node(s) didn't match what the pod asks for."
    status_result = _set_unscheduled(pod, "Unschedulable", text, now)
    event = RecordEvent(pod, "FailedScheduling", text, _COMPONENT, warning=True)
    return Result((*status_result.writes, event)) if status_result.writes else status_result


def is_schedulable(node: Object) -> bool:
    """Whether a node is Ready, not cordoned and not terminating."""
    return (
        is_condition_true(node, "Ready")
        and not spec_of(node).get("unschedulable")
        and not is_deleting(node)
    )


def node_fits(node: Object, pod: Object) -> bool:
    """Whether nodeSelector, required node affinity and tolerations let a pod run on a node.

    Readiness, cordons, resources, ports and affinity between pods are not checked.
    """
    labels = labels_of(node)
    desired = spec_of(pod).get("nodeSelector") or {}
    if any(labels.get(key) != value for key, value in desired.items()):
        return False
    return _matches_affinity(node, pod) and _tolerates_taints(node, pod)


def _matches_affinity(node: Object, pod: Object) -> bool:
    """Whether the required node affinity of a pod, if any, allows a node.

    One of its terms has to match; an empty term matches nothing.
    """
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


def _tolerates_taints(node: Object, pod: Object) -> bool:
    """Whether a pod tolerates all NoSchedule and NoExecute taints of a node."""
    tolerations = spec_of(pod).get("tolerations") or ()
    return all(
        any(_tolerates(toleration, taint) for toleration in tolerations)
        for taint in spec_of(node).get("taints") or ()
        if taint.get("effect") in ("NoSchedule", "NoExecute")
    )


def _tolerates(toleration: Object, taint: Object) -> bool:
    """Whether a toleration matches a taint by effect, key and value.

    The value does not count with the operator Exists. An unset effect matches every effect, an
    unset key every key, but only with Exists.
    """
    if toleration.get("effect") and toleration["effect"] != taint.get("effect"):
        return False
    if toleration.get("key") and toleration["key"] != taint.get("key"):
        return False
    if toleration.get("operator") == "Exists":
        return True
    return bool(toleration.get("key")) and toleration.get("value", "") == taint.get("value", "")


def _needs_scheduling(pod: Object) -> bool:
    """Whether a pod of the default scheduler is unassigned and neither terminating nor finished."""
    scheduler = spec_of(pod).get("schedulerName") or _COMPONENT
    assigned = spec_of(pod).get("nodeName")
    return (
        scheduler == _COMPONENT and not assigned and not is_deleting(pod) and not is_finished(pod)
    )


def _claim_problem(pod: Object, lister: Lister) -> str:
    """The message if a claim of a pod does not exist or is not Bound; empty if all are."""
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


def _set_unscheduled(pod: Object, reason: str, message: str, now: datetime) -> Result:
    """The patch of the phase to Pending and PodScheduled to False, with this reason and message.

    No writes if it is so already.
    """
    existing = status_of(pod).get("conditions") or []
    desired = new_condition("PodScheduled", False, reason, message)
    others = [one for one in existing if one.get("type") != "PodScheduled"]
    status_result = merge_conditions(existing, [desired], now, probed=True)
    status = {**status_of(pod), "phase": "Pending", "conditions": [*others, *status_result]}
    return Result(status_patch(PODS, pod, status))
