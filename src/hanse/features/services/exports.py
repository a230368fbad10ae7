"""Plans one ServiceExport of this cluster: its slices on the broker, and its conditions."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from msgspec import Struct
from msgspec.structs import replace

from hanse.features.services.clusters import (
    BACKENDS,
    addresses_of_disallowed_endpoints,
    broker_since,
    cluster_settings,
    disallowed_message,
    drop_disallowed,
    drop_foreign_namespaces,
    exporting_clusters,
    judge_slices,
    list_published_slices,
    may_publish,
    source_cluster,
)
from hanse.features.services.globalnet import (
    ReachableBackends,
    reachable_backends,
    uses_globalnet,
)
from hanse.features.services.legacy import lighthouse_slices
from hanse.features.services.lighthouse import leftovers, lighthouse_objects, lighthouse_version
from hanse.features.services.merge import MergedImport, merge_exports
from hanse.features.services.names import EXPORTED_AT
from hanse.features.services.records import (
    ExportRecord,
    bounded_age,
    build_record,
    decode_record,
    has_newer_schema,
    read_exports,
)
from hanse.features.services.removals import (
    split_strays,
    stray_removals,
    superseded_slices,
)
from hanse.features.services.slices import build_published_slices
from hanse.features.services.status import (
    ADDRESSES_ALLOWED,
    IMPORTED_HERE,
    NOT_JOINED,
    invalid_conditions,
    settings_conditions,
    status_plan,
)
from hanse.model.agent_report import DISCONNECTED, FORBIDDEN, REJECTED
from hanse.model.clusterset import broker_cluster, clusterset_spec, joined_clusters
from hanse.model.conditions import Condition, condition, find_condition
from hanse.model.facts import HeartbeatState, WriteOutcome
from hanse.model.kinds.coordination import Lease
from hanse.model.kinds.core import Service
from hanse.model.kinds.discovery import EndpointSlice
from hanse.model.kinds.hanse import ClusterSetSpec
from hanse.model.kinds.multicluster import ServiceExport, ServiceImport
from hanse.model.member_ranges import misled_clusters
from hanse.model.objects import ClusterId, ClusterObjectRef, Meta, ObjectRef, object_ref
from hanse.model.ownership import OWNER
from hanse.model.plan import Desired, Key, Plan, TakeOver
from hanse.model.snapshot import Snapshot

PENDING_AFTER = timedelta(seconds=1)
"""How old an export may get without a Ready condition before it is reported as pending."""

PENDING_AFTER_QUEUED = timedelta(seconds=30)
"""The same while the broker has no problem: the export only waits behind others."""

_VALID = condition("Valid", True, "Valid", "the Service can be exported")
_NO_CONFLICT = condition("Conflict", False, "NoConflicts", "all exports of this service agree")


class _ExportState(Struct, frozen=True):
    """An export that can be published, with everything its plan depends on."""

    export: ServiceExport
    record: ExportRecord
    broker: ClusterId
    rules: ClusterSetSpec
    published: tuple[EndpointSlice, ...]
    """The slices that are on the broker now, of all clusters."""
    merged: MergedImport
    backends: ReachableBackends
    as_pods: bool
    """Whether pod addresses are published instead of the Service's own."""
    broker_namespace: str

    def is_refused(self, cluster: ClusterId) -> bool:
        """Whether a cluster's export is refused: it is not imported anywhere.

        Only in profile `lighthouse`, if its type differs from that of the oldest export.
        """
        return cluster in self.merged.refused


def plan_export(key: Key, snapshot: Snapshot, broker_namespace: str) -> Plan:
    """The plan that publishes one local ServiceExport on the broker, or says why not in its status.

    Without a live ServiceExport it desires nothing, so that its slices are deleted; while one of
    our slices has a newer schema, they stay as they are. Slices on the broker that name this
    cluster as their source, and do not have our owner claim, are removed in any case.
    """
    broker = broker_cluster(snapshot)
    if broker is None:
        return _plan_own(key, None, (), snapshot, broker_namespace)
    published, strays = split_strays(list_published_slices(key, snapshot, broker), key, snapshot)
    plan = _plan_own(key, broker, published, snapshot, broker_namespace)
    if not strays:
        return plan
    return replace(plan, removals=(*plan.removals, *stray_removals(strays, broker)))


