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

from hanse.kube.errors import error_of
from hanse.kube.request import Request, Transport
from hanse.local.ranges import AddressRanges
from tinykube.controllers.nodes import NodeRanges, plan_nodes

_READY = '.metadata.annotations["sim.hanse.dev/ready"]'
_READY_AFTER = '.metadata.annotations["sim.hanse.dev/ready-after"]'
_PHASE = '.metadata.annotations["sim.hanse.dev/phase"]'

_GATES_OPEN = (
    "([.spec.readinessGates[]?.conditionType]"
    ' - [.status.conditions[]? | select(.status == "True") | .type]) == []'
)
_WANTED = (
    f'(if {_PHASE} == "CrashLoop" then "crashing"'
    f' elif ({_READY} == "false") or (({_GATES_OPEN}) | not) then "unready"'
    ' else "ready" end)'
)
_SEEN = (
    '(if any(.status.containerStatuses[]?; .state.waiting.reason == "CrashLoopBackOff")'
    ' then "crashing"'
    ' elif any(.status.conditions[]?; .type == "Ready" and .status == "True") then "ready"'
    ' else "unready" end)'
)

_NOT_STARTED = "any(.status.containerStatuses[]?; .started == false)"

_STARTED = """
phase: Running
startTime: {{ Now | Quote }}
hostIP: {{ NodeIPWith .spec.nodeName | Quote }}
{{ $uid := or .metadata.uid "" }}
{{ $own := not .spec.hostNetwork }}
{{ $ip := PodIPWith .spec.nodeName ( not $own ) $uid .metadata.name .metadata.namespace }}
podIP: {{ $ip | Quote }}
podIPs: [{ip: {{ $ip | Quote }}}]
"""

_RUNNING = """
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

_RUNS_READY = (
    "{{ $ready := true }}{{ $up := true }}{{ $crash := false }}{{ $late := false }}" + _RUNNING
)

_RUNS_UNREADY = (
    """
{{ $said := or .metadata.annotations dict }}
{{ $crash := eq ( toString ( index $said "sim.hanse.dev/phase" ) ) "CrashLoop" }}
{{ $late := and ( hasKey $said "sim.hanse.dev/ready-after" ) ( not .status.podIP ) }}
{{ $held := eq ( toString ( index $said "sim.hanse.dev/ready" ) ) "false" }}
{{ $up := not ( or $crash $late $held ) }}
{{ $ready := false }}
"""
    + _RUNNING
)
"""A readiness gate that is shut keeps the pod from being ready, but not its containers."""

_ENDED = """
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
    """The file that kwok reads: one document for each stage of a pod's life.

    No two stages ever match the same pod, for kwok would choose between them at random.
    """
    return yaml.safe_dump_all(stages(), sort_keys=False)


def stages() -> list[dict[str, Any]]:
    """Each stage: which pods it moves on, and what they become."""
    ends = ("Failed", "Succeeded")
    alive = _is(".metadata.deletionTimestamp", "DoesNotExist")
    new = (alive, _is(".status.podIP", "DoesNotExist"), _not(_PHASE, "Pending", *ends))
    running = (alive, _in(".status.phase", "Running"), _not(_PHASE, *ends))
    unended = _not(".status.phase", *ends)
    of_job = 'any(.metadata.ownerReferences[]?; .kind == "Job")'
    turning_ready = _true(f'{_WANTED} == "ready" and {_SEEN} != "ready"')
    return [
        _stage(
            "pod-starts-ready",
            (*new, _is(_READY_AFTER, "DoesNotExist"), _true(f'{_WANTED} == "ready"')),
            status=_STARTED + _RUNS_READY,
        ),
        _stage(
            "pod-starts-unready",
            (*new, _true(f'({_READY_AFTER} != null) or ({_WANTED} != "ready")')),
            status=_STARTED + _RUNS_UNREADY,
        ),
        _stage(
            "pod-turns-ready-for-the-first-time",
            (*running, turning_ready, _true(_NOT_STARTED)),
            status=_RUNS_READY,
            delay={"durationMilliseconds": 0, "durationFrom": {"expressionFrom": _READY_AFTER}},
        ),
        _stage(
            "pod-turns-ready-again",
            (*running, turning_ready, _true(f"{_NOT_STARTED} | not")),
            status=_RUNS_READY,
        ),
        _stage(
            "pod-turns-unready",
            (*running, _true(f'{_WANTED} != "ready" and {_WANTED} != {_SEEN}')),
            status=_RUNS_UNREADY,
        ),
        _stage(
            "pod-of-a-job-completes",
            (*running, _true(f'{of_job} and {_WANTED} == "ready" and {_SEEN} == "ready"')),
            status=_ended("Succeeded", exit_code=0, reason="Completed"),
        ),
        _stage(
            "pod-completes",
            (alive, unended, _in(_PHASE, "Succeeded")),
            status=_ended("Succeeded", exit_code=0, reason="Completed"),
        ),
        _stage(
            "pod-fails",
            (alive, unended, _in(_PHASE, "Failed")),
            status=_ended("Failed", exit_code=1, reason="Error"),
        ),
        _stage(
            "pod-goes",
            (
                _is(".metadata.deletionTimestamp", "Exists"),
                _is(".metadata.finalizers[]?", "DoesNotExist"),
            ),
            delete=True,
        ),
    ]


