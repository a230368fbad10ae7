"""One export of this cluster: its slices on the broker, and what is told on the ServiceExport."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Literal

import msgspec

from hanse.features.services.fleet import BACKENDS, broker_of, live_records, rules_of, slices_of
from hanse.features.services.merge import Merged, merge
from hanse.features.services.names import TO_CLUSTERS, WEIGHT
from hanse.features.services.records import Record, record_of, record_on, weight_in
from hanse.features.services.slices import published
from hanse.model.conditions import Condition, condition, find, merged
from hanse.model.facts import Outcome
from hanse.model.keys import Key
from hanse.model.kinds.core import Service
from hanse.model.kinds.discovery import EndpointSlice
from hanse.model.kinds.multicluster import ServiceExport
from hanse.model.objects import ClusterId, Place, ref_of
from hanse.model.plan import Desired, Notice, Patch, Plan
from hanse.model.snapshot import Snapshot

PATIENCE = timedelta(seconds=1)
"""How long an export may take before people are told that it is pending."""

TROUBLE = ("Foreign", "Refused", "Forbidden")


def plan_export(key: Key, seen: Snapshot, home: str) -> Plan:
    """Publish one export, or say why it cannot be."""
    export = seen.get(seen.local, ServiceExport, key.name, key.namespace)
    if export is None or export.metadata.deletion_timestamp is not None:
        return Plan()  # nothing desired: what was published is withdrawn
    service = seen.get(seen.local, Service, key.name, key.namespace)
    if reasons := _why_not(key, service):
        return _told(export, seen, reasons)
    assert service is not None, "what can be exported is there"
    record = record_of(export, service, seen.local)
    broker = broker_of(seen)
    if broker is None:
        waiting = condition("Ready", False, "Pending", "this cluster has not joined a broker")
        return _told(export, seen, (_VALID, waiting))
    return _publish(key, export, service, record, broker, seen, home)


_VALID = condition("Valid", True, "Valid", "the Service can be exported")


def _why_not(key: Key, service: Service | None) -> tuple[Condition, ...]:
    """The conditions of what cannot be exported; none where it can."""
    if (key.namespace, key.name) == ("default", "kubernetes"):
        text = "the API server's own Service is never exported"
        return _refused("InvalidServiceType", text)
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


def _publish(
    key: Key,
    export: ServiceExport,
    service: Service,
    record: Record,
    broker: ClusterId,
    seen: Snapshot,
    home: str,
) -> Plan:
    on_broker = slices_of(key, seen, broker)
    others = [r for r in live_records(on_broker, seen, broker, home) if r.cluster != seen.local]
    rules = rules_of(seen, broker)
    together = merge([record, *others], rules.profile)
    assert together is not None, "one record makes an import"
    backends = list(seen.by(seen.local, BACKENDS, f"{key.namespace}/{key.name}"))
    refused = seen.local in together.refused
    slices = published(record, service, backends, home, refused=refused)
    sources = frozenset({seen.local})
    desired = tuple(Desired(piece, broker, sources=sources) for piece in slices)
    ready = _readiness(export, record, desired, on_broker, seen, broker, refused=refused)
    told = [_VALID, *_annotations_at_fault(export)]
    if ready is not None:
        told.append(ready)
    if seen.listed(broker, EndpointSlice):
        told.append(_conflict(together, seen.local))
    if ready is None and find(export.status.conditions, "Ready") is None:
        return Plan(desired, again_after=PATIENCE)  # told once, when there is something to tell
    plan = _told(export, seen, told)
    return Plan(desired, patches=plan.patches, notices=plan.notices)


def _readiness(
    export: ServiceExport,
    record: Record,
    desired: tuple[Desired, ...],
    on_broker: list[EndpointSlice],
    seen: Snapshot,
    broker: ClusterId,
    *,
    refused: bool,
) -> Condition | None:
    """Whether the export stands on the broker; None keeps what is told, since nothing is known."""
    trouble = [seen.fact(Outcome, Place(broker, ref_of(d.object))) for d in desired]
    bad = [t for t in trouble if t is not None and t.result in TROUBLE]
    if bad:
        return condition("Ready", False, "Failed", bad[0].message)
    if refused:
        return condition("Ready", False, "Failed", "it conflicts with an older export")
    standing = [r for p in on_broker if (r := record_on(p)) and r.cluster == seen.local]
    if standing == [record]:
        return condition("Ready", True, "Exported", "all clusters can import it")
    began = export.metadata.creation_timestamp
    young = began is not None and seen.now - began < PATIENCE
    if find(export.status.conditions, "Ready") is not None or young:
        return None
    return condition("Ready", False, "Pending", f"the broker has not taken it yet ({broker})")


def _conflict(together: Merged, cluster: ClusterId) -> Condition:
    found = together.conflicts.get(cluster, ())
    if not found:
        return condition("Conflict", False, "NoConflicts", "all exports of this service agree")
    reasons = ",".join(c.reason for c in found)
    return condition("Conflict", True, reasons, "; ".join(c.message for c in found)[:32000])


def _annotations_at_fault(export: ServiceExport) -> list[Condition]:
    marks = export.metadata.annotations
    weight = marks.get(WEIGHT, "")
    if weight and weight_in(weight) is None:
        text = f"annotation {WEIGHT}: {weight[:40]!r} is not a number from 0 to 1000; it is ignored"
        return [condition("AnnotationsValid", False, "InvalidAnnotation", text)]
    if TO_CLUSTERS in marks and not marks[TO_CLUSTERS].strip(", "):
        text = f"annotation {TO_CLUSTERS} names no cluster; it is ignored"
        return [condition("AnnotationsValid", False, "InvalidAnnotation", text)]
    if find(export.status.conditions, "AnnotationsValid") is not None:
        return [condition("AnnotationsValid", True, "Valid")]
    return []


def _told(export: ServiceExport, seen: Snapshot, wanted: Sequence[Condition]) -> Plan:
    """The conditions as a patch, and an Event for those that turned bad."""
    standing = export.status.conditions
    after = merged(standing, wanted, seen.now, export.metadata.generation)
    place = Place(seen.local, ref_of(export))
    change = {"status": {"conditions": msgspec.to_builtins(after)}}
    notices = tuple(
        Notice(place, c.reason.split(",")[0], c.message, _severity(c))
        for c in wanted
        if _turned(c, find(standing, c.type)) and c.message
    )
    return Plan(patches=(Patch(place, change, "status"),), notices=notices)


def _turned(now: Condition, before: Condition | None) -> bool:
    quiet = {"Valid", "NoConflicts", "Pending", "Exported"}
    changed = before is None or before.status != now.status or before.reason != now.reason
    return changed and now.reason not in quiet


def _severity(told: Condition) -> Literal["Normal", "Warning"]:
    good = (told.type, told.status) in {("Ready", "True"), ("Valid", "True"), ("Conflict", "False")}
    return "Normal" if good else "Warning"
