"""Older agents, which publish one ServiceImport per cluster: read beside ours, and tidied up."""

from collections.abc import Iterator, Sequence

from hanse.features.services.clusters import source_cluster
from hanse.features.services.names import (
    DOMAIN,
    RECORD,
    SERVICE_NAME,
    SERVICE_NAMESPACE,
    SOURCE_CLUSTER,
)
from hanse.features.services.records import ExportRecord, decode_record, written
from hanse.features.services.slices import READY, family_of, is_address
from hanse.model.clusterset import broker_cluster
from hanse.model.kinds.discovery import MANAGED_BY, Endpoint, EndpointPort, EndpointSlice
from hanse.model.kinds.multicluster import ServiceExport, ServiceImport
from hanse.model.naming import unique
from hanse.model.objects import ClusterId, ClusterObjectRef, Meta, object_ref
from hanse.model.plan import Key, Plan, Removal
from hanse.model.snapshot import Index, Snapshot

LEGACY_CLUSTER = "lighthouse.submariner.io/sourceCluster"
LEGACY_NAME = "lighthouse.submariner.io/sourceName"
LEGACY_NAMESPACE = "lighthouse.submariner.io/sourceNamespace"

LEGACY = Key("legacy")
"""The one decision about what older agents left behind."""


def legacy_import_key(told: ServiceImport) -> Key | None:
    """The import that an older agent's object tells of; None for an object of ours."""
    labels = told.metadata.labels
    if not all(labels.get(name) for name in (LEGACY_CLUSTER, LEGACY_NAME, LEGACY_NAMESPACE)):
        return None
    return Key("import", labels[LEGACY_NAME], labels[LEGACY_NAMESPACE])


def _told_of(told: ServiceImport) -> Iterator[str]:
    if (key := legacy_import_key(told)) is not None:
        yield f"{key.namespace}/{key.name}"
        yield ""


LEGACY_IMPORTS = Index(ServiceImport, "services-older-agents", _told_of)
"""What older agents wrote, by service, and all of it under the empty name."""


def with_legacy_imports(
    slices: Sequence[EndpointSlice],
    key: Key,
    snapshot: Snapshot,
    broker: ClusterId,
    broker_namespace: str,
) -> list[EndpointSlice]:
    """A service's slices, with an older agent's word in place of its cluster's own."""
    found = snapshot.by(broker, LEGACY_IMPORTS, f"{key.namespace}/{key.name}")
    old = [p for told in found if (p := _as_slice(told, broker_namespace)) is not None]
    replaced = {source_cluster(p) for p in old} - {snapshot.local}
    if not replaced:
        return list(slices)
    kept = [s for s in slices if source_cluster(s) not in replaced]
    return [*kept, *(p for p in old if source_cluster(p) in replaced)]


def _as_slice(told: ServiceImport, broker_namespace: str) -> EndpointSlice | None:
    """What an older agent says, as if its cluster had published it; pods it told elsewhere."""
    labels, spec, began = told.metadata.labels, told.spec, told.metadata.creation_timestamp
    if began is None or spec.type == "Headless":
        return None
    cluster, namespace, name = labels[LEGACY_CLUSTER], labels[LEGACY_NAMESPACE], labels[LEGACY_NAME]
    addresses = [ip for ip in spec.ips if is_address(ip)]
    family = family_of(addresses[0]) if addresses else "IPv4"
    record = ExportRecord(
        cluster,
        namespace,
        name,
        began,
        spec.type,
        ports=spec.ports,
        ip_families=("IPv6",) if family == "IPv6" else ("IPv4",),
        session_affinity=spec.session_affinity,
        session_affinity_config=spec.session_affinity_config,
    )
    endpoint_slice = EndpointSlice(
        metadata=Meta(
            name=unique(name, cluster, namespace, "older agent"),
            namespace=broker_namespace,
            labels={
                SERVICE_NAME: name,
                SERVICE_NAMESPACE: namespace,
                SOURCE_CLUSTER: cluster,
                MANAGED_BY: DOMAIN,
            },
            annotations={RECORD: written(record)},
        ),
        address_type=family,
        endpoints=tuple(Endpoint(addresses=(ip,), conditions=READY) for ip in addresses[:1]),
        ports=tuple(
            EndpointPort(port=p.port, name=p.name, protocol=p.protocol, app_protocol=p.app_protocol)
            for p in spec.ports
        ),
    )
    return endpoint_slice if decode_record(endpoint_slice) is not None else None


def plan_legacy(snapshot: Snapshot, broker_namespace: str) -> Plan:
    """Remove copies of clusters that were upgraded, and at the end what we published ourselves."""
    broker = broker_cluster(snapshot)
    if broker is None or not snapshot.synced(broker, ServiceImport):
        return Plan()
    copies = [
        c for c in snapshot.by(snapshot.local, LEGACY_IMPORTS, "") if _cluster(c) != snapshot.local
    ]
    upgraded = [
        c for c in copies if _names(_aggregate(c, snapshot, broker, broker_namespace), _cluster(c))
    ]
    removals = [
        Removal(
            ClusterObjectRef(snapshot.local, object_ref(c)),
            c.metadata.uid,
            f"{_cluster(c)} was upgraded",
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
            if _cluster(o) == snapshot.local and _is_replaced(o, snapshot, broker, broker_namespace)
        )
    return Plan(removals=tuple(removals))


def _is_replaced(
    told: ServiceImport, snapshot: Snapshot, broker: ClusterId, broker_namespace: str
) -> bool:
    """Whether nobody misses our older word: the aggregate names us, or we do not export."""
    labels = told.metadata.labels
    export = snapshot.get(
        snapshot.local, ServiceExport, labels[LEGACY_NAME], labels[LEGACY_NAMESPACE]
    )
    return export is None or _names(
        _aggregate(told, snapshot, broker, broker_namespace), snapshot.local
    )


def _aggregate(
    told: ServiceImport, snapshot: Snapshot, broker: ClusterId, broker_namespace: str
) -> ServiceImport | None:
    labels = told.metadata.labels
    return snapshot.get(
        broker,
        ServiceImport,
        unique(labels[LEGACY_NAME], labels[LEGACY_NAMESPACE]),
        broker_namespace,
    )


def _names(aggregate: ServiceImport | None, cluster: ClusterId) -> bool:
    return aggregate is not None and any(c.cluster == cluster for c in aggregate.status.clusters)


def _cluster(told: ServiceImport) -> ClusterId:
    return told.metadata.labels[LEGACY_CLUSTER]
