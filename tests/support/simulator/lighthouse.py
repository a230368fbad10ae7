"""A model of Submariner Lighthouse, by its published behaviour: its agent, and its name server.

Up to 0.14 an agent publishes a ServiceImport per cluster and a slice with the pods of the Service;
since 0.15 a slice with the Service's address, or the pods of a headless Service, and one aggregated
ServiceImport. Objects on the broker have the label of their cluster; what an agent writes there
replaces labels and annotations, and at its start it deletes what it published and has no more.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any

from msgspec.structs import replace

from hanse.features.services.legacy import (
    IS_HEADLESS,
    LEGACY_CLUSTER,
    LEGACY_NAME,
    LEGACY_NAMESPACE,
    LIGHTHOUSE_AGENT,
)
from hanse.features.services.names import SERVICE_NAME, SOURCE_CLUSTER
from hanse.kube.client import Client
from hanse.kube.errors import AlreadyExists, Conflict, NotFound
from hanse.model.kinds.core import Service
from hanse.model.kinds.discovery import (
    KUBE_SERVICE,
    MANAGED_BY,
    Endpoint,
    EndpointConditions,
    EndpointPort,
    EndpointSlice,
)
from hanse.model.kinds.hanse import LighthouseVersion
from hanse.model.kinds.multicluster import (
    ExportingCluster,
    ImportedPort,
    ServiceExport,
    ServiceImport,
    ServiceImportSpec,
    ServiceImportStatus,
)
from hanse.model.naming import BROKER_NAMESPACE
from hanse.model.objects import ClusterId, K, Meta, Object, to_wire

CLUSTER_ID = "submariner-io/clusterID"
ORIGINAL_NAMESPACE = "submariner-io/originatingNamespace"
AGGREGATED = "lighthouse.submariner.io/aggregated-here"


class Lists:
    """Lists of objects, each kept while its server says that nothing has changed there.

    Without versions every list is read anew.
    """

    def __init__(self, versions: Callable[[Client], object] = lambda _: None) -> None:
        self._versions = versions
        self._kept: dict[tuple[int, type[Object], str], tuple[object, list[Any]]] = {}

    async def of(self, client: Client, kind: type[K], space: str) -> list[K]:
        """All objects of a kind in a namespace."""
        version, place = self._versions(client), (id(client), kind, space)
        kept = self._kept.get(place)
        if version is None or kept is None or kept[0] != version:
            kept = version, list((await client.list(kind, namespace=space)).objects)
            self._kept[place] = kept
        return list(kept[1])


class LighthouseAgent:
    """The agent of one cluster; `sync` is one pass of all its controllers."""

    def __init__(
        self,
        cluster: ClusterId,
        version: LighthouseVersion,
        local: Client,
        broker: Client,
        space: str,
        home: str,
        lists: "Lists | None" = None,
    ) -> None:
        self.cluster, self.version = cluster, version
        self._local, self._broker = local, broker
        self._lists = lists or Lists()
        self._space, self._home = space, home
        """The namespace of the services, and the agent's own."""

    async def sync(self) -> None:
        """Publish what is exported here, and copy what others publish."""
        await self._publish_local()
        await self._push()
        await self._pull()

    async def _publish_local(self) -> None:
        """The ServiceImport and the slice of each export, in this cluster."""
        exports = {
            e.metadata.name for e in await self._lists.of(self._local, ServiceExport, self._space)
        }
        services = await self._lists.of(self._local, Service, self._space)
        imports, slices = [], []
        for service in (s for s in services if s.metadata.name in exports):
            imports.append(self._import(service))
            slices.append(await self._slice(service))
        await _mirror(self._local, imports, await self._own_imports())
        await _mirror(self._local, slices, await self._own_slices(self._local, self._space))

    async def _own_imports(self) -> list[ServiceImport]:
        found = await self._lists.of(self._local, ServiceImport, self._home)
        return [i for i in found if CLUSTER_ID not in i.metadata.labels]

    async def _own_slices(self, client: Client, space: str) -> list[EndpointSlice]:
        found = await self._lists.of(client, EndpointSlice, space)
        return [
            s
            for s in found
            if s.metadata.labels.get(MANAGED_BY) == LIGHTHOUSE_AGENT
            and s.metadata.labels[SOURCE_CLUSTER] == self.cluster
        ]

    def _name(self, service: Service) -> str:
        return f"{service.metadata.name}-{service.metadata.namespace}-{self.cluster}"

    def _import(self, service: Service) -> ServiceImport:
        name, space = service.metadata.name, service.metadata.namespace
        labels = {LEGACY_NAME: name, LEGACY_NAMESPACE: space, LEGACY_CLUSTER: self.cluster}
        if self.version == "0.15":
            labels = {SERVICE_NAME: name, LEGACY_NAMESPACE: space, SOURCE_CLUSTER: self.cluster}
        headless = service.headless
        return ServiceImport(
            metadata=Meta(name=self._name(service), namespace=self._home, labels=labels),
            spec=ServiceImportSpec(
                type="Headless" if headless else "ClusterSetIP",
                ports=() if headless else _ports(service),
                ips=() if headless else (service.spec.cluster_ip,),
            ),
            status=ServiceImportStatus(clusters=(ExportingCluster(cluster=self.cluster),)),
        )

    async def _slice(self, service: Service) -> EndpointSlice:
        pods = [
            s
            for s in await self._lists.of(self._local, EndpointSlice, self._space)
            if s.metadata.labels.get(KUBE_SERVICE) == service.metadata.name
        ]
        endpoints = [e for s in pods for e in s.endpoints or ()]
        labels = {
            SERVICE_NAME: service.metadata.name,
            SOURCE_CLUSTER: self.cluster,
            LEGACY_NAMESPACE: service.metadata.namespace,
            MANAGED_BY: LIGHTHOUSE_AGENT,
        }
        ports = tuple(p for s in pods[:1] for p in s.ports or ())
        if self.version == "0.15":
            labels[IS_HEADLESS] = "true" if service.headless else "false"
        if self.version == "0.15" and not service.headless:
            ready = EndpointConditions(ready=any(e.ready for e in endpoints))
            endpoints = [Endpoint(addresses=(service.spec.cluster_ip,), conditions=ready)]
            ports = tuple(
                EndpointPort(port=p.port, name=p.name, protocol=p.protocol)
                for p in service.spec.ports
            )
        return EndpointSlice(
            metadata=Meta(name=self._name(service), namespace=self._space, labels=labels),
            address_type="IPv4",
            endpoints=tuple(endpoints),
            ports=ports,
        )

    async def _push(self) -> None:
        """Local slices, and imports or aggregates, to the broker."""
        own = await self._own_slices(self._local, self._space)
        marks = {CLUSTER_ID: self.cluster, ORIGINAL_NAMESPACE: self._space}
        published = [
            s
            for s in await self._lists.of(self._broker, EndpointSlice, BROKER_NAMESPACE)
            if s.metadata.labels.get(CLUSTER_ID) == self.cluster
        ]
        exported = {s.metadata.labels[SERVICE_NAME] for s in own}
        if self.version == "0.15":
            await self._create_aggregates(own)
        await _mirror(self._broker, [_moved(s, BROKER_NAMESPACE, marks) for s in own], published)
        if self.version == "0.15":
            await self._update_aggregates(exported)
            return
        imports = [_moved(i, BROKER_NAMESPACE, marks) for i in await self._own_imports()]
        old = [
            i
            for i in await self._lists.of(self._broker, ServiceImport, BROKER_NAMESPACE)
            if i.metadata.labels.get(CLUSTER_ID) == self.cluster
        ]
        await _mirror(self._broker, imports, old)

    async def _create_aggregates(self, own: Sequence[EndpointSlice]) -> None:
        imports = {i.metadata.labels[SERVICE_NAME]: i for i in await self._own_imports()}
        for name in {s.metadata.labels[SERVICE_NAME] for s in own}:
            meta = Meta(
                name=f"{name}-{self._space}",
                namespace=BROKER_NAMESPACE,
                annotations={SERVICE_NAME: name, LEGACY_NAMESPACE: self._space},
            )
            spec = ServiceImportSpec(type=imports[name].spec.type, ports=())
            with suppress(AlreadyExists):
                await self._broker.create(ServiceImport(metadata=meta, spec=spec))

    async def _update_aggregates(self, exported: Iterable[str]) -> None:
        """Add this cluster to the aggregates of what it exports, and take it off others.

        An aggregate without clusters is deleted.
        """
        for aggregate in await self._lists.of(self._broker, ServiceImport, BROKER_NAMESPACE):
            name = aggregate.metadata.annotations.get(SERVICE_NAME)
            if name is None:
                continue
            before = [c.cluster for c in aggregate.status.clusters]
            after = [c for c in before if c != self.cluster or name in exported]
            if name in exported and self.cluster not in after:
                after.append(self.cluster)
            meta = aggregate.metadata
            with suppress(NotFound, Conflict):
                if not after and before:
                    await self._broker.delete(ServiceImport, meta.name, meta.namespace)
                elif after != before:
                    change = {
                        "metadata": {"resourceVersion": meta.resource_version},
                        "status": {"clusters": [{"cluster": c} for c in after]},
                    }
                    await self._broker.patch(
                        ServiceImport, meta.name, meta.namespace, change, subresource="status"
                    )

    async def _pull(self) -> None:
        """Copy what other clusters published."""
        slices = [
            _moved(s, self._space)
            for s in await self._lists.of(self._broker, EndpointSlice, BROKER_NAMESPACE)
            if self._is_remote(s) and s.metadata.labels.get(LEGACY_NAMESPACE) == self._space
        ]
        copies = [
            s
            for s in await self._lists.of(self._local, EndpointSlice, self._space)
            if CLUSTER_ID in s.metadata.labels
        ]
        await _mirror(self._local, slices, copies)
        imports, aggregates = [], []
        for found in await self._lists.of(self._broker, ServiceImport, BROKER_NAMESPACE):
            name = found.metadata.annotations.get(SERVICE_NAME)
            if name is not None and self.version == "0.15":
                meta = Meta(name=name, namespace=self._space, annotations={AGGREGATED: "true"})
                aggregates.append(replace(found, metadata=meta))
            elif self._is_remote(found):
                imports.append(_moved(found, self._home))
        local = await self._lists.of(self._local, ServiceImport, self._home)
        await _mirror(self._local, imports, [i for i in local if CLUSTER_ID in i.metadata.labels])
        if self.version == "0.15":
            held = await self._lists.of(self._local, ServiceImport, self._space)
            await _mirror(self._local, aggregates, held)

    def _is_remote(self, obj: EndpointSlice | ServiceImport) -> bool:
        return obj.metadata.labels.get(CLUSTER_ID, self.cluster) != self.cluster

    async def answer(self, exporter: ClusterId, name: str) -> frozenset[str]:
        """What its name server says of one cluster's service, from the objects in this cluster."""
        slices = [
            s
            for s in await self._lists.of(self._local, EndpointSlice, self._space)
            if s.metadata.labels.get(MANAGED_BY) == LIGHTHOUSE_AGENT
            and s.metadata.labels.get(SERVICE_NAME) == name
            and s.metadata.labels[SOURCE_CLUSTER] == exporter
        ]
        assert len(slices) <= 1, f"{self.cluster} has several slices of {name} of {exporter}"
        endpoints = [e for s in slices for e in s.endpoints or ()]
        if self.version == "0.14":
            imports = await self._lists.of(self._local, ServiceImport, self._home)
            of = [i for i in imports if _is_import(i, exporter, name)]
            if not of:
                return frozenset()
            if of[0].spec.type == "Headless":
                return frozenset(a for e in endpoints for a in e.addresses)
            return frozenset(of[0].spec.ips[:1] if endpoints else ())
        imports = await self._lists.of(self._local, ServiceImport, self._space)
        if not any(
            i.metadata.name == name and not i.metadata.labels.get(SERVICE_NAME) for i in imports
        ):
            return frozenset()
        return frozenset(a for e in endpoints if e.ready for a in e.addresses)


