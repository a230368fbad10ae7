"""Endpoints and load-balancer addresses in a running cluster."""

from typing import Any

import pytest

from tinykube.controllers.controller_manager import Simulation
from tinykube.controllers.kubelet import PodTiming
from tinykube.controllers.simulated_nodes import NodeRanges
from tinykube.resources import Object

from .scenario import ClusterClient, ready_pods, run_cluster, workload

pytestmark = pytest.mark.anyio

SLICES = "endpointslices.discovery.k8s.io"
FEW = Simulation(load_balancers=("198.19.0.0/30",))


def service(name: str = "web", **spec: Any) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}], **spec},
    }


def endpoints(cluster: ClusterClient, name: str = "web") -> list[Object]:
    return [
        one
        for part in cluster.all(SLICES)
        if part["metadata"]["labels"].get("kubernetes.io/service-name") == name
        for one in part.get("endpoints") or ()
    ]


def ready(cluster: ClusterClient, name: str = "web") -> list[Object]:
    return [one for one in endpoints(cluster, name) if one["conditions"]["ready"]]


def address(cluster: ClusterClient, name: str = "web") -> str:
    status = cluster.require("services", name).get("status", {})
    ingress = status.get("loadBalancer", {}).get("ingress") or [{"ip": ""}]
    return str(ingress[0]["ip"])


async def test_a_service_finds_its_pods() -> None:
    async with run_cluster() as cluster:
        await cluster.create(service())
        await cluster.create(workload("Deployment"))

        await cluster.wait_until(lambda: len(ready(cluster)) == 3)

        found = {one["addresses"][0] for one in endpoints(cluster)}
        assert found == {one["status"]["podIP"] for one in cluster.all("pods")}
        assert {one["zone"] for one in endpoints(cluster)} == {"lubeck-a", "lubeck-b", "lubeck-c"}
        legacy = cluster.require("endpoints", "web")
        assert len(legacy["subsets"][0]["addresses"]) == 3


async def test_an_unready_pod_is_a_not_ready_endpoint_until_it_is_ready_again() -> None:
    async with run_cluster() as cluster:
        await cluster.create(service())
        await cluster.create(workload("Deployment"))
        await cluster.wait_until(lambda: len(ready(cluster)) == 3)
        name = cluster.names("pods")[0]

        held = {"metadata": {"annotations": {"sim.hanse.dev/ready": "false"}}}
        await cluster.patch("pods", name, held)
        await cluster.wait_until(lambda: len(ready(cluster)) == 2)
        assert len(endpoints(cluster)) == 3
        freed = {"metadata": {"annotations": {"sim.hanse.dev/ready": None}}}
        await cluster.patch("pods", name, freed)

        await cluster.wait_until(lambda: len(ready(cluster)) == 3)


async def test_a_deleted_pod_is_a_terminating_endpoint() -> None:
    slow = Simulation(pod_timing=PodTiming(stop_after=PodTiming().stop_after * 100))
    async with run_cluster(simulation=slow) as cluster:
        await cluster.create(service())
        await cluster.create(workload("Deployment", replicas=1))
        await cluster.wait_until(lambda: len(ready(cluster)) == 1)

        await cluster.delete("pods", cluster.names("pods")[0])
        await cluster.wait_until(
            lambda: any(one["conditions"]["terminating"] for one in endpoints(cluster))
        )

        (terminating,) = [one for one in endpoints(cluster) if one["conditions"]["terminating"]]
        assert terminating["conditions"] == {"ready": False, "serving": True, "terminating": True}


async def test_endpoints_of_a_headless_service_have_host_names() -> None:
    async with run_cluster() as cluster:
        await cluster.create(service("db", clusterIP="None", selector={"app": "db"}))
        await cluster.create(workload("StatefulSet", "db", serviceName="db"))

        await cluster.wait_until(lambda: len(ready(cluster, "db")) == 3)

        names = {one["hostname"] for one in endpoints(cluster, "db")}
        assert names == {"db-0", "db-1", "db-2"}


async def test_each_address_family_has_its_own_slice() -> None:
    both = Simulation(ranges=NodeRanges(pods=("10.128.0.0/16", "fd00:128::/64")))
    async with run_cluster(simulation=both, service_range="10.0.0.0/16,fd00::/112") as cluster:
        await cluster.create(service(ipFamilyPolicy="RequireDualStack"))
        await cluster.create(workload("Deployment"))

        await cluster.wait_until(lambda: len(ready(cluster)) == 6)

        families = {
            one["addressType"] for one in cluster.all(SLICES) if "web" in one["metadata"]["name"]
        }
        assert families == {"IPv4", "IPv6"}
        assert all(len(one["status"]["podIPs"]) == 2 for one in cluster.all("pods"))


