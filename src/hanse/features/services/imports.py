"""Plans the import of one service: in this cluster, and the aggregate on the broker."""

from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from hanse.features.services.clusters import (
    BACKENDS,
    IMPORTED,
    awaited_clusters,
    cluster_settings,
    counted_slices,
    disallowed_addresses,
    disallowed_message,
    drop_disallowed,
    drop_foreign_namespaces,
    exporting_clusters,
    list_published_slices,
    source_cluster,
)
from hanse.features.services.derived import (
    ClusterSetAddresses,
    derived_addresses,
    derived_name,
    derived_service,
    internal_traffic_policy,
)
from hanse.features.services.exports import is_exportable
from hanse.features.services.legacy import with_legacy_imports
from hanse.features.services.merge import MergedImport, merge_exports
from hanse.features.services.names import (
    AFFINITY,
    DERIVED_SERVICE,
    PRIORITY,
    SERVICE_NAME,
    SERVICE_NAMESPACE,
    WEIGHT,
)
from hanse.features.services.records import ExportRecord, read_exports
from hanse.features.services.slices import (
    build_imported_slice,
    build_own_slices,
)
from hanse.features.services.status import ADDRESSES_ALLOWED
from hanse.model.acceptance import ImportedService, Refused, accepted, read_policy
from hanse.model.affinity import (
    AffinityRule,
    drained,
    parse_affinity,
    preferred_side_of,
)
from hanse.model.clusterset import broker_cluster, clusterset_spec, common_state
from hanse.model.conditions import Condition, condition, merge_conditions
from hanse.model.kinds.core import (
    IPFamily,
    Namespace,
    Service,
)
from hanse.model.kinds.discovery import EndpointSlice
from hanse.model.kinds.hanse import ClusterSetSpec, MemberSettings
from hanse.model.kinds.multicluster import (
    ExportingCluster,
    ServiceExport,
    ServiceImport,
    ServiceImportSpec,
    ServiceImportStatus,
)
from hanse.model.naming import unique_name
from hanse.model.objects import ClusterId, Meta, Object
from hanse.model.plan import Desired, Key, Plan
from hanse.model.snapshot import Snapshot


class _ImportState(Struct, frozen=True):
    """One service that this cluster imports, with everything its objects depend on."""

    key: Key
    rules: ClusterSetSpec
    slices: tuple[EndpointSlice, ...]
    merged: MergedImport
    visible: dict[ClusterId, ExportRecord]
    """The admitted exports that this cluster imports."""
    broker_namespace: str

    @property
    def derived(self) -> str:
        """The name of the derived Service; empty where the import needs no address."""
        needed = self.rules.profile == "kep-1645" and self.merged.type != "Headless"
        return derived_name(self.key) if needed else ""


def plan_import(key: Key, snapshot: Snapshot, broker_namespace: str) -> Plan:
    """The ServiceImport of one service in this cluster, its slices, and its derived Service.

    Nothing is desired without the namespace, or where this cluster takes nothing of others; objects
    from newer schemas are kept.
    """
    broker = broker_cluster(snapshot)
    namespace = snapshot.get(snapshot.local, Namespace, key.namespace)
    if broker is None or namespace is None or namespace.terminating:
        return Plan()
    policy = read_policy(snapshot.local, snapshot)
    if policy is None:
        return Plan(keep_all=True)
    if isinstance(accepted(policy, ImportedService(key.namespace), broker), Refused):
        return Plan()
    rules = clusterset_spec(snapshot, broker)
    standing = exporting_clusters(
        snapshot.get(snapshot.local, ServiceImport, key.name, key.namespace)
    )
    place = (standing, snapshot, broker, broker_namespace)
    published = list_published_slices(key, snapshot, broker)
    if snapshot.local not in standing:
        published = _without_own_strays(published, key, snapshot)
    counted = with_legacy_imports(
        counted_slices(published, *place), key, snapshot, broker, broker_namespace
    )
    slices = drop_foreign_namespaces(counted, rules)
    exports = read_exports(slices)
    kept = exports.newer | awaited_clusters(published, *place)
    if _is_unpublished(key, snapshot, published, standing):
        kept |= {snapshot.local}
    merged = merge_exports(exports.records, rules.profile)
    objects: list[Object] = []
    if merged is not None:
        admitted = [r for r in exports.records if r.cluster in merged.clusters]
        visible = {r.cluster: r for r in admitted if r.is_for(snapshot.local)}
        state = _ImportState(key, rules, tuple(slices), merged, visible, broker_namespace)
        objects.extend(_objects(state, snapshot) if visible else ())
    if kept:
        objects = _keep_current(objects, key, kept, snapshot)
    return Plan(tuple(Desired(o, snapshot.local, sources=frozenset({broker})) for o in objects))