_Expression = dict[str, Any]


def _is(key: str, operator: str) -> _Expression:
    return {"key": key, "operator": operator}


def _in(key: str, *values: str) -> _Expression:
    return {"key": key, "operator": "In", "values": list(values)}


def _not(key: str, *values: str) -> _Expression:
    return {"key": key, "operator": "NotIn", "values": list(values)}


def _true(condition: str) -> _Expression:
    return _in(condition, "true")


def _stage(
    name: str,
    selects: tuple[_Expression, ...],
    status: str = "",
    delay: dict[str, Any] | None = None,
    *,
    delete: bool = False,
) -> dict[str, Any]:
    return {
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": "Stage",
        "metadata": {"name": name},
        "spec": {
            "resourceRef": {"apiGroup": "v1", "kind": "Pod"},
            "selector": {"matchExpressions": list(selects)},
            **({"delay": delay} if delay else {}),
            "next": {"delete": True} if delete else {"statusTemplate": status},
        },
    }


def _ended(phase: str, exit_code: int, reason: str) -> str:
    status = _ENDED.replace("PHASE", phase).replace("EXIT", str(exit_code))
    return status.replace("REASON", reason)


_ROOM = {"cpu": "1000", "memory": "1Ti", "ephemeral-storage": "10Ti", "pods": "10000"}
"""Enough for every scenario on three nodes: here a scheduler counts."""


def nodes_of(cluster: str, count: int, ranges: AddressRanges) -> list[dict[str, Any]]:
    """The nodes of an embedded cluster of that name: scenarios cannot tell them apart."""
    # kwok gives out a range from its very first address, which must not be the network's own.
    upper_half = list(ranges.pods.subnets())[1]
    inside = NodeRanges(
        pods=(str(upper_half),), internal=str(ranges.nodes), external=str(ranges.outside)
    )
    return [
        {**node, "status": {**node["status"], "capacity": _ROOM, "allocatable": _ROOM}}
        for node in plan_nodes(cluster, count, inside)
    ]


async def create_nodes(
    transport: Transport, cluster: str, count: int, ranges: AddressRanges
) -> None:
    """Make sure that the nodes exist; those of an earlier run are left as they are."""
    for node in nodes_of(cluster, count, ranges):
        body = msgspec.json.encode(node)
        response = await transport.send(Request("POST", "/api/v1/nodes", body=body))
        if response.status not in (201, 409):
            raise error_of(response)


async def release_nodes(transport: Transport) -> None:
    """Let a new kwok have the nodes at once: it respects the leases of one that is gone."""
    path = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
    response = await transport.send(Request("DELETE", path))
    if response.status != 200:
        raise error_of(response)


async def all_schedulable(transport: Transport, count: int) -> bool:
    """Whether that many nodes are ready and bear no taint that would keep pods away."""
    response = await transport.send(Request("GET", "/api/v1/nodes"))
    if response.status != 200:
        return False
    nodes = msgspec.json.decode(response.body)["items"]
    return sum(_schedulable(found) for found in nodes) >= count


def _schedulable(found: dict[str, Any]) -> bool:
    conditions = found.get("status", {}).get("conditions", [])
    ready = any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
    return ready and not found["spec"].get("taints")
