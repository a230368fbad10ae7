"""Plans the import of one service in this cluster."""

from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from hanse.features.services.aggregate import import_spec, import_status
from hanse.features.services.clusters import (
    BACKENDS,
    addresses_of_disallowed_endpoints,
    awaited_clusters,
    broker_since,
    cluster_settings,
    disallowed_message,
    drop_disallowed,
    drop_foreign_namespaces,
    exporting_clusters,
    imported_slices,
    judge_slices,
    list_published_slices,
    lost_clusters,
    source_cluster,
)
from hanse.features.services.derived import (
    ClusterSetAddresses,
    derived_addresses,
    derived_name,
    derived_service,
    internal_traffic_policy,
)
from hanse.features.services.legacy import (
    AGGREGATES,
    Unconfirmed,
    being_upgraded,
    lighthouse_clusters,
    lighthouse_slices,
    unconfirmed_clusters,
)
from hanse.features.services.lighthouse import lighthouse_version
from hanse.features.services.merge import MergedImport, merge_exports
from hanse.features.services.names import AFFINITY, DERIVED_SERVICE
from hanse.features.services.records import ExportRecord, PublishedExports, read_exports
from hanse.features.services.silence import known_exporters, silent_import
from hanse.features.services.slices import (
    agent_annotation,
    build_imported_slice,
    build_own_slices,
    share_annotations,
)
from hanse.features.services.status import ADDRESSES_ALLOWED, API_SERVER
from hanse.features.services.unpublished import is_unpublished, may_stand_alone
from hanse.model.acceptance import ImportedService, Refused, accepted, read_policy
from hanse.model.affinity import (
    AffinityRule,
    drained,
    parse_affinity,
    preferred_side_of,
)
from hanse.model.clusterset import broker_cluster, clusterset_spec, unanswered_clusters
from hanse.model.conditions import Condition, condition, merge_conditions
from hanse.model.kinds.core import Namespace, Service
from hanse.model.kinds.discovery import EndpointSlice
from hanse.model.kinds.hanse import ClusterSetSpec
from hanse.model.kinds.multicluster import ServiceExport, ServiceImport
from hanse.model.member_ranges import own_ranges
from hanse.model.objects import ClusterId, Meta, Object
from hanse.model.own_addresses import overlap_message, own_addresses, without_own_addresses
from hanse.model.ownership import OWNER, OWNER_KEY
from hanse.model.plan import Desired, Key, Owned, Plan, Question, TakeOver
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
    own_ranges: tuple[str, ...]
    """Of this cluster: no address of another one is imported that lies in them."""

    @property
    def derived(self) -> str:
        """The name of the derived Service; empty if headless, or the profile is not `kep-1645`."""
        needed = self.rules.profile == "kep-1645" and self.merged.type != "Headless"
        return derived_name(self.key) if needed else ""


def plan_import(key: Key, snapshot: Snapshot, broker_namespace: str) -> Plan:
    """The ServiceImport of one service in this cluster, its slices, and its derived Service.

    Empty without a broker or the namespace, for the API server's own Service, where the
    AcceptancePolicy refuses the namespace, and if nobody exports the service to this cluster. All
    objects are kept until the policy is read, and those of clusters whose state or schema is
    unknown. With `kep-1645` an import keeps its address while all exporters are silent. A
    Lighthouse agent's copy of an aggregate is taken over.
    """
    broker = broker_cluster(snapshot)
    namespace = snapshot.get(snapshot.local, Namespace, key.namespace)
    if broker is None or namespace is None or namespace.terminating:
        return Plan()
    if (key.namespace, key.name) == API_SERVER:
        return Plan()
    policy = read_policy(snapshot.local, snapshot)
    if policy is None:
        return Plan(keep_all=True)
    if isinstance(accepted(policy, ImportedService(key.namespace), broker), Refused):
        return Plan()
    rules = clusterset_spec(snapshot, broker)
    current = snapshot.get(snapshot.local, ServiceImport, key.name, key.namespace)
    inherits = _is_of_lighthouse(current, key, snapshot, broker)
    written = current if current is not None and _is_ours(current) and not inherits else None
    published = _read_published(key, written, rules, snapshot, broker, broker_namespace)
    records = published.exports.records
    merged = merge_exports(records, rules.profile)
    objects: list[Object] = []
    if merged is not None:
        admitted = [r for r in records if r.cluster in merged.clusters]
        visible = {r.cluster: r for r in admitted if r.is_for(snapshot.local)}
        state = _ImportState(
            key,
            rules,
            published.slices,
            merged,
            visible,
            broker_namespace,
            own_ranges(snapshot, broker, broker_namespace, rules),
        )
        objects.extend(_desired_objects(state, snapshot) if visible else ())
    may_stand = published.silent and rules.profile == "kep-1645"
    if written is not None and may_stand and not any(r.is_for(snapshot.local) for r in records):
        objects.extend(silent_import(key, written, published.silent, snapshot))
    if published.kept:
        objects = _keep_current(objects, key, published.kept, snapshot)
    sources, here = frozenset({broker}), snapshot.local
    desired = (
        Desired(
            o,
            here,
            sources=sources,
            ownership=TakeOver() if inherits and isinstance(o, ServiceImport) else Owned(),
        )
        for o in objects
    )
    return Plan(tuple(desired), questions=published.questions)


