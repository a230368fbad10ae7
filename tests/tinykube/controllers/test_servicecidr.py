"""Ranges of Services in a whole cluster."""

import pytest

from tinykube.controllers.servicecidr import FINALIZER, SERVICE_CIDRS
from tinykube.resources import Object

from .scenario import Cluster, cluster

pytestmark = pytest.mark.anyio


def cidr(text: str, name: str = "more") -> Object:
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "ServiceCIDR",
        "metadata": {"name": name},
        "spec": {"cidrs": [text]},
    }


def found(there: Cluster, name: str = "more") -> Object | None:
    return there.api.storage.get(SERVICE_CIDRS, "", name)


def is_ready(there: Cluster) -> bool:
    told = (found(there) or {}).get("status", {}).get("conditions") or [{}]
    return bool(told[0].get("status") == "True")


async def test_a_range_becomes_ready_and_is_held() -> None:
    async with cluster() as there:
        await there.create(cidr("10.77.0.0/24"))

        await there.until(lambda: is_ready(there))

        made = found(there)
        assert made is not None
        assert made["metadata"]["finalizers"] == [FINALIZER]


async def test_a_range_stays_until_its_last_address_is_given_back() -> None:
    async with cluster() as there:
        await there.create(cidr("10.77.0.0/24"))
        await there.until(lambda: is_ready(there))
        spec = {"clusterIP": "10.77.0.9", "ports": [{"port": 80}]}
        service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": spec}
        await there.create(service)

        await there.send("DELETE", "/apis/networking.k8s.io/v1/servicecidrs/more")
        await there.until(lambda: not is_ready(there))
        assert found(there) is not None
        await there.delete("services", "web")

        await there.until(lambda: found(there) is None)
