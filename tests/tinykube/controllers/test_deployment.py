"""The Deployment controller: the next writes of a rollout."""

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


def revision_replica_set(name: str, revision: int, replicas: int = 3, **more: Any) -> Object:
    annotations = {REVISION: str(revision), DESIRED_REPLICAS: "3", MAX_REPLICAS: "4"}
    return replica_set(name, replicas, annotations=annotations, **more)


def test_a_new_deployment_creates_its_first_replica_set() -> None:
    result = sync_deployment(deployment(3), [], NOW)

    (created,) = creations(result)
    suffix = created["metadata"]["labels"]["pod-template-hash"]
    assert name_of(created) == f"web-{suffix}"
    assert created["spec"]["replicas"] == 3
    assert created["spec"]["selector"]["matchLabels"] == {"app": "web", "pod-template-hash": suffix}
    assert created["metadata"]["annotations"][REVISION] == "1"
    assert created["metadata"]["ownerReferences"][0]["controller"] is True
    progress = find_condition(conditions(result), "Progressing")
    assert progress is not None
    assert progress["reason"] == "NewReplicaSetCreated"


def test_another_template_gets_another_revision() -> None:
    result = sync_deployment(deployment(3, image="web:2"), [revision_replica_set("web-1", 4)], NOW)

    (created,) = creations(result)
    assert created["metadata"]["annotations"][REVISION] == "5"
    assert created["spec"]["replicas"] == 1


def test_going_back_to_an_earlier_template_renumbers_its_replica_set() -> None:
    replica_sets = [
        revision_replica_set("web-1", 1, 0, image="web:1"),
        revision_replica_set("web-2", 2, 3, image="web:2"),
    ]

    result = sync_deployment(deployment(3, image="web:1"), replica_sets, NOW)

    assert not creations(result)
    body = patches_of(result, "web-1")[0]
    assert body["metadata"]["annotations"][REVISION] == "3"


def test_a_paused_deployment_scales_and_does_not_roll() -> None:
    replica_sets = [revision_replica_set("web-1", 1, 3)]

    result = sync_deployment(deployment(5, image="web:2", paused=True), replica_sets, NOW)

    assert not creations(result)
    assert patches_of(result, "web-1")[0]["spec"] == {"replicas": 5}
    progress = find_condition(conditions(result), "Progressing")
    assert progress is not None
    assert (progress["status"], progress["reason"]) == ("Unknown", "DeploymentPaused")


def test_recreate_waits_for_the_last_old_pod() -> None:
    owner = deployment(3, image="web:2", strategy={"type": "Recreate"})

    first = sync_deployment(owner, [revision_replica_set("web-1", 1, 3)], NOW, old_pods=True)
    second = sync_deployment(owner, [revision_replica_set("web-1", 1, 0)], NOW, old_pods=True)
    third = sync_deployment(owner, [revision_replica_set("web-1", 1, 0)], NOW, old_pods=False)

    assert patches_of(first, "web-1")[0]["spec"] == {"replicas": 0}
    assert not creations(first)
    assert not creations(second)
    assert creations(third)[0]["spec"]["replicas"] == 3


def apply_writes(owner: Object, result: Result) -> Object:
    """The Deployment after the writes of a result."""
    status = {**owner.get("status", {})}
    annotations = {**owner["metadata"].get("annotations", {})}
    for body in patches_of(result, "web", "status"):
        status |= body["status"]
    for body in patches_of(result, "web"):
        annotations |= body["metadata"]["annotations"]
    return {
        **owner,
        "metadata": {**owner["metadata"], "annotations": annotations},
        "status": {name: value for name, value in status.items() if value is not None},
    }


def test_the_status_of_a_finished_rollout_is_written_once() -> None:
    owner = deployment(3)
    replica_sets = [revision_replica_set("web-1", 1, 3)]

    result = sync_deployment(owner, replica_sets, NOW)
    again = sync_deployment(apply_writes(owner, result), replica_sets, NOW + timedelta(hours=1))

    progress = find_condition(conditions(result), "Progressing")
    available = find_condition(conditions(result), "Available")
    assert progress is not None
    assert available is not None
    assert progress["reason"] == "NewReplicaSetAvailable"
    assert available["status"] == "True"
    assert again.writes == ()


def test_a_rollout_without_progress_exceeds_its_deadline() -> None:
    owner = deployment(3, progressDeadlineSeconds=60)
    replica_sets = [revision_replica_set("web-1", 1, 3, available=0)]
    stuck = apply_writes(owner, sync_deployment(owner, replica_sets, NOW))

    early = sync_deployment(stuck, replica_sets, NOW + timedelta(seconds=59))
    late = sync_deployment(stuck, replica_sets, NOW + timedelta(seconds=61))

    assert early.writes == ()
    assert early.requeue_after == timedelta(seconds=1)
    progress = find_condition(conditions(late), "Progressing")
    assert progress is not None
    assert (progress["status"], progress["reason"]) == ("False", "ProgressDeadlineExceeded")


def test_the_oldest_replica_sets_above_the_history_limit_are_deleted() -> None:
    replica_sets = [revision_replica_set(f"web-{n}", n, 0, image=f"web:{n}") for n in range(1, 5)]
    replica_sets.append(revision_replica_set("web-5", 5, 3, image="web:5"))

    result = sync_deployment(
        deployment(3, image="web:5", revisionHistoryLimit=2), replica_sets, NOW
    )

    deleted = [name_of(one.target) for one in result.writes if isinstance(one, Delete)]
    assert deleted == ["web-1", "web-2"]


def test_a_terminating_deployment_creates_nothing() -> None:
    terminating = deployment(3)
    terminating["metadata"]["deletionTimestamp"] = format_time(NOW)

    result = sync_deployment(terminating, [], NOW)

    created: list[Write] = [
        one for one in result.writes if isinstance(one, Create | RecordEvent | Delete)
    ]
    assert created == []


def test_a_failed_replica_set_creation_is_reported_in_a_condition() -> None:
    result = sync_deployment(deployment(3), [], NOW, last_error="denied by a webhook")

    progress = find_condition(conditions(result), "Progressing")
    assert progress is not None
    assert (progress["reason"], progress["message"]) == (
        "ReplicaSetCreateError",
        "denied by a webhook",
    )
    assert creations(result)
