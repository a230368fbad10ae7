"""Deletion: finalizers, grace periods, preconditions."""

from typing import Any

import pytest

from tests.tinykube.api_client import (
    CONFIGMAPS,
    DEPLOYMENTS,
    PODS,
    Cluster,
    configmap,
    deployment,
    pod,
)


async def test_a_deletion_answers_with_what_went() -> None:
    cluster = Cluster()
    made = await cluster.create(CONFIGMAPS, configmap("a"))

    answer = await cluster.send("DELETE", f"{CONFIGMAPS}/a")

    assert answer.body["status"] == "Success"
    assert answer.body["details"] == {
        "name": "a",
        "kind": "configmaps",
        "uid": made["metadata"]["uid"],
    }
    assert (await cluster.send("DELETE", f"{CONFIGMAPS}/a")).status == 404


@pytest.mark.parametrize(
    ("preconditions", "message"),
    [
        ({"uid": "other"}, "the UID in the precondition (other) does not match the UID in record"),
        ({"resourceVersion": "1"}, "the ResourceVersion in the precondition (1) does not match"),
    ],
)
async def test_a_precondition_that_fails_keeps_the_object(
    preconditions: dict[str, str], message: str
) -> None:
    cluster = Cluster()
    await cluster.create(CONFIGMAPS, configmap("a"))

    answer = await cluster.send("DELETE", f"{CONFIGMAPS}/a", {"preconditions": preconditions})

    assert answer.status == 409
    assert message in answer.message
    assert await cluster.names(CONFIGMAPS) == ["a"]


async def test_a_finalizer_holds_an_object_until_it_is_taken_off() -> None:
    cluster = Cluster()
    held = configmap("a")
    held["metadata"]["finalizers"] = ["example.com/hold"]
    await cluster.create(CONFIGMAPS, held)

    going = await cluster.send("DELETE", f"{CONFIGMAPS}/a")
    added = {"metadata": {"finalizers": ["example.com/hold", "example.com/more"]}}
    refused = await cluster.send(
        "PATCH", f"{CONFIGMAPS}/a", added, kind="application/merge-patch+json"
    )
    await cluster.merge(f"{CONFIGMAPS}/a", {"metadata": {"finalizers": []}})

    assert going.body["metadata"]["deletionTimestamp"] == "2026-01-02T03:04:05Z"
    assert "no new finalizers can be added if the object is being deleted" in refused.message
    assert await cluster.names(CONFIGMAPS) == []


@pytest.mark.parametrize(
    ("options", "finalizers"),
    [
        ({"propagationPolicy": "Foreground"}, ["foregroundDeletion"]),
        ({"propagationPolicy": "Orphan"}, ["orphan"]),
        ({"orphanDependents": True}, ["orphan"]),
    ],
)
async def test_propagation_policies_set_finalizers_for_the_garbage_collector(
    options: dict[str, Any], finalizers: list[str]
) -> None:
    cluster = Cluster()
    await cluster.create(DEPLOYMENTS, deployment("web"))

    answer = await cluster.send("DELETE", f"{DEPLOYMENTS}/web", options)

    assert answer.body["metadata"]["finalizers"] == finalizers
    assert answer.body["metadata"]["generation"] == 2


async def test_background_deletion_removes_the_owner_at_once() -> None:
    cluster = Cluster()
    await cluster.create(DEPLOYMENTS, deployment("web"))

    answer = await cluster.send("DELETE", f"{DEPLOYMENTS}/web", propagationPolicy="Background")

    assert answer.body["status"] == "Success"
    assert await cluster.names(DEPLOYMENTS) == []


async def test_contradicting_options_are_refused() -> None:
    cluster = Cluster()
    await cluster.create(CONFIGMAPS, configmap("a"))
    both = {"orphanDependents": True, "propagationPolicy": "Background"}

    answer = await cluster.send("DELETE", f"{CONFIGMAPS}/a", both)
    unknown = await cluster.send("DELETE", f"{CONFIGMAPS}/a", {"propagationPolicy": "Slowly"})

    assert "orphanDependents and deletionPropagation cannot be both set" in answer.message
    assert 'propagationPolicy: Unsupported value: "Slowly"' in unknown.message


async def test_a_running_pod_is_given_its_grace() -> None:
    cluster = Cluster()
    await cluster.create(PODS, pod("p", nodeName="n1"))

    first = await cluster.send("DELETE", f"{PODS}/p")
    longer = await cluster.send("DELETE", f"{PODS}/p", gracePeriodSeconds=60)
    shorter = await cluster.send("DELETE", f"{PODS}/p", gracePeriodSeconds=5)
    now = await cluster.send("DELETE", f"{PODS}/p", gracePeriodSeconds=0)

    graces = [
        answer.body["metadata"]["deletionGracePeriodSeconds"] for answer in (first, longer, shorter)
    ]
    assert graces == [30, 30, 5]
    assert first.body["metadata"]["deletionTimestamp"] == "2026-01-02T03:04:35Z"
    assert now.status == 200
    assert await cluster.names(PODS) == []


async def test_an_unscheduled_pod_is_removed_at_once() -> None:
    cluster = Cluster()
    await cluster.create(PODS, pod("p"))

    await cluster.send("DELETE", f"{PODS}/p")

    assert await cluster.names(PODS) == []


async def test_a_dry_run_deletes_nothing() -> None:
    cluster = Cluster()
    await cluster.create(CONFIGMAPS, configmap("a"))

    answer = await cluster.send("DELETE", f"{CONFIGMAPS}/a", {"dryRun": ["All"]})

    assert answer.status == 200
    assert await cluster.names(CONFIGMAPS) == ["a"]


async def test_a_namespace_waits_for_its_finalizer_and_takes_nothing_new() -> None:
    cluster = Cluster()
    await cluster.create("/api/v1/namespaces", {"metadata": {"name": "team"}})
    path = "/api/v1/namespaces/team"

    going = await cluster.send("DELETE", path)
    refused = await cluster.send("POST", f"{path}/configmaps", configmap("a"))
    finished = {"metadata": {"name": "team"}, "spec": {"finalizers": []}}
    await cluster.send("PUT", f"{path}/finalize", finished)

    assert going.body["status"]["phase"] == "Terminating"
    assert refused.status == 403
    assert refused.message == (
        'configmaps "a" is forbidden: unable to create new content in namespace team because '
        "it is being terminated"
    )
    assert refused.body["details"]["causes"][0]["reason"] == "NamespaceTerminating"
    assert (await cluster.send("GET", path)).status == 404


async def test_some_namespaces_stay_for_ever() -> None:
    answer = await Cluster().send("DELETE", "/api/v1/namespaces/default")

    assert answer.status == 403
    assert answer.message == (
        'namespaces "default" is forbidden: this namespace may not be deleted'
    )