def _is_unpublished(
    key: Key,
    snapshot: Snapshot,
    published: Sequence[EndpointSlice],
    standing: frozenset[ClusterId],
) -> bool:
    """Whether this cluster exports an imported service, and the broker has lost its slices."""
    here = snapshot.local
    if here not in standing or any(source_cluster(s) == here for s in published):
        return False
    export = snapshot.get(here, ServiceExport, key.name, key.namespace)
    service = snapshot.get(here, Service, key.name, key.namespace)
    return export is not None and is_exportable(key, service)


def _without_own_strays(
    slices: Sequence[EndpointSlice], key: Key, snapshot: Snapshot
) -> list[EndpointSlice]:
    """The slices without those of this cluster if it does not export the service.

    A restored broker may have some of an earlier export, until the plan of it withdraws them.
    """
    if snapshot.get(snapshot.local, ServiceExport, key.name, key.namespace) is not None:
        return list(slices)
    return [s for s in slices if source_cluster(s) != snapshot.local]


def plan_aggregate(key: Key, snapshot: Snapshot, broker_namespace: str) -> Plan:
    """The ServiceImport of one service on the broker; every agent computes the same.

    It is kept as it is while a cluster's record has a newer schema.
    """
    broker = broker_cluster(snapshot)
    if broker is None:
        return Plan()
    name = unique_name(key.name, key.namespace)
    current = snapshot.get(broker, ServiceImport, name, broker_namespace)
    place = (exporting_clusters(current), snapshot, broker, broker_namespace)
    published = list_published_slices(key, snapshot, broker)
    rules = clusterset_spec(snapshot, broker)
    counted = counted_slices(published, *place, judge=common_state)
    exports = read_exports(drop_foreign_namespaces(counted, rules))
    sources = frozenset({broker})
    if exports.newer or awaited_clusters(published, *place):
        kept = () if current is None else (Desired(current, broker, sources=sources, shared=True),)
        return Plan(kept)
    merged = merge_exports(exports.records, rules.profile)
    if merged is None:
        return Plan()
    order = merged.clusters
    rank = order.index(snapshot.local) if snapshot.local in order else len(order)
    own_labels = {SERVICE_NAME: key.name, SERVICE_NAMESPACE: key.namespace}
    aggregate = ServiceImport(
        metadata=Meta(
            name=name,
            namespace=broker_namespace,
            labels={**merged.labels, **own_labels},
            annotations=merged.annotations,
        ),
        spec=_spec(merged, merged.ip_families),
        status=_import_status(order),
    )
    return Plan((Desired(aggregate, broker, sources=sources, shared=True, rank=rank),))


def _objects(state: _ImportState, snapshot: Snapshot) -> Iterator[Object]:
    """The objects of an import: derived Service, slices of allowed addresses, ServiceImport."""
    if state.derived:
        yield derived_service(state.key, state.derived, state.merged)
    slices = [
        build_imported_slice(
            endpoint_slice,
            record := state.visible[source_cluster(endpoint_slice)],
            state.merged,
            state.derived,
            _share_annotations(record, cluster_settings(record.cluster, state.rules)),
        )
        for endpoint_slice in _backing_slices(state, snapshot)
    ]
    yield from _by_affinity(slices, state, snapshot.local) if state.derived else slices
    yield from _service_import(state, snapshot, has_slices=bool(slices))


def _by_affinity(
    slices: Sequence[EndpointSlice], state: _ImportState, local: ClusterId
) -> Iterator[EndpointSlice]:
    """The slices behind a derived Service, those of the side that is not preferred draining."""
    rule = parse_affinity(state.merged.affinity) or AffinityRule()
    side = preferred_side_of(rule, slices, lambda s: source_cluster(s) == local)
    for endpoint_slice in slices:
        own_side = "local" if source_cluster(endpoint_slice) == local else "remote"
        yield endpoint_slice if side in (None, own_side) else drained(endpoint_slice)


def _backing_slices(state: _ImportState, snapshot: Snapshot) -> Iterator[EndpointSlice]:
    """The slices behind the import: what other clusters publish and may, and our own.

    Behind a derived Service our own are our pods as they are now, with or without the broker: an
    address is translated once, so another Service's address cannot be an endpoint of it here.
    """
    own = state.visible.get(snapshot.local) if state.derived else None
    for endpoint_slice in sorted(state.slices, key=lambda s: s.metadata.name):
        cluster = source_cluster(endpoint_slice)
        replaced = own is not None and cluster == snapshot.local
        if cluster in state.visible and endpoint_slice.address_type != "FQDN" and not replaced:
            yield drop_disallowed(endpoint_slice, cluster_settings(cluster, state.rules).ranges)
    if own is not None:
        pods = list(snapshot.by(snapshot.local, BACKENDS, f"{own.namespace}/{own.name}"))
        yield from build_own_slices(own, pods, state.broker_namespace)


