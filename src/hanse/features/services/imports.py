"""One service as this cluster imports it, and the aggregate of all clusters on the broker."""

from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from hanse.features.services.clusters import (
    IMPORTED,
    alive_for_all,
    alive_for_us,
    cluster_settings,
    list_published_slices,
    rules_of,
    source_cluster,
)
from hanse.features.services.legacy import with_legacy_imports
from hanse.features.services.merge import MergedImport, merge
from hanse.features.services.names import (
    DERIVED_SERVICE,
    PRIORITY,
    SERVICE_NAME,
    SERVICE_NAMESPACE,
    WEIGHT,
)
from hanse.features.services.ranges import disallowed_addresses, disallowed_message, drop_disallowed
from hanse.features.services.records import ExportRecord, PublishedExports, read_exports
from hanse.features.services.slices import build_imported_slice, family_of
from hanse.model.clusterset import broker_cluster
from hanse.model.conditions import Condition, condition, merged
from hanse.model.kinds.core import Namespace, Service, ServicePort, ServiceSpec
from hanse.model.kinds.discovery import EndpointSlice
from hanse.model.kinds.hanse import ClusterSetSpec, MemberSettings
from hanse.model.kinds.multicluster import (
    ExportingCluster,
    ServiceImport,
    ServiceImportSpec,
    ServiceImportStatus,
)
from hanse.model.naming import unique
from hanse.model.objects import ClusterId, Meta, Object
from hanse.model.plan import Desired, Key, Plan
from hanse.model.snapshot import Snapshot


class _Imported(Struct, frozen=True):
    """One service as all clusters together offer it to this one."""

    key: Key
    rules: ClusterSetSpec
    slices: tuple[EndpointSlice, ...]
    told: PublishedExports
    together: MergedImport
    visible: dict[ClusterId, ExportRecord]
    """The admitted exports that are meant for this cluster."""

    @property
    def derived(self) -> str:
        """The Service that gives the import its address; none where it needs none."""
        needed = self.rules.profile == "kep-1645" and self.together.type != "Headless"
        return derived_name(self.key) if needed else ""


def plan_import(key: Key, snapshot: Snapshot, broker_namespace: str) -> Plan:
    """The import of one service in this cluster, with the slices of all who export it."""
    broker = broker_cluster(snapshot)
    space = snapshot.get(snapshot.local, Namespace, key.namespace)
    if broker is None or space is None or space.terminating:
        return Plan()
    rules = rules_of(snapshot, broker)
    found = with_legacy_imports(
        list_published_slices(key, snapshot, broker), key, snapshot, broker, broker_namespace
    )
    slices = alive_for_us(found, snapshot, broker, broker_namespace)
    told = read_exports(slices)
    together = merge(told.records, rules.profile)
    objects: list[Object] = []
    if together is not None:
        admitted = [r for r in told.records if r.cluster in together.clusters]
        visible = {r.cluster: r for r in admitted if r.is_for(snapshot.local)}
        one = _Imported(key, rules, tuple(slices), told, together, visible)
        objects.extend(_objects(one, snapshot) if visible else ())
    if told.newer:
        objects = _with_unreadable(objects, key, told.newer, snapshot)
    return Plan(tuple(Desired(o, snapshot.local, sources=frozenset({broker})) for o in objects))


def plan_aggregate(key: Key, snapshot: Snapshot, broker_namespace: str) -> Plan:
    """The import of one service on the broker, which any agent writes and all compute alike."""
    broker = broker_cluster(snapshot)
    if broker is None:
        return Plan()
    told = read_exports(
        alive_for_all(
            list_published_slices(key, snapshot, broker), snapshot, broker, broker_namespace
        )
    )
    name = unique(key.name, key.namespace)
    sources = frozenset({broker})
    if told.newer:
        standing = snapshot.get(broker, ServiceImport, name, broker_namespace)
        kept = (
            () if standing is None else (Desired(standing, broker, sources=sources, shared=True),)
        )
        return Plan(kept)
    together = merge(told.records, rules_of(snapshot, broker).profile)
    if together is None:
        return Plan()
    order = together.clusters
    rank = order.index(snapshot.local) if snapshot.local in order else len(order)
    marks = {SERVICE_NAME: key.name, SERVICE_NAMESPACE: key.namespace}
    aggregate = ServiceImport(
        metadata=Meta(
            name=name,
            namespace=broker_namespace,
            labels={**together.labels, **marks},
            annotations=together.annotations,
        ),
        spec=_spec(together, together.ip_families),
        status=_status(order),
    )
    return Plan((Desired(aggregate, broker, sources=sources, shared=True, rank=rank),))


def _objects(one: _Imported, snapshot: Snapshot) -> Iterator[Object]:
    if one.derived:
        yield derived_service(one.key, one.derived, one.together)
    for endpoint_slice in sorted(one.slices, key=lambda s: s.metadata.name):
        record = one.visible.get(source_cluster(endpoint_slice))
        if record is not None and endpoint_slice.address_type != "FQDN":
            settings = cluster_settings(record.cluster, one.rules)
            allowed = drop_disallowed(endpoint_slice, settings.ranges)
            yield build_imported_slice(
                allowed, record, one.together, one.derived, _marks(record, settings)
            )
    yield from _service_import(one, snapshot)


