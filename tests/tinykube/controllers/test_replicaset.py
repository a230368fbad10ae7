"""The ReplicaSet controller."""

from datetime import timedelta

import pytest

from tinykube.controllers.controller import PODS, Create, Delete, Patch
from tinykube.controllers.objects import name_of, owner_reference
from tinykube.controllers.owner_references import plan_claims
from tinykube.controllers.replicaset import pods_to_delete, replica_set_status, sync_replica_set
from tinykube.resources import Object

from .builders import NOW, pod, replica_set


def test_missing_pods_are_created_from_the_template() -> None:
    result = sync_replica_set(replica_set(replicas=3), [pod("web-a")], NOW)

    created = [one.object for one in result.writes if isinstance(one, Create)]
    assert len(created) == 2
    assert created[0]["metadata"]["generateName"] == "web-1-"
    assert created[0]["metadata"]["labels"] == {"app": "web"}
    assert created[0]["metadata"]["ownerReferences"][0]["uid"] == "uid-web-1"


def test_neither_failed_nor_terminating_pods_count() -> None:
    pods = [pod("a"), pod("b", phase="Failed"), pod("c", deleting=True)]

    result = sync_replica_set(replica_set(replicas=2), pods, NOW)

    assert sum(isinstance(one, Create) for one in result.writes) == 1


@pytest.mark.parametrize(
    ("kept", "deleted"),
    [
        pytest.param(pod("a"), pod("b", node="", phase="Pending"), id="unassigned"),
        pytest.param(pod("a"), pod("b", phase="Pending", ready=False), id="pending"),
        pytest.param(pod("a"), pod("b", ready=False), id="unready"),
        pytest.param(pod("a", age=90), pod("b", age=10), id="young"),
        pytest.param(
            pod("a"),
            pod("b", age=90, annotations={"controller.kubernetes.io/pod-deletion-cost": "-1"}),
            id="cheap",
        ),
    ],
)
def test_pods_are_deleted_by_rank(kept: Object, deleted: Object) -> None:
    assert [name_of(one) for one in pods_to_delete([kept, deleted], 1)] == [name_of(deleted)]


def test_pods_on_crowded_nodes_are_deleted_first() -> None:
    pods = [pod("a", node="n1"), pod("b", node="n1"), pod("c", node="n2", age=1)]

    assert name_of(pods_to_delete(pods, 1)[0]) in ("a", "b")


def test_surplus_pods_are_deleted() -> None:
    result = sync_replica_set(replica_set(replicas=1), [pod("a"), pod("b", ready=False)], NOW)

    deleted_names = [name_of(one.target) for one in result.writes if isinstance(one, Delete)]
    assert deleted_names == ["b"]


def test_a_pod_is_available_after_it_was_ready_for_long_enough() -> None:
    owner = replica_set(replicas=1)
    owner["spec"]["minReadySeconds"] = 90

    status = replica_set_status(owner, [pod("a", age=60)], NOW)
    result = sync_replica_set(owner, [pod("a", age=60)], NOW)

    assert status["readyReplicas"] == 1
    assert "availableReplicas" not in status
    assert result.requeue_after == timedelta(seconds=30)


def test_failed_pods_are_replaced_with_backoff() -> None:
    failed_pods = [pod(f"p{n}", phase="Failed", ready=False, age=1) for n in range(6)]

    result = sync_replica_set(replica_set(replicas=1, available=0), failed_pods, NOW)

    assert not any(isinstance(one, Create) for one in result.writes)
    assert result.requeue_after is not None


def test_a_failed_pod_creation_is_reported_in_a_condition() -> None:
    status = replica_set_status(replica_set(), [], NOW, "denied by a webhook")

    assert status["conditions"][0]["type"] == "ReplicaFailure"
    assert status["conditions"][0]["message"] == "denied by a webhook"


def test_matching_orphans_are_adopted_and_others_released() -> None:
    owner = replica_set()
    stranger = pod("b", labels={"app": "other"}, ownerReferences=[owner_reference(owner)])

    claims = plan_claims(owner, PODS, [stranger], [pod("a"), pod("c", labels={"app": "db"})])

    assert claims.claimed == ()
    bodies = {name_of(one.target): one.body for one in claims.writes}
    assert set(bodies) == {"a", "b"}
    assert bodies["a"]["metadata"]["ownerReferences"][0]["uid"] == "uid-web-1"
    assert bodies["b"]["metadata"]["ownerReferences"] is None


def test_an_unchanged_replica_set_is_not_written() -> None:
    owner = replica_set(replicas=2)
    pods = [pod("a"), pod("b")]
    writes = sync_replica_set(owner, pods, NOW).writes
    for write in writes:
        assert isinstance(write, Patch)
        owner["status"] |= write.body["status"]

    assert sync_replica_set(owner, pods, NOW + timedelta(hours=1)).writes == ()