def _keep_current(
    objects: Sequence[Object], key: Key, clusters: frozenset[ClusterId], snapshot: Snapshot
) -> list[Object]:
    """Keep current objects that depend on clusters whose records we cannot read now."""
    imported = snapshot.by(snapshot.local, IMPORTED, f"{key.namespace}/{key.name}")
    slices = [s for s in imported if source_cluster(s) in clusters]
    whole = (
        snapshot.get(snapshot.local, ServiceImport, key.name, key.namespace),
        snapshot.get(snapshot.local, Service, derived_name(key), key.namespace),
    )
    current = [o for o in (*slices, *whole) if o is not None]
    names = {(type(o), o.metadata.name) for o in current}
    return [*(o for o in objects if (type(o), o.metadata.name) not in names), *current]


def _service_import(
    state: _ImportState, snapshot: Snapshot, *, has_slices: bool
) -> Iterator[ServiceImport]:
    """The ServiceImport; a new one only once its derived Service has addresses.

    An existing one keeps its addresses while there are none.
    """
    key, merged = state.key, state.merged
    current = snapshot.get(snapshot.local, ServiceImport, key.name, key.namespace)
    annotations = merged.annotations
    if merged.affinity:
        annotations = {**annotations, AFFINITY: merged.affinity}
    addresses = ClusterSetAddresses(merged.ip_families)
    if state.derived:
        annotations = {**annotations, DERIVED_SERVICE: state.derived}
        found = derived_addresses(key, state.derived, merged, snapshot)
        if found is None and current is None:
            return  # wait until the new derived Service has an address
        addresses = found or ClusterSetAddresses(
            current.spec.ip_families if current else (), current.spec.ips if current else ()
        )
    conditions = [_ready_condition(state, addresses), *_address_conditions(state)]
    before = current.status.conditions if current is not None else ()
    types = {c.type for c in conditions}
    kept = [c for c in before if c.type != ADDRESSES_ALLOWED or c.type in types]
    yield ServiceImport(
        metadata=Meta(
            name=key.name,
            namespace=key.namespace,
            labels=merged.labels,
            annotations=annotations,
        ),
        spec=replace(
            _spec(merged, addresses.families, addresses.ips),
            internal_traffic_policy=internal_traffic_policy(merged),
        ),
        status=replace(
            _import_status(tuple(state.visible), merge_conditions(kept, conditions, snapshot.now)),
            endpoint_slice_objects="Present" if has_slices else "Absent",
        ),
    )


def _ready_condition(state: _ImportState, addresses: ClusterSetAddresses) -> Condition:
    """Ready: whether clients in this cluster can use the import."""
    if addresses.unsupported:
        message = (
            f"it is exported over {' and '.join(addresses.families)}, and Services of this cluster "
            f"have {' and '.join(addresses.unsupported)}; export it over one that all clusters have"
        )
        return condition("Ready", False, "IPFamilyNotSupported", message)
    if state.derived and not addresses.ips:
        return condition("Ready", False, "Pending", f"Service {state.derived} has no address yet")
    return condition("Ready", True, "Ready")


def _address_conditions(state: _ImportState) -> list[Condition]:
    """AddressesAllowed: False if clusters have addresses outside of their ranges, else none."""
    messages: list[str] = []
    for cluster in sorted(state.visible):
        ranges = cluster_settings(cluster, state.rules).ranges
        own = [s for s in state.slices if source_cluster(s) == cluster]
        if addresses := disallowed_addresses(own, ranges):
            messages.append(f"{cluster} publishes {disallowed_message(addresses, ranges)}")
    if not messages:
        return []
    return [condition(ADDRESSES_ALLOWED, False, "OutsideRanges", "; ".join(messages)[:32000])]


def _share_annotations(record: ExportRecord, settings: MemberSettings) -> dict[str, str]:
    """Weight and priority of a cluster in DNS answers, where they are not the defaults."""
    defaults = MemberSettings(id=record.cluster)
    annotations: dict[str, str] = {}
    for name, own, clusterset, default in (
        (WEIGHT, record.weight, settings.weight, defaults.weight),
        (PRIORITY, record.priority, settings.priority, defaults.priority),
    ):
        if own is not None or clusterset != default:
            annotations[name] = str(clusterset if own is None else own)
    return annotations


def _spec(
    merged: MergedImport, families: tuple[IPFamily, ...], ips: tuple[str, ...] = ()
) -> ServiceImportSpec:
    """The spec of a ServiceImport with these families and addresses.

    The internal traffic policy `Cluster` is left out: agents of earlier versions, which may write
    the aggregate in turn with us, leave it out.
    """
    return ServiceImportSpec(
        type=merged.type,
        ports=merged.ports,
        ips=ips,
        ip_families=families,
        session_affinity=merged.session_affinity,
        session_affinity_config=merged.session_affinity_config,
        internal_traffic_policy="Local" if merged.internal_traffic_policy == "Local" else "",
        traffic_distribution=merged.traffic_distribution,
    )


def _import_status(
    clusters: Sequence[ClusterId], conditions: tuple[Condition, ...] = ()
) -> ServiceImportStatus:
    """The status with these clusters, sorted, and conditions."""
    exporting = tuple(ExportingCluster(cluster=c) for c in sorted(clusters))
    return ServiceImportStatus(clusters=exporting, conditions=conditions)
