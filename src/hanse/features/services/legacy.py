"""Older agents, which publish one ServiceImport per cluster: read beside ours, and tidied up."""

from collections.abc import Iterator, Sequence

from hanse.features.services.clusters import source_of
from hanse.features.services.names import (
    RECORD,
    SERVICE_NAME,
    SERVICE_NAMESPACE,
    SOURCE_CLUSTER,
    US,
)
from hanse.features.services.records import Record, record_on, written
from hanse.features.services.slices import READY, family_of, is_address
from hanse.model.fleet import broker_of
from hanse.model.keys import Key
from hanse.model.kinds.discovery import MANAGED_BY, Endpoint, EndpointPort, EndpointSlice
from hanse.model.kinds.multicluster import ServiceExport, ServiceImport
from hanse.model.naming import unique
from hanse.model.objects import ClusterId, ClusterObjectRef, Meta, ref_of
from hanse.model.plan import Plan, Removal
from hanse.model.snapshot import Index, Snapshot

OLD_CLUSTER = "lighthouse.submariner.io/sourceCluster"
OLD_NAME = "lighthouse.submariner.io/sourceName"
OLD_NAMESPACE = "lighthouse.submariner.io/sourceNamespace"

LEGACY = Key("legacy")
"""The one decision about what older agents left behind."""


def service_told(told: ServiceImport) -> Key | None:
    """The import that an older agent's object tells of; None for an object of ours."""
    labels = told.metadata.labels
    if not all(labels.get(name) for name in (OLD_CLUSTER, OLD_NAME, OLD_NAMESPACE)):
        return None
    return Key("import", labels[OLD_NAME], labels[OLD_NAMESPACE])


def _told_of(told: ServiceImport) -> Iterator[str]:
    if (key := service_told(told)) is not None:
        yield f"{key.namespace}/{key.name}"
        yield ""


OLD_IMPORTS = Index(ServiceImport, "services-older-agents", _told_of)
"""What older agents wrote, by service, and all of it under the empty name."""


def with_older_agents(
    slices: Sequence[EndpointSlice], key: Key, snapshot: Snapshot, broker: ClusterId, home: str
) -> list[EndpointSlice]:
    """A service's slices, with an older agent's word in place of its cluster's own."""
    found = snapshot.by(broker, OLD_IMPORTS, f"{key.namespace}/{key.name}")
    old = [p for told in found if (p := _as_slice(told, home)) is not None]
    replaced = {source_of(p) for p in old} - {snapshot.local}
    if not replaced:
        return list(slices)
    kept = [s for s in slices if source_of(s) not in replaced]
    return [*kept, *(p for p in old if source_of(p) in replaced)]


def _as_slice(told: ServiceImport, home: str) -> EndpointSlice | None:
    """What an older agent says, as if its cluster had published it; pods it told elsewhere."""
    labels, spec, began = told.metadata.labels, told.spec, told.metadata.creation_timestamp
    if began is None or spec.type == "Headless":
        return None
    cluster, namespace, name = labels[OLD_CLUSTER], labels[OLD_NAMESPACE], labels[OLD_NAME]
    addresses = [ip for ip in spec.ips if is_address(ip)]
    family = family_of(addresses[0]) if addresses else "IPv4"
    record = Record(
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
    piece = EndpointSlice(
        metadata=Meta(
            name=unique(name, cluster, namespace, "older agent"),
            namespace=home,
            labels={
                SERVICE_NAME: name,
                SERVICE_NAMESPACE: namespace,
                SOURCE_CLUSTER: cluster,
                MANAGED_BY: US,
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
    return piece if record_on(piece) is not None else None


def plan_legacy(snapshot: Snapshot, home: str) -> Plan:
    """Remove copies of clusters that were upgraded, and at the end what we published ourselves."""
    broker = broker_of(snapshot)
    if broker is None or not snapshot.synced(broker, ServiceImport):
        return Plan()
    copies = [
        c for c in snapshot.by(snapshot.local, OLD_IMPORTS, "") if _cluster(c) != snapshot.local
    ]
    upgraded = [c for c in copies if _names(_aggregate(c, snapshot, broker, home), _cluster(c))]
    removals = [
        Removal(
            ClusterObjectRef(snapshot.local, ref_of(c)),
            c.metadata.uid,
            f"{_cluster(c)} was upgraded",
        )
        for c in upgraded
    ]
    if not copies:
        removals.extend(
            Removal(
                ClusterObjectRef(broker, ref_of(o)),
                o.metadata.uid,
                f"{snapshot.local} was upgraded",
            )
            for o in snapshot.by(broker, OLD_IMPORTS, "")
            if _cluster(o) == snapshot.local and _is_replaced(o, snapshot, broker, home)
        )
    return Plan(removals=tuple(removals))


def _is_replaced(told: ServiceImport, snapshot: Snapshot, broker: ClusterId, home: str) -> bool:
    """Whether nobody misses our older word: the aggregate names us, or we do not export."""
    labels = told.metadata.labels
    export = snapshot.get(snapshot.local, ServiceExport, labels[OLD_NAME], labels[OLD_NAMESPACE])
    return export is None or _names(_aggregate(told, snapshot, broker, home), snapshot.local)


def _aggregate(
    told: ServiceImport, snapshot: Snapshot, broker: ClusterId, home: str
) -> ServiceImport | None:
    labels = told.metadata.labels
    return snapshot.get(
        broker, ServiceImport, unique(labels[OLD_NAME], labels[OLD_NAMESPACE]), home
    )


def _names(aggregate: ServiceImport | None, cluster: ClusterId) -> bool:
    return aggregate is not None and any(c.cluster == cluster for c in aggregate.status.clusters)


def _cluster(told: ServiceImport) -> ClusterId:
    return told.metadata.labels[OLD_CLUSTER]
