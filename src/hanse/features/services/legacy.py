"""ServiceImports of older agents, one per cluster: read like records, removed after upgrades."""

from collections.abc import Iterator, Sequence

from hanse.features.services.clusters import source_cluster
from hanse.features.services.names import (
    DOMAIN,
    RECORD,
    SERVICE_NAME,
    SERVICE_NAMESPACE,
    SOURCE_CLUSTER,
)
from hanse.features.services.records import ExportRecord, decode_record, encode_record
from hanse.features.services.slices import NOT_READY, READY, address_family
from hanse.model.addresses import is_address
from hanse.model.clusterset import broker_cluster
from hanse.model.kinds.discovery import MANAGED_BY, Endpoint, EndpointPort, EndpointSlice
from hanse.model.kinds.multicluster import ServiceExport, ServiceImport
from hanse.model.naming import unique_name
from hanse.model.objects import ClusterId, ClusterObjectRef, Meta, object_ref
from hanse.model.plan import Key, Plan, Removal
from hanse.model.snapshot import Index, Snapshot

LEGACY_CLUSTER = "lighthouse.submariner.io/sourceCluster"
LEGACY_NAME = "lighthouse.submariner.io/sourceName"
LEGACY_NAMESPACE = "lighthouse.submariner.io/sourceNamespace"

LEGACY = Key("legacy")
"""The key of the plan that removes what older agents left behind."""


def legacy_import_key(legacy: ServiceImport) -> Key | None:
    """The key of the import that an older agent's ServiceImport is about; None for one of ours."""
    labels = legacy.metadata.labels
    if not all(labels.get(name) for name in (LEGACY_CLUSTER, LEGACY_NAME, LEGACY_NAMESPACE)):
        return None
    return Key("import", labels[LEGACY_NAME], labels[LEGACY_NAMESPACE])


def _legacy_service(legacy: ServiceImport) -> Iterator[str]:
    """Index values of an older agent's import: `namespace/name` of its service, and empty."""
    if (key := legacy_import_key(legacy)) is not None:
        yield f"{key.namespace}/{key.name}"
        yield ""


LEGACY_IMPORTS = Index(ServiceImport, "services-older-agents", _legacy_service)
"""ServiceImports of older agents, by service, and all of them under the empty value."""


def _legacy_source(endpoint_slice: EndpointSlice) -> Iterator[str]:
    """Index value of an older agent's slice: namespace of the service, and the cluster."""
    labels = endpoint_slice.metadata.labels
    if LEGACY_NAMESPACE in labels and SOURCE_CLUSTER in labels:
        yield f"{labels[LEGACY_NAMESPACE]}/{labels[SOURCE_CLUSTER]}"


LEGACY_SLICES = Index(EndpointSlice, "services-older-slices", _legacy_source)
"""Slices of older agents on the broker: they say whether their cluster's service is healthy."""


def legacy_slice_keys(
    endpoint_slice: EndpointSlice, snapshot: Snapshot, broker: ClusterId
) -> Iterator[Key]:
    """The imports whose health an older agent's slice says."""
    for source in _legacy_source(endpoint_slice):
        for legacy in snapshot.by(broker, LEGACY_IMPORTS, ""):
            if _source(legacy) == source and (key := legacy_import_key(legacy)) is not None:
                yield key


def with_legacy_imports(
    slices: Sequence[EndpointSlice],
    key: Key,
    snapshot: Snapshot,
    broker: ClusterId,
    broker_namespace: str,
) -> list[EndpointSlice]:
    """The slices of a service, and those of clusters that only an older agent's import speaks for.

    A cluster that publishes a record was upgraded: its import is not up to date any more.
    """
    upgraded = {source_cluster(s) for s in slices if RECORD in s.metadata.annotations}
    old = [
        p
        for legacy in snapshot.by(broker, LEGACY_IMPORTS, f"{key.namespace}/{key.name}")
        if _legacy_cluster(legacy) not in upgraded | {snapshot.local}
        and (p := _legacy_slice(legacy, snapshot, broker, broker_namespace)) is not None
    ]
    return [*slices, *old]


def _source(legacy: ServiceImport) -> str:
    """Namespace and cluster of an older agent's import, as in the index of its slices."""
    return f"{legacy.metadata.labels[LEGACY_NAMESPACE]}/{_legacy_cluster(legacy)}"


def _legacy_endpoints(
    legacy: ServiceImport, addresses: Sequence[str], snapshot: Snapshot, broker: ClusterId
) -> tuple[Endpoint, ...]:
    """The first address, ready while a pod in the cluster's slices is; none without pods.

    Without slices nothing is known of the pods: the address counts as ready.
    """
    names = (legacy.metadata.labels[LEGACY_NAME], legacy.metadata.name)
    slices = [
        s
        for s in snapshot.by(broker, LEGACY_SLICES, _source(legacy))
        if s.metadata.labels.get(SERVICE_NAME) in names
    ]
    pods = [e for s in slices for e in s.endpoints or ()]
    if slices and not pods:
        return ()
    conditions = READY if not slices or any(e.ready for e in pods) else NOT_READY
    return tuple(Endpoint(addresses=(ip,), conditions=conditions) for ip in addresses[:1])


