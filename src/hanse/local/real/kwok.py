"""Simulated nodes and pods of a real cluster: kwok plays every kubelet.

A pod runs and is ready at once, unless its annotations say otherwise. Changing them takes effect on
the running pod:

    sim.hanse.dev/ready: "false"                   runs, and is not ready
    sim.hanse.dev/ready-after: 2s                  is ready that long after it starts
    sim.hanse.dev/phase: Pending|CrashLoop         never starts, or restarts forever
    sim.hanse.dev/phase: Failed|Succeeded          ends in that phase
"""

from typing import Any

import msgspec
import yaml

from hanse.kube.errors import error_from_response
from hanse.kube.transport import Request, Transport
from hanse.local.ranges import AddressRanges
from tinykube.controllers.simulated_nodes import NodeRanges, plan_nodes

_READY = '.metadata.annotations["sim.hanse.dev/ready"]'
_READY_AFTER = '.metadata.annotations["sim.hanse.dev/ready-after"]'
_PHASE = '.metadata.annotations["sim.hanse.dev/phase"]'

_GATES_PASSED = (
    "([.spec.readinessGates[]?.conditionType]"
    ' - [.status.conditions[]? | select(.status == "True") | .type]) == []'
)
_DESIRED = (
    f'(if {_PHASE} == "CrashLoop" then "crashing"'
    f' elif ({_READY} == "false") or (({_GATES_PASSED}) | not) then "unready"'
    ' else "ready" end)'
)
_OBSERVED = (
    '(if any(.status.containerStatuses[]?; .state.waiting.reason == "CrashLoopBackOff")'
    ' then "crashing"'
    ' elif any(.status.conditions[]?; .type == "Ready" and .status == "True") then "ready"'
    ' else "unready" end)'
)

_NOT_STARTED = "any(.status.containerStatuses[]?; .started == false)"

_START_STATUS = """
phase: Running
startTime: {{ Now | Quote }}
hostIP: {{ NodeIPWith .spec.nodeName | Quote }}
{{ $uid := or .metadata.uid "" }}
{{ $pod_network := not .spec.hostNetwork }}
{{ $ip := PodIPWith .spec.nodeName ( not $pod_network ) $uid .metadata.name .metadata.namespace }}
podIP: {{ $ip | Quote }}
podIPs: [{ip: {{ $ip | Quote }}}]
"""

_RUNNING_STATUS = """
{{ $now := Now }}
conditions:
- {type: Initialized, status: "True", lastTransitionTime: {{ $now | Quote }}}
- {type: PodReadyToStartContainers, status: "True", lastTransitionTime: {{ $now | Quote }}}
- type: ContainersReady
  status: {{ ternary "True" "False" $up | Quote }}
  lastTransitionTime: {{ $now | Quote }}
- type: Ready
  status: {{ ternary "True" "False" $ready | Quote }}
  lastTransitionTime: {{ $now | Quote }}
containerStatuses:
{{ range .spec.containers }}
- name: {{ .name | Quote }}
  image: {{ .image | Quote }}
  imageID: ""
  ready: {{ $up }}
  started: {{ not ( or $crash $late ) }}
  restartCount: {{ ternary 1 0 $crash }}
  {{ if $crash }}
  state: {waiting: {reason: CrashLoopBackOff, message: "as its annotation says"}}
  {{ else }}
  state: {running: {startedAt: {{ $now | Quote }}}}
  {{ end }}
{{ end }}
initContainerStatuses:
{{ range .spec.initContainers }}
- name: {{ .name | Quote }}
  image: {{ .image | Quote }}
  imageID: ""
  ready: true
  restartCount: 0
  {{ if eq ( toString .restartPolicy ) "Always" }}
  started: true
  state: {running: {startedAt: {{ $now | Quote }}}}
  {{ else }}
  state:
    terminated:
      exitCode: 0
      reason: Completed
      startedAt: {{ $now | Quote }}
      finishedAt: {{ $now | Quote }}
  {{ end }}
{{ end }}
"""

_READY_STATUS = (
    "{{ $ready := true }}{{ $up := true }}{{ $crash := false }}{{ $late := false }}"
    + _RUNNING_STATUS
)