class _Published(Struct, frozen=True):
    """What all clusters publish for one service, as far as it counts here."""

    slices: tuple[EndpointSlice, ...]
    exports: PublishedExports
    silent: frozenset[ClusterId]
    """The exporters that have not left and do not count now: silent, or unknown and not in use."""
    kept: frozenset[ClusterId]
    """The clusters whose objects stand, since what they publish is not known now."""
    questions: tuple[Question, ...]


def _read_published(
    key: Key,
    current: ServiceImport | None,
    rules: ClusterSetSpec,
    snapshot: Snapshot,
    broker: ClusterId,
    broker_namespace: str,
) -> _Published:
    """All that the broker has of a service: the slices to import, their records, and whom to keep.

    `current` is the import as we wrote it last, None if it is not ours. Kept are clusters whose
    state or schema is not known, or which are still to publish what is imported; silent those that
    have not left and do not count now; the questions confirm clusters that returned, live.
    """
    older = lighthouse_slices(key, snapshot, broker, broker_namespace)
    imported = imported_slices(key, snapshot)
    migrating = lighthouse_clusters(imported)
    theirs = migrating | older.keys()
    named, importing = exporting_clusters(current), frozenset(map(source_cluster, imported))
    is_migrating = lighthouse_version(rules, snapshot, broker) is not None
    # a status is written after its slices: of a roll-back it names those that have gone
    standing = (named & importing if is_migrating else named | importing) - theirs
    place = (standing, snapshot, broker, broker_namespace)
    published = [
        s for s in list_published_slices(key, snapshot, broker) if source_cluster(s) not in older
    ]
    if snapshot.local not in standing:
        published = _without_own_strays(published, key, snapshot)
    unconfirmed = unconfirmed_clusters(published, *place) if is_migrating else Unconfirmed()
    confirmed = [s for s in published if source_cluster(s) not in unconfirmed.clusters]
    judged = judge_slices(confirmed, *place)
    translated = (s for some in older.values() for s in some)
    slices = drop_foreign_namespaces([*judged.counted, *translated], rules)
    exports = read_exports(slices, broker_since(snapshot, broker, broker_namespace))
    silent = read_exports(drop_foreign_namespaces(judged.silent, rules), None).records
    awaited = awaited_clusters(published, importing, *place)
    if is_migrating:  # no answer names them; they may stand since before their own roll-back
        awaited -= unanswered_clusters(snapshot)
    kept = exports.newer | awaited | (unconfirmed.clusters & migrating)
    kept |= being_upgraded(key, migrating, snapshot, broker, broker_namespace)
    if is_unpublished(key, snapshot, published, rules) and (
        snapshot.local in standing
        or (current is not None and may_stand_alone(key, snapshot, exports.records))
    ):
        kept |= {snapshot.local}
    unheard = frozenset(r.cluster for r in silent if r.is_for(snapshot.local))
    if not is_migrating:
        exporters = known_exporters(current) - theirs
        unheard |= lost_clusters(
            key, published, exporters, rules, snapshot, broker, broker_namespace
        )
    return _Published(tuple(slices), exports, unheard, kept, unconfirmed.questions)


def _is_ours(service_import: ServiceImport) -> bool:
    """Whether we wrote an import: by our owner label, or if it is lost, by any owner annotation."""
    meta = service_import.metadata
    return OWNER in meta.labels or OWNER_KEY in meta.annotations


def _is_of_lighthouse(
    current: ServiceImport | None, key: Key, snapshot: Snapshot, broker: ClusterId
) -> bool:
    """Whether the import here is the copy of an aggregate that a Lighthouse agent made.

    That is so if it lacks our owner label, has clusters in its status, which a person's own has
    not, and the broker has an aggregate of the service in Lighthouse's form. False for None.
    """
    if current is None or OWNER in current.metadata.labels or not current.status.clusters:
        return False
    return any(snapshot.by(broker, AGGREGATES, f"{key.namespace}/{key.name}"))


def _without_own_strays(
    slices: Sequence[EndpointSlice], key: Key, snapshot: Snapshot
) -> list[EndpointSlice]:
    """The slices, without those of this cluster if it has no ServiceExport of the service."""
    if snapshot.get(snapshot.local, ServiceExport, key.name, key.namespace) is not None:
        return list(slices)
    return [s for s in slices if source_cluster(s) != snapshot.local]