def _is_import(legacy: ServiceImport, exporter: ClusterId, name: str) -> bool:
    labels = legacy.metadata.labels
    return (labels.get(LEGACY_CLUSTER), labels.get(LEGACY_NAME)) == (exporter, name)


def _ports(service: Service) -> tuple[ImportedPort, ...]:
    return tuple(
        ImportedPort(port=p.port, name=p.name, protocol=p.protocol) for p in service.spec.ports
    )


def _moved(obj: K, space: str, marks: dict[str, str] | None = None) -> K:
    meta = obj.metadata
    labels = {**meta.labels, **(marks or {})}
    return replace(
        obj,
        metadata=Meta(
            name=meta.name, namespace=space, labels=labels, annotations=dict(meta.annotations)
        ),
    )


async def _mirror(client: Client, wanted: Sequence[K], found: Sequence[K]) -> None:
    """Create and update what is wanted, and delete what else was found."""
    names = {o.metadata.name for o in wanted}
    current = {o.metadata.name: o for o in found}
    for obj in wanted:
        name = obj.metadata.name
        if name not in current or not _is_whole(obj, current[name]):
            await _put(client, obj)
    for obj in found:
        if obj.metadata.name not in names:
            with suppress(NotFound):
                await client.delete(type(obj), obj.metadata.name, obj.metadata.namespace)


