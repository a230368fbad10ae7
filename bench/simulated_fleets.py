"""Simulated fleets of any size, which count what their agents read, write and plan."""

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import msgspec
from tests.features.services.builders import held_lease
from tests.support.builders import namespace
from tests.support.faults import READ_METHODS
from tests.support.supervised_world import SupervisedWorld
from tests.support.world import BROKER, World

from hanse.features.gslb.feature import Gslb
from hanse.features.gslb.names import site_of
from hanse.kube.client import Client
from hanse.kube.transport import Request, Response, Transport
from hanse.local.in_process import InProcessTransport
from hanse.model.crds import crd_of
from hanse.model.facts import Role
from hanse.model.kinds.discovery import EndpointSlice
from hanse.model.kinds.globalservice import GlobalService
from hanse.model.kinds.multicluster import ServiceImport
from hanse.model.kinds.stateful import StatefulSetPart, StatefulSetShares
from hanse.model.naming import BROKER_NAMESPACE
from hanse.model.objects import ClusterId
from hanse.runtime.api import ClusterClient
from hanse.runtime.reconciler import Reconciler

_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
HOSTS = GlobalService.kind.definition


class Traffic:
    """Counts of what agents read and write."""

    def __init__(self) -> None:
        self.events = 0
        self.bytes_read = 0
        self.writes = 0
        self.watches = 0


class CountedTransport:
    """A transport that counts what is read and written on it, but for Leases."""

    def __init__(self, inner: Transport, traffic: Traffic) -> None:
        self._inner = inner
        self._traffic = traffic

    async def send(self, request: Request) -> Response:
        response = await self._inner.send(request)
        if "/leases" not in request.path:
            self._traffic.bytes_read += len(response.body)
            self._traffic.writes += request.method not in READ_METHODS
        return response

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        return self._counted(request)

    @asynccontextmanager
    async def _counted(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        async with self._inner.stream(request) as lines:
            self._traffic.watches += 1
            try:
                yield lines if "/leases" in request.path else self._lines(lines)
            finally:
                self._traffic.watches -= 1

    async def _lines(self, lines: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        async for line in lines:
            if b'"BOOKMARK"' not in line[:32]:
                self._traffic.events += 1
                self._traffic.bytes_read += len(line)
            yield line

    async def close(self) -> None:
        await self._inner.close()


class BrokerFleet(World):
    """Clusters with an agent each that share by a broker."""

    def __init__(self, size: int, features: Callable[[], Any]) -> None:
        super().__init__([f"c{number:03}" for number in range(size)], features)
        self.traffic = Traffic()

    def api(self, source: ClusterId, target: ClusterId) -> ClusterClient:
        inner = CountedTransport(InProcessTransport(self.clusters[target]), self.traffic)
        return ClusterClient(self.network.transport(source, target, inner), self.random)

    @property
    def reconcilers(self) -> list[Reconciler]:
        return [agent.reconciler for agent in self.agents.values()]

    def running(self) -> AbstractAsyncContextManager[Any]:
        return self.agents_running()

    def admin(self, cluster: ClusterId) -> Client:
        return self.client(cluster)

    @property
    def hub_objects(self) -> int:
        storage = self.clusters[BROKER].storage
        kinds = (EndpointSlice, ServiceImport, StatefulSetShares, StatefulSetPart)
        names = [k.kind.definition if k.kind.group else k.kind.plural for k in kinds]
        return sum(len(list(storage.objects(name, ""))) for name in names)

    async def define(self, kinds: Iterable[type[Any]], *spaces: str) -> None:
        """Kinds and namespaces everywhere; each cluster is alive for as long as it takes."""
        definitions = [crd_of(kind) for kind in kinds]
        for cluster in (*self.names, BROKER):
            await define_kinds(self.client(cluster), definitions)
            for space in spaces:
                await self.client(cluster).create(namespace(space))
        await self.client(BROKER).create(namespace(BROKER_NAMESPACE))
        for cluster in self.names:
            await self.client(BROKER).create(held_lease(cluster))


class MemberFleet(SupervisedWorld):
    """Members that three supervisors lead."""

    def __init__(self, size: int, features: Callable[[], Any]) -> None:
        super().__init__([f"c{number:03}" for number in range(size)], 3, features)
        self.traffic = Traffic()

    def way(self, source: ClusterId, target: ClusterId) -> Transport:
        return CountedTransport(super().way(source, target), self.traffic)

    @property
    def reconcilers(self) -> list[Reconciler]:
        return [one.reconciler for one in self.supervisors.values()]

    @property
    def hub_objects(self) -> int:
        return sum(
            len(list(self.servers[name].storage.objects("configmaps", "")))
            for name in self.supervisor_names
        )


class SiteFleet(BrokerFleet):
    """Sites of global hosts, of which the first leads; followers have nothing to do at rest."""

    def __init__(self, size: int) -> None:
        super().__init__(size, lambda: (Gslb(),))

    def reconciler(self, cluster: ClusterId) -> Reconciler:
        made = Reconciler(self._features(), cluster, clock=self.clock, random=self.random)
        made.informers.join(cluster, {Role.LOCAL}, self.api(cluster, cluster))
        for site in self.names[1:]:
            made.informers.join(site_of(site), {Role.SITE}, self.api(cluster, site))
        return made

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        self.start_agent(self.names[0])
        try:
            yield
        finally:
            await self.stop()

    @property
    def hub_objects(self) -> int:
        return len(list(self.clusters[self.names[0]].storage.objects(HOSTS, "")))


async def define_kinds(client: Client, definitions: Iterable[Mapping[str, Any]]) -> None:
    for definition in definitions:
        await client.send(Request("POST", _CRDS, body=msgspec.json.encode(definition)))


def count_plans(reconcilers: Iterable[Reconciler]) -> float:
    """The plans that all of them have made."""
    return sum(
        sample.value
        for one in reconcilers
        for metric in one.metrics.registry.collect()
        for sample in metric.samples
        if sample.name == "hanse_plan_seconds_count"
    )


def bytes_held(reconciler: Reconciler) -> int:
    """Bytes of all that an agent keeps in its stores, as they would travel."""
    return sum(
        len(msgspec.json.encode(obj))
        for stores in reconciler.informers.stores.values()
        for store in stores
        for obj in store.all()
    )
