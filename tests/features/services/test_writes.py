"""The number of writes that a service costs, and that any one of them may fail."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager

import msgspec
import pytest

from hanse.features.services.feature import Services
from hanse.features.services.names import SERVICE_NAME, SOURCE_CLUSTER
from hanse.kube.errors import Unreachable
from hanse.kube.transport import Request, Response, Transport
from hanse.local.in_process import InProcessTransport
from hanse.model.crds import crd_of
from hanse.model.kinds.core import Service, ServicePort, ServiceSpec
from hanse.model.kinds.discovery import EndpointSlice
from hanse.model.kinds.hanse import ClusterSet, ClusterSetSpec, Profile
from hanse.model.kinds.multicluster import ServiceExport, ServiceImport
from hanse.model.naming import BROKER_NAMESPACE
from hanse.model.objects import Meta
from hanse.runtime.api import ClusterClient
from tests.features.services.builders import backends, held_lease
from tests.support.builders import namespace
from tests.support.faults import READ_METHODS
from tests.support.world import BROKER, World
from tinykube.virtual_time import ON_VIRTUAL_TIME

NAMES = ("bergen", "hamburg", "lubeck")
SHOP = "shop"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
DEFINITIONS = [
    msgspec.json.encode(crd_of(kind)) for kind in (ServiceExport, ServiceImport, ClusterSet)
]
ONE_SERVICE_OF_THREE_CLUSTERS = 23
"""Three slices on the broker, five objects and statuses in each cluster (three slices, the import
and its status), the aggregate and its status, the status of three exports."""


@pytest.fixture
def anyio_backend() -> object:
    return ON_VIRTUAL_TIME


class FailingTransport:
    """A transport on which one write fails: refused, or executed without a response."""

    def __init__(self, world: "FailingWorld", inner: Transport) -> None:
        self._world = world
        self._inner = inner

    async def send(self, request: Request) -> Response:
        if request.method in READ_METHODS or "/events" in request.path:
            return await self._inner.send(request)
        self._world.writes += 1
        if self._world.writes != self._world.failing:
            return await self._inner.send(request)
        if self._world.status:
            status = {"kind": "Status", "code": self._world.status, "reason": "Injected"}
            return Response(self._world.status, msgspec.json.encode(status), {})
        await self._inner.send(request)
        raise Unreachable("the answer was lost")

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        return self._inner.stream(request)

    async def close(self) -> None:
        await self._inner.close()


class FailingWorld(World):
    """A world in which write number `failing` fails with a status, or loses its response with 0."""

    def __init__(self, failing: int = 0, status: int = 500) -> None:
        super().__init__(NAMES, lambda: (Services(),))
        self.failing = failing
        self.status = status
        self.writes = 0

    def api(self, source: str, target: str) -> ClusterClient:
        inner = FailingTransport(self, InProcessTransport(self.clusters[target]))
        return ClusterClient(self.network.transport(source, target, inner), self.random)

    async def set_up(self, profile: Profile = "lighthouse") -> None:
        """Three clusters that export shop/web, and no agent yet."""
        for cluster in (*NAMES, BROKER):
            client = self.client(cluster)
            for definition in DEFINITIONS:
                await client.send(Request("POST", CRDS, body=definition))
            await client.create(namespace(BROKER_NAMESPACE if cluster == BROKER else SHOP))
        for cluster in NAMES:
            await self.client(BROKER).create(held_lease(cluster))
        rules = ClusterSet(metadata=Meta(name="hanse"), spec=ClusterSetSpec(profile=profile))
        await self.client(BROKER).create(rules)
        meta = Meta(name="web", namespace=SHOP)
        for cluster in NAMES:
            client = self.client(cluster)
            spec = ServiceSpec(ports=(ServicePort(port=80, name="http"),))
            await client.create(Service(metadata=meta, spec=spec))
            pods = backends()
            plain = Meta(name=pods.metadata.name, namespace=SHOP, labels=pods.metadata.labels)
            await client.create(msgspec.structs.replace(pods, metadata=plain))
            await client.create(ServiceExport(metadata=meta))

    async def check(self) -> None:
        """Every cluster imports the service of all three."""
        for cluster in NAMES:
            client = self.client(cluster)
            found = await client.read(ServiceImport, "web", SHOP)
            assert {c.cluster for c in found.status.clusters} == set(NAMES)
            listed = await client.list(EndpointSlice, namespace=SHOP, labels=f"{SERVICE_NAME}=web")
            endpoints_by_source = {
                s.metadata.labels[SOURCE_CLUSTER]: s.endpoints for s in listed.objects
            }
            assert endpoints_by_source.keys() == set(NAMES)
            assert all(endpoints for endpoints in endpoints_by_source.values())
            export = await client.read(ServiceExport, "web", SHOP)
            reported = {c.type: c.reason for c in export.status.conditions}
            assert reported == {"Valid": "Valid", "Ready": "Exported", "Conflict": "NoConflicts"}


async def test_a_service_that_three_clusters_export_costs_23_writes_and_then_none() -> None:
    world = FailingWorld()
    await world.set_up()

    async with world.agents_running():
        await world.settle()
        await world.check()
        assert world.writes == ONE_SERVICE_OF_THREE_CLUSTERS

        for cluster in NAMES:
            await world.kill_agent(cluster)
            world.start_agent(cluster)
        await world.settle()
        assert world.writes == ONE_SERVICE_OF_THREE_CLUSTERS


async def test_in_kep_1645_each_cluster_also_writes_a_derived_service() -> None:
    world = FailingWorld()
    await world.set_up("kep-1645")

    async with world.agents_running():
        await world.settle()
        await world.check()

    assert world.writes == ONE_SERVICE_OF_THREE_CLUSTERS + len(NAMES)


FAILURES: list[tuple[Profile, int, int]] = [
    *(("lighthouse", n, code) for n in range(1, 24) for code in (500, 0)),
    *(("kep-1645", n, 500) for n in range(1, 27)),
    *(("lighthouse", n, 409) for n in range(1, 24, 5)),
]


@pytest.mark.parametrize(("profile", "failing", "status"), FAILURES)
async def test_any_write_may_fail_once(profile: Profile, failing: int, status: int) -> None:
    world = FailingWorld(failing, status)
    await world.set_up(profile)

    async with world.agents_running():
        await world.settle()
        await world.check()
