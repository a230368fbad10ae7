"""The printer of pods, with the status that kubectl shows."""

from datetime import datetime
from typing import Any

from msgspec import Struct

from tinykube.resources import Object
from tinykube.tables.cells import NONE, age, condition, name, time_since
from tinykube.tables.columns import AGE, NAME, Cell, Printer, text_columns, value_at, wide_columns


class _Tally(Struct):
    """Ready containers, restarts and reason so far."""

    reason: str
    ready: int = 0
    restarts: int = 0
    last_restart: str = ""

    def count_restarts(self, status: Object) -> None:
        """Add a container's restarts, and keep the time of the latest restart."""
        self.restarts += status.get("restartCount") or 0
        finished = value_at(status, "lastState", "terminated", "finishedAt", default="")
        self.last_restart = max(self.last_restart, finished)


def pod_cells(pod: Object, now: datetime) -> list[Cell]:
    """Name, ready of all containers, status, restarts with the time of the last, and age.

    Then its first IP, node, nominated node and readiness gates, `<none>` if missing. Sidecars count
    as containers.
    """
    tally = _tally_pod(pod)
    restarts = str(tally.restarts)
    if tally.restarts and tally.last_restart:
        restarts += f" ({time_since(tally.last_restart, now)} ago)"
    total = len(value_at(pod, "spec", "containers", default=[])) + len(_sidecars(pod))
    addresses = value_at(pod, "status", "podIPs", default=[])
    return [
        name(pod),
        f"{tally.ready}/{total}",
        _status(pod, tally.reason),
        restarts,
        age(pod, now),
        addresses[0].get("ip", NONE) if addresses else NONE,
        value_at(pod, "spec", "nodeName") or NONE,
        value_at(pod, "status", "nominatedNodeName") or NONE,
        _readiness_gates(pod),
    ]


def completion(pod: Object) -> list[dict[str, str]]:
    """The row condition of a pod that has succeeded or failed, in a list; empty for others."""
    match value_at(pod, "status", "phase"):
        case "Succeeded":
            message = "The pod has completed successfully."
        case "Failed":
            message = "The pod failed."
        case _:
            return []
    reason = pod["status"]["phase"]
    return [{"type": "Completed", "status": "True", "reason": reason, "message": message}]


def _status(pod: Object, reason: str) -> str:
    """The status column: the given reason, or Terminating while the pod is being deleted.

    While it is being deleted, it is Unknown if status.reason is NodeLost, and still the given
    reason if the pod has succeeded or failed.
    """
    if value_at(pod, "metadata", "deletionTimestamp") is None:
        return reason
    if value_at(pod, "status", "reason") == "NodeLost":
        return "Unknown"
    ended = value_at(pod, "status", "phase") in ("Succeeded", "Failed")
    return reason if ended else "Terminating"


def _tally_pod(pod: Object) -> _Tally:
    """The tally of the init containers while one is not done and the pod not Initialized.

    Else the tally of the containers. The reason starts as SchedulingGated, status.reason or the
    phase.
    """
    gated = any(
        one.get("type") == "PodScheduled" and one.get("reason") == "SchedulingGated"
        for one in value_at(pod, "status", "conditions", default=[])
    )
    phase = value_at(pod, "status", "reason") or value_at(pod, "status", "phase", default="")
    initial = _Tally("SchedulingGated" if gated else phase)
    initializing = _tally_init_containers(pod, initial)
    if initializing and condition(pod, "Initialized") != "True":
        return initial
    return _tally_containers(pod, initial)


def _tally_init_containers(pod: Object, tally: _Tally) -> bool:
    """Add restarts of init containers and ready sidecars to `tally`, up to the first not done.

    Done are those that exited with 0, and sidecars that have started. The first not done sets the
    reason, such as `Init:0/2` or `Init:Error`; returns whether there is one.
    """
    total = len(value_at(pod, "spec", "initContainers", default=[]))
    sidecars = _sidecars(pod)
    for index, status in enumerate(value_at(pod, "status", "initContainerStatuses", default=[])):
        tally.count_restarts(status)
        terminated = value_at(status, "state", "terminated")
        waiting = value_at(status, "state", "waiting", "reason", default="")
        if terminated is not None and not terminated.get("exitCode"):
            continue
        if status.get("name") in sidecars and status.get("started"):
            tally.ready += bool(status.get("ready"))
            continue
        if terminated is not None:
            tally.reason = f"Init:{_termination_reason(terminated)}"
        elif waiting and waiting != "PodInitializing":
            tally.reason = f"Init:{waiting}"
        else:
            tally.reason = f"Init:{index}/{total}"
        return True
    return False


def _tally_containers(pod: Object, before: _Tally) -> _Tally:
    """A new tally of containers and sidecars; ready sidecars are those of `before`.

    The first container that waits or has terminated gives the reason, without one it is that of
    `before`. If it is Completed, `_completed` decides: for example Running if others run.
    """
    tally = _Tally(before.reason, ready=before.ready)
    sidecars = _sidecars(pod)
    for status in value_at(pod, "status", "initContainerStatuses", default=[]):
        if status.get("name") in sidecars:
            tally.count_restarts(status)
    running, error = False, ""
    for status in reversed(value_at(pod, "status", "containerStatuses", default=[])):
        tally.count_restarts(status)
        terminated = value_at(status, "state", "terminated")
        if waiting := value_at(status, "state", "waiting", "reason", default=""):
            tally.reason = waiting
        elif terminated is not None:
            tally.reason = _termination_reason(terminated)
            error = tally.reason if terminated.get("exitCode") else error
        elif status.get("ready") and value_at(status, "state", "running") is not None:
            running = True
            tally.ready += 1
    if tally.reason == "Completed":
        tally.reason = _completed(pod, error, running=running)
    return tally


def _completed(pod: Object, error: str, *, running: bool) -> str:
    """The status of a pod with a completed container.

    Running if another runs and the pod is Ready; else `error`, the reason of a failed container;
    else NotReady if another runs; else Completed.
    """
    if running and condition(pod, "Ready") == "True":
        return "Running"
    return error or ("NotReady" if running else "Completed")


def _termination_reason(terminated: Object) -> str:
    """The reason, else the signal, else the exit code of a terminated container."""
    if reason := terminated.get("reason"):
        return str(reason)
    if signal := terminated.get("signal"):
        return f"Signal:{signal}"
    return f"ExitCode:{terminated.get('exitCode', 0)}"


def _sidecars(pod: Object) -> set[Any]:
    """The names of init containers that keep running."""
    found = value_at(pod, "spec", "initContainers", default=[])
    return {one.get("name") for one in found if one.get("restartPolicy") == "Always"}


def _readiness_gates(pod: Object) -> str:
    """How many readiness gates are true, of all, as `1/2`; `<none>` without gates."""
    gates = value_at(pod, "spec", "readinessGates", default=[])
    passed = sum(condition(pod, gate.get("conditionType", "")) == "True" for gate in gates)
    return f"{passed}/{len(gates)}" if gates else NONE


PODS = {
    ("", "Pod"): Printer(
        (
            NAME,
            *text_columns("Ready", "Status", "Restarts"),
            AGE,
            *wide_columns("IP", "Node", "Nominated Node", "Readiness Gates"),
        ),
        pod_cells,
    )
}