_UNREADY_STATUS = (
    """
{{ $annotations := or .metadata.annotations dict }}
{{ $crash := eq ( toString ( index $annotations "sim.hanse.dev/phase" ) ) "CrashLoop" }}
{{ $late := and ( hasKey $annotations "sim.hanse.dev/ready-after" ) ( not .status.podIP ) }}
{{ $unready := eq ( toString ( index $annotations "sim.hanse.dev/ready" ) ) "false" }}
{{ $up := not ( or $crash $late $unready ) }}
{{ $ready := false }}
"""
    + _RUNNING_STATUS
)
"""A readiness gate that is False keeps the pod unready, but not its containers."""

_TERMINATED_STATUS = """
{{ $now := Now }}
phase: PHASE
conditions:
- {type: ContainersReady, status: "False", reason: PodPHASE, lastTransitionTime: {{ $now | Quote }}}
- {type: Ready, status: "False", reason: PodPHASE, lastTransitionTime: {{ $now | Quote }}}
containerStatuses:
{{ range .spec.containers }}
- name: {{ .name | Quote }}
  image: {{ .image | Quote }}
  imageID: ""
  ready: false
  started: false
  restartCount: 0
  state:
    terminated:
      exitCode: EXIT
      reason: REASON
      startedAt: {{ $now | Quote }}
      finishedAt: {{ $now | Quote }}
{{ end }}
"""


def kwok_configuration() -> str:
    """The configuration file of kwok: one Stage document per transition of a pod.

    No two stages match the same pod, since kwok would choose between them at random.
    """
    return yaml.safe_dump_all(stages(), sort_keys=False)


def stages() -> list[dict[str, Any]]:
    """The Stages: each selects pods and gives them their next status, or deletes them.

    Pods start ready or not, turn ready or unready, crash, complete, fail and go.
    """
    final_phases = ("Failed", "Succeeded")
    not_deleted = _expression(".metadata.deletionTimestamp", "DoesNotExist")
    starting = (
        not_deleted,
        _expression(".status.podIP", "DoesNotExist"),
        _not_in(_PHASE, "Pending", *final_phases),
    )
    running = (not_deleted, _in(".status.phase", "Running"), _not_in(_PHASE, *final_phases))
    not_finished = _not_in(".status.phase", *final_phases)
    owned_by_job = 'any(.metadata.ownerReferences[]?; .kind == "Job")'
    turning_ready = _is_true(f'{_DESIRED} == "ready" and {_OBSERVED} != "ready"')
    return [
        _stage(
            "pod-starts-ready",
            (
                *starting,
                _expression(_READY_AFTER, "DoesNotExist"),
                _is_true(f'{_DESIRED} == "ready"'),
            ),
            status=_START_STATUS + _READY_STATUS,
        ),
        _stage(
            "pod-starts-unready",
            (*starting, _is_true(f'({_READY_AFTER} != null) or ({_DESIRED} != "ready")')),
            status=_START_STATUS + _UNREADY_STATUS,
        ),
        _stage(
            "pod-turns-ready-for-the-first-time",
            (*running, turning_ready, _is_true(_NOT_STARTED)),
            status=_READY_STATUS,
            delay={"durationMilliseconds": 0, "durationFrom": {"expressionFrom": _READY_AFTER}},
        ),
        _stage(
            "pod-turns-ready-again",
            (*running, turning_ready, _is_true(f"{_NOT_STARTED} | not")),
            status=_READY_STATUS,
        ),
        _stage(
            "pod-turns-unready",
            (
                *running,
                _is_true(f'{_DESIRED} != "ready" and {_DESIRED} != {_OBSERVED}'),
            ),
            status=_UNREADY_STATUS,
        ),
        _stage(
            "pod-of-a-job-completes",
            (
                *running,
                _is_true(f'{owned_by_job} and {_DESIRED} == "ready" and {_OBSERVED} == "ready"'),
            ),
            status=_terminated_status("Succeeded", exit_code=0, reason="Completed"),
        ),
        _stage(
            "pod-completes",
            (not_deleted, not_finished, _in(_PHASE, "Succeeded")),
            status=_terminated_status("Succeeded", exit_code=0, reason="Completed"),
        ),
        _stage(
            "pod-fails",
            (not_deleted, not_finished, _in(_PHASE, "Failed")),
            status=_terminated_status("Failed", exit_code=1, reason="Error"),
        ),
        _stage(
            "pod-goes",
            (
                _expression(".metadata.deletionTimestamp", "Exists"),
                _expression(".metadata.finalizers[]?", "DoesNotExist"),
            ),
            delete=True,
        ),
    ]