def _plan_own(
    key: Key,
    broker: ClusterId | None,
    published: Sequence[EndpointSlice],
    snapshot: Snapshot,
    broker_namespace: str,
) -> Plan:
    """The plan of an export: its slices and conditions, or conditions alone that say why not.

    Conditions alone, so that published slices are deleted, for an invalid Service, without a
    broker, or if the ClusterSet forbids the namespace. Empty if the export is missing or being
    deleted; only its current slices, unchanged, if one of them has a newer schema.
    """
    export = snapshot.get(snapshot.local, ServiceExport, key.name, key.namespace)
    if export is None or export.metadata.deletion_timestamp is not None:
        return Plan()  # nothing desired: what was published is withdrawn
    service = snapshot.get(snapshot.local, Service, key.name, key.namespace)
    if invalid := invalid_conditions(key, service):
        ended = (_NO_CONFLICT,) if find_condition(export.status.conditions, "Conflict") else ()
        return status_plan(export, snapshot, (*invalid, *ended))
    assert service is not None, "a Service without invalid conditions exists"
    if broker is None:
        waiting = condition("Ready", False, "Pending", NOT_JOINED)
        return status_plan(export, snapshot, (_VALID, waiting))
    if not may_publish(snapshot.local, key.namespace, clusterset_spec(snapshot, broker)):
        message = (
            f"the ClusterSet does not let {snapshot.local} publish services of namespace "
            f"{key.namespace}; the broker's administrator adds it to spec.clusters[].namespaces"
        )
        failed = condition("Ready", False, "Failed", message)
        return status_plan(export, snapshot, (_VALID, failed))
    own = [s for s in published if source_cluster(s) == snapshot.local]
    if any(has_newer_schema(s) for s in own):
        return Plan(_desired_slices(own, snapshot, broker))
    state = _merge_with_published(export, service, published, broker, snapshot, broker_namespace)
    return _publish(state, snapshot, broker_namespace)


def _desired_slices(
    slices: Iterable[EndpointSlice], snapshot: Snapshot, broker: ClusterId
) -> tuple[Desired, ...]:
    """The slices as desired objects on the broker, with the local cluster as their only source."""
    return tuple(Desired(s, broker, sources=_local_source(snapshot)) for s in slices)


def _local_source(snapshot: Snapshot) -> frozenset[ClusterId]:
    """The local cluster alone: the only source of the slices that it publishes.

    The broker is not among the sources: after it is restored, others wait for this cluster to
    repair the slices.
    """
    return frozenset({snapshot.local})


def _merge_with_published(
    export: ServiceExport,
    service: Service,
    published: Sequence[EndpointSlice],
    broker: ClusterId,
    snapshot: Snapshot,
    broker_namespace: str,
) -> _ExportState:
    """The record of the export, the import that all counted exports make, and its backends.

    `published` are the slices of all clusters at the broker. Other clusters count if they are
    ready, or if their state is unknown and the import here names them, and so do exports of
    Lighthouse agents. For the merge, not in `record`, the age of the export is bounded by its
    slices.
    """
    record = build_record(export, service, snapshot.local)
    rules = clusterset_spec(snapshot, broker)
    standing = exporting_clusters(
        snapshot.get(snapshot.local, ServiceImport, record.name, record.namespace)
    )
    key = Key("import", record.name, record.namespace)
    older = lighthouse_slices(key, snapshot, broker, broker_namespace)
    others = [s for s in published if source_cluster(s) not in {snapshot.local, *older}]
    counted = [
        *judge_slices(others, standing, snapshot, broker, broker_namespace).counted,
        *(s for some in older.values() for s in some),
    ]
    since = broker_since(snapshot, broker, broker_namespace)
    known = read_exports(drop_foreign_namespaces(counted, rules), since).records
    own = [s for s in published if source_cluster(s) == snapshot.local]
    aged = bounded_age(record, own or [_unpublished_slice(record, snapshot.now)], since)
    merged = merge_exports([aged, *known], rules.profile)
    assert merged is not None, "at least one record makes an import"
    pods = list(snapshot.by(snapshot.local, BACKENDS, f"{record.namespace}/{record.name}"))
    as_pods = _publishes_pods(record, merged, rules, snapshot)
    backends = reachable_backends(service, pods, snapshot, as_pods=as_pods)
    slices = tuple(published)
    return _ExportState(
        export, record, broker, rules, slices, merged, backends, as_pods, broker_namespace
    )


def _unpublished_slice(record: ExportRecord, now: datetime) -> EndpointSlice:
    """A stand-in for the slice that an export will have, to bound its age; it is never written.

    Created now, and with the time that the record states: what a first publication would prove.
    """
    stated = {EXPORTED_AT: record.exported_at.isoformat()}
    return EndpointSlice(
        metadata=Meta(name="", annotations=stated, creation_timestamp=now), address_type="IPv4"
    )


def _publishes_pods(
    record: ExportRecord, merged: MergedImport, rules: ClusterSetSpec, snapshot: Snapshot
) -> bool:
    """Whether the addresses of pods are published instead of the Service's own.

    True for a headless Service, and for an export that a headless import admits; else if the
    ClusterSet's `endpoint_source` is `pods` and the cluster does not use Globalnet.
    """
    admitted = record.cluster not in merged.refused
    if record.type == "Headless" or (admitted and merged.type == "Headless"):
        return True
    return rules.endpoint_source == "pods" and not uses_globalnet(snapshot)


