"""The status of a pod on a simulated node: phase, conditions, containers; pure."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Literal, assert_never

from msgspec import Struct

from tinykube.controllers.conditions import merge_conditions, new_condition
from tinykube.controllers.objects import (
    annotations_of,
    controller_reference_of,
    find_condition,
    format_time,
    parse_time,
    spec_of,
    status_of,
    uid_of,
)
from tinykube.resources import Object

READY = "sim.hanse.dev/ready"
PHASE = "sim.hanse.dev/phase"
READY_AFTER = "sim.hanse.dev/ready-after"
_MANAGED_CONDITIONS = (
    "PodReadyToStartContainers",
    "Initialized",
    "Ready",
    "ContainersReady",
    "PodScheduled",
)
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}

State = Literal["Starting", "Running", "Crashing", "Failed", "Succeeded"]


class PodContext(Struct, frozen=True):
    """The time, timing, and addresses that determine a pod's status."""

    now: datetime
    started_at: datetime
    """When its node first saw the pod."""
    start_after: timedelta
    addresses: tuple[str, ...]
    host: str


class PodStatusResult(Struct, frozen=True):
    """A status, and how long until it changes without a write."""

    status: Object
    requeue_after: timedelta | None = None


def has_started(pod: Object) -> bool:
    """Whether the phase of a pod is Running, Failed or Succeeded."""
    return status_of(pod).get("phase") in ("Running", "Failed", "Succeeded")


def pod_status_at(pod: Object, at: PodContext) -> PodStatusResult:
    """The status of a pod at a time, by annotations, and how long until it changes by itself.

    Until `start_after` has passed it is the existing one. sim.hanse.dev/phase decides the state; a
    Running pod is ready after sim.hanse.dev/ready-after, and never if sim.hanse.dev/ready is
    `false`. Pods in other states are not ready.
    """
    started = has_started(pod)
    wait = time_left(at.started_at, at.start_after, at.now)
    if not started and wait is not None:
        return PodStatusResult(status_of(pod), wait)
    state = _simulated_state(pod)
    if state == "Starting":
        return PodStatusResult(_pod_status(pod, at, state, ready=False))
    began = parse_time(status_of(pod).get("startTime")) if started else None
    ready_after = _parse_duration(annotations_of(pod).get(READY_AFTER)) or timedelta()
    wait = time_left(began or at.started_at + at.start_after, ready_after, at.now)
    may_be_ready = state == "Running" and annotations_of(pod).get(READY) != "false"
    status = _pod_status(pod, at, state, ready=may_be_ready and wait is None)
    return PodStatusResult(status, wait if may_be_ready else None)


def time_left(began: datetime, duration: timedelta, now: datetime) -> timedelta | None:
    """How long a duration still takes; None once it is over, or if the clock was set back since."""
    left = began + duration - now
    return left if timedelta() < left <= duration else None


def unreachable_status(pod: Object, now: datetime) -> Object:
    """The status of a pod on a node that is not Ready: its Ready becomes False if it was True.

    The rest stays.
    """
    existing = status_of(pod).get("conditions") or []
    found = find_condition(existing, "Ready")
    if found is None or found.get("status") != "True":
        return status_of(pod)
    not_ready = {**found, "status": "False", "lastTransitionTime": format_time(now)}
    return {
        **status_of(pod),
        "conditions": [not_ready if one is found else one for one in existing],
    }


def terminated_status(pod: Object, at: PodContext) -> Object:
    """The status of a terminating pod whose containers have stopped, in the phase Succeeded.

    Also if the pod was Failed before; Ready is False.
    """
    return _pod_status(pod, at, "Succeeded", ready=False)


def _simulated_state(pod: Object) -> State:
    """The state by a final phase, else the annotation sim.hanse.dev/phase, else Running.

    The annotation may be Failed, Succeeded, Pending (Starting) or CrashLoop (Crashing); with
    another value or none, pods of Jobs are Succeeded.
    """
    match status_of(pod).get("phase"):
        case "Failed":
            return "Failed"
        case "Succeeded":
            return "Succeeded"
    match annotations_of(pod).get(PHASE):
        case "Failed":
            return "Failed"
        case "Succeeded":
            return "Succeeded"
        case "Pending":
            return "Starting"
        case "CrashLoop":
            return "Crashing"
    owner = controller_reference_of(pod)
    if owner is not None and owner.get("kind") == "Job":
        return "Succeeded"
    return "Running"


def _pod_status(pod: Object, at: PodContext, state: State, *, ready: bool) -> Object:
    """The existing status with phase, addresses, containers and conditions of a state.

    While it is Starting no address is set; startTime is kept once it is set.
    """
    existing = status_of(pod)
    phases: dict[State, str] = {"Starting": "Pending", "Crashing": "Running"}
    status = {
        **existing,
        "phase": phases.get(state, state),
        "hostIP": at.host,
        "hostIPs": [{"ip": at.host}],
        "startTime": existing.get("startTime") or format_time(at.now),
        "containerStatuses": [
            _container_status(pod, one, at.now, state, ready=ready)
            for one in spec_of(pod).get("containers") or ()
        ],
        "conditions": _pod_conditions(pod, at.now, state, ready=ready),
    }
    if state != "Starting":
        status["podIP"] = at.addresses[0]
        status["podIPs"] = [{"ip": address} for address in at.addresses]
    if initial := spec_of(pod).get("initContainers"):
        status["initContainerStatuses"] = [
            _init_container_status(pod, one, at.now, state) for one in initial
        ]
    return status


