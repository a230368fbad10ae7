"""Actions of users on exported services, and checks of what they observe."""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from hanse.app import BROKER
from hanse.features.services.feature import Services
from hanse.features.services.names import SERVICE_NAME, SERVICE_NAMESPACE, SOURCE_CLUSTER
from hanse.kube.client import Client
from hanse.kube.errors import AlreadyExists, NotFound
from hanse.model.kinds.core import Namespace, Service, ServicePort, ServiceSpec
from hanse.model.kinds.discovery import (
    KUBE_SERVICE,
    Endpoint,
    EndpointConditions,
    EndpointPort,
    EndpointSlice,
)
from hanse.model.kinds.hanse import (
    ClusterMember,
    ClusterMemberSpec,
    ClusterSet,
    ClusterSetSpec,
    Profile,
)
from hanse.model.kinds.multicluster import ServiceExport, ServiceExportSpec, ServiceImport
from hanse.model.naming import BROKER_NAMESPACE, unique_name
from hanse.model.objects import ClusterId, K, Meta
from tests.scenarios.toy_offers import shop_of
from tests.support.broker import clear_broker
from tests.support.federation import install_crds
from tests.support.scenario import Check, Features, Scenario
from tests.support.testbed import ClusterTestbed

HTTP = {"http": 80}
Endpoints = dict[ClusterId, list[tuple[str, bool]]]