def _joined_clusters(
    snapshot: Snapshot, broker: ClusterId, broker_namespace: str
) -> frozenset[ClusterId] | None:
    """The broker's members and the local cluster; None while the broker's Leases are not listed."""
    if not snapshot.listed(broker, Lease):
        return None
    return joined_clusters(snapshot, broker, broker_namespace) | {snapshot.local}


def _publish(state: _ExportState, snapshot: Snapshot, broker_namespace: str) -> Plan:
    """The plan of a valid export: its slices, objects for Lighthouse agents, and its conditions.

    Endpoints outside of the cluster's ranges are left out; current slices stay until one of the new
    exists. Superseded slices, and what this cluster's Lighthouse agent left, are removed. Until
    Ready is first known, no condition is written, and the plan is requeued after a second.
    """
    export = state.export
    slices = build_published_slices(
        state.record,
        state.backends.backends,
        broker_namespace,
        as_pods=state.as_pods,
        refused=state.is_refused(snapshot.local),
        published=_own_slices(state, snapshot),
    )
    ranges = cluster_settings(snapshot.local, state.rules).ranges
    allowed = [drop_disallowed(s, ranges) for s in slices]
    desired = _desired_slices(allowed, snapshot, state.broker)
    ready = _ready_condition(state, desired, snapshot)
    conditions = [
        _VALID,
        *settings_conditions(export, _joined_clusters(snapshot, state.broker, broker_namespace)),
        *_address_conditions(state, slices),
        *_import_conditions(state, snapshot),
    ]
    if ready is not None:
        conditions.append(ready)
    if snapshot.listed(state.broker, EndpointSlice):
        conditions.append(_conflict_condition(state.merged, snapshot.local))
    older = _lighthouse_form(state, snapshot, broker_namespace)
    key = Key("export", state.record.name, state.record.namespace)
    removals = (
        *leftovers(key, [d.object for d in older], snapshot, state.broker),
        *superseded_slices(desired, _own_slices(state, snapshot), snapshot),
    )
    desired = (*desired, *_kept_until_replaced(desired, state, snapshot), *older)
    if ready is None and find_condition(export.status.conditions, "Ready") is None:
        # one status write, once Ready is known
        return Plan(desired, removals, requeue_after=PENDING_AFTER)
    return replace(status_plan(export, snapshot, conditions), desired=desired, removals=removals)


def _own_slices(state: _ExportState, snapshot: Snapshot) -> list[EndpointSlice]:
    """The slices of this cluster among those that are on the broker now."""
    return [s for s in state.published if source_cluster(s) == snapshot.local]


def _kept_until_replaced(
    desired: tuple[Desired, ...], state: _ExportState, snapshot: Snapshot
) -> tuple[Desired, ...]:
    """This cluster's current slices on the broker as desired objects.

    None once one of the `desired` slices is on the broker.
    """
    own = _own_slices(state, snapshot)
    names = {d.object.metadata.name for d in desired}
    stands = any(s.metadata.name in names for s in own)
    return () if stands else _desired_slices(own, snapshot, state.broker)


def _lighthouse_form(
    state: _ExportState, snapshot: Snapshot, broker_namespace: str
) -> tuple[Desired, ...]:
    """The export's objects in the form of Lighthouse, as desired objects of step 1 on the broker.

    Those of the version that `lighthouse_version` tells; none without one, or if the export is
    refused or waits for a Globalnet address. Existing objects of this cluster's own Lighthouse
    agent are taken over.
    """
    version = lighthouse_version(state.rules, snapshot, state.broker)
    if version is None or state.is_refused(snapshot.local) or state.backends.waiting:
        return ()
    objects = lighthouse_objects(
        state.record,
        state.backends.backends,
        version,
        snapshot,
        state.broker,
        broker_namespace,
    )
    return tuple(
        Desired(o, state.broker, step=1, sources=_local_source(snapshot), ownership=TakeOver())
        for o in objects
    )


