"""Rare cases: name collisions, exhausted ranges, finalizers on pods, API errors."""

import asyncio
from typing import Any

import pytest

from tinykube.apiserver import ApiServer
from tinykube.controllers.controller_loop import ControllerLoop
from tinykube.controllers.controller_manager import CORE_CONTROLLERS, ControllerManager, Simulation
from tinykube.controllers.objects import requirement_matches
from tinykube.controllers.service_loadbalancer import ServiceLoadBalancerController
from tinykube.controllers.simulated_nodes import NodeRanges
from tinykube.request import RequestLike, Response
from tinykube.resources import Object
from tinykube.users import User

from .scenario import ready_pods, run_cluster, workload
from .test_services import address, endpoints, ready, service
from .test_workloads import condition, image, is_rolled_out

pytestmark = pytest.mark.anyio


def pod(name: str, **spec: Any) -> Object:
    containers = [{"name": "web", "image": "web:1"}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": "web"}},
        "spec": {"containers": containers, **spec},
    }


async def test_a_pod_with_a_finalizer_terminates_and_stays_until_the_finalizer_is_removed() -> None:
    async with run_cluster() as cluster:
        held = pod("held")
        held["metadata"]["finalizers"] = ["hanse.dev/keep"]
        await cluster.create(held)
        await cluster.wait_until(lambda: ready_pods(cluster) == ["held"])

        await cluster.delete("pods", "held")
        await cluster.writes_during()
        status = cluster.require("pods", "held")["status"]
        assert status["phase"] == "Succeeded"
        assert condition(cluster.require("pods", "held"), "Ready")["status"] == "False"
        assert await cluster.writes_during() == 0

        await cluster.patch("pods", "held", {"metadata": {"finalizers": None}})
        await cluster.wait_until(lambda: cluster.get("pods", "held") is None)


async def test_a_name_that_is_taken_leads_to_another_hash() -> None:
    async with run_cluster() as cluster:
        await cluster.create(workload("Deployment"))
        await cluster.wait_until(lambda: is_rolled_out(cluster))
        (taken,) = cluster.names("replicasets.apps")
        await cluster.delete("deployments.apps", "web")
        await cluster.wait_until(lambda: not cluster.all("replicasets.apps"))
        stranger = workload("ReplicaSet", taken, 0)
        await cluster.create(stranger)

        await cluster.create(workload("Deployment"))
        await cluster.wait_until(lambda: is_rolled_out(cluster))

        assert cluster.require("deployments.apps", "web")["status"]["collisionCount"] == 1
        assert len(cluster.names("replicasets.apps")) == 2


async def test_a_paused_rollout_continues_when_it_is_resumed() -> None:
    async with run_cluster() as cluster:
        await cluster.create(workload("Deployment"))
        await cluster.wait_until(lambda: is_rolled_out(cluster))
        await cluster.patch("deployments.apps", "web", {"spec": {"paused": True}})
        await cluster.patch("deployments.apps", "web", image("web:2"))
        await cluster.writes_during()
        assert len(cluster.names("replicasets.apps")) == 1

        await cluster.patch("deployments.apps", "web", {"spec": {"paused": False}})
        await cluster.wait_until(lambda: len(cluster.names("replicasets.apps")) == 2)
        await cluster.wait_until(lambda: is_rolled_out(cluster))

        progress = condition(cluster.require("deployments.apps", "web"), "Progressing")
        assert progress["reason"] == "NewReplicaSetAvailable"


async def test_a_relabelled_pod_leaves_its_service_and_its_replica_set() -> None:
    async with run_cluster() as cluster:
        await cluster.create(service())
        await cluster.create(workload("ReplicaSet"))
        await cluster.wait_until(lambda: len(ready(cluster)) == 3)
        name = cluster.names("pods")[0]

        await cluster.patch("pods", name, {"metadata": {"labels": {"app": "debug"}}})
        await cluster.wait_until(lambda: len(cluster.all("pods")) == 4 and len(ready(cluster)) == 3)

        assert "ownerReferences" not in cluster.require("pods", name)["metadata"]
        targets = {one["targetRef"]["name"] for one in endpoints(cluster)}
        assert name not in targets


async def test_pods_wait_for_an_address_when_the_range_is_used_up() -> None:
    tiny = Simulation(ranges=NodeRanges(pods=("10.1.0.0/28",)))
    async with run_cluster(simulation=tiny) as cluster:
        await cluster.create(workload("Deployment", "first", 6))
        await cluster.wait_until(lambda: len(ready_pods(cluster, app="first")) == 6)
        await cluster.create(workload("Deployment", "second", 1))
        await cluster.writes_during(30)
        assert ready_pods(cluster, app="second") == []

        await cluster.patch("deployments.apps", "first", {"spec": {"replicas": 1}})

        await cluster.wait_until(lambda: len(ready_pods(cluster, app="second")) == 1)
        addresses = [one["status"].get("podIP") for one in cluster.all("pods")]
        assert len(set(addresses)) == len(addresses)