class ServicesScenario:
    """Services in the scenario's namespace, or in another that is named."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario

    def admin(self, cluster: ClusterId) -> Client:
        return self.scenario.admin(cluster)

    async def open(self, profile: Profile = "lighthouse", lease: int = 3) -> None:
        """Install the CRDs in every cluster, and create the ClusterSet on an empty broker."""
        for cluster in (*self.scenario.names, BROKER):
            kinds = (ServiceExport, ServiceImport, ClusterSet, ClusterMember)
            await install_crds(self.scenario, cluster, *kinds)
        admin = self.admin(self.scenario.broker)
        await self.scenario.make_namespace(self.scenario.broker, BROKER_NAMESPACE, keep=True)
        await clear_broker(admin)
        self.scenario.closing.push_async_callback(clear_broker, admin)
        spec = ClusterSetSpec(profile=profile, lease_duration_seconds=lease)
        await self.scenario.eventually(
            lambda: admin.create(ClusterSet(metadata=Meta(name=self.scenario.namespace), spec=spec))
        )

    async def add_record(self, cluster: ClusterId) -> None:
        """Create the record of a cluster on the broker, as `hanse join` does."""
        uid = (await self.admin(cluster).read(Namespace, "kube-system")).metadata.uid
        spec = ClusterMemberSpec(cluster_id=cluster, uid=uid)
        meta = Meta(name=cluster, namespace=BROKER_NAMESPACE)
        await self.admin(self.scenario.broker).create(ClusterMember(metadata=meta, spec=spec))

    async def set_profile(self, profile: Profile) -> None:
        """Set the profile of the ClusterSet."""
        await self.patch_clusterset({"profile": profile})

    async def patch_clusterset(self, spec: dict[str, Any]) -> None:
        await self.admin(self.scenario.broker).patch(
            ClusterSet, self.scenario.namespace, "", {"spec": spec}
        )

    # -- doing

    async def serve(
        self,
        cluster: ClusterId,
        name: str = "web",
        ports: dict[str, int] | None = None,
        *,
        headless: bool = False,
        space: str = "",
        **spec: Any,
    ) -> Service:
        """Make a Service that has no selector: its endpoints are set by hand."""
        meta = Meta(name=name, namespace=space or self.scenario.namespace)
        fields = ServiceSpec(
            ports=tuple(ServicePort(port=p, name=n) for n, p in (ports or HTTP).items()),
            cluster_ip="None" if headless else "",
            ip_family_policy="SingleStack" if headless else "",  # or it would claim both families
            **spec,
        )
        return await self.admin(cluster).create(Service(metadata=meta, spec=fields))

    async def pods(
        self,
        cluster: ClusterId,
        name: str = "web",
        *states: bool,
        slot: str = "a",
        space: str = "",
        hostnames: Iterable[str] = (),
    ) -> None:
        """Write the EndpointSlice of a Service by hand: its pods, ready or not."""
        space, names = space or self.scenario.namespace, [*hostnames]
        endpoints = tuple(
            Endpoint(
                addresses=(f"10.200.{ord(slot)}.{n + 1}",),
                conditions=EndpointConditions(ready=ready),
                hostname=names[n] if names else "",
            )
            for n, ready in enumerate(states)
        )
        meta = Meta(name=f"{name}-{slot}", namespace=space, labels={KUBE_SERVICE: name})
        ports = (EndpointPort(port=8080, name="http"),)
        endpoint_slice = EndpointSlice(
            metadata=meta, address_type="IPv4", endpoints=endpoints, ports=ports
        )
        try:
            await self.admin(cluster).create(endpoint_slice)
        except AlreadyExists:
            change = {"endpoints": msgspec.to_builtins(endpoints)}
            await self.admin(cluster).patch(EndpointSlice, meta.name, space, change)

    async def export(
        self, cluster: ClusterId, name: str = "web", space: str = "", **spec: Any
    ) -> None:
        meta = Meta(name=name, namespace=space or self.scenario.namespace)
        await self.admin(cluster).create(
            ServiceExport(metadata=meta, spec=ServiceExportSpec(**spec))
        )

    async def serve_and_export(
        self, cluster: ClusterId, name: str = "web", ports: dict[str, int] | None = None, **how: Any
    ) -> None:
        """Serve with one ready pod, and export."""
        space = how.get("space", "")
        await self.serve(cluster, name, ports, **how)
        await self.pods(cluster, name, True, space=space)
        await self.export(cluster, name, space)

    async def unexport(self, cluster: ClusterId, name: str = "web") -> None:
        await self.admin(cluster).delete(ServiceExport, name, self.scenario.namespace)

    async def unserve(self, cluster: ClusterId, name: str = "web") -> None:
        await self.admin(cluster).delete(Service, name, self.scenario.namespace)

    async def edit(
        self, cluster: ClusterId, kind: type[Any], change: dict[str, Any], name: str = "web"
    ) -> None:
        await self.admin(cluster).patch(kind, name, self.scenario.namespace, change)

    # -- seeing

    async def found(
        self, cluster: ClusterId, kind: type[K], name: str = "web", space: str = ""
    ) -> K | None:
        try:
            return await self.admin(cluster).read(kind, name, space or self.scenario.namespace)
        except NotFound:
            return None

    async def endpoints(self, cluster: ClusterId, name: str = "web", space: str = "") -> Endpoints:
        """The imported addresses of a service in a cluster, by source cluster."""
        listed = await self.admin(cluster).list(
            EndpointSlice,
            namespace=space or self.scenario.namespace,
            labels=f"{SERVICE_NAME}={name}",
        )
        observed: Endpoints = {}
        for endpoint_slice in listed.objects:
            addresses = observed.setdefault(endpoint_slice.metadata.labels[SOURCE_CLUSTER], [])
            addresses.extend((e.addresses[0], e.ready) for e in endpoint_slice.endpoints or ())
        return observed

    def imports(
        self,
        cluster: ClusterId,
        name: str = "web",
        /,
        *exporters: ClusterId,
        ports: dict[str, int] | None = None,
        headless: bool = False,
        space: str = "",
    ) -> Check[None]:
        """That a cluster imports a service of exactly these clusters; of none: not at all."""

        async def check() -> None:
            found = await self.found(cluster, ServiceImport, name, space)
            slices = await self.endpoints(cluster, name, space)
            assert sorted(slices) == sorted(exporters), f"{cluster} has slices of {sorted(slices)}"
            self._require(found, exporters, HTTP if ports is None else ports, headless, cluster)

        return check

    def everywhere(
        self,
        name: str = "web",
        /,
        *exporters: ClusterId,
        ports: dict[str, int] | None = None,
        headless: bool = False,
    ) -> Check[None]:
        """That every cluster imports the same, and the broker's aggregate says it too."""

        async def check() -> None:
            for cluster in self.scenario.names:
                await self.imports(cluster, name, *exporters, ports=ports, headless=headless)()
            title = unique_name(name, self.scenario.namespace)
            found = await self.found(self.scenario.broker, ServiceImport, title, BROKER_NAMESPACE)
            self._require(found, exporters, HTTP if ports is None else ports, headless, BROKER)
            left = await self.admin(self.scenario.broker).list(
                EndpointSlice,
                namespace=BROKER_NAMESPACE,
                labels=f"{SERVICE_NAME}={name},{SERVICE_NAMESPACE}={self.scenario.namespace}",
            )
            sources = {s.metadata.labels[SOURCE_CLUSTER] for s in left.objects}
            assert sources >= set(exporters), f"the broker has slices of {sources}"
            assert exporters or not sources, f"the broker still has slices of {sources}"

        return check

    def _require(
        self,
        found: ServiceImport | None,
        exporters: tuple[ClusterId, ...],
        ports: dict[str, int],
        headless: bool,
        where: ClusterId,
    ) -> None:
        assert (found is not None) == bool(exporters), f"{where} has {found}"
        if found is None:
            return
        observed_reasons = sorted(c.cluster for c in found.status.clusters)
        assert observed_reasons == sorted(exporters), f"{where} names {observed_reasons}"
        observed = {p.name: p.port for p in found.spec.ports}
        assert observed == ports, f"{where} imports {observed}"
        type_ = "Headless" if headless else "ClusterSetIP"
        assert found.spec.type == type_, f"{where} imports it as {found.spec.type}"

    def has_endpoints(self, cluster: ClusterId, name: str = "web", /, **wanted: Any) -> Check[None]:
        """That a cluster has exactly these ready and unready endpoints, by source cluster."""

        async def check() -> None:
            found = await self.endpoints(cluster, name)
            observed = {c: [ready for _, ready in several] for c, several in found.items()}
            assert observed == wanted, f"{cluster} has {observed}"

        return check

    def has_conditions(
        self, cluster: ClusterId, name: str = "web", /, space: str = "", **reasons: str
    ) -> Check[None]:
        """That an export has conditions with these reasons."""

        async def check() -> None:
            export = await self.found(cluster, ServiceExport, name, space)
            assert export is not None, f"{cluster} does not export {name}"
            observed = {c.type: c.reason for c in export.status.conditions}
            observed_reasons = {type_: observed.get(type_) for type_ in reasons}
            assert observed_reasons == reasons, f"{name} of {cluster} has {observed}"

        return check


@asynccontextmanager
async def running_services(
    testbed: ClusterTestbed,
    nodeid: str,
    broker: ClusterId = BROKER,
    features: Features = lambda: (Services(),),
) -> AsyncIterator[ServicesScenario]:
    """Services on a fleet with this cluster as its broker; agents have these features alone."""
    async with Scenario(testbed, shop_of(nodeid), features) as scenario:
        scenario.broker = broker
        services = ServicesScenario(scenario)
        await services.open()
        await scenario.start_agents()
        yield services