def _with_unreadable(
    objects: Sequence[Object], key: Key, newer: frozenset[ClusterId], snapshot: Snapshot
) -> list[Object]:
    """Leave what rests on records of a later version as it stands, until we can read them."""
    place = f"{key.namespace}/{key.name}"
    slices = [s for s in snapshot.by(snapshot.local, IMPORTED, place) if source_cluster(s) in newer]
    whole = (
        snapshot.get(snapshot.local, ServiceImport, key.name, key.namespace),
        snapshot.get(snapshot.local, Service, derived_name(key), key.namespace),
    )
    standing = [o for o in (*slices, *whole) if o is not None]
    names = {(type(o), o.metadata.name) for o in standing}
    return [*(o for o in objects if (type(o), o.metadata.name) not in names), *standing]


def derived_name(key: Key) -> str:
    """The Service that gives an import its address."""
    return unique("derived", key.name)


def derived_service(key: Key, name: str, together: MergedImport) -> Service:
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
            ip_family_policy="PreferDualStack",  # all that the cluster has; a family too many rests
            session_affinity=together.session_affinity,
            session_affinity_config=together.session_affinity_config,
        ),
    )


def _service_import(one: _Imported, snapshot: Snapshot) -> Iterator[ServiceImport]:
    """The import, once it has its addresses: families and addresses are written together."""
    key, together = one.key, one.together
    standing = snapshot.get(snapshot.local, ServiceImport, key.name, key.namespace)
    annotations = together.annotations
    spec = _spec(together, together.ip_families)
    if one.derived:
        annotations = {**annotations, DERIVED_SERVICE: one.derived}
        ips = _addresses(one, snapshot)
        if not ips and standing is None:
            return  # the Service that was just made comes first
        families = together.ip_families if ips else standing.spec.ip_families if standing else ()
        spec = _spec(together, families, ips or (standing.spec.ips if standing else ()))
    before, faults = standing.status.conditions if standing is not None else (), _faults(one)
    kept = [
        c for c in before if c.type != ADDRESSES_ALLOWED or faults
    ]  # what others tell is theirs
    yield ServiceImport(
        metadata=Meta(
            name=key.name,
            namespace=key.namespace,
            labels=together.labels,
            annotations=annotations,
        ),
        spec=spec,
        status=_status(tuple(one.visible), merged(kept, faults, snapshot.now)),
    )


def _addresses(one: _Imported, snapshot: Snapshot) -> tuple[str, ...]:
    """What the derived Service was given, of the families that the import has."""
    service = snapshot.get(snapshot.local, Service, one.derived, one.key.namespace)
    if service is None or service.metadata.labels.get(SERVICE_NAME) != one.key.name:
        return ()
    given = tuple(ip for ip in service.spec.cluster_ips if ip and ip != "None")
    shared = tuple(ip for ip in given if family_of(ip) in one.together.ip_families)
    return shared or given


ADDRESSES_ALLOWED = "AddressesAllowed"
"""The condition of exports and imports with addresses that a cluster may not publish."""


def _faults(one: _Imported) -> list[Condition]:
    """What is left out of an import and why, one sentence for each cluster at fault."""
    told: list[str] = []
    for cluster in sorted(one.visible):
        ranges = cluster_settings(cluster, one.rules).ranges
        mine = [s for s in one.slices if source_cluster(s) == cluster]
        if addresses := disallowed_addresses(mine, ranges):
            told.append(f"{cluster} publishes {disallowed_message(addresses, ranges)}")
    return (
        [condition(ADDRESSES_ALLOWED, False, "OutsideRanges", "; ".join(told)[:32000])]
        if told
        else []
    )


def _marks(record: ExportRecord, settings: MemberSettings) -> dict[str, str]:
    """How much a cluster answers, for those who answer: told where somebody said so."""
    usual = MemberSettings(id=record.cluster)
    marks: dict[str, str] = {}
    for mark, own, fleets, default in (
        (WEIGHT, record.weight, settings.weight, usual.weight),
        (PRIORITY, record.priority, settings.priority, usual.priority),
    ):
        if own is not None or fleets != default:
            marks[mark] = str(fleets if own is None else own)
    return marks


def _spec(
    together: MergedImport, families: Sequence[str], ips: tuple[str, ...] = ()
) -> ServiceImportSpec:
    spec = ServiceImportSpec(
        type=together.type,
        ports=together.ports,
        ips=ips,
        ip_families=together.ip_families,
        session_affinity=together.session_affinity,
        session_affinity_config=together.session_affinity_config,
        internal_traffic_policy="Local" if together.internal_traffic_policy == "Local" else "",
        traffic_distribution=together.traffic_distribution,
    )
    return spec if tuple(families) == spec.ip_families else replace(spec, ip_families=families)


def _status(
    clusters: Sequence[ClusterId], conditions: tuple[Condition, ...] = ()
) -> ServiceImportStatus:
    exporting = tuple(ExportingCluster(cluster=c) for c in sorted(clusters))
    return ServiceImportStatus(clusters=exporting, conditions=conditions)
