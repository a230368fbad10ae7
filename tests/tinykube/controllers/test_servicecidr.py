"""ServiceCIDRs in a running cluster."""

import pytest

from tinykube.controllers.servicecidr import FINALIZER, SERVICE_CIDRS
from tinykube.resources import Object

from .scenario import ClusterClient, run_cluster

pytestmark = pytest.mark.anyio


def cidr(text: str, name: str = "more") -> Object:
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "ServiceCIDR",
        "metadata": {"name": name},
        "spec": {"cidrs": [text]},
    }


def found(cluster: ClusterClient, name: str = "more") -> Object | None:
    return cluster.api.storage.get(SERVICE_CIDRS, "", name)


def is_ready(cluster: ClusterClient) -> bool:
    conditions = (found(cluster) or {}).get("status", {}).get("conditions") or [{}]
    return bool(conditions[0].get("status") == "True")


async def test_a_service_cidr_becomes_ready_and_gets_a_finalizer() -> None:
    async with run_cluster() as cluster:
        await cluster.create(cidr("10.77.0.0/24"))

        await cluster.wait_until(lambda: is_ready(cluster))

        made = found(cluster)
        assert made is not None
        assert made["metadata"]["finalizers"] == [FINALIZER]


async def test_a_service_cidr_stays_until_its_last_address_is_released() -> None:
    async with run_cluster() as cluster:
        await cluster.create(cidr("10.77.0.0/24"))
        await cluster.wait_until(lambda: is_ready(cluster))
        spec = {"clusterIP": "10.77.0.9", "ports": [{"port": 80}]}
        service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": spec}
        await cluster.create(service)

        await cluster.send("DELETE", "/apis/networking.k8s.io/v1/servicecidrs/more")
        await cluster.wait_until(lambda: not is_ready(cluster))
        assert found(cluster) is not None
        await cluster.delete("services", "web")

        await cluster.wait_until(lambda: found(cluster) is None)
