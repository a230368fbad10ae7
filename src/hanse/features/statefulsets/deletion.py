"""Plans for a set that the broker does not have: it was deleted there, or lost with a restore.

A broker that was restored from a backup looks like one where sets were deleted. The cluster's own
report at the broker tells them apart: it is written before anything runs and deleted last of all,
so a set that runs without a report was never known to this broker, and not deleted there.
"""

from msgspec import Struct
from msgspec.structs import replace

from hanse.features.statefulsets.identity import cluster_uid
from hanse.features.statefulsets.names import LOST, REBUILT, REVISION, part_name
from hanse.features.statefulsets.owned_objects import (
    list_owned,
    owned_stateful_set,
    plan_release,
    plan_unchanged,
)
from hanse.features.statefulsets.tombstones import (
    add_created_uid,
    deletes_claims,
    is_covered_by_deletion,
    plan_tombstone,
    plan_without_returned_set,
    returned_with_claims_message,
)
from hanse.model.kinds.apps import StatefulSet
from hanse.model.kinds.stateful import StatefulSetPart, StatefulSetPartSpec
from hanse.model.objects import ClusterId, ClusterObjectRef, Meta, object_ref
from hanse.model.plan import Desired, EventRequest, Key, Plan
from hanse.model.snapshot import Snapshot


class _RunningSet(Struct, frozen=True):
    """The StatefulSet of a set that runs here, and its report at the broker."""

    key: Key
    stateful_set: StatefulSet
    report: StatefulSetPart | None
    broker: ClusterId
    broker_namespace: str


def plan_missing_set(
    key: Key, snapshot: Snapshot, broker: ClusterId, broker_namespace: str
) -> Plan:
    """Delete what runs of a set deleted at the broker; keep and report what the broker has lost.

    It was deleted if this cluster's report there is live or names the StatefulSet's uid. A restored
    StatefulSet of a deleted set is deleted again, but runs on if its claims would go with it, and
    is released if its set was orphaned. Once nothing is left here, the report becomes a tombstone.
    """
    stateful_set = _running_stateful_set(key, snapshot)
    report = read_report(key, snapshot, broker, broker_namespace)
    if stateful_set is None:
        return _plan_after_deletion(key, report, snapshot, broker)
    running = _RunningSet(key, stateful_set, report, broker, broker_namespace)
    if report is None or not is_covered_by_deletion(stateful_set, report):
        return _plan_running_on(running, snapshot, "Lost", _lost_message(running))
    if report.spec.released:
        return plan_release(key, snapshot, broker, broker_namespace)
    if report.spec.ended is None and LOST not in report.metadata.annotations:
        return plan_without_objects(stateful_set, report, snapshot, broker)
    if deletes_claims(stateful_set.spec):
        return _plan_running_on(
            running, snapshot, "Returned", returned_with_claims_message(stateful_set, report)
        )
    return plan_without_returned_set(stateful_set, report, snapshot, broker)


def plan_without_shares(
    key: Key, snapshot: Snapshot, broker: ClusterId, broker_namespace: str
) -> Plan:
    """Keeps everything as it is until shares exist.

    If our StatefulSet runs here and the broker has no report, or an ended one, a report is written,
    annotated as lost: what runs is an earlier set's, with which this one has nothing to do until it
    has shares.
    """
    stateful_set = _running_stateful_set(key, snapshot)
    report = read_report(key, snapshot, broker, broker_namespace)
    if stateful_set is None or (report is not None and report.spec.ended is None):
        return plan_unchanged(key, snapshot, broker, broker_namespace)
    running = _RunningSet(key, stateful_set, report, broker, broker_namespace)
    report = _build_report(running, snapshot, annotations={LOST: "true"})
    return _plan_with_report(report, running, snapshot)


def plan_release_with_tombstone(
    key: Key, snapshot: Snapshot, broker: ClusterId, broker_namespace: str
) -> Plan:
    """Release the objects of a set; once none is owned, turn the report into a tombstone.

    Without a report it only releases.
    """
    report = read_report(key, snapshot, broker, broker_namespace)
    if report is None or list_owned(key, snapshot):
        return plan_release(key, snapshot, broker, broker_namespace)
    return plan_tombstone(report, snapshot, broker, released=True)


def _plan_after_deletion(
    key: Key, report: StatefulSetPart | None, snapshot: Snapshot, broker: ClusterId
) -> Plan:
    """Keeps the report while the set has objects here; then makes it a tombstone, or deletes it."""
    if report is None:
        return Plan()
    if list_owned(key, snapshot):
        return Plan(kept=(ClusterObjectRef(broker, object_ref(report)),))
    return plan_tombstone(report, snapshot, broker, released=False)