def job(**spec: Any) -> Object:
    template = {
        "metadata": {"annotations": {"sim.hanse.dev/phase": "Failed"}},
        "spec": {
            "containers": [{"name": "work", "image": "work:1"}],
            "restartPolicy": "Never",
        },
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "once"},
        "spec": {"template": template, **spec},
    }


async def test_a_failed_job_is_deleted_after_its_ttl() -> None:
    async with run_cluster() as cluster:
        await cluster.create(job(backoffLimit=2, ttlSecondsAfterFinished=60))
        await cluster.writes_during(30)

        found = cluster.require("jobs.batch", "once")
        assert condition(found, "Failed")["reason"] == "BackoffLimitExceeded"
        assert found["status"]["failed"] == 3
        await cluster.wait_until(lambda: cluster.get("jobs.batch", "once") is None)
        await cluster.wait_until(lambda: not cluster.all("pods"))


async def test_a_suspended_job_starts_nothing() -> None:
    async with run_cluster() as cluster:
        await cluster.create(job(suspend=True))

        await cluster.writes_during()

        assert cluster.all("pods") == []


async def test_init_containers_are_done_before_and_sidecars_stay() -> None:
    async with run_cluster() as cluster:
        initial = [
            {"name": "prepare", "image": "init:1"},
            {"name": "proxy", "image": "proxy:1", "restartPolicy": "Always"},
        ]
        await cluster.create(pod("mesh", initContainers=initial))
        await cluster.wait_until(lambda: ready_pods(cluster) == ["mesh"])

        first, second = cluster.require("pods", "mesh")["status"]["initContainerStatuses"]
        assert first["state"]["terminated"]["reason"] == "Completed"
        assert "running" in second["state"]


async def test_a_changed_root_ca_config_map_is_restored() -> None:
    async with run_cluster(enabled=CORE_CONTROLLERS) as cluster:
        await cluster.wait_until(lambda: cluster.get("configmaps", "kube-root-ca.crt"))
        before = cluster.require("configmaps", "kube-root-ca.crt")["data"]

        change = {"data": {"ca.crt": "forged", "more": "x"}}
        await cluster.patch("configmaps", "kube-root-ca.crt", change)

        await cluster.wait_until(
            lambda: cluster.require("configmaps", "kube-root-ca.crt")["data"] == before
        )


async def test_an_unknown_controller_is_rejected_by_name() -> None:
    async with run_cluster(enabled=CORE_CONTROLLERS) as cluster:
        with pytest.raises(ValueError, match="no controller named kublet"):
            ControllerManager(cluster.api, enabled=frozenset(("kublet",)))


class FailingApi:
    """An API whose first writes fail."""

    def __init__(self, api: ApiServer, failures: list[int]) -> None:
        self.storage, self.registry, self.clock = api.storage, api.registry, api.clock
        self._api = api
        self._failures = failures

    async def send(self, request: RequestLike, user: User) -> Response:
        if self._failures:
            return Response(self._failures.pop(0), b'{"message":"injected"}')
        return await self._api.send(request, user)


async def test_addresses_are_assigned_although_writes_fail_at_first() -> None:
    async with run_cluster(enabled=CORE_CONTROLLERS) as cluster:
        failures = [500, 409, 429, 503]
        balancers = ServiceLoadBalancerController(["198.19.0.0/24"])
        loop = ControllerLoop(FailingApi(cluster.api, failures), [balancers])
        running = asyncio.create_task(loop.run())
        await cluster.create(service("a", type="LoadBalancer"))

        await cluster.wait_until(lambda: address(cluster, "a") == "198.19.0.1")

        assert failures == []
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_a_restored_cluster_reuses_its_addresses() -> None:
    simulation = Simulation(load_balancers=("198.19.0.0/30",))
    async with run_cluster(simulation=simulation) as cluster:
        await cluster.create(service("a", type="LoadBalancer"))
        await cluster.wait_until(lambda: address(cluster, "a") == "198.19.0.1")
        backup = cluster.api.storage.snapshot()
        await cluster.create(service("b", type="LoadBalancer"))
        await cluster.wait_until(lambda: address(cluster, "b") == "198.19.0.2")

        cluster.api.storage.restore(backup)
        await cluster.create(service("c", type="LoadBalancer"))

        await cluster.wait_until(lambda: address(cluster, "c") == "198.19.0.2")
        assert address(cluster, "a") == "198.19.0.1"


@pytest.mark.parametrize(
    ("operator", "values", "holds"),
    [
        pytest.param("In", ["5", "7"], True, id="in"),
        pytest.param("NotIn", ["5"], False, id="not in"),
        pytest.param("Exists", [], True, id="exists"),
        pytest.param("DoesNotExist", [], False, id="does not exist"),
        pytest.param("Gt", ["4"], True, id="greater"),
        pytest.param("Lt", ["5"], False, id="not less"),
        pytest.param("Like", ["5"], False, id="unknown"),
    ],
)
def test_a_selector_requirement_matches_or_not(
    operator: str, values: list[str], holds: bool
) -> None:
    rule = {"key": "size", "operator": operator, "values": values}

    assert requirement_matches(rule, {"size": "5"}) is holds
