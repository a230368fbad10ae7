"""The StatefulSet controller: order, claims, revisions."""

from collections.abc import Sequence
from typing import Any

import pytest

from tinykube.controllers.controller import Create, Delete, Patch, Result
from tinykube.controllers.objects import name_of, owner_reference
from tinykube.controllers.revisions import RevisionHistory, plan_revisions, revisions_to_delete
from tinykube.controllers.statefulset import stateful_set_status, sync_stateful_set
from tinykube.controllers.statefulset_pods import stateful_pod
from tinykube.resources import Object

from .builders import NOW, metadata, pod, template


def stateful_set(replicas: int = 3, image: str = "web:1", **spec: Any) -> Object:
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": metadata("db", generation=1),
        "spec": {
            "replicas": replicas,
            "serviceName": "db",
            "selector": {"matchLabels": {"app": "web"}},
            "template": template(image),
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
            **spec,
        },
    }


CLAIMS = [{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}]


def revision_of(owner: Object, number: int = 1) -> Object:
    revision = plan_revisions(owner, []).update
    return {
        **revision,
        "revision": number,
        "metadata": {**revision["metadata"], "uid": f"rev-{number}"},
    }


def member(owner: Object, ordinal: int, revision: Object, **more: Any) -> Object:
    template_pod = stateful_pod(owner, revision, ordinal)
    return pod(
        f"db-{ordinal}",
        labels=template_pod["metadata"]["labels"],
        ownerReferences=[owner_reference(owner)],
        **more,
    )


def sync(owner: Object, pods: Sequence[Object], claims: dict[str, Object] | None = None) -> Result:
    known = revision_of(owner)
    return sync_stateful_set(owner, RevisionHistory(known, known), pods, claims or {}, NOW)


def created_names(result: Result, kind: str = "Pod") -> list[str]:
    writes = [one.object for one in result.writes if isinstance(one, Create)]
    return [name_of(one) for one in writes if one["kind"] == kind]


def deleted_pods(result: Result) -> list[str]:
    return [name_of(one.target) for one in result.writes if isinstance(one, Delete)]


def test_pods_are_created_in_order() -> None:
    owner = stateful_set()
    known = revision_of(owner)

    assert created_names(sync(owner, [])) == ["db-0"]
    assert created_names(sync(owner, [member(owner, 0, known, ready=False)])) == []
    assert created_names(sync(owner, [member(owner, 0, known)])) == ["db-1"]


def test_parallel_pod_management_creates_all_pods_at_once() -> None:
    owner = stateful_set(podManagementPolicy="Parallel")

    assert created_names(sync(owner, [])) == ["db-0", "db-1", "db-2"]


def test_ordinals_start_at_spec_ordinals_start() -> None:
    owner = stateful_set(2, podManagementPolicy="Parallel", ordinals={"start": 5})

    assert created_names(sync(owner, [])) == ["db-5", "db-6"]


def test_a_pod_has_its_name_index_and_hostname() -> None:
    owner = stateful_set()

    built = stateful_pod(owner, revision_of(owner), 1)

    assert built["metadata"]["labels"]["statefulset.kubernetes.io/pod-name"] == "db-1"
    assert built["metadata"]["labels"]["apps.kubernetes.io/pod-index"] == "1"
    assert (built["spec"]["hostname"], built["spec"]["subdomain"]) == ("db-1", "db")


def test_claims_are_created_before_the_pod_and_only_once() -> None:
    owner = stateful_set(1, volumeClaimTemplates=CLAIMS)

    first = sync(owner, [])
    second = sync(owner, [], {"data-db-0": {"metadata": metadata("data-db-0")}})

    kinds = [one.object["kind"] for one in first.writes if isinstance(one, Create)]
    assert kinds == ["PersistentVolumeClaim", "Pod"]
    assert created_names(first, "PersistentVolumeClaim") == ["data-db-0"]
    assert created_names(second, "PersistentVolumeClaim") == []
    volumes = next(
        one.object["spec"]["volumes"]
        for one in second.writes
        if isinstance(one, Create) and one.object["kind"] == "Pod"
    )
    assert volumes == [{"name": "data", "persistentVolumeClaim": {"claimName": "data-db-0"}}]


def test_a_new_pod_waits_for_a_terminating_claim() -> None:
    owner = stateful_set(1, volumeClaimTemplates=CLAIMS)
    stale = {"metadata": metadata("data-db-0", deletionTimestamp="2026-01-01T12:00:00Z")}

    assert created_names(sync(owner, [], {"data-db-0": stale})) == []


def test_scaling_down_deletes_the_highest_ordinal_and_waits() -> None:
    owner = stateful_set(1)
    known = revision_of(owner)
    pods = [member(owner, n, known) for n in range(3)]

    first = sync(owner, pods)
    second = sync(owner, [*pods[:2], member(owner, 2, known, deleting=True)])

    assert deleted_pods(first) == ["db-2"]
    assert deleted_pods(second) == []