async def test_slices_are_deleted_with_their_service() -> None:
    async with run_cluster() as cluster:
        await cluster.create(service())
        await cluster.wait_until(lambda: len(cluster.all(SLICES)) == 2)

        await cluster.delete("services", "web")

        await cluster.wait_until(lambda: cluster.names(SLICES) == ["kubernetes"])
        await cluster.wait_until(lambda: cluster.names("endpoints") == ["kubernetes"])


async def test_a_deleted_slice_is_recreated() -> None:
    async with run_cluster() as cluster:
        await cluster.create(service())
        await cluster.create(workload("Deployment"))
        await cluster.wait_until(lambda: len(ready(cluster)) == 3)
        name = next(one for one in cluster.names(SLICES) if one != "kubernetes")

        await cluster.delete(SLICES, name)

        await cluster.wait_until(lambda: len(ready(cluster)) == 3)


async def test_endpoints_on_an_unready_node_are_not_ready() -> None:
    async with run_cluster() as cluster:
        await cluster.create(service())
        await cluster.create(workload("Deployment"))
        await cluster.wait_until(lambda: len(ready(cluster)) == 3)

        lost = {"metadata": {"annotations": {"sim.hanse.dev/ready": "false"}}}
        await cluster.patch("nodes", "lubeck-node-1", lost)
        await cluster.wait_until(lambda: len(ready(cluster)) == 2)
        found = {"metadata": {"annotations": {"sim.hanse.dev/ready": None}}}
        await cluster.patch("nodes", "lubeck-node-1", found)

        await cluster.wait_until(lambda: len(ready(cluster)) == 3)


async def test_each_load_balancer_gets_its_own_address() -> None:
    async with run_cluster(simulation=FEW) as cluster:
        await cluster.create(service("a", type="LoadBalancer"))
        await cluster.create(service("b", type="LoadBalancer"))

        await cluster.wait_until(lambda: address(cluster, "a") and address(cluster, "b"))

        assert {address(cluster, "a"), address(cluster, "b")} == {"198.19.0.1", "198.19.0.2"}


async def test_a_released_address_is_assigned_to_a_pending_service() -> None:
    async with run_cluster(simulation=FEW) as cluster:
        for name in ("a", "b", "c"):
            await cluster.create(service(name, type="LoadBalancer"))
            await cluster.writes_during()
        assert address(cluster, "c") == ""

        await cluster.patch("services", "a", {"spec": {"type": "ClusterIP"}})

        await cluster.wait_until(lambda: address(cluster, "c") == "198.19.0.1")
        assert address(cluster, "a") == ""


async def test_addresses_are_kept_over_a_restart() -> None:
    async with run_cluster(simulation=FEW) as cluster:
        await cluster.create(service("a", type="LoadBalancer"))
        await cluster.create(service("b", type="LoadBalancer", loadBalancerIP="198.19.0.1"))
        await cluster.writes_during()
        await cluster.delete("services", "a")
        await cluster.wait_until(lambda: address(cluster, "b") == "198.19.0.1")
        snapshot = cluster.api.storage.snapshot()

    async with run_cluster(simulation=FEW, snapshot=snapshot) as again:
        await again.create(service("c", type="LoadBalancer"))
        await again.wait_until(lambda: address(again, "c"))

        assert (address(again, "b"), address(again, "c")) == ("198.19.0.1", "198.19.0.2")


async def test_a_gated_pod_waits_for_its_gates() -> None:
    async with run_cluster() as cluster:
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "gated"},
            "spec": {
                "containers": [{"name": "web", "image": "web:1"}],
                "schedulingGates": [{"name": "hanse.dev/address"}],
            },
        }
        await cluster.create(pod)
        await cluster.writes_during()
        (found,) = cluster.require("pods", "gated")["status"]["conditions"]

        await cluster.patch("pods", "gated", {"spec": {"schedulingGates": None}})

        await cluster.wait_until(lambda: ready_pods(cluster) == ["gated"])
        assert found["reason"] == "SchedulingGated"