def _legacy_slice(
    legacy: ServiceImport, snapshot: Snapshot, broker: ClusterId, broker_namespace: str
) -> EndpointSlice | None:
    """An older agent's import as the slice that its cluster would publish.

    None for headless ones, whose pods are published elsewhere, and for invalid ones.
    """
    labels, spec, created = legacy.metadata.labels, legacy.spec, legacy.metadata.creation_timestamp
    if created is None or spec.type == "Headless":
        return None
    cluster, namespace, name = labels[LEGACY_CLUSTER], labels[LEGACY_NAMESPACE], labels[LEGACY_NAME]
    addresses = [ip for ip in spec.ips if is_address(ip)]
    family = address_family(addresses[0]) if addresses else "IPv4"
    record = ExportRecord(
        cluster,
        namespace,
        name,
        created,
        spec.type,
        ports=spec.ports,
        ip_families=("IPv6",) if family == "IPv6" else ("IPv4",),
        session_affinity=spec.session_affinity,
        session_affinity_config=spec.session_affinity_config,
    )
    endpoint_slice = EndpointSlice(
        metadata=Meta(
            name=unique_name(name, cluster, namespace, "older agent"),
            namespace=broker_namespace,
            labels={
                SERVICE_NAME: name,
                SERVICE_NAMESPACE: namespace,
                SOURCE_CLUSTER: cluster,
                MANAGED_BY: DOMAIN,
            },
            annotations={RECORD: encode_record(record)},
        ),
        address_type=family,
        endpoints=_legacy_endpoints(legacy, addresses, snapshot, broker),
        ports=tuple(
            EndpointPort(port=p.port, name=p.name, protocol=p.protocol, app_protocol=p.app_protocol)
            for p in spec.ports
        ),
    )
    return endpoint_slice if decode_record(endpoint_slice) is not None else None


def plan_legacy(snapshot: Snapshot, broker_namespace: str) -> Plan:
    """Remove local copies of upgraded clusters; once there are no copies, our own on the broker.

    Nothing is removed while the broker's ServiceImports are not synced.
    """
    broker = broker_cluster(snapshot)
    if broker is None or not snapshot.synced(broker, ServiceImport):
        return Plan()
    copies = [
        c
        for c in snapshot.by(snapshot.local, LEGACY_IMPORTS, "")
        if _legacy_cluster(c) != snapshot.local
    ]
    upgraded = [
        c
        for c in copies
        if _names_cluster(_aggregate(c, snapshot, broker, broker_namespace), _legacy_cluster(c))
    ]
    removals = [
        Removal(
            ClusterObjectRef(snapshot.local, object_ref(c)),
            c.metadata.uid,
            f"{_legacy_cluster(c)} was upgraded",
        )
        for c in upgraded
    ]
    if not copies:
        removals.extend(
            Removal(
                ClusterObjectRef(broker, object_ref(o)),
                o.metadata.uid,
                f"{snapshot.local} was upgraded",
            )
            for o in snapshot.by(broker, LEGACY_IMPORTS, "")
            if _legacy_cluster(o) == snapshot.local
            and _is_replaced(o, snapshot, broker, broker_namespace)
        )
    return Plan(removals=tuple(removals))


def _is_replaced(
    legacy: ServiceImport, snapshot: Snapshot, broker: ClusterId, broker_namespace: str
) -> bool:
    """Whether our legacy import is obsolete: the aggregate names us, or we do not export."""
    labels = legacy.metadata.labels
    export = snapshot.get(
        snapshot.local, ServiceExport, labels[LEGACY_NAME], labels[LEGACY_NAMESPACE]
    )
    return export is None or _names_cluster(
        _aggregate(legacy, snapshot, broker, broker_namespace), snapshot.local
    )


def _aggregate(
    legacy: ServiceImport, snapshot: Snapshot, broker: ClusterId, broker_namespace: str
) -> ServiceImport | None:
    """The aggregate on the broker that replaces a legacy import."""
    labels = legacy.metadata.labels
    return snapshot.get(
        broker,
        ServiceImport,
        unique_name(labels[LEGACY_NAME], labels[LEGACY_NAMESPACE]),
        broker_namespace,
    )


def _names_cluster(aggregate: ServiceImport | None, cluster: ClusterId) -> bool:
    """Whether the status of an aggregate names a cluster."""
    return aggregate is not None and any(c.cluster == cluster for c in aggregate.status.clusters)


def _legacy_cluster(legacy: ServiceImport) -> ClusterId:
    return legacy.metadata.labels[LEGACY_CLUSTER]
