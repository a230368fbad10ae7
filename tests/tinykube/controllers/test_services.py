"""Endpoints and load-balancer addresses in a whole cluster."""

from typing import Any

import pytest

from tinykube.controllers.controller_manager import Simulation
from tinykube.controllers.kubelet import PodTiming
from tinykube.controllers.simulated_nodes import NodeRanges
from tinykube.resources import Object

from .scenario import Cluster, cluster, ready_pods, workload

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


def endpoints(there: Cluster, name: str = "web") -> list[Object]:
    return [
        one
        for part in there.all(SLICES)
        if part["metadata"]["labels"].get("kubernetes.io/service-name") == name
        for one in part.get("endpoints") or ()
    ]


def ready(there: Cluster, name: str = "web") -> list[Object]:
    return [one for one in endpoints(there, name) if one["conditions"]["ready"]]


def address(there: Cluster, name: str = "web") -> str:
    status = there.seen("services", name).get("status", {})
    ingress = status.get("loadBalancer", {}).get("ingress") or [{"ip": ""}]
    return str(ingress[0]["ip"])


async def test_a_service_finds_its_pods() -> None:
    async with cluster() as there:
        await there.create(service())
        await there.create(workload("Deployment"))

        await there.until(lambda: len(ready(there)) == 3)

        told = {one["addresses"][0] for one in endpoints(there)}
        assert told == {one["status"]["podIP"] for one in there.all("pods")}
        assert {one["zone"] for one in endpoints(there)} == {"lubeck-a", "lubeck-b", "lubeck-c"}
        legacy = there.seen("endpoints", "web")
        assert len(legacy["subsets"][0]["addresses"]) == 3


async def test_an_unready_pod_is_told_as_such_and_comes_back() -> None:
    async with cluster() as there:
        await there.create(service())
        await there.create(workload("Deployment"))
        await there.until(lambda: len(ready(there)) == 3)
        name = there.names("pods")[0]

        held = {"metadata": {"annotations": {"sim.hanse.dev/ready": "false"}}}
        await there.patch("pods", name, held)
        await there.until(lambda: len(ready(there)) == 2)
        assert len(endpoints(there)) == 3
        freed = {"metadata": {"annotations": {"sim.hanse.dev/ready": None}}}
        await there.patch("pods", name, freed)

        await there.until(lambda: len(ready(there)) == 3)


async def test_a_pod_that_is_going_is_told_as_terminating() -> None:
    slow = Simulation(pod_timing=PodTiming(stop_after=PodTiming().stop_after * 100))
    async with cluster(simulation=slow) as there:
        await there.create(service())
        await there.create(workload("Deployment", replicas=1))
        await there.until(lambda: len(ready(there)) == 1)

        await there.delete("pods", there.names("pods")[0])
        await there.until(lambda: any(one["conditions"]["terminating"] for one in endpoints(there)))

        (going,) = [one for one in endpoints(there) if one["conditions"]["terminating"]]
        assert going["conditions"] == {"ready": False, "serving": True, "terminating": True}


async def test_a_headless_service_tells_host_names() -> None:
    async with cluster() as there:
        await there.create(service("db", clusterIP="None", selector={"app": "db"}))
        await there.create(workload("StatefulSet", "db", serviceName="db"))

        await there.until(lambda: len(ready(there, "db")) == 3)

        names = {one["hostname"] for one in endpoints(there, "db")}
        assert names == {"db-0", "db-1", "db-2"}


async def test_two_families_are_told_in_slices_of_their_own() -> None:
    both = Simulation(ranges=NodeRanges(pods=("10.128.0.0/16", "fd00:128::/64")))
    async with cluster(simulation=both, service_range="10.0.0.0/16,fd00::/112") as there:
        await there.create(service(ipFamilyPolicy="RequireDualStack"))
        await there.create(workload("Deployment"))

        await there.until(lambda: len(ready(there)) == 6)

        families = {
            one["addressType"] for one in there.all(SLICES) if "web" in one["metadata"]["name"]
        }
        assert families == {"IPv4", "IPv6"}
        assert all(len(one["status"]["podIPs"]) == 2 for one in there.all("pods"))


async def test_slices_go_with_their_service() -> None:
    async with cluster() as there:
        await there.create(service())
        await there.until(lambda: len(there.all(SLICES)) == 2)

        await there.delete("services", "web")

        await there.until(lambda: there.names(SLICES) == ["kubernetes"])
        await there.until(lambda: there.names("endpoints") == ["kubernetes"])


async def test_a_deleted_slice_is_made_again() -> None:
    async with cluster() as there:
        await there.create(service())
        await there.create(workload("Deployment"))
        await there.until(lambda: len(ready(there)) == 3)
        name = next(one for one in there.names(SLICES) if one != "kubernetes")

        await there.delete(SLICES, name)

        await there.until(lambda: len(ready(there)) == 3)


async def test_a_lost_node_takes_its_endpoints_out() -> None:
    async with cluster() as there:
        await there.create(service())
        await there.create(workload("Deployment"))
        await there.until(lambda: len(ready(there)) == 3)

        lost = {"metadata": {"annotations": {"sim.hanse.dev/ready": "false"}}}
        await there.patch("nodes", "lubeck-node-1", lost)
        await there.until(lambda: len(ready(there)) == 2)
        found = {"metadata": {"annotations": {"sim.hanse.dev/ready": None}}}
        await there.patch("nodes", "lubeck-node-1", found)

        await there.until(lambda: len(ready(there)) == 3)


async def test_load_balancers_get_addresses_of_their_own() -> None:
    async with cluster(simulation=FEW) as there:
        await there.create(service("a", type="LoadBalancer"))
        await there.create(service("b", type="LoadBalancer"))

        await there.until(lambda: address(there, "a") and address(there, "b"))

        assert {address(there, "a"), address(there, "b")} == {"198.19.0.1", "198.19.0.2"}


async def test_a_released_address_goes_to_whoever_waits() -> None:
    async with cluster(simulation=FEW) as there:
        for name in ("a", "b", "c"):
            await there.create(service(name, type="LoadBalancer"))
            await there.rest()
        assert address(there, "c") == ""

        await there.patch("services", "a", {"spec": {"type": "ClusterIP"}})

        await there.until(lambda: address(there, "c") == "198.19.0.1")
        assert address(there, "a") == ""


async def test_addresses_are_kept_over_a_restart() -> None:
    async with cluster(simulation=FEW) as there:
        await there.create(service("a", type="LoadBalancer"))
        await there.create(service("b", type="LoadBalancer", loadBalancerIP="198.19.0.1"))
        await there.rest()
        await there.delete("services", "a")
        await there.until(lambda: address(there, "b") == "198.19.0.1")
        snapshot = there.api.storage.snapshot()

    async with cluster(simulation=FEW, snapshot=snapshot) as again:
        await again.create(service("c", type="LoadBalancer"))
        await again.until(lambda: address(again, "c"))

        assert (address(again, "b"), address(again, "c")) == ("198.19.0.1", "198.19.0.2")


async def test_a_gated_pod_waits_for_its_gates() -> None:
    async with cluster() as there:
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "gated"},
            "spec": {
                "containers": [{"name": "web", "image": "web:1"}],
                "schedulingGates": [{"name": "hanse.dev/address"}],
            },
        }
        await there.create(pod)
        await there.rest()
        (told,) = there.seen("pods", "gated")["status"]["conditions"]

        await there.patch("pods", "gated", {"spec": {"schedulingGates": None}})

        await there.until(lambda: ready_pods(there) == ["gated"])
        assert told["reason"] == "SchedulingGated"
