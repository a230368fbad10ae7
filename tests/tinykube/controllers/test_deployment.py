"""What a Deployment does next."""

from datetime import timedelta
from typing import Any

from tinykube.controllers.controller import Create, Delete, Patch, RecordEvent, Result, Write
from tinykube.controllers.deployment import REVISION, sync_deployment
from tinykube.controllers.deployment_rollout import DESIRED_REPLICAS, MAX_REPLICAS
from tinykube.controllers.objects import find_condition, format_time, name_of
from tinykube.resources import Object

from .builders import NOW, deployment, replica_set


def creations(result: Result) -> list[Object]:
    return [one.object for one in result.writes if isinstance(one, Create)]


def patches_of(result: Result, name: str, subresource: str = "") -> list[Object]:
    found = [one for one in result.writes if isinstance(one, Patch)]
    return [
        one.body for one in found if name_of(one.target) == name and one.subresource == subresource
    ]


def conditions(result: Result) -> list[Object]:
    (body,) = patches_of(result, "web", "status")
    found: list[Object] = body["status"]["conditions"]
    return found


def numbered(name: str, revision: int, replicas: int = 3, **more: Any) -> Object:
    notes = {REVISION: str(revision), DESIRED_REPLICAS: "3", MAX_REPLICAS: "4"}
    return replica_set(name, replicas, annotations=notes, **more)


def test_a_new_deployment_makes_its_first_replica_set() -> None:
    result = sync_deployment(deployment(3), [], NOW)

    (made,) = creations(result)
    suffix = made["metadata"]["labels"]["pod-template-hash"]
    assert name_of(made) == f"web-{suffix}"
    assert made["spec"]["replicas"] == 3
    assert made["spec"]["selector"]["matchLabels"] == {"app": "web", "pod-template-hash": suffix}
    assert made["metadata"]["annotations"][REVISION] == "1"
    assert made["metadata"]["ownerReferences"][0]["controller"] is True
    progress = find_condition(conditions(result), "Progressing")
    assert progress is not None
    assert progress["reason"] == "NewReplicaSetCreated"


def test_another_template_gets_another_revision() -> None:
    result = sync_deployment(deployment(3, image="web:2"), [numbered("web-1", 4)], NOW)

    (made,) = creations(result)
    assert made["metadata"]["annotations"][REVISION] == "5"
    assert made["spec"]["replicas"] == 1


def test_going_back_to_an_earlier_template_renumbers_its_replica_set() -> None:
    held = [numbered("web-1", 1, 0, image="web:1"), numbered("web-2", 2, 3, image="web:2")]

    result = sync_deployment(deployment(3, image="web:1"), held, NOW)

    assert not creations(result)
    body = patches_of(result, "web-1")[0]
    assert body["metadata"]["annotations"][REVISION] == "3"


def test_a_paused_deployment_scales_and_does_not_roll() -> None:
    held = [numbered("web-1", 1, 3)]

    result = sync_deployment(deployment(5, image="web:2", paused=True), held, NOW)

    assert not creations(result)
    assert patches_of(result, "web-1")[0]["spec"] == {"replicas": 5}
    progress = find_condition(conditions(result), "Progressing")
    assert progress is not None
    assert (progress["status"], progress["reason"]) == ("Unknown", "DeploymentPaused")


def test_recreate_waits_for_the_last_old_pod() -> None:
    wanted = deployment(3, image="web:2", strategy={"type": "Recreate"})

    first = sync_deployment(wanted, [numbered("web-1", 1, 3)], NOW, old_pods=True)
    second = sync_deployment(wanted, [numbered("web-1", 1, 0)], NOW, old_pods=True)
    third = sync_deployment(wanted, [numbered("web-1", 1, 0)], NOW, old_pods=False)

    assert patches_of(first, "web-1")[0]["spec"] == {"replicas": 0}
    assert not creations(first)
    assert not creations(second)
    assert creations(third)[0]["spec"]["replicas"] == 3


def settled(wanted: Object, result: Result) -> Object:
    """The Deployment as it is after its writes."""
    status = {**wanted.get("status", {})}
    notes = {**wanted["metadata"].get("annotations", {})}
    for body in patches_of(result, "web", "status"):
        status |= body["status"]
    for body in patches_of(result, "web"):
        notes |= body["metadata"]["annotations"]
    return {
        **wanted,
        "metadata": {**wanted["metadata"], "annotations": notes},
        "status": {name: value for name, value in status.items() if value is not None},
    }


def test_a_finished_rollout_is_told_once() -> None:
    wanted = deployment(3)
    held = [numbered("web-1", 1, 3)]

    result = sync_deployment(wanted, held, NOW)
    again = sync_deployment(settled(wanted, result), held, NOW + timedelta(hours=1))

    progress = find_condition(conditions(result), "Progressing")
    available = find_condition(conditions(result), "Available")
    assert progress is not None
    assert available is not None
    assert progress["reason"] == "NewReplicaSetAvailable"
    assert available["status"] == "True"
    assert again.writes == ()


def test_a_rollout_that_does_not_move_is_overdue_after_its_deadline() -> None:
    wanted = deployment(3, progressDeadlineSeconds=60)
    held = [numbered("web-1", 1, 3, available=0)]
    stuck = settled(wanted, sync_deployment(wanted, held, NOW))

    early = sync_deployment(stuck, held, NOW + timedelta(seconds=59))
    late = sync_deployment(stuck, held, NOW + timedelta(seconds=61))

    assert early.writes == ()
    assert early.requeue_after == timedelta(seconds=1)
    progress = find_condition(conditions(late), "Progressing")
    assert progress is not None
    assert (progress["status"], progress["reason"]) == ("False", "ProgressDeadlineExceeded")


def test_history_beyond_its_limit_goes_oldest_first() -> None:
    held = [numbered(f"web-{n}", n, 0, image=f"web:{n}") for n in range(1, 5)]
    held.append(numbered("web-5", 5, 3, image="web:5"))

    result = sync_deployment(deployment(3, image="web:5", revisionHistoryLimit=2), held, NOW)

    gone = [name_of(one.target) for one in result.writes if isinstance(one, Delete)]
    assert gone == ["web-1", "web-2"]


def test_a_deployment_that_is_going_makes_nothing() -> None:
    going = deployment(3)
    going["metadata"]["deletionTimestamp"] = format_time(NOW)

    result = sync_deployment(going, [], NOW)

    made: list[Write] = [
        one for one in result.writes if isinstance(one, Create | RecordEvent | Delete)
    ]
    assert made == []


def test_a_refused_replica_set_is_told_in_a_condition() -> None:
    result = sync_deployment(deployment(3), [], NOW, last_error="denied by a webhook")

    progress = find_condition(conditions(result), "Progressing")
    assert progress is not None
    assert (progress["reason"], progress["message"]) == (
        "ReplicaSetCreateError",
        "denied by a webhook",
    )
    assert creations(result)
