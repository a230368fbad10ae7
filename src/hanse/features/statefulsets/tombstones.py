"""Tombstones of deleted sets, so that a restored backup does not bring them back.

The report of a cluster stays at the broker for a while as a tombstone: it has the uids of the
StatefulSets that ran there. A StatefulSet with one of these uids was restored from a backup, since
uids are never reused, and is deleted again. One with another uid was created by a user since.
"""

from collections.abc import Iterator
from datetime import timedelta

from hanse.features.statefulsets.names import LOST
from hanse.features.statefulsets.owned_objects import running_stateful_set
from hanse.model.kinds.apps import StatefulSet, StatefulSetSpec
from hanse.model.kinds.stateful import StatefulSetPart, StatefulSetPartSpec
from hanse.model.objects import ClusterId, ClusterObjectRef, Meta, object_ref
from hanse.model.plan import Desired, EventRequest, Key, Plan
from hanse.model.snapshot import Index, Snapshot

TOMBSTONE_RETENTION = timedelta(days=30)
"""How long tombstones are kept: backups that are restored are younger."""
MAX_TOMBSTONES = 100
"""The number of tombstones of one cluster; the oldest are dropped first."""
MAX_CREATED_UIDS = 16

TOMBSTONES_BY_CLUSTER = Index(
    StatefulSetPart,
    "statefulsets-ends",
    lambda p: [p.spec.cluster] if p.spec.ended is not None else [],
)


def add_created_uid(stateful_set: StatefulSet | None, before: tuple[str, ...]) -> tuple[str, ...]:
    """The uids, with that of the StatefulSet appended if new; at most the last MAX_CREATED_UIDS.

    Unchanged without a StatefulSet.
    """
    uid = stateful_set.metadata.uid if stateful_set is not None else ""
    return (*before, uid)[-MAX_CREATED_UIDS:] if uid and uid not in before else before


def deletes_claims(spec: StatefulSetSpec) -> bool:
    """Whether whenDeleted is Delete: deleting the StatefulSet deletes its claims."""
    return bool(spec.persistent_volume_claim_retention_policy.get("whenDeleted") == "Delete")


def keeps_empty_stateful_set(spec: StatefulSetSpec) -> bool:
    """Whether a StatefulSet without replicas is kept, since its deletion would delete claims.

    That is with whenDeleted Delete and whenScaled Retain: no replicas here is a matter of scaling.
    """
    policy = spec.persistent_volume_claim_retention_policy
    return deletes_claims(spec) and policy.get("whenScaled") != "Delete"


def is_covered_by_deletion(stateful_set: StatefulSet, report: StatefulSetPart) -> bool:
    """Whether a set's deletion covers a StatefulSet: the report is live, or names its uid.

    It is live if it is no tombstone and not annotated as lost.
    """
    is_live = report.spec.ended is None and LOST not in report.metadata.annotations
    return is_live or stateful_set.metadata.uid in report.spec.made


def plan_tombstone(
    report: StatefulSetPart, snapshot: Snapshot, broker: ClusterId, *, released: bool
) -> Plan:
    """The plan that makes a report a tombstone: uids of the StatefulSets, and when the set ended.

    Its share is that of a released StatefulSet, which runs on: a set that is submitted again starts
    from it. An empty plan, which deletes the report, if it has no uids, is expired or over the
    limit. `released` says that the objects were released, not deleted.
    """
    spec, now = report.spec, snapshot.now.replace(microsecond=0)
    running = running_stateful_set(Key("local", spec.name, spec.namespace), snapshot)
    age = now - (spec.ended or now)
    if (
        not spec.made
        or age >= TOMBSTONE_RETENTION
        or report.metadata.name in _surplus_tombstones(snapshot, broker)
    ):
        return Plan()
    record = StatefulSetPartSpec(
        namespace=spec.namespace,
        name=spec.name,
        cluster=spec.cluster,
        set_uid=spec.set_uid,
        cluster_uid=spec.cluster_uid,
        share=running.spec.replicas if running is not None else 0,
        made=spec.made,
        ended=spec.ended or now,
        released=spec.released or released,
    )
    meta = Meta(name=report.metadata.name, namespace=report.metadata.namespace)
    desired = Desired(
        StatefulSetPart(metadata=meta, spec=record), broker, sources=frozenset({snapshot.local})
    )
    return Plan((desired,), requeue_after=TOMBSTONE_RETENTION - age)


def plan_without_returned_set(
    stateful_set: StatefulSet, report: StatefulSetPart, snapshot: Snapshot, broker: ClusterId
) -> Plan:
    """The plan that deletes a restored StatefulSet of a deleted set, by leaving it out.

    It keeps the report, and has a Warning Event.
    """
    spec, ref = report.spec, ClusterObjectRef(snapshot.local, object_ref(stateful_set))
    when = f" at {spec.ended:%Y-%m-%dT%H:%M:%SZ}" if spec.ended is not None else ""
    text = (
        f"StatefulSet {stateful_set.metadata.name} is back, though its set "
        f"{spec.namespace}/{spec.name} was deleted{when}: it is deleted again, its claims stay"
    )
    event = EventRequest(ref, "Returned", text, "Warning", recorded_with=ref)
    return Plan(kept=(ClusterObjectRef(broker, object_ref(report)),), events=(event,))


def returned_with_claims_message(stateful_set: StatefulSet, report: StatefulSetPart) -> str:
    """The message about a restored StatefulSet that runs on, since its claims would be deleted."""
    spec, meta = report.spec, stateful_set.metadata
    return (
        f"StatefulSet {meta.name} is back, though its set {spec.namespace}/{spec.name} was "
        "deleted; its claims would go with it, so it runs on: submit the set again, or delete both "
        f"with `kubectl -n {meta.namespace} delete statefulset {meta.name}`"
    )


def keys_of_surplus_tombstones(snapshot: Snapshot, broker: ClusterId) -> Iterator[Key]:
    """The local keys of the sets whose tombstones of this cluster exceed MAX_TOMBSTONES."""
    names = _surplus_tombstones(snapshot, broker)
    for part in snapshot.by(broker, TOMBSTONES_BY_CLUSTER, snapshot.local):
        if part.metadata.name in names:
            yield Key("local", part.spec.name, part.spec.namespace)


def _surplus_tombstones(snapshot: Snapshot, broker: ClusterId) -> frozenset[str]:
    """The names of the oldest tombstones of this cluster over the limit, if there are any."""
    ends = list(snapshot.by(broker, TOMBSTONES_BY_CLUSTER, snapshot.local))
    if len(ends) <= MAX_TOMBSTONES:
        return frozenset()
    ends.sort(key=lambda p: (p.spec.ended or snapshot.now, p.metadata.name))
    return frozenset(part.metadata.name for part in ends[:-MAX_TOMBSTONES])
