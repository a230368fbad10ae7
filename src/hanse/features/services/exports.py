"""One export of this cluster: its slices on the broker, and what is told on the ServiceExport."""

from datetime import timedelta

from msgspec import Struct
from msgspec.structs import replace

from hanse.features.services.clusters import (
    BACKENDS,
    alive_for_us,
    cluster_settings,
    joined_clusters,
    list_published_slices,
    rules_of,
    source_cluster,
)
from hanse.features.services.globalnet import ReachableBackends, reached
from hanse.features.services.imports import ADDRESSES_ALLOWED
from hanse.features.services.merge import MergedImport, merge
from hanse.features.services.ranges import disallowed_addresses, disallowed_message, drop_disallowed
from hanse.features.services.records import (
    ExportRecord,
    build_record,
    decode_record,
    has_newer_schema,
    read_exports,
)
from hanse.features.services.slices import published
from hanse.features.services.status import settings_conditions, told
from hanse.model.clusterset import broker_cluster
from hanse.model.conditions import Condition, condition, find
from hanse.model.facts import WriteOutcome
from hanse.model.kinds.core import Service
from hanse.model.kinds.discovery import EndpointSlice
from hanse.model.kinds.hanse import ClusterSetSpec
from hanse.model.kinds.multicluster import ServiceExport, ServiceImport
from hanse.model.objects import ClusterId, ClusterObjectRef, ObjectRef, object_ref
from hanse.model.ownership import OWNER
from hanse.model.plan import Desired, Key, Plan
from hanse.model.snapshot import Snapshot

PATIENCE = timedelta(seconds=1)
"""How long an export may take before people are told that it is pending."""

BUSY = timedelta(seconds=30)
"""How long it may take while nothing is wrong with the broker: it waits behind others."""

IMPORTED_HERE = "ImportedHere"
TROUBLE = ("Foreign", "Refused", "Forbidden")

API_SERVER = ("default", "kubernetes")
"""The namespace and the name of the API server's own Service, which every cluster has."""

NEVER_EXPORTED = "the API server's own Service is never exported"

_VALID = condition("Valid", True, "Valid", "the Service can be exported")
_AGREED = condition(r"Conflict", False, "NoConflicts", "all exports of this service agree")


class _Case(Struct, frozen=True):
    """One export that can be published, and all that it is judged by."""

    export: ServiceExport
    record: ExportRecord
    broker: ClusterId
    rules: ClusterSetSpec
    on_broker: tuple[EndpointSlice, ...]
    together: MergedImport
    reached: ReachableBackends

    def is_refused(self, here: ClusterId) -> bool:
        """Whether it conflicts with an older export so that it cannot be imported beside it."""
        return here in self.together.refused


def plan_export(key: Key, snapshot: Snapshot, broker_namespace: str) -> Plan:
    """Publish one export, or say why it cannot be."""
    export = snapshot.get(snapshot.local, ServiceExport, key.name, key.namespace)
    if export is None or export.metadata.deletion_timestamp is not None:
        return Plan()  # nothing desired: what was published is withdrawn
    service = snapshot.get(snapshot.local, Service, key.name, key.namespace)
    if reasons := _why_not(key, service):
        ended = (_AGREED,) if find(export.status.conditions, r"Conflict") else ()
        return told(export, snapshot, (*reasons, *ended))
    assert service is not None, "what can be exported is there"
    broker = broker_cluster(snapshot)
    if broker is None:
        waiting = condition("Ready", False, "Pending", "this cluster has not joined a broker")
        return told(export, snapshot, (_VALID, waiting))
    on_broker = list_published_slices(key, snapshot, broker)
    mine = [s for s in on_broker if source_cluster(s) == snapshot.local]
    if any(has_newer_schema(s) for s in mine):
        return _left_alone(mine, snapshot, broker)
    return _publish(
        _case(export, service, on_broker, broker, snapshot, broker_namespace),
        snapshot,
        broker_namespace,
    )


def _why_not(key: Key, service: Service | None) -> tuple[Condition, ...]:
    """The conditions of what cannot be exported; none where it can."""
    if (key.namespace, key.name) == API_SERVER:
        return _refused("InvalidServiceType", NEVER_EXPORTED)
    if service is None or service.metadata.deletion_timestamp is not None:
        return (
            condition("Valid", False, "NoService", f"there is no Service {key.name} here"),
            condition("Ready", False, "Pending", "it is exported when the Service is created"),
        )
    if service.spec.type == "ExternalName":
        text = "a Service of type ExternalName has no endpoints; export one of another type"
        return _refused("InvalidServiceType", text)
    return ()


def _refused(reason: str, text: str) -> tuple[Condition, ...]:
    return (
        condition("Valid", False, reason, text),
        condition("Ready", False, "Failed", text),
    )


def _left_alone(mine: list[EndpointSlice], snapshot: Snapshot, broker: ClusterId) -> Plan:
    """What a later version of this cluster's own agent published stands as it is."""
    return Plan(tuple(Desired(s, broker, sources=_sources(snapshot, broker)) for s in mine))


def _sources(snapshot: Snapshot, broker: ClusterId) -> frozenset[ClusterId]:
    return frozenset({snapshot.local, broker})


