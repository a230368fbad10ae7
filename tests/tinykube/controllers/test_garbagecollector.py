"""Garbage collection and namespace deletion in a running cluster."""

from typing import Any

import pytest

from tinykube.controllers.controller_manager import CORE_CONTROLLERS
from tinykube.errors import StatusError
from tinykube.resources import Object

from .scenario import ClusterClient, ready_pods, run_cluster, workload

pytestmark = pytest.mark.anyio


def config(name: str, *owners: Object, block: bool = False, **meta: Any) -> Object:
    references = [
        {
            "apiVersion": one["apiVersion"],
            "kind": one["kind"],
            "name": one["metadata"]["name"],
            "uid": one["metadata"]["uid"],
            **({"blockOwnerDeletion": True} if block else {}),
        }
        for one in owners
    ]
    metadata: Object = {"name": name, **meta}
    if references:
        metadata["ownerReferences"] = references
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


def own_config_maps(cluster: ClusterClient, namespace: str = "default") -> list[str]:
    return [name for name in cluster.names("configmaps", namespace) if name != "kube-root-ca.crt"]


def namespace(name: str) -> Object:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


async def test_deleting_a_deployment_deletes_its_dependents() -> None:
    async with run_cluster() as cluster:
        await cluster.create(workload("Deployment"))
        await cluster.wait_until(lambda: len(ready_pods(cluster)) == 3)

        await cluster.delete("deployments.apps", "web", propagationPolicy="Background")

        assert cluster.get("deployments.apps", "web") is None
        await cluster.wait_until(lambda: not cluster.all("pods"))
        assert cluster.all("replicasets.apps") == []


async def test_a_foreground_deletion_deletes_the_owner_last() -> None:
    async with run_cluster() as cluster:
        await cluster.create(workload("Deployment"))
        await cluster.wait_until(lambda: len(ready_pods(cluster)) == 3)
        early = False

        def look() -> bool:
            nonlocal early
            deleted = cluster.get("deployments.apps", "web") is None
            early = early or (deleted and bool(cluster.all("replicasets.apps")))
            return deleted

        await cluster.delete("deployments.apps", "web", propagationPolicy="Foreground")
        assert cluster.get("deployments.apps", "web") is not None
        await cluster.wait_until(look)

        assert not early
        await cluster.wait_until(lambda: not cluster.all("pods"))


@pytest.mark.parametrize("kind", ["StatefulSet", "DaemonSet"])
async def test_an_owner_that_is_being_deleted_records_no_revision_again(kind: str) -> None:
    store, revisions = f"{kind.lower()}s.apps", "controllerrevisions.apps"
    async with run_cluster() as cluster:
        await cluster.create(workload(kind))
        await cluster.wait_until(lambda: ready_pods(cluster))
        uids = {one["metadata"]["uid"] for one in cluster.all(revisions)}
        again = False

        def look() -> bool:
            """Whether it is gone, or never will be: revisions that come and go let no time pass."""
            nonlocal again
            again = again or any(
                one["metadata"]["uid"] not in uids for one in cluster.all(revisions)
            )
            return again or cluster.get(store, "web") is None

        await cluster.delete(store, "web", propagationPolicy="Foreground")
        await cluster.wait_until(look)

        assert uids
        assert not again


async def test_orphans_stay_and_are_adopted_again() -> None:
    async with run_cluster() as cluster:
        await cluster.create(workload("Deployment"))
        await cluster.wait_until(lambda: len(ready_pods(cluster)) == 3)
        before = cluster.names("pods")

        await cluster.delete("deployments.apps", "web", propagationPolicy="Orphan")
        await cluster.wait_until(lambda: cluster.get("deployments.apps", "web") is None)
        (orphan,) = cluster.all("replicasets.apps")
        assert "ownerReferences" not in orphan["metadata"]
        await cluster.create(workload("Deployment"))
        await cluster.wait_until(
            lambda: cluster.all("replicasets.apps")[0]["metadata"].get("ownerReferences")
        )
        await cluster.writes_during()

        assert cluster.names("pods") == before


async def test_an_object_with_one_existing_owner_stays() -> None:
    async with run_cluster(enabled=CORE_CONTROLLERS) as cluster:
        first = await cluster.create(config("first"))
        second = await cluster.create(config("second"))
        await cluster.create(config("child", first, second))

        await cluster.delete("configmaps", "first")
        await cluster.wait_until(
            lambda: len(cluster.require("configmaps", "child")["metadata"]["ownerReferences"]) == 1
        )
        await cluster.delete("configmaps", "second")
        await cluster.wait_until(lambda: cluster.get("configmaps", "child") is None)