async def _put(client: Client, obj: K) -> None:
    """Create an object, or replace its content, labels and annotations."""
    meta, kind = obj.metadata, type(obj)
    try:
        current = await client.read(kind, meta.name, meta.namespace)
    except NotFound:
        with suppress(AlreadyExists):
            current = await client.create(obj)
        return await _put_status(client, obj)
    change = to_wire(obj)
    change["metadata"] = {
        "labels": {**dict.fromkeys(current.metadata.labels), **meta.labels} or None,
        "annotations": {**dict.fromkeys(current.metadata.annotations), **meta.annotations} or None,
    }
    change.pop("status", None)
    if isinstance(obj, EndpointSlice):
        change |= {"endpoints": change.get("endpoints", []), "ports": change.get("ports", [])}
    if not _is_equal(obj, current):
        with suppress(NotFound):
            await client.patch(kind, meta.name, meta.namespace, change)
    return await _put_status(client, obj)


async def _put_status(client: Client, obj: K) -> None:
    if isinstance(obj, ServiceImport) and obj.status.clusters:
        change = {"status": {"clusters": [{"cluster": c.cluster} for c in obj.status.clusters]}}
        meta = obj.metadata
        with suppress(NotFound):
            current = await client.read(ServiceImport, meta.name, meta.namespace)
            if current.status.clusters != obj.status.clusters:
                await client.patch(
                    ServiceImport, meta.name, meta.namespace, change, subresource="status"
                )


def _is_whole(wanted: K, current: K) -> bool:
    """Whether an object has the content and the status that is wanted."""
    if isinstance(wanted, ServiceImport) and isinstance(current, ServiceImport):
        clusters = wanted.status.clusters
        if clusters and clusters != current.status.clusters:
            return False
    return _is_equal(wanted, current)


def _is_equal(wanted: K, current: K) -> bool:
    if isinstance(wanted, EndpointSlice) and isinstance(current, EndpointSlice):
        same = (wanted.endpoints or (), wanted.ports or ()) == (
            current.endpoints or (),
            current.ports or (),
        )
    elif isinstance(wanted, ServiceImport) and isinstance(current, ServiceImport):
        same = (wanted.spec.ips, wanted.spec.ports, wanted.spec.type) == (
            current.spec.ips,
            current.spec.ports,
            current.spec.type,
        )
    else:
        same = False
    marks = (wanted.metadata.labels, wanted.metadata.annotations)
    return same and marks == (current.metadata.labels, current.metadata.annotations)
