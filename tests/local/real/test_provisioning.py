"""The provisioners of real clusters, tested with an embedded one."""

import asyncio

import pytest

from hanse.local.in_process import InProcessTransport
from hanse.local.real.provisioning import provision
from tests.tinykube.controllers.scenario import run_cluster, workload
from tinykube.controllers.controller_manager import ALL_CONTROLLERS
from tinykube.virtual_time import ON_VIRTUAL_TIME

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> object:
    return ON_VIRTUAL_TIME


async def test_services_get_addresses_and_claims_volumes_that_go_with_them() -> None:
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web"},
        "spec": {"type": "LoadBalancer", "ports": [{"port": 80}]},
    }
    template = {
        "metadata": {"name": "data"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    async with run_cluster(enabled=ALL_CONTROLLERS - {"load-balancer", "volumes"}) as cluster:
        await cluster.create(service)
        provisioning = asyncio.create_task(
            provision(InProcessTransport(cluster.api), ["198.19.7.0/24"])
        )

        await cluster.wait_until(
            lambda: cluster.require("services", "web")["status"]["loadBalancer"]
        )
        await cluster.create(workload("StatefulSet", "db", 1, volumeClaimTemplates=[template]))
        await cluster.wait_until(lambda: cluster.all("persistentvolumes"))

        (ingress,) = cluster.require("services", "web")["status"]["loadBalancer"]["ingress"]
        (volume,) = cluster.all("persistentvolumes")
        assert ingress["ip"] == "198.19.7.1"
        assert volume["spec"]["claimRef"]["name"] == "data-db-0"
        assert cluster.api.storage.get("storageclasses.storage.k8s.io", "", "standard")
        assert await cluster.writes_during() == 0

        await cluster.delete("statefulsets.apps", "db")
        await cluster.delete("persistentvolumeclaims", "data-db-0")
        await cluster.wait_until(lambda: not cluster.all("persistentvolumes"))

        provisioning.cancel()
        await asyncio.gather(provisioning, return_exceptions=True)
