"""Publishes exports in the form of Lighthouse as well, while clusters with its agents read it.

One slice and, up to 0.14, one ServiceImport per export, under the names that the Lighthouse agent
of this cluster gives them: an upgrade takes them over and a roll-back finds them, without a gap.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TypeAlias

from hanse.features.services.clusters import source_cluster
from hanse.features.services.legacy import (
    IS_HEADLESS,
    LEGACY_CLUSTER,
    LEGACY_IMPORTS,
    LEGACY_NAME,
    LEGACY_NAMESPACE,
    LEGACY_SLICES,
    LIGHTHOUSE_AGENT,
    is_of_lighthouse,
    legacy_import_key,
    legacy_slice_keys,
    lighthouse_exports,
)
from hanse.features.services.merge import MergedImport
from hanse.features.services.names import SERVICE_NAME, SOURCE_CLUSTER
from hanse.features.services.records import ExportRecord
from hanse.features.services.slices import NOT_READY, READY, ExportBackends, address_family
from hanse.model.clusterset import broker_cluster
from hanse.model.kinds.discovery import (
    MANAGED_BY,
    AddressType,
    Endpoint,
    EndpointPort,
    EndpointSlice,
)
from hanse.model.kinds.hanse import ClusterSetSpec, LighthouseVersion
from hanse.model.kinds.multicluster import (
    ExportingCluster,
    ServiceExport,
    ServiceImport,
    ServiceImportSpec,
    ServiceImportStatus,
)
from hanse.model.objects import ClusterId, ClusterObjectRef, Meta, Object, object_ref
from hanse.model.plan import Key, Plan, Removal
from hanse.model.snapshot import Snapshot

_Published: TypeAlias = Iterable[ServiceImport] | Iterable[EndpointSlice]

LEGACY = Key("legacy")
"""The key of the plan that removes what Lighthouse agents left behind."""

MOST_ENDPOINTS = 1000
_CLUSTER_ID = "submariner-io/clusterID"
_ORIGINAL_NAMESPACE = "submariner-io/originatingNamespace"
"""Labels by which Lighthouse agents know whose an object on the broker is."""


def lighthouse_version(
    rules: ClusterSetSpec, snapshot: Snapshot, broker: ClusterId
) -> LighthouseVersion | None:
    """The version of Lighthouse that exports are published for: as the ClusterSet says, if it does.

    Else by the objects of other clusters' Lighthouse agents: `0.14` if there are ServiceImports in
    its form, `0.15` if there are only slices; None if there are none.
    """
    if rules.lighthouse is not None:
        return rules.lighthouse
    if any(_of_others(snapshot.by(broker, LEGACY_IMPORTS, ""), snapshot)):
        return "0.14"
    return "0.15" if any(_of_others(snapshot.by(broker, LEGACY_SLICES, ""), snapshot)) else None


def _of_others(objects: _Published, snapshot: Snapshot) -> Iterator[str]:
    """The names of objects that Lighthouse agents of other clusters wrote."""
    for obj in objects:
        if is_of_lighthouse(obj) and _exporting_cluster(obj) != snapshot.local:
            yield obj.metadata.name


def is_only_of_lighthouse(obj: Object, snapshot: Snapshot, broker: ClusterId) -> bool:
    """Whether other clusters' Lighthouse agents have no other object of this kind on the broker."""
    found: _Published = (
        snapshot.by(broker, LEGACY_IMPORTS, "")
        if isinstance(obj, ServiceImport)
        else snapshot.by(broker, LEGACY_SLICES, "")
    )
    return not any(name != obj.metadata.name for name in _of_others(found, snapshot))


def lighthouse_objects(
    record: ExportRecord,
    backends: ExportBackends,
    version: LighthouseVersion,
    snapshot: Snapshot,
    broker: ClusterId,
    broker_namespace: str,
) -> tuple[Object, ...]:
    """The objects of one export in the form of a version of Lighthouse.

    A slice, and for 0.14 a ServiceImport before it. The slice keeps the name of one that this
    cluster has there. An object whose name an object of another cluster has on the broker is left
    out: names may collide.
    """
    key = Key("export", record.name, record.namespace)
    names = [
        s.metadata.name
        for s in snapshot.by(broker, LEGACY_SLICES, f"{key.namespace}/{key.name}")
        if source_cluster(s) == record.cluster
    ]
    usual = f"{record.name}-{record.namespace}-{record.cluster}"
    name = usual if usual in names or not names else min(names)
    endpoint_slice = _export_slice(
        record, backends, version, Meta(name=name, namespace=broker_namespace)
    )
    objects: list[Object] = [endpoint_slice]
    if version == "0.14":
        meta = Meta(name=usual, namespace=broker_namespace)
        objects.insert(0, _legacy_import(record, backends, meta))
    return tuple(o for o in objects if not _is_taken(o, snapshot, broker))


