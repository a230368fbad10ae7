"""What goes with what: garbage collection and the end of namespaces, in a whole cluster."""

from typing import Any

import pytest

from hanse.kube.errors import Forbidden
from tinykube.controllers.controller_manager import BROKER
from tinykube.resources import Object

from .scenario import Cluster, cluster, ready_pods, workload

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


def own(there: Cluster, namespace: str = "default") -> list[str]:
    return [name for name in there.names("configmaps", namespace) if name != "kube-root-ca.crt"]


def namespace(name: str) -> Object:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


async def test_deleting_a_deployment_takes_everything_with_it() -> None:
    async with cluster() as there:
        await there.create(workload("Deployment"))
        await there.until(lambda: len(ready_pods(there)) == 3)

        await there.delete("deployments.apps", "web", propagationPolicy="Background")

        assert there.get("deployments.apps", "web") is None
        await there.until(lambda: not there.all("pods"))
        assert there.all("replicasets.apps") == []


async def test_a_foreground_deletion_ends_with_the_owner() -> None:
    async with cluster() as there:
        await there.create(workload("Deployment"))
        await there.until(lambda: len(ready_pods(there)) == 3)
        early = False

        def look() -> bool:
            nonlocal early
            gone = there.get("deployments.apps", "web") is None
            early = early or (gone and bool(there.all("replicasets.apps")))
            return gone

        await there.delete("deployments.apps", "web", propagationPolicy="Foreground")
        assert there.get("deployments.apps", "web") is not None
        await there.until(look)

        assert not early
        await there.until(lambda: not there.all("pods"))


async def test_orphans_stay_and_are_adopted_again() -> None:
    async with cluster() as there:
        await there.create(workload("Deployment"))
        await there.until(lambda: len(ready_pods(there)) == 3)
        before = there.names("pods")

        await there.delete("deployments.apps", "web", propagationPolicy="Orphan")
        await there.until(lambda: there.get("deployments.apps", "web") is None)
        (orphan,) = there.all("replicasets.apps")
        assert "ownerReferences" not in orphan["metadata"]
        await there.create(workload("Deployment"))
        await there.until(
            lambda: there.all("replicasets.apps")[0]["metadata"].get("ownerReferences")
        )
        await there.rest()

        assert there.names("pods") == before


async def test_an_object_with_one_living_owner_stays() -> None:
    async with cluster(enabled=BROKER) as there:
        first = await there.create(config("first"))
        second = await there.create(config("second"))
        await there.create(config("child", first, second))

        await there.delete("configmaps", "first")
        await there.until(
            lambda: len(there.seen("configmaps", "child")["metadata"]["ownerReferences"]) == 1
        )
        await there.delete("configmaps", "second")
        await there.until(lambda: there.get("configmaps", "child") is None)


async def test_an_object_whose_owner_never_was_goes() -> None:
    async with cluster(enabled=BROKER) as there:
        ghost = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "uid": "no"}}

        await there.create(config("child", ghost))

        await there.until(lambda: there.get("configmaps", "child") is None)


async def test_an_owner_of_the_same_name_but_another_uid_is_no_owner() -> None:
    async with cluster(enabled=BROKER) as there:
        real = await there.create(config("owner"))
        other = {**real, "metadata": {**real["metadata"], "uid": "another"}}

        await there.create(config("child", other))

        await there.until(lambda: there.get("configmaps", "child") is None)
        assert there.get("configmaps", "owner") is not None


async def test_an_owner_in_another_namespace_is_no_owner() -> None:
    async with cluster(enabled=BROKER) as there:
        await there.create(namespace("shop"))
        owner = await there.create(config("owner"), "shop")

        await there.create(config("child", owner))

        await there.until(lambda: there.get("configmaps", "child") is None)


async def test_an_owner_of_an_unknown_kind_proves_nothing() -> None:
    async with cluster(enabled=BROKER) as there:
        odd = {"apiVersion": "x.dev/v1", "kind": "Odd", "metadata": {"name": "x", "uid": "no"}}

        await there.create(config("child", odd))

        await there.rest(300)
        assert there.get("configmaps", "child") is not None


async def test_two_that_own_each_other_both_go() -> None:
    async with cluster(enabled=BROKER) as there:
        first = await there.create(config("first"))
        second = await there.create(config("second", first, block=True))
        reference = config("x", second, block=True)["metadata"]["ownerReferences"]
        await there.patch("configmaps", "first", {"metadata": {"ownerReferences": reference}})

        await there.delete("configmaps", "first", propagationPolicy="Foreground")

        await there.until(lambda: own(there) == [])


async def test_a_namespace_goes_with_all_that_is_in_it() -> None:
    async with cluster() as there:
        await there.create(namespace("shop"))
        await there.create(workload("Deployment"), "shop")
        await there.create(workload("StatefulSet", "db"), "shop")
        await there.until(lambda: len(ready_pods(there, "shop")) == 6)

        await there.delete("namespaces", "shop")
        with pytest.raises(Forbidden, match="because it is being terminated"):
            await there.create(config("late"), "shop")
        await there.until(lambda: there.get("namespaces", "shop") is None)

        left = [one for one in there.api.storage.stores() if there.api.storage.count(one, "shop")]
        assert left == []


async def test_a_namespace_waits_for_finalizers_and_names_them() -> None:
    async with cluster(enabled=BROKER) as there:
        await there.create(namespace("shop"))
        await there.create(config("held", finalizers=["hanse.dev/keep"]), "shop")

        await there.delete("namespaces", "shop")
        await there.rest()
        told = {
            one["type"]: one for one in there.seen("namespaces", "shop")["status"]["conditions"]
        }
        await there.patch("configmaps", "held", {"metadata": {"finalizers": None}}, "shop")
        await there.until(lambda: there.get("namespaces", "shop") is None)

        assert "hanse.dev/keep in 1" in told["NamespaceFinalizersRemaining"]["message"]
        assert told["NamespaceContentRemaining"]["status"] == "True"


async def test_every_namespace_has_an_account_and_the_root_certificate() -> None:
    async with cluster(enabled=BROKER) as there:
        await there.create(namespace("shop"))
        await there.until(lambda: there.get("serviceaccounts", "default", "shop"))
        await there.delete("configmaps", "kube-root-ca.crt", "shop")

        await there.until(lambda: there.get("configmaps", "kube-root-ca.crt", "shop"))


async def test_a_broker_runs_no_workloads() -> None:
    async with cluster(enabled=BROKER) as there:
        await there.create(workload("Deployment"))

        await there.rest(60)

        assert there.all("replicasets.apps") == []
        assert there.all("nodes") == []
