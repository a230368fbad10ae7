"""Actions of users on federated Services and machines, and checks of what they observe."""

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

import msgspec

from hanse.features.federated.names import CLUSTER, FEDERATED
from hanse.kube.client import Client
from hanse.kube.errors import AlreadyExists, NotFound
from hanse.kube.transport import Request
from hanse.model.conditions import find_condition
from hanse.model.internal_addresses import INTERNAL_FROM
from hanse.model.kinds.core import Event, Service, ServicePort, ServiceSpec
from hanse.model.kinds.discovery import Endpoint, EndpointConditions, EndpointPort, EndpointSlice
from hanse.model.kinds.federation import (
    SYSTEM,
    InterfaceAddress,
    MachineInterface,
    NativePort,
    NativeService,
    NativeServiceSpec,
    NetworkInterface,
    NetworkInterfaceSpec,
    VirtualMachine,
    VirtualMachineSpec,
)
from hanse.model.objects import ClusterId, K, Meta, Object
from tests.support.federation import FederationScenario, form_federation, install_crds
from tests.support.scenario import Check, Scenario

GLOBAL = "svc.global.federated.antreaplus.vmware.com"
NAMESPACED = "svc.federated.antreaplus.vmware.com"
TAG = "svc.antreaplus.vmware.com"
KUBE_SERVICE = "kubernetes.io/service-name"
OURS = (VirtualMachine, NetworkInterface, NativeService)
BLOCKS = {"lubeck": 1, "hamburg": 2, "bergen": 3}
"""Each cluster's pods have addresses of its own: 10.210.<block>.n."""

Endpoints = dict[ClusterId, list[str]]


