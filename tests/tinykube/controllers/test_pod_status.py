"""The status of a pod on a simulated node over time."""

from datetime import timedelta

import pytest

from tinykube.controllers.kubelet import next_free_address
from tinykube.controllers.objects import find_condition
from tinykube.controllers.pod_status import (
    PodContext,
    PodStatusResult,
    pod_status_at,
    unreachable_status,
)
from tinykube.resources import Object

from .builders import NOW, pod

START = timedelta(milliseconds=100)


def new_pod(**annotations: str) -> Object:
    created = pod(node="node-1", phase="Pending", ip="")
    annotations_by_name = {
        f"sim.hanse.dev/{name.replace('_', '-')}": v for name, v in annotations.items()
    }
    created["metadata"]["annotations"] = annotations_by_name
    created["status"] = {"phase": "Pending"}
    return created


def result_after(seconds: float, member: Object) -> PodStatusResult:
    now = NOW + timedelta(seconds=seconds)
    return pod_status_at(member, PodContext(now, NOW, START, ("10.1.0.9",), "172.30.0.1"))


def pod_after(member: Object, seconds: float) -> Object:
    """The pod with its status result_after some seconds."""
    return {**member, "status": result_after(seconds, member).status}


def is_ready(member: Object) -> bool:
    found = find_condition(member["status"]["conditions"], "Ready")
    assert found is not None
    return bool(found["status"] == "True")


def test_a_pod_starts_after_a_moment_and_is_then_ready() -> None:
    early = result_after(0, new_pod())
    late = pod_after(new_pod(), 0.1)

    assert early == PodStatusResult({"phase": "Pending"}, START)
    assert late["status"]["phase"] == "Running"
    assert late["status"]["podIP"] == "10.1.0.9"
    assert late["status"]["hostIP"] == "172.30.0.1"
    assert late["status"]["containerStatuses"][0]["ready"] is True
    assert is_ready(late)


def test_the_status_of_a_running_pod_does_not_change() -> None:
    running = pod_after(new_pod(), 1)

    assert result_after(3600, running) == PodStatusResult(running["status"], None)


def test_readiness_can_be_delayed() -> None:
    member = new_pod(ready_after="2s")

    running = pod_after(member, 1)

    assert running["status"]["phase"] == "Running"
    assert not is_ready(running)
    assert result_after(1, member).requeue_after == timedelta(seconds=1.1)
    assert is_ready(pod_after(running, 4))


def test_a_clock_that_is_set_back_holds_up_no_start() -> None:
    before = result_after(-3600, new_pod(ready_after="2s"))

    assert before.status["phase"] == "Running"
    assert is_ready({"status": before.status})


def test_readiness_can_be_removed_and_restored() -> None:
    running = pod_after(new_pod(), 1)
    running["metadata"]["annotations"] = {"sim.hanse.dev/ready": "false"}

    withheld = pod_after(running, 2)
    withheld["metadata"]["annotations"] = {}
    given_back = pod_after(withheld, 3)

    assert not is_ready(withheld)
    assert withheld["status"]["phase"] == "Running"
    assert is_ready(given_back)


def test_a_crashing_pod_counts_its_restarts() -> None:
    crashing = pod_after(new_pod(phase="CrashLoop"), 1)
    still = pod_after(crashing, 100)

    (container,) = crashing["status"]["containerStatuses"]
    assert container["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    assert container["restartCount"] == 1
    assert container["lastState"]["terminated"]["exitCode"] == 1
    assert not is_ready(crashing)
    assert still == crashing


def test_a_failed_pod_stays_failed() -> None:
    failed = pod_after(new_pod(phase="Failed"), 1)
    failed["metadata"]["annotations"] = {}

    later = pod_after(failed, 10)

    assert failed["status"]["phase"] == "Failed"
    assert failed["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 1
    assert later["status"] == failed["status"]


def test_a_pod_can_be_held_pending() -> None:
    held = pod_after(new_pod(phase="Pending"), 10)

    assert held["status"]["phase"] == "Pending"
    assert "podIP" not in held["status"]
    waiting = held["status"]["containerStatuses"][0]["state"]["waiting"]
    assert waiting["reason"] == "ContainerCreating"


@pytest.mark.parametrize(
    ("gate", "ready"),
    [
        pytest.param(None, False, id="missing"),
        pytest.param("False", False, id="closed"),
        pytest.param("True", True, id="open"),
    ],
)
def test_readiness_gates_are_honoured(gate: str | None, ready: bool) -> None:
    member = new_pod()
    member["spec"]["readinessGates"] = [{"conditionType": "hanse.dev/routed"}]
    if gate is not None:
        member["status"]["conditions"] = [{"type": "hanse.dev/routed", "status": gate}]

    running = pod_after(member, 1)

    assert is_ready(running) is ready
    containers = find_condition(running["status"]["conditions"], "ContainersReady")
    assert containers is not None
    assert containers["status"] == "True"


def test_an_unready_node_only_makes_its_pods_unready() -> None:
    running = pod_after(new_pod(), 1)

    lost = {**running, "status": unreachable_status(running, NOW)}

    assert not is_ready(lost)
    assert lost["status"]["phase"] == "Running"
    assert unreachable_status(lost, NOW) == lost["status"]


def test_an_address_is_reused_only_after_all_others() -> None:
    first = next_free_address("10.1.0.0/29", 1, set().__contains__)
    assert first is not None
    assert first.address == "10.1.0.1"

    again = next_free_address("10.1.0.0/29", first.next_offset, {"10.1.0.2"}.__contains__)
    assert again is not None
    assert again.address == "10.1.0.3"

    wrapped = next_free_address("10.1.0.0/29", 7, {"10.1.0.2"}.__contains__)
    assert wrapped is not None
    assert wrapped.address == "10.1.0.1"


def test_a_range_can_be_exhausted() -> None:
    assert next_free_address("10.1.0.0/30", 1, lambda _: True) is None
