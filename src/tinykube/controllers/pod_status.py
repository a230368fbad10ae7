"""What a pod on a simulated node looks like at a moment: phase, conditions, containers."""

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
_OURS = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}

State = Literal["Starting", "Running", "Crashing", "Failed", "Succeeded"]


class PodContext(Struct, frozen=True):
    """All that decides about a pod besides itself."""

    now: datetime
    since: datetime
    """When its node first knew of it."""
    start_after: timedelta
    addresses: tuple[str, ...]
    host: str


class PodStatusResult(Struct, frozen=True):
    """A status, and when it will change by itself."""

    status: Object
    requeue_after: timedelta | None = None


def has_started(pod: Object) -> bool:
    return status_of(pod).get("phase") in ("Running", "Failed", "Succeeded")


def lifecycle(pod: Object, at: PodContext) -> PodStatusResult:
    """The status that a pod has at a moment, its annotations obeyed."""
    started = has_started(pod)
    due = at.since + at.start_after
    if not started and at.now < due:
        return PodStatusResult(status_of(pod), due - at.now)
    state = _state(pod)
    if state == "Starting":
        return PodStatusResult(_status(pod, at, state, ready=False))
    began = parse_time(status_of(pod).get("startTime")) if started else None
    ready_due = (began or due) + (_duration(annotations_of(pod).get(READY_AFTER)) or timedelta())
    held = annotations_of(pod).get(READY) == "false"
    ready = state == "Running" and not held and at.now >= ready_due
    wait = ready_due - at.now if state == "Running" and not held and not ready else None
    return PodStatusResult(_status(pod, at, state, ready=ready), wait)


def unreachable_status(pod: Object, now: datetime) -> Object:
    """The status of a pod whose node does not answer: as it was, but not ready."""
    standing = status_of(pod).get("conditions") or []
    found = find_condition(standing, "Ready")
    if found is None or found.get("status") != "True":
        return status_of(pod)
    lost = {**found, "status": "False", "lastTransitionTime": format_time(now)}
    return {**status_of(pod), "conditions": [lost if one is found else one for one in standing]}


def ended_status(pod: Object, at: PodContext) -> Object:
    """The status of a pod whose containers were stopped."""
    return _status(pod, at, "Succeeded", ready=False)


def _state(pod: Object) -> State:
    """What the annotations (and, for jobs, the owner) make of a pod; the end is final."""
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


def _status(pod: Object, at: PodContext, state: State, *, ready: bool) -> Object:
    standing = status_of(pod)
    phases: dict[State, str] = {"Starting": "Pending", "Crashing": "Running"}
    status = {
        **standing,
        "phase": phases.get(state, state),
        "hostIP": at.host,
        "hostIPs": [{"ip": at.host}],
        "startTime": standing.get("startTime") or format_time(at.now),
        "containerStatuses": [
            _container(pod, one, at.now, state, ready=ready)
            for one in spec_of(pod).get("containers") or ()
        ],
        "conditions": _conditions(pod, at.now, state, ready=ready),
    }
    if state != "Starting":
        status["podIP"] = at.addresses[0]
        status["podIPs"] = [{"ip": address} for address in at.addresses]
    if initial := spec_of(pod).get("initContainers"):
        status["initContainerStatuses"] = [_initial(pod, one, at.now, state) for one in initial]
    return status


def _conditions(pod: Object, now: datetime, state: State, *, ready: bool) -> list[Object]:
    standing = status_of(pod).get("conditions") or []
    ended = {"Succeeded": "PodCompleted", "Failed": "PodFailed"}.get(state, "")
    names = " ".join(one["name"] for one in spec_of(pod).get("containers") or ())
    unready = "" if ended else f"containers with unready status: [{names}]"
    reason = ended or "ContainersNotReady"
    containers = (
        new_condition("ContainersReady", True)
        if ready
        else new_condition("ContainersReady", False, reason, unready)
    )
    wanted = [
        new_condition("PodReadyToStartContainers", state in ("Running", "Crashing")),
        new_condition("Initialized", True, "PodCompleted" if state == "Succeeded" else ""),
        _gated(pod, {**containers, "type": "Ready"}, standing),
        containers,
        new_condition("PodScheduled", True),
    ]
    others = [one for one in standing if one.get("type") not in _OURS]
    return [*others, *merge_conditions(standing, wanted, now, probed=True)]