class FederatedScenario:
    """Federated Services of a federation; global ones have the scenario's own name."""

    def __init__(self, membership: FederationScenario) -> None:
        self.membership = membership
        self.scenario = membership.scenario
        self.namespace = membership.scenario.namespace
        self.web = f"web-{self.namespace}"

    def admin(self, cluster: ClusterId) -> Client:
        return self.scenario.admin(cluster)

    # -- actions

    async def serve(
        self,
        cluster: ClusterId,
        name: str = "web",
        *,
        marks: Mapping[str, str] | None = None,
        labels: Mapping[str, str] | None = None,
        space: str = "",
        ports: Iterable[tuple[str, int]] = (("http", 80),),
        **spec: Any,
    ) -> Service:
        """Make a Service without selector that joins the scenario's federated Service."""
        meta = Meta(
            name=name,
            namespace=space or self.namespace,
            annotations=dict({GLOBAL: self.web} if marks is None else marks),
            labels=dict(labels or {}),
        )
        fields = ServiceSpec(
            ports=tuple(ServicePort(port=number, name=n) for n, number in ports), **spec
        )
        return await self.admin(cluster).create(Service(metadata=meta, spec=fields))

    async def pods(
        self, cluster: ClusterId, *numbers: int, name: str = "web", space: str = ""
    ) -> None:
        """Write the EndpointSlice of a Service by hand."""
        meta = Meta(
            name=f"{name}-pods", namespace=space or self.namespace, labels={KUBE_SERVICE: name}
        )
        endpoints = tuple(
            Endpoint(
                addresses=(address(cluster, number),), conditions=EndpointConditions(ready=True)
            )
            for number in numbers
        )
        endpoint_slice = EndpointSlice(
            metadata=meta,
            address_type="IPv4",
            endpoints=endpoints,
            ports=(EndpointPort(port=8080, name="http"),),
        )
        try:
            await self.admin(cluster).create(endpoint_slice)
        except AlreadyExists:
            change = {"endpoints": msgspec.to_builtins(endpoints)}
            await self.admin(cluster).patch(EndpointSlice, meta.name, meta.namespace, change)

    async def join(self, cluster: ClusterId, *numbers: int, name: str = "web", **how: Any) -> None:
        """Serve with these pods, and join."""
        await self.serve(cluster, name, **how)
        await self.pods(cluster, *numbers, name=name, space=how.get("space", ""))

    async def edit(
        self, cluster: ClusterId, kind: type[Any], name: str, change: dict[str, Any], **how: Any
    ) -> None:
        space = how.pop("space", self.namespace)
        await self.admin(cluster).patch(kind, name, space, change, **how)

    async def machine(
        self, cluster: ClusterId, name: str, address_: str, **tags: str
    ) -> VirtualMachine:
        """A machine outside; `ports`, `joins` and `internal_from` are its tags of these meanings.

        With `external` it has an ExternalIP, too.
        """
        marks = {TAG: tags.pop("service", "db")}
        for tag, mark in (
            ("ports", "ports.antreaplus.vmware.com"),
            ("joins", GLOBAL),
            ("internal_from", INTERNAL_FROM),
        ):
            if tag in tags:
                marks[mark] = tags.pop(tag)
        ips = [InterfaceAddress(address=address_)]
        if external := tags.pop("external", ""):
            ips.append(InterfaceAddress(address=external, address_type="ExternalIP"))
        interface = MachineInterface(name="eth0", ips=tuple(ips))
        return await self.admin(cluster).create(
            VirtualMachine(
                metadata=Meta(name=name, namespace=self.namespace),
                spec=VirtualMachineSpec(
                    id=f"i-{name}", tags={**marks, **tags}, network_interfaces=(interface,)
                ),
            )
        )

    async def native(self, cluster: ClusterId, name: str, **addresses: str) -> None:
        """A native service that joins, at an interface with these addresses."""
        marks = {GLOBAL: self.web}
        await self.admin(cluster).create(
            NetworkInterface(
                metadata=Meta(name=f"{name}-nic", namespace=self.namespace),
                spec=NetworkInterfaceSpec(**addresses),
            )
        )
        await self.admin(cluster).create(
            NativeService(
                metadata=Meta(name=name, namespace=self.namespace, annotations=marks),
                spec=NativeServiceSpec(
                    network_interface=f"{name}-nic", ports=(NativePort(port=80, name="http"),)
                ),
            )
        )

    async def install_crds(self, cluster: ClusterId, kind: type[Object]) -> None:
        """Install a minimal CRD of a third-party kind."""
        await install_crds(self.scenario, cluster, kind)

    async def put_with_status(self, cluster: ClusterId, obj: Any) -> None:
        """Create an object with the status that its controller would write."""
        admin = self.admin(cluster)
        made = await admin.create(obj)
        if made.status != obj.status:
            change = {"status": msgspec.to_builtins(obj.status)}
            meta = obj.metadata
            await admin.patch(type(obj), meta.name, meta.namespace, change, subresource="status")

    # -- checks

    async def find(
        self, cluster: ClusterId, kind: type[K], name: str, space: str = SYSTEM
    ) -> K | None:
        try:
            return await self.admin(cluster).read(kind, name, space)
        except NotFound:
            return None

    async def slices(
        self, cluster: ClusterId, name: str = "", space: str = SYSTEM
    ) -> tuple[EndpointSlice, ...]:
        """The EndpointSlices of a Service in a cluster; of the federated one without a name."""
        labels = f"{KUBE_SERVICE}={name or self.web}"
        listed = await self.admin(cluster).list(EndpointSlice, namespace=space, labels=labels)
        return listed.objects

    async def endpoints(self, cluster: ClusterId, name: str = "", space: str = SYSTEM) -> Endpoints:
        """The addresses of a federated Service in a cluster, by where they come from."""
        observed: Endpoints = {}
        for endpoint_slice in await self.slices(cluster, name, space):
            source = endpoint_slice.metadata.annotations.get(CLUSTER, "?")
            found = [a for e in endpoint_slice.endpoints or () for a in e.addresses]
            observed.setdefault(source, []).extend(found)
        return {source: sorted(found) for source, found in observed.items()}

    def has_ready(self, cluster: ClusterId, *addresses: str) -> Check[None]:
        """That exactly these addresses of the federated Service are ready in a cluster."""

        async def check() -> None:
            slices = await self.slices(cluster)
            endpoints = [e for s in slices for e in s.endpoints or () if e.ready]
            ready = sorted(a for e in endpoints for a in e.addresses)
            assert ready == sorted(addresses), f"{cluster} has {ready} ready"

        return check

    def has_endpoints(
        self, cluster: ClusterId, name: str, space: str, endpoints: Endpoints
    ) -> Check[None]:
        """That a Service, whosever it is, has exactly these endpoints; `?`: its cluster's own."""

        async def check() -> None:
            assert await self.endpoints(cluster, name, space) == endpoints

        return check

    def has(
        self, cluster: ClusterId, name: str = "", space: str = SYSTEM, /, **endpoints: list[str]
    ) -> Check[None]:
        """That a cluster has a federated Service with exactly these endpoints; none: not at all."""

        async def check() -> None:
            found = await self.find(cluster, Service, name or self.web, space)
            known = await self.endpoints(cluster, name, space)
            assert known == endpoints, f"{cluster} has {known}"
            ours = found is not None and FEDERATED in found.metadata.annotations
            assert ours == bool(endpoints), f"{cluster} has {found}"

        return check

    def everywhere(self, name: str = "", /, **endpoints: list[str]) -> Check[None]:
        """That every member has it so."""

        async def check() -> None:
            for cluster in self.membership.members:
                await self.has(cluster, name, **endpoints)()

        return check

    def has_conditions(
        self, cluster: ClusterId, kind: type[Any], name: str, type_: str, reason: str, space: str
    ) -> Check[None]:
        """That an object has a condition, and an Event with its reason if it is False."""

        async def check() -> None:
            found = await self.find(cluster, kind, name, space)
            assert found is not None, f"{cluster} has no {name}"
            observed_reasons = find_condition(found.status.conditions, type_)
            assert observed_reasons is not None, (
                f"{name} in {cluster} says {found.status.conditions}"
            )
            assert observed_reasons.reason == reason, f"{name} in {cluster} says {observed_reasons}"
            if observed_reasons.status == "False":
                events = await self.admin(cluster).list(Event, namespace=space)
                observed = {(e.involved_object.name, e.reason) for e in events.objects}
                assert (name, reason) in observed, f"{cluster} has events {observed}"

        return check

    async def clear(self) -> None:
        """Leave nothing of ours behind for the next scenario."""
        owned = (("labelSelector", "hanse.dev/owner"),)
        for cluster in self.membership.members:
            for path in (
                f"/api/v1/namespaces/{SYSTEM}/configmaps",
                f"/apis/discovery.k8s.io/v1/namespaces/{SYSTEM}/endpointslices",
            ):
                await self.admin(cluster).send(Request("DELETE", path, owned))
            services = await self.admin(cluster).list(Service, namespace=SYSTEM)
            for service in services.objects:
                with suppress(NotFound):
                    await self.admin(cluster).delete(Service, service.metadata.name, SYSTEM)


def address(cluster: ClusterId, number: int) -> str:
    """The address of a cluster's pod."""
    return f"10.210.{BLOCKS[cluster]}.{number}"


@asynccontextmanager
async def federated_scenario(scenario: Scenario) -> AsyncIterator[FederatedScenario]:
    """A federation whose agents run, with our kinds of things outside a cluster."""
    membership = await form_federation(scenario)
    for cluster in membership.members:
        await install_crds(scenario, cluster, *OURS)
    federated = FederatedScenario(membership)
    await scenario.start_agents()
    await scenario.eventually(membership.all_led())
    yield federated
    for name in list(scenario.agents):
        await scenario.kill_agent(name)
    await federated.clear()


@asynccontextmanager
async def two_exporters(scenario: Scenario) -> AsyncIterator[FederatedScenario]:
    """A federation with a federated Service that has an endpoint in lubeck and one in bergen."""
    async with federated_scenario(scenario) as federated:
        await federated.join("lubeck", 1)
        await federated.join("bergen", 1)
        both = {name: [address(name, 1)] for name in ("lubeck", "bergen")}
        await scenario.eventually(federated.everywhere(**both))
        yield federated