@pytest.mark.parametrize(
    ("policy", "owner_of_top"),
    [
        pytest.param({"whenScaled": "Delete", "whenDeleted": "Retain"}, "Pod", id="scaled"),
        pytest.param(
            {"whenScaled": "Retain", "whenDeleted": "Delete"}, "StatefulSet", id="deleted"
        ),
        pytest.param({"whenScaled": "Retain", "whenDeleted": "Retain"}, None, id="retained"),
    ],
)
def test_claims_are_owned_by_the_retention_policy(
    policy: dict[str, str], owner_of_top: str | None
) -> None:
    owner = stateful_set(
        1, volumeClaimTemplates=CLAIMS, persistentVolumeClaimRetentionPolicy=policy
    )
    known = revision_of(owner)
    claims = {f"data-db-{n}": {"metadata": metadata(f"data-db-{n}")} for n in range(2)}

    result = sync(owner, [member(owner, 0, known), member(owner, 1, known)], claims)

    patched = {
        name_of(one.target): one.body["metadata"]["ownerReferences"][0]["kind"]
        for one in result.writes
        if isinstance(one, Patch) and "ownerReferences" in one.body.get("metadata", {})
    }
    assert patched.get("data-db-1") == owner_of_top


def test_an_update_replaces_pods_from_the_highest_ordinal_one_at_a_time() -> None:
    before, after = stateful_set(), stateful_set(image="web:2")
    old, new = revision_of(before, 1), revision_of(after, 2)
    history = RevisionHistory(old, new)
    pods = [member(before, n, old) for n in range(3)]

    first = sync_stateful_set(after, history, pods, {}, NOW)
    second = sync_stateful_set(
        after, history, [*pods[:2], member(after, 2, new, ready=False)], {}, NOW
    )
    third = sync_stateful_set(after, history, [*pods[:2], member(after, 2, new)], {}, NOW)

    assert deleted_pods(first) == ["db-2"]
    assert deleted_pods(second) == []
    assert deleted_pods(third) == ["db-1"]


def test_a_partition_keeps_the_lower_ordinals() -> None:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}
    before, after = stateful_set(), stateful_set(image="web:2", updateStrategy=strategy)
    old, new = revision_of(before, 1), revision_of(after, 2)
    history = RevisionHistory(old, new)

    done = sync_stateful_set(
        after,
        history,
        [*(member(before, n, old) for n in range(2)), member(after, 2, new)],
        {},
        NOW,
    )
    remade = sync_stateful_set(
        after, history, [member(before, 0, old), member(after, 2, new)], {}, NOW
    )

    assert deleted_pods(done) == []
    (created,) = [one.object for one in remade.writes if isinstance(one, Create)]
    assert created["metadata"]["labels"]["controller-revision-hash"] == name_of(old)
    assert created["spec"]["containers"][0]["image"] == "web:1"


def test_on_delete_replaces_no_pod() -> None:
    after = stateful_set(image="web:2", updateStrategy={"type": "OnDelete"})
    old, new = revision_of(stateful_set(), 1), revision_of(after, 2)

    result = sync_stateful_set(
        after, RevisionHistory(old, new), [member(after, n, old) for n in range(3)], {}, NOW
    )

    assert deleted_pods(result) == []


def test_a_finished_update_becomes_the_current_revision() -> None:
    after = stateful_set(2, image="web:2")
    old, new = revision_of(stateful_set(), 1), revision_of(after, 2)

    half = stateful_set_status(
        after, RevisionHistory(old, new), [member(after, 0, old), member(after, 1, new)], NOW
    )
    status = stateful_set_status(
        after, RevisionHistory(old, new), [member(after, n, new) for n in range(2)], NOW
    )

    assert (half["currentRevision"], half["updateRevision"]) == (name_of(old), name_of(new))
    assert (half["currentReplicas"], half["updatedReplicas"]) == (1, 1)
    assert status["currentRevision"] == name_of(new)


def test_a_failed_pod_is_deleted_and_recreated() -> None:
    owner = stateful_set(1)
    failed = member(owner, 0, revision_of(owner), phase="Failed", ready=False)

    assert deleted_pods(sync(owner, [failed])) == ["db-0"]


def test_the_revision_of_an_earlier_template_is_renumbered_as_newest() -> None:
    first, second = stateful_set(), stateful_set(image="web:2")
    known = [revision_of(first, 1), revision_of(second, 2)]

    history = plan_revisions(first, known)

    assert name_of(history.update) == name_of(known[0])
    (write,) = history.writes
    assert isinstance(write, Patch)
    assert write.body == {"revision": 3}


def test_only_unused_revisions_are_deleted() -> None:
    owner = stateful_set(revisionHistoryLimit=1)
    known = [revision_of(stateful_set(image=f"web:{n}"), n) for n in range(1, 5)]
    used = member(owner, 0, known[0])

    writes = revisions_to_delete(owner, known, [name_of(known[3])], [used])

    assert [name_of(one.target) for one in writes if isinstance(one, Delete)] == [name_of(known[1])]