def _gated(pod: Object, ready: Object, standing: Sequence[Object]) -> Object:
    """Readiness that also waits for the conditions named by the pod's readiness gates."""
    if ready["status"] != "True":
        return ready
    for gate in spec_of(pod).get("readinessGates") or ():
        kind = gate["conditionType"]
        found = find_condition(standing, kind)
        quoted = f'corresponding condition of pod readiness gate "{kind}"'
        if found is None:
            text = f"{quoted} does not exist."
        elif found.get("status") != "True":
            text = f'the status of pod readiness gate "{kind}" is not "True", but {found["status"]}'
        else:
            continue
        return new_condition("Ready", False, "ReadinessGatesNotReady", text)
    return ready


def _container(pod: Object, spec: Object, now: datetime, state: State, *, ready: bool) -> Object:
    known = _known(pod, "containerStatuses", spec["name"])
    before = known.get("state") or {}
    restarts = int(known.get("restartCount") or 0)
    last = known.get("lastState") or {}
    began = (before.get("running") or {}).get("startedAt") or format_time(now)
    now_state: Object
    match state:
        case "Starting":
            now_state = {"waiting": {"reason": "ContainerCreating"}}
        case "Running":
            now_state = {"running": {"startedAt": began}}
        case "Crashing":
            crashing = (before.get("waiting") or {}).get("reason") == "CrashLoopBackOff"
            restarts += 0 if crashing else 1
            last = last if crashing else {"terminated": _end(1, began, now)}
            text = f"back-off 10s restarting failed container={spec['name']}"
            now_state = {"waiting": {"reason": "CrashLoopBackOff", "message": text}}
        case "Failed" | "Succeeded":
            code = 1 if state == "Failed" else 0
            now_state = {"terminated": before.get("terminated") or _end(code, began, now)}
        case _:
            assert_never(state)
    return {
        **_identity(pod, spec),
        "ready": ready,
        "started": state == "Running",
        "restartCount": restarts,
        "state": now_state,
        "lastState": last,
    }


def _initial(pod: Object, spec: Object, now: datetime, state: State) -> Object:
    """Init containers are done at once; those that restart run beside the others."""
    before = _known(pod, "initContainerStatuses", spec["name"]).get("state") or {}
    goes_on = spec.get("restartPolicy") == "Always" and state in ("Running", "Crashing")
    began = (before.get("running") or {}).get("startedAt") or format_time(now)
    if goes_on:
        now_state: Object = {"running": {"startedAt": began}}
    else:
        now_state = {"terminated": before.get("terminated") or _end(0, began, now)}
    return {
        **_identity(pod, spec),
        "ready": True,
        "started": goes_on,
        "restartCount": 0,
        "state": now_state,
        "lastState": {},
    }


def _identity(pod: Object, spec: Object) -> Object:
    digest = sha256(f"{uid_of(pod)}/{spec['name']}".encode()).hexdigest()
    image = spec.get("image") or ""
    return {
        "name": spec["name"],
        "image": image,
        "imageID": f"sim://{image}",
        "containerID": f"sim://{digest}",
    }


def _end(code: int, began: str, now: datetime) -> Object:
    reason = "Error" if code else "Completed"
    return {"exitCode": code, "reason": reason, "startedAt": began, "finishedAt": format_time(now)}


def _known(pod: Object, field: str, name: str) -> Object:
    statuses = status_of(pod).get(field) or ()
    return next((one for one in statuses if one.get("name") == name), {})


def _duration(text: str | None) -> timedelta | None:
    """A duration like `2s` or `150ms`; None for what is not one."""
    for unit in ("ms", "s", "m", "h"):
        number = (text or "").removesuffix(unit)
        if number != (text or "") and number.replace(".", "", 1).isdecimal():
            return timedelta(seconds=float(number) * _UNITS[unit])
    return None