_Expression = dict[str, Any]


def _expression(key: str, operator: str) -> _Expression:
    return {"key": key, "operator": operator}


def _in(key: str, *values: str) -> _Expression:
    return {"key": key, "operator": "In", "values": list(values)}


def _not_in(key: str, *values: str) -> _Expression:
    return {"key": key, "operator": "NotIn", "values": list(values)}


def _is_true(condition: str) -> _Expression:
    """The expression that matches pods for which a condition in jq is true."""
    return _in(condition, "true")


def _stage(
    name: str,
    match_expressions: tuple[_Expression, ...],
    status: str = "",
    delay: dict[str, Any] | None = None,
    *,
    delete: bool = False,
) -> dict[str, Any]:
    """A Stage of kwok that sets the status of the pods that match, or deletes them.

    It acts after `delay`, if any is given.
    """
    return {
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": "Stage",
        "metadata": {"name": name},
        "spec": {
            "resourceRef": {"apiGroup": "v1", "kind": "Pod"},
            "selector": {"matchExpressions": list(match_expressions)},
            **({"delay": delay} if delay else {}),
            "next": {"delete": True} if delete else {"statusTemplate": status},
        },
    }


def _terminated_status(phase: str, exit_code: int, reason: str) -> str:
    """The status template of pods that end in a phase, by their exit code and reason."""
    status = _TERMINATED_STATUS.replace("PHASE", phase).replace("EXIT", str(exit_code))
    return status.replace("REASON", reason)


_NODE_CAPACITY = {"cpu": "1000", "memory": "1Ti", "ephemeral-storage": "10Ti", "pods": "10000"}
"""Enough for every scenario on three nodes: the real scheduler checks resources."""


def node_objects(cluster: str, count: int, ranges: AddressRanges) -> list[dict[str, Any]]:
    """The Node objects of a cluster, named as in an embedded one, with ample capacity.

    Their ranges of pods are in the upper half of the cluster's. Nothing is created.
    """
    # kwok allocates from the first address of a range, which must not be the network address.
    upper_half = list(ranges.pods.subnets())[1]
    node_ranges = NodeRanges(
        pods=(str(upper_half),), internal=str(ranges.nodes), external=str(ranges.external)
    )
    return [
        {
            **node,
            "status": {**node["status"], "capacity": _NODE_CAPACITY, "allocatable": _NODE_CAPACITY},
        }
        for node in plan_nodes(cluster, count, node_ranges)
    ]


async def create_nodes(
    transport: Transport, cluster: str, count: int, ranges: AddressRanges
) -> None:
    """Create the missing nodes of `node_objects`; existing ones stay as they are.

    Raises the first error response.
    """
    for node in node_objects(cluster, count, ranges):
        body = msgspec.json.encode(node)
        response = await transport.send(Request("POST", "/api/v1/nodes", body=body))
        if response.status not in (201, 409):
            raise error_from_response(response)


async def release_nodes(transport: Transport) -> None:
    """Delete the node Leases of an earlier kwok, so that a starting one takes the nodes at once.

    All Leases of kube-node-lease are deleted; an error response is raised.
    """
    path = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
    response = await transport.send(Request("DELETE", path))
    if response.status != 200:
        raise error_from_response(response)


async def all_schedulable(transport: Transport, count: int) -> bool:
    """Whether at least that many nodes are Ready and have no taints.

    False if the answer to the list is an error.
    """
    response = await transport.send(Request("GET", "/api/v1/nodes"))
    if response.status != 200:
        return False
    nodes = msgspec.json.decode(response.body)["items"]
    return sum(_is_schedulable(node) for node in nodes) >= count


def _is_schedulable(node: dict[str, Any]) -> bool:
    """Whether a node is Ready and has no taints."""
    conditions = node.get("status", {}).get("conditions", [])
    ready = any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
    return ready and not node["spec"].get("taints")
