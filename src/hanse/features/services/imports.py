"""One service as this cluster imports it, and the aggregate of all clusters on the broker."""

from hanse.features.services.fleet import broker_of, live_records, rules_of, slices_of
from hanse.features.services.merge import Merged, merge
from hanse.features.services.names import (
    DERIVED_SERVICE,
    SERVICE_NAME,
    SERVICE_NAMESPACE,
    SOURCE_CLUSTER,
    unique,
)
from hanse.features.services.slices import copied
from hanse.model.keys import Key
from hanse.model.kinds.core import Namespace, Service, ServicePort, ServiceSpec
from hanse.model.kinds.multicluster import (
    ExportingCluster,
    ServiceImport,
    ServiceImportSpec,
    ServiceImportStatus,
)
from hanse.model.objects import Meta
from hanse.model.plan import Desired, Plan
from hanse.model.snapshot import Snapshot


def plan_import(key: Key, seen: Snapshot, home: str) -> Plan:
    """The import of one service in this cluster, with the slices of all who export it."""
    broker = broker_of(seen)
    space = seen.get(seen.local, Namespace, key.namespace)
    if broker is None or space is None or space.metadata.deletion_timestamp is not None:
        return Plan()
    profile = rules_of(seen, broker).profile
    slices = slices_of(key, seen, broker)
    records = [r for r in live_records(slices, seen, broker, home) if r.is_for(seen.local)]
    together = merge(records, profile)
    if together is None:
        return Plan()
    sources = frozenset({broker})
    derived = derived_name(key) if profile == "kep-1645" and together.type != "Headless" else ""
    desired: list[Desired] = []
    if derived:
        service = derived_service(key, derived, together)
        desired.append(Desired(service, seen.local, sources=sources))
    by_cluster = {r.cluster: r for r in records if r.cluster in together.clusters}
    for piece in sorted(slices, key=lambda s: s.metadata.name):
        record = by_cluster.get(piece.metadata.labels.get(SOURCE_CLUSTER, ""))
        if record is not None:
            copy = copied(piece, record, together, derived)
            desired.append(Desired(copy, seen.local, sources=sources))
    told = _service_import(key, together, derived, seen)
    desired.append(Desired(told, seen.local, sources=sources))
    return Plan(tuple(desired))


def plan_aggregate(key: Key, seen: Snapshot, home: str) -> Plan:
    """The import of one service on the broker, which any agent writes and all compute alike."""
    broker = broker_of(seen)
    if broker is None:
        return Plan()
    records = live_records(slices_of(key, seen, broker), seen, broker, home)
    together = merge(records, rules_of(seen, broker).profile)
    if together is None:
        return Plan()
    order = together.clusters
    rank = order.index(seen.local) if seen.local in order else len(order)
    aggregate = ServiceImport(
        metadata=Meta(
            name=unique(key.name, key.namespace),
            namespace=home,
            labels={
                **together.labels,
                SERVICE_NAME: key.name,
                SERVICE_NAMESPACE: key.namespace,
            },
            annotations=together.annotations,
        ),
        spec=_spec(together),
        status=_status(together),
    )
    sources = frozenset({broker})
    return Plan((Desired(aggregate, broker, sources=sources, shared=True, rank=rank),))


def derived_name(key: Key) -> str:
    """The Service that gives an import its address."""
    return unique("derived", key.name)


def derived_service(key: Key, name: str, together: Merged) -> Service:
    """A Service without a selector: the imported slices are its endpoints."""
    return Service(
        metadata=Meta(name=name, namespace=key.namespace, labels={SERVICE_NAME: key.name}),
        spec=ServiceSpec(
            ports=tuple(
                ServicePort(
                    port=p.port, name=p.name, protocol=p.protocol, app_protocol=p.app_protocol
                )
                for p in together.ports
            ),
            session_affinity=together.session_affinity,
            session_affinity_config=together.session_affinity_config,
        ),
    )


def _service_import(key: Key, together: Merged, derived: str, seen: Snapshot) -> ServiceImport:
    ips: tuple[str, ...] = ()
    annotations = together.annotations
    if derived:
        service = seen.get(seen.local, Service, derived, key.namespace)
        ips = service.spec.cluster_ips if service is not None else ()
        annotations = {**annotations, DERIVED_SERVICE: derived}
    return ServiceImport(
        metadata=Meta(
            name=key.name,
            namespace=key.namespace,
            labels=together.labels,
            annotations=annotations,
        ),
        spec=_spec(together, ips),
        status=_status(together),
    )


def _spec(together: Merged, ips: tuple[str, ...] = ()) -> ServiceImportSpec:
    return ServiceImportSpec(
        type=together.type,
        ports=together.ports,
        ips=ips,
        ip_families=together.ip_families,
        session_affinity=together.session_affinity,
        session_affinity_config=together.session_affinity_config,
        internal_traffic_policy="Local" if together.internal_traffic_policy == "Local" else "",
        traffic_distribution=together.traffic_distribution,
    )


def _status(together: Merged) -> ServiceImportStatus:
    clusters = tuple(ExportingCluster(cluster=c) for c in sorted(together.clusters))
    return ServiceImportStatus(clusters=clusters)