def _pod_conditions(pod: Object, now: datetime, state: State, *, ready: bool) -> list[Object]:
    """The pod's conditions in a state; conditions of other types are kept and come first."""
    existing = status_of(pod).get("conditions") or []
    end_reason = {"Succeeded": "PodCompleted", "Failed": "PodFailed"}.get(state, "")
    names = " ".join(one["name"] for one in spec_of(pod).get("containers") or ())
    unready = "" if end_reason else f"containers with unready status: [{names}]"
    reason = end_reason or "ContainersNotReady"
    containers = (
        new_condition("ContainersReady", True)
        if ready
        else new_condition("ContainersReady", False, reason, unready)
    )
    desired = [
        new_condition("PodReadyToStartContainers", state in ("Running", "Crashing")),
        new_condition("Initialized", True, "PodCompleted" if state == "Succeeded" else ""),
        _ready_condition(pod, {**containers, "type": "Ready"}, existing),
        containers,
        new_condition("PodScheduled", True),
    ]
    others = [one for one in existing if one.get("type") not in _MANAGED_CONDITIONS]
    return [*others, *merge_conditions(existing, desired, now, probed=True)]


def _ready_condition(pod: Object, ready: Object, existing: Sequence[Object]) -> Object:
    """The given Ready condition, but False if a readiness gate of the pod does not hold.

    The first gate whose condition is missing or not True is in the message. A condition that is not
    True is returned as it is.
    """
    if ready["status"] != "True":
        return ready
    for gate in spec_of(pod).get("readinessGates") or ():
        kind = gate["conditionType"]
        found = find_condition(existing, kind)
        quoted = f'corresponding condition of pod readiness gate "{kind}"'
        if found is None:
            text = f"{quoted} does not exist."
        elif found.get("status") != "True":
            text = f'the status of pod readiness gate "{kind}" is not "True", but {found["status"]}'
        else:
            continue
        return new_condition("Ready", False, "ReadinessGatesNotReady", text)
    return ready


def _container_status(
    pod: Object, spec: Object, now: datetime, state: State, *, ready: bool
) -> Object:
    """The status of a container in a simulated state, with start times and restarts kept.

    When Crashing begins, restartCount rises by one and lastState is set; both stay while it lasts.
    """
    known = _previous_status(pod, "containerStatuses", spec["name"])
    before = known.get("state") or {}
    restarts = int(known.get("restartCount") or 0)
    last = known.get("lastState") or {}
    began = (before.get("running") or {}).get("startedAt") or format_time(now)
    new_state: Object
    match state:
        case "Starting":
            new_state = {"waiting": {"reason": "ContainerCreating"}}
        case "Running":
            new_state = {"running": {"startedAt": began}}
        case "Crashing":
            crashing = (before.get("waiting") or {}).get("reason") == "CrashLoopBackOff"
            restarts += 0 if crashing else 1
            last = last if crashing else {"terminated": _terminated_state(1, began, now)}
            text = f"back-off 10s restarting failed container={spec['name']}"
            new_state = {"waiting": {"reason": "CrashLoopBackOff", "message": text}}
        case "Failed" | "Succeeded":
            code = 1 if state == "Failed" else 0
            new_state = {
                "terminated": before.get("terminated") or _terminated_state(code, began, now)
            }
        case _:
            assert_never(state)
    return {
        **_container_identity(pod, spec),
        "ready": ready,
        "started": state == "Running",
        "restartCount": restarts,
        "state": new_state,
        "lastState": last,
    }


def _init_container_status(pod: Object, spec: Object, now: datetime, state: State) -> Object:
    """The status of an init container: completed at once, or running as a sidecar of a running pod.

    It is always ready.
    """
    before = _previous_status(pod, "initContainerStatuses", spec["name"]).get("state") or {}
    is_sidecar = spec.get("restartPolicy") == "Always" and state in ("Running", "Crashing")
    began = (before.get("running") or {}).get("startedAt") or format_time(now)
    if is_sidecar:
        new_state: Object = {"running": {"startedAt": began}}
    else:
        new_state = {"terminated": before.get("terminated") or _terminated_state(0, began, now)}
    return {
        **_container_identity(pod, spec),
        "ready": True,
        "started": is_sidecar,
        "restartCount": 0,
        "state": new_state,
        "lastState": {},
    }


def _container_identity(pod: Object, spec: Object) -> Object:
    """The name, image and simulated ids of a container, stable for the pod's uid."""
    digest = sha256(f"{uid_of(pod)}/{spec['name']}".encode()).hexdigest()
    image = spec.get("image") or ""
    return {
        "name": spec["name"],
        "image": image,
        "imageID": f"sim://{image}",
        "containerID": f"sim://{digest}",
    }


def _terminated_state(code: int, began: str, now: datetime) -> Object:
    """The state of a container that has ended now: Completed for code 0, else Error."""
    reason = "Error" if code else "Completed"
    return {"exitCode": code, "reason": reason, "startedAt": began, "finishedAt": format_time(now)}


def _previous_status(pod: Object, field: str, name: str) -> Object:
    """The container status of a name in a field of the pod's status; empty if absent."""
    statuses = status_of(pod).get(field) or ()
    return next((one for one in statuses if one.get("name") == name), {})


def _parse_duration(text: str | None) -> timedelta | None:
    """Parse a duration of one unit (`ms`, `s`, `m`, `h`), like `2s` or `1.5m`; None for others."""
    for unit in ("ms", "s", "m", "h"):
        number = (text or "").removesuffix(unit)
        if number != (text or "") and number.replace(".", "", 1).isdecimal():
            return timedelta(seconds=float(number) * _UNITS[unit])
    return None