def _desired_objects(state: _ImportState, snapshot: Snapshot) -> Iterator[Object]:
    """The objects of an import: derived Service, slices of allowed addresses, ServiceImport.

    The derived Service only with `kep-1645`, unless headless; a new ServiceImport only once that
    has an address. Slices of the side that affinity does not prefer are drained, if there is a
    derived Service.
    """
    if state.derived:
        yield derived_service(state.key, state.derived, state.merged)
    slices = [
        build_imported_slice(
            endpoint_slice,
            record := state.visible[source_cluster(endpoint_slice)],
            state.merged,
            state.derived,
            {
                **share_annotations(record, cluster_settings(record.cluster, state.rules)),
                **agent_annotation(endpoint_slice),
            },
        )
        for endpoint_slice in _backing_slices(state, snapshot)
    ]
    yield from _drained_by_affinity(slices, state, snapshot.local) if state.derived else slices
    yield from _service_import(state, snapshot, has_slices=bool(slices))


def _drained_by_affinity(
    slices: Sequence[EndpointSlice], state: _ImportState, local: ClusterId
) -> Iterator[EndpointSlice]:
    """The slices of a derived Service; those of the side that affinity does not prefer, drained.

    Drained, ready endpoints are not ready, but serving and terminating. No slice is drained while
    too few endpoints of the preferred side are ready.
    """
    rule = parse_affinity(state.merged.affinity) or AffinityRule()
    side = preferred_side_of(rule, slices, lambda s: source_cluster(s) == local)
    for endpoint_slice in slices:
        own_side = "local" if source_cluster(endpoint_slice) == local else "remote"
        yield endpoint_slice if side in (None, own_side) else drained(endpoint_slice)


def _backing_slices(state: _ImportState, snapshot: Snapshot) -> Iterator[EndpointSlice]:
    """The published slices that this cluster may import, by name, but for FQDNs.

    Endpoints with disallowed addresses are left out, and others' with addresses in our ranges.
    Behind a derived Service our own slices are built from our pods, and come last: an endpoint
    cannot be the address of another Service.
    """
    own = state.visible.get(snapshot.local) if state.derived else None
    for endpoint_slice in sorted(state.slices, key=lambda s: s.metadata.name):
        cluster = source_cluster(endpoint_slice)
        replaced = own is not None and cluster == snapshot.local
        if cluster in state.visible and endpoint_slice.address_type != "FQDN" and not replaced:
            allowed = cluster_settings(cluster, state.rules).ranges
            slice_ = drop_disallowed(endpoint_slice, allowed)
            yield (
                slice_
                if cluster == snapshot.local
                else without_own_addresses(slice_, state.own_ranges)
            )
    if own is not None:
        pods = list(snapshot.by(snapshot.local, BACKENDS, f"{own.namespace}/{own.name}"))
        yield from build_own_slices(own, pods, state.broker_namespace)


def _keep_current(
    objects: Sequence[Object], key: Key, clusters: frozenset[ClusterId], snapshot: Snapshot
) -> list[Object]:
    """The objects, with the current ServiceImport, derived Service and slices of `clusters`.

    Current objects replace new ones of the same kind and name.
    """
    slices = [s for s in imported_slices(key, snapshot) if source_cluster(s) in clusters]
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

    An existing one keeps its addresses while there are none. Its condition AddressesAllowed is
    dropped once no fault is left.
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
    conditions = [_ready_condition(state, addresses), *_address_conditions(state, snapshot.local)]
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
            import_spec(merged, addresses.families, addresses.ips),
            internal_traffic_policy=internal_traffic_policy(merged),
        ),
        status=replace(
            import_status(tuple(state.visible), merge_conditions(kept, conditions, snapshot.now)),
            endpoint_slice_objects="Present" if has_slices else "Absent",
        ),
    )


def _ready_condition(state: _ImportState, addresses: ClusterSetAddresses) -> Condition:
    """Ready: False if the derived Service has no address, or none in the exports' IP families.

    True otherwise.
    """
    if addresses.unsupported:
        message = (
            f"it is exported over {' and '.join(addresses.families)}, and Services of this cluster "
            f"have {' and '.join(addresses.unsupported)}; export it over one that all clusters have"
        )
        return condition("Ready", False, "IPFamilyNotSupported", message)
    if state.derived and not addresses.ips:
        return condition("Ready", False, "Pending", f"Service {state.derived} has no address yet")
    return condition("Ready", True, "Ready")


def _address_conditions(state: _ImportState, local: ClusterId) -> list[Condition]:
    """AddressesAllowed: False if a cluster publishes addresses outside of its ranges, or in ours.

    No condition otherwise.
    """
    messages: list[str] = []
    reason = "OutsideRanges"
    for cluster in sorted(state.visible):
        ranges = cluster_settings(cluster, state.rules).ranges
        own = [s for s in state.slices if source_cluster(s) == cluster]
        if addresses := addresses_of_disallowed_endpoints(own, ranges):
            messages.append(f"{cluster} publishes {disallowed_message(addresses, ranges)}")
        if cluster != local and (addresses := own_addresses(own, state.own_ranges)):
            reason = "RangesOverlap"
            messages.append(f"{cluster} publishes {overlap_message(addresses, state.own_ranges)}")
    if not messages:
        return []
    return [condition(ADDRESSES_ALLOWED, False, reason, "; ".join(messages))]