def _is_taken(obj: Object, snapshot: Snapshot, broker: ClusterId) -> bool:
    """Whether an object of another cluster has the name on the broker."""
    found = snapshot.find(ClusterObjectRef(broker, object_ref(obj)))
    return found is not None and _exporting_cluster(found) != _exporting_cluster(obj)


def lighthouse_aggregate(key: Key, merged: MergedImport, broker_namespace: str) -> ServiceImport:
    """The ServiceImport that Lighthouse agents since 0.15 share for a service, in their form.

    It has the type, the ports (none if headless) and the clusters of the import.
    """
    return ServiceImport(
        metadata=Meta(
            name=f"{key.name}-{key.namespace}",
            namespace=broker_namespace,
            annotations={SERVICE_NAME: key.name, LEGACY_NAMESPACE: key.namespace},
        ),
        spec=ServiceImportSpec(
            type=merged.type, ports=() if merged.type == "Headless" else merged.ports
        ),
        status=ServiceImportStatus(
            clusters=tuple(ExportingCluster(cluster=c) for c in sorted(merged.clusters))
        ),
    )


def leftovers(
    key: Key, kept: Sequence[Object], snapshot: Snapshot, broker: ClusterId
) -> tuple[Removal, ...]:
    """Removals from the broker of what this cluster's Lighthouse agent published for a service.

    Without the objects in `kept`; () if it published nothing.
    """
    export = lighthouse_exports(key, snapshot, broker).get(snapshot.local)
    if export is None:
        return ()
    names = {object_ref(o) for o in kept}
    legacy = () if export.service_import is None else (export.service_import,)
    return tuple(
        _removal(o, broker, f"{snapshot.local} was upgraded")
        for o in (*legacy, *export.slices)
        if object_ref(o) not in names
    )


def plan_legacy(snapshot: Snapshot) -> Plan:
    """The plan that removes what Lighthouse left: objects of this cluster, and old copies here.

    Those on the broker whose service has no ServiceExport here; and a local copy of another
    cluster's import once that cluster's Lighthouse agent has no such import on the broker. Empty
    without a broker, and while its ServiceImports are not synced.
    """
    broker = broker_cluster(snapshot)
    if broker is None or not snapshot.synced(broker, ServiceImport):
        return Plan()
    removals = [
        _removal(o, broker, f"{snapshot.local} exports it no more")
        for o in _own_leftovers(snapshot, broker)
    ]
    for copy in snapshot.by(snapshot.local, LEGACY_IMPORTS, ""):
        cluster = _exporting_cluster(copy)
        key = legacy_import_key(copy)
        if cluster == snapshot.local or key is None:
            continue
        export = lighthouse_exports(key, snapshot, broker).get(cluster)
        if export is None or export.service_import is None:
            removals.append(_removal(copy, snapshot.local, f"{cluster} publishes it no more"))
    return Plan(removals=tuple(removals))


def _own_leftovers(snapshot: Snapshot, broker: ClusterId) -> Iterator[Object]:
    """Objects of this cluster's Lighthouse agent for services without an export here."""
    for legacy in snapshot.by(broker, LEGACY_IMPORTS, ""):
        if _is_left_over(legacy, legacy_import_key(legacy), snapshot):
            yield legacy
    for endpoint_slice in snapshot.by(broker, LEGACY_SLICES, ""):
        if _is_left_over(endpoint_slice, next(legacy_slice_keys(endpoint_slice), None), snapshot):
            yield endpoint_slice


def _is_left_over(obj: Object, key: Key | None, snapshot: Snapshot) -> bool:
    """Whether this cluster's Lighthouse agent wrote it and its service has no export here."""
    if key is None or _exporting_cluster(obj) != snapshot.local or not is_of_lighthouse(obj):
        return False
    return snapshot.get(snapshot.local, ServiceExport, key.name, key.namespace) is None


