"""What `hanse up` provisions beside real clusters, against an embedded one."""

import asyncio

import pytest

from hanse.local.in_process import InProcess
from hanse.local.real.provisioning import provision
from tests.tinykube.controllers.scenario import cluster, workload
from tinykube.controllers.controller_manager import ALL
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
    async with cluster(enabled=ALL - {"load-balancer", "volumes"}) as there:
        await there.create(service)
        provisioning = asyncio.create_task(provision(InProcess(there.api), ["198.19.7.0/24"]))

        await there.until(lambda: there.seen("services", "web")["status"]["loadBalancer"])
        await there.create(workload("StatefulSet", "db", 1, volumeClaimTemplates=[template]))
        await there.until(lambda: there.all("persistentvolumes"))

        (ingress,) = there.seen("services", "web")["status"]["loadBalancer"]["ingress"]
        (volume,) = there.all("persistentvolumes")
        assert ingress["ip"] == "198.19.7.1"
        assert volume["spec"]["claimRef"]["name"] == "data-db-0"
        assert there.api.storage.get("storageclasses.storage.k8s.io", "", "standard")
        assert await there.rest() == 0

        await there.delete("statefulsets.apps", "db")
        await there.delete("persistentvolumeclaims", "data-db-0")
        await there.until(lambda: not there.all("persistentvolumes"))

        provisioning.cancel()
        await asyncio.gather(provisioning, return_exceptions=True)