def plan_awaiting_acceptance(
    report: StatefulSetPart, text: str, snapshot: Snapshot, broker: ClusterId
) -> Plan:
    """Runs nothing; the report and a Warning Event say that users have to accept this cluster.

    The report is annotated with the uid of this cluster.
    """
    spec = replace(
        report.spec,
        trouble=text,
        replicas=(),
        revision="",
        current_replicas=0,
        updated_replicas=0,
        available_replicas=0,
    )
    meta = Meta(
        name=report.metadata.name,
        namespace=report.metadata.namespace,
        annotations={REBUILT: cluster_uid(snapshot)},
    )
    desired = StatefulSetPart(metadata=meta, spec=spec)
    ref = ClusterObjectRef(broker, object_ref(desired))
    event = EventRequest(ref, "Rebuilt", text, "Warning", recorded_with=ref)
    return Plan((Desired(desired, broker, sources=frozenset({snapshot.local})),), events=(event,))


def plan_without_objects(
    stateful_set: StatefulSet,
    report: StatefulSetPart | None,
    snapshot: Snapshot,
    broker: ClusterId,
) -> Plan:
    """Delete the set's objects here; keep the report and add the StatefulSet's uid to it.

    Without a report the plan is empty, which deletes all the same.
    """
    if report is None:
        return Plan()
    created_uids = add_created_uid(stateful_set, report.spec.made)
    if created_uids == report.spec.made:
        return Plan(kept=(ClusterObjectRef(broker, object_ref(report)),))
    meta = Meta(name=report.metadata.name, namespace=report.metadata.namespace)
    report = StatefulSetPart(metadata=meta, spec=replace(report.spec, made=created_uids))
    return Plan((Desired(report, broker, sources=frozenset({snapshot.local})),))


def _plan_running_on(running: _RunningSet, snapshot: Snapshot, reason: str, text: str) -> Plan:
    """Keep everything; write a report annotated as lost with the text, and a Warning Event here."""
    report = _build_report(running, snapshot, trouble=text, annotations={LOST: "true"})
    ref = ClusterObjectRef(snapshot.local, object_ref(running.stateful_set))
    with_report = ClusterObjectRef(running.broker, object_ref(report))
    event = EventRequest(ref, reason, text, "Warning", recorded_with=with_report)
    return replace(_plan_with_report(report, running, snapshot), events=(event,))


def _lost_message(running: _RunningSet) -> str:
    """The message about a set that the broker does not know, with the remedies."""
    namespace, name = running.key.namespace, running.stateful_set.metadata.name
    return (
        f"the federation does not know the set {namespace}/{running.key.name}, which was not "
        f"deleted there; StatefulSet {name} runs on: submit the set again, or delete what runs "
        f"with `kubectl -n {namespace} delete statefulset {name}`"
    )


def _plan_with_report(report: StatefulSetPart, running: _RunningSet, snapshot: Snapshot) -> Plan:
    """A plan that writes the report and keeps the set's other objects, here and at the broker."""
    ref = ClusterObjectRef(running.broker, object_ref(report))
    unchanged = plan_unchanged(running.key, snapshot, running.broker, running.broker_namespace).kept
    desired = Desired(report, running.broker, sources=frozenset({snapshot.local}))
    return Plan((desired,), kept=tuple(p for p in unchanged if p != ref))


def _build_report(
    running: _RunningSet,
    snapshot: Snapshot,
    *,
    trouble: str = "",
    annotations: dict[str, str] | None = None,
) -> StatefulSetPart:
    """The report that can be built from the StatefulSet and the previous report alone.

    It lists no replicas, and names no uid of a set: a set that is submitted again gets the share.
    """
    key, stateful_set, before = (
        running.key,
        running.stateful_set,
        running.report.spec if running.report is not None else None,
    )
    name = part_name(key.namespace, key.name, snapshot.local)
    return StatefulSetPart(
        metadata=Meta(name=name, namespace=running.broker_namespace, annotations=annotations or {}),
        spec=StatefulSetPartSpec(
            namespace=key.namespace,
            name=key.name,
            cluster=snapshot.local,
            cluster_uid=cluster_uid(snapshot),
            share=stateful_set.spec.replicas,
            applied=stateful_set.metadata.annotations.get(REVISION, ""),
            trouble=trouble,
            made=before.made if before is not None else (),
            released=before.released if before is not None else False,
        ),
    )


def _running_stateful_set(key: Key, snapshot: Snapshot) -> StatefulSet | None:
    """The StatefulSet here; None if it is missing, terminating, or has not our owner label."""
    stateful_set = owned_stateful_set(key.name, key.namespace, snapshot)
    if stateful_set is None or stateful_set.metadata.deletion_timestamp is not None:
        return None
    return stateful_set


def read_report(
    key: Key, snapshot: Snapshot, broker: ClusterId, broker_namespace: str
) -> StatefulSetPart | None:
    """This cluster's report about a set at the broker; None if there is none."""
    return snapshot.get(
        broker,
        StatefulSetPart,
        part_name(key.namespace, key.name, snapshot.local),
        broker_namespace,
    )