def _ready_condition(
    state: _ExportState, desired: tuple[Desired, ...], snapshot: Snapshot
) -> Condition | None:
    """The condition Ready of a valid export; None if there is nothing new to say yet.

    The first that applies: Unknown if the broker rejects or forbids our Lease's renewals or is not
    reached; False if a write failed for good, the export is refused or waits for Globalnet; True if
    a slice on the broker has our record. Else None if the export has Ready already or is young, and
    False after that: a second, or 30 s where the broker has no problem.
    """
    outcomes = [
        snapshot.fact(WriteOutcome, ClusterObjectRef(state.broker, object_ref(d.object)))
        for d in desired
    ]
    heartbeat = snapshot.fact(HeartbeatState, state.broker)
    if heartbeat is not None and heartbeat.rejected:
        return condition("Ready", None, REJECTED, _rejected_message(snapshot.local))
    if heartbeat is not None and heartbeat.forbidden:
        join = f"`hanse join --broker BROKER --cluster-id {snapshot.local}` gives it its rights"
        message = f"the broker does not let the agent of this cluster renew its Lease; {join}"
        return condition("Ready", None, FORBIDDEN, message)
    if heartbeat is not None and not heartbeat.renewed:
        message = "the broker is not reached: other clusters may have left it out; see the agent"
        return condition("Ready", None, DISCONNECTED, message)
    failed = [o for o in outcomes if o is not None and o.is_final]
    if failed:
        return condition("Ready", False, "Failed", failed[0].message)
    if state.is_refused(snapshot.local):
        return condition("Ready", False, "Failed", "it conflicts with an older export")
    if state.backends.waiting:
        return condition("Ready", False, "Pending", "Globalnet has not given it an address yet")
    if state.record in [decode_record(s) for s in state.published]:
        return condition("Ready", True, "Exported", _importers_message(state, snapshot)[:1024])
    created = state.export.metadata.creation_timestamp
    is_queued = snapshot.synced(state.broker, EndpointSlice) and not any(outcomes)
    limit = PENDING_AFTER_QUEUED if is_queued else PENDING_AFTER
    is_young = created is not None and snapshot.now - created < limit
    if find_condition(state.export.status.conditions, "Ready") is not None or is_young:
        return None
    return condition("Ready", False, "Pending", f"the broker has not taken it yet ({state.broker})")


def _rejected_message(cluster: ClusterId) -> str:
    """The message of Ready for a broker that rejects this cluster's token: what to do about it."""
    return (
        "the broker rejects the token of this cluster: it ended, or the cluster was made to leave; "
        f"`hanse join --broker BROKER --cluster-id {cluster}` gives it a new one, and "
        "`hanse uninstall` removes what stands here"
    )


def _importers_message(state: _ExportState, snapshot: Snapshot) -> str:
    """The message of Ready: who can import an export, and whose address ranges overlap ours."""
    importers = f"only {', '.join(state.record.to)}" if state.record.to else "all clusters"
    place = (snapshot, state.broker, state.broker_namespace, state.rules)
    misled = misled_clusters(*place, as_pods=state.as_pods)
    if not misled:
        return f"{importers} can import it"
    return f"{importers} can import it but {', '.join(misled)}: their address ranges overlap ours"


def _conflict_condition(merged: MergedImport, cluster: ClusterId) -> Condition:
    """Conflict: True with all reasons and messages of a cluster's conflicts, else False."""
    conflicts = merged.conflicts.get(cluster, ())
    if not conflicts:
        return _NO_CONFLICT
    reasons = ",".join(c.reason for c in conflicts)
    message = "; ".join(c.message for c in conflicts)
    return condition("Conflict", True, reasons, message)


def _address_conditions(state: _ExportState, slices: tuple[EndpointSlice, ...]) -> list[Condition]:
    """AddressesAllowed: False if an endpoint has an address outside of the cluster's ranges.

    Else True if the export has the condition already, and no condition if it has not.
    """
    ranges = cluster_settings(state.record.cluster, state.rules).ranges
    if addresses := addresses_of_disallowed_endpoints(slices, ranges):
        message = disallowed_message(addresses, ranges)
        return [condition(ADDRESSES_ALLOWED, False, "OutsideRanges", message)]
    was_set = find_condition(state.export.status.conditions, ADDRESSES_ALLOWED) is not None
    return [condition(ADDRESSES_ALLOWED, True, "Allowed")] if was_set else []


def _import_conditions(state: _ExportState, snapshot: Snapshot) -> list[Condition]:
    """ImportedHere: False if the ServiceImport in this cluster cannot be written until people act.

    Else True if the export has the condition already and the import here has our owner label; in
    all other cases no condition.
    """
    ref = ObjectRef(ServiceImport.kind, state.record.name, state.record.namespace)
    outcome = snapshot.fact(WriteOutcome, ClusterObjectRef(snapshot.local, ref))
    if outcome is not None and outcome.is_final:
        message = f"it is not imported here: {outcome.message}"
        return [condition(IMPORTED_HERE, False, "ImportFailed", message)]
    was_set = find_condition(state.export.status.conditions, IMPORTED_HERE) is not None
    current = snapshot.get(snapshot.local, ServiceImport, ref.name, ref.namespace)
    is_ours = current is not None and OWNER in current.metadata.labels
    return [condition(IMPORTED_HERE, True, "Imported")] if was_set and is_ours else []