def _exporting_cluster(obj: Object) -> ClusterId:
    """The cluster that published an object in the form of Lighthouse, by its labels; or empty."""
    labels = obj.metadata.labels
    return labels.get(LEGACY_CLUSTER) or labels.get(SOURCE_CLUSTER, "")


def _removal(obj: Object, where: ClusterId, cause: str) -> Removal:
    """The removal of an object with its uid, in step 1."""
    return Removal(ClusterObjectRef(where, object_ref(obj)), obj.metadata.uid, cause, step=1)


def _legacy_import(record: ExportRecord, backends: ExportBackends, meta: Meta) -> ServiceImport:
    """The ServiceImport of one cluster, as agents up to 0.14 publish it.

    It has the exported ports and the Service's first address; a headless one has neither.
    """
    labels = {
        LEGACY_NAME: record.name,
        LEGACY_NAMESPACE: record.namespace,
        LEGACY_CLUSTER: record.cluster,
        _CLUSTER_ID: record.cluster,
    }
    annotations = {"origin-name": record.name, "origin-namespace": record.namespace}
    headless = record.type == "Headless"
    return ServiceImport(
        metadata=Meta(
            name=meta.name, namespace=meta.namespace, labels=labels, annotations=annotations
        ),
        spec=ServiceImportSpec(
            type=record.type,
            ports=() if headless else record.ports,
            ips=() if headless else backends.addresses[:1],
        ),
        status=ServiceImportStatus(clusters=(ExportingCluster(cluster=record.cluster),)),
    )


def _export_slice(
    record: ExportRecord, backends: ExportBackends, version: LighthouseVersion, meta: Meta
) -> EndpointSlice:
    """The slice of one export, in one address family: its ready pods, or the Service's address.

    The address for 0.15, unless the export is headless; else only ready pods, as agents up to 0.14
    count every endpoint as ready. Ports are those of the first slice of pods, or those exported.
    """
    as_pods = record.type == "Headless" or version == "0.14"
    labels = {
        SERVICE_NAME: record.name,
        SOURCE_CLUSTER: record.cluster,
        MANAGED_BY: LIGHTHOUSE_AGENT,
        LEGACY_NAMESPACE: record.namespace,
        _CLUSTER_ID: record.cluster,
        _ORIGINAL_NAMESPACE: record.namespace,
    }
    if version == "0.15":
        labels[IS_HEADLESS] = "true" if record.type == "Headless" else "false"
    family = _family(backends)
    pods = [s for s in backends.pods if s.address_type == family]
    endpoints = _ready_pods(pods) if as_pods else _service_address(backends, family)
    ports: Sequence[EndpointPort] = (
        next((s.ports or () for s in pods), ())
        if as_pods
        else [
            EndpointPort(port=p.port, name=p.name, protocol=p.protocol, app_protocol=p.app_protocol)
            for p in record.ports
        ]
    )
    return EndpointSlice(
        metadata=Meta(name=meta.name, namespace=meta.namespace, labels=labels),
        address_type=family,
        endpoints=endpoints,
        ports=tuple(ports),
    )


def _family(backends: ExportBackends) -> AddressType:
    """The family of the Service's first address, or of its first slice but FQDNs; IPv4 without."""
    if backends.addresses:
        return address_family(backends.addresses[0])
    return next((s.address_type for s in backends.pods if s.address_type != "FQDN"), "IPv4")


def _ready_pods(pods: Sequence[EndpointSlice]) -> tuple[Endpoint, ...]:
    """The ready endpoints, at most MOST_ENDPOINTS, with addresses and host name only."""
    ready = (e for s in pods for e in s.endpoints or () if e.ready)
    return tuple(
        Endpoint(addresses=e.addresses, conditions=READY, hostname=e.hostname)
        for e in islice(ready, MOST_ENDPOINTS)
    )


def _service_address(backends: ExportBackends, family: AddressType) -> tuple[Endpoint, ...]:
    """The Service's first address, if any, ready while a pod of the family is, else not ready."""
    pods = [e for s in backends.pods if s.address_type == family for e in s.endpoints or ()]
    conditions = READY if any(e.ready for e in pods) else NOT_READY
    return tuple(
        Endpoint(addresses=(address,), conditions=conditions) for address in backends.addresses[:1]
    )