async def test_an_object_whose_owner_does_not_exist_is_deleted() -> None:
    async with run_cluster(enabled=CORE_CONTROLLERS) as cluster:
        ghost = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "uid": "no"}}

        await cluster.create(config("child", ghost))

        await cluster.wait_until(lambda: cluster.get("configmaps", "child") is None)


async def test_an_owner_of_the_same_name_but_another_uid_is_no_owner() -> None:
    async with run_cluster(enabled=CORE_CONTROLLERS) as cluster:
        real = await cluster.create(config("owner"))
        other = {**real, "metadata": {**real["metadata"], "uid": "another"}}

        await cluster.create(config("child", other))

        await cluster.wait_until(lambda: cluster.get("configmaps", "child") is None)
        assert cluster.get("configmaps", "owner") is not None


async def test_an_owner_in_another_namespace_is_no_owner() -> None:
    async with run_cluster(enabled=CORE_CONTROLLERS) as cluster:
        await cluster.create(namespace("shop"))
        owner = await cluster.create(config("owner"), "shop")

        await cluster.create(config("child", owner))

        await cluster.wait_until(lambda: cluster.get("configmaps", "child") is None)


async def test_an_object_with_an_owner_of_an_unknown_kind_stays() -> None:
    async with run_cluster(enabled=CORE_CONTROLLERS) as cluster:
        odd = {"apiVersion": "x.dev/v1", "kind": "Odd", "metadata": {"name": "x", "uid": "no"}}

        await cluster.create(config("child", odd))

        await cluster.writes_during(300)
        assert cluster.get("configmaps", "child") is not None


async def test_two_objects_that_own_each_other_are_both_deleted() -> None:
    async with run_cluster(enabled=CORE_CONTROLLERS) as cluster:
        first = await cluster.create(config("first"))
        second = await cluster.create(config("second", first, block=True))
        reference = config("x", second, block=True)["metadata"]["ownerReferences"]
        await cluster.patch("configmaps", "first", {"metadata": {"ownerReferences": reference}})

        await cluster.delete("configmaps", "first", propagationPolicy="Foreground")

        await cluster.wait_until(lambda: own_config_maps(cluster) == [])


async def test_a_namespace_is_deleted_with_its_content() -> None:
    async with run_cluster() as cluster:
        await cluster.create(namespace("shop"))
        await cluster.create(workload("Deployment"), "shop")
        await cluster.create(workload("StatefulSet", "db"), "shop")
        await cluster.wait_until(lambda: len(ready_pods(cluster, "shop")) == 6)

        await cluster.delete("namespaces", "shop")
        with pytest.raises(StatusError, match="because it is being terminated"):
            await cluster.create(config("late"), "shop")
        await cluster.wait_until(lambda: cluster.get("namespaces", "shop") is None)

        left = [
            one for one in cluster.api.storage.stores() if cluster.api.storage.count(one, "shop")
        ]
        assert left == []


async def test_a_namespace_waits_for_finalizers_and_names_them() -> None:
    async with run_cluster(enabled=CORE_CONTROLLERS) as cluster:
        await cluster.create(namespace("shop"))
        await cluster.create(config("held", finalizers=["hanse.dev/keep"]), "shop")

        await cluster.delete("namespaces", "shop")
        await cluster.writes_during()
        conditions = {
            one["type"]: one
            for one in cluster.require("namespaces", "shop")["status"]["conditions"]
        }
        await cluster.patch("configmaps", "held", {"metadata": {"finalizers": None}}, "shop")
        await cluster.wait_until(lambda: cluster.get("namespaces", "shop") is None)

        assert "hanse.dev/keep in 1" in conditions["NamespaceFinalizersRemaining"]["message"]
        assert conditions["NamespaceContentRemaining"]["status"] == "True"


async def test_every_namespace_has_an_account_and_the_root_certificate() -> None:
    async with run_cluster(enabled=CORE_CONTROLLERS) as cluster:
        await cluster.create(namespace("shop"))
        await cluster.wait_until(lambda: cluster.get("serviceaccounts", "default", "shop"))
        await cluster.delete("configmaps", "kube-root-ca.crt", "shop")

        await cluster.wait_until(lambda: cluster.get("configmaps", "kube-root-ca.crt", "shop"))


async def test_a_broker_runs_no_workloads() -> None:
    async with run_cluster(enabled=CORE_CONTROLLERS) as cluster:
        await cluster.create(workload("Deployment"))

        await cluster.writes_during(60)

        assert cluster.all("replicasets.apps") == []
        assert cluster.all("nodes") == []