def _case(
    export: ServiceExport,
    service: Service,
    on_broker: list[EndpointSlice],
    broker: ClusterId,
    snapshot: Snapshot,
    broker_namespace: str,
) -> _Case:
    record = build_record(export, service, snapshot.local)
    rules = rules_of(snapshot, broker)
    others = [s for s in on_broker if source_cluster(s) != snapshot.local]
    known = read_exports(alive_for_us(others, snapshot, broker, broker_namespace)).records
    together = merge([record, *known], rules.profile)
    assert together is not None, "one record makes an import"
    place = f"{record.namespace}/{record.name}"
    pods = list(snapshot.by(snapshot.local, BACKENDS, place))
    there = reached(service, pods, snapshot, as_pods=_as_pods(record, together))
    return _Case(export, record, broker, rules, tuple(on_broker), together, there)


def _as_pods(record: ExportRecord, together: MergedImport) -> bool:
    """Whether others reach the pods: there is no other address, or a headless import shows them."""
    admitted = record.cluster not in together.refused
    return record.type == "Headless" or (admitted and together.type == "Headless")


def _publish(case: _Case, snapshot: Snapshot, broker_namespace: str) -> Plan:
    export = case.export
    slices = published(
        case.record,
        case.reached.backing,
        broker_namespace,
        as_pods=_as_pods(case.record, case.together),
        refused=case.is_refused(snapshot.local),
    )
    sources = _sources(snapshot, case.broker)
    ranges = cluster_settings(snapshot.local, case.rules).ranges
    desired = tuple(
        Desired(drop_disallowed(endpoint_slice, ranges), case.broker, sources=sources)
        for endpoint_slice in slices
    )
    ready = _readiness(case, desired, snapshot)
    wanted = [
        _VALID,
        *settings_conditions(export, joined_clusters(snapshot, case.broker, broker_namespace)),
        *_addresses_at_fault(case, slices),
        *_import_at_fault(case, snapshot),
    ]
    if ready is not None:
        wanted.append(ready)
    if snapshot.listed(case.broker, EndpointSlice):
        wanted.append(_conflict(case.together, snapshot.local))
    if ready is None and find(export.status.conditions, "Ready") is None:
        return Plan(desired, requeue_after=PATIENCE)  # told once, when there is something to tell
    return replace(told(export, snapshot, wanted), desired=desired)


def _readiness(case: _Case, desired: tuple[Desired, ...], snapshot: Snapshot) -> Condition | None:
    """Whether the export stands on the broker; None keeps what is told, since nothing is known."""
    trouble = [
        snapshot.fact(WriteOutcome, ClusterObjectRef(case.broker, object_ref(d.object)))
        for d in desired
    ]
    bad = [t for t in trouble if t is not None and t.result in TROUBLE]
    if bad:
        return condition("Ready", False, "Failed", bad[0].message)
    if case.is_refused(snapshot.local):
        return condition("Ready", False, "Failed", "it conflicts with an older export")
    if case.reached.waiting:
        return condition("Ready", False, "Pending", "Globalnet has not given it an address yet")
    if case.record in [decode_record(s) for s in case.on_broker]:
        whom = f"only {', '.join(case.record.to)}" if case.record.to else "all clusters"
        return condition("Ready", True, "Exported", f"{whom} can import it"[:1024])
    began = case.export.metadata.creation_timestamp
    in_order = snapshot.synced(case.broker, EndpointSlice) and not any(trouble)
    young = began is not None and snapshot.now - began < (BUSY if in_order else PATIENCE)
    if find(case.export.status.conditions, "Ready") is not None or young:
        return None
    return condition("Ready", False, "Pending", f"the broker has not taken it yet ({case.broker})")


def _conflict(together: MergedImport, cluster: ClusterId) -> Condition:
    found = together.conflicts.get(cluster, ())
    if not found:
        return _AGREED
    reasons = ",".join(c.reason for c in found)
    return condition(r"Conflict", True, reasons, "; ".join(c.message for c in found)[:32000])


def _addresses_at_fault(case: _Case, slices: tuple[EndpointSlice, ...]) -> list[Condition]:
    ranges = cluster_settings(case.record.cluster, case.rules).ranges
    if addresses := disallowed_addresses(slices, ranges):
        text = disallowed_message(addresses, ranges)
        return [condition(ADDRESSES_ALLOWED, False, "OutsideRanges", text)]
    once = find(case.export.status.conditions, ADDRESSES_ALLOWED) is not None
    return [condition(ADDRESSES_ALLOWED, True, "Allowed")] if once else []


def _import_at_fault(case: _Case, snapshot: Snapshot) -> list[Condition]:
    """Whether the import of this cluster itself could not be written, for what stands there."""
    ref = ObjectRef(ServiceImport.kind, case.record.name, case.record.namespace)
    trouble = snapshot.fact(WriteOutcome, ClusterObjectRef(snapshot.local, ref))
    if trouble is not None and trouble.result in TROUBLE:
        text = f"it is not imported here: {trouble.message}"
        return [condition(IMPORTED_HERE, False, "ImportFailed", text[:32000])]
    once = find(case.export.status.conditions, IMPORTED_HERE) is not None
    standing = snapshot.get(snapshot.local, ServiceImport, ref.name, ref.namespace)
    ours = standing is not None and OWNER in standing.metadata.labels
    return [condition(IMPORTED_HERE, True, "Imported")] if once and ours else []
