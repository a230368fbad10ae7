"""What a cluster remembers of a set that is gone, so that a backup does not bring it back.

The report stays on the broker for a while as the record of an end: it names the StatefulSets that
ran here by their uids. One of them that is there again was decided about already, since a cluster
gives no uid twice: it came back with an earlier state of the cluster. One of another uid was made
by somebody since, and nobody has decided about that.
"""

from collections.abc import Iterator
from datetime import timedelta

from hanse.features.statefulsets.names import LOST
from hanse.model.kinds.apps import StatefulSet, StatefulSetSpec
from hanse.model.kinds.stateful import StatefulSetPart, StatefulSetPartSpec
from hanse.model.objects import ClusterId, ClusterObjectRef, Meta, object_ref
from hanse.model.plan import Desired, EventRequest, Key, Plan
from hanse.model.snapshot import Index, Snapshot

TOMBSTONE_RETENTION = timedelta(days=30)
"""How long an end is remembered: clusters are restored from younger backups than that."""
MAX_TOMBSTONES = 100
"""How many ends of one cluster are remembered; the oldest are forgotten first."""
MAX_CREATED_UIDS = 16

TOMBSTONES_BY_CLUSTER = Index(
    StatefulSetPart,
    "statefulsets-ends",
    lambda p: [p.spec.cluster] if p.spec.ended is not None else [],
)


def add_created_uid(own: StatefulSet | None, before: tuple[str, ...]) -> tuple[str, ...]:
    """The uids of all StatefulSets that a part has had, the newest last."""
    uid = own.metadata.uid if own is not None else ""
    return (*before, uid)[-MAX_CREATED_UIDS:] if uid and uid not in before else before


def deletes_claims(spec: StatefulSetSpec) -> bool:
    """Whether deleting the StatefulSet would delete claims, which only its own deletion may."""
    return bool(spec.persistent_volume_claim_retention_policy.get("whenDeleted") == "Delete")


def is_covered_by_deletion(own: StatefulSet, told: StatefulSetPart) -> bool:
    """Whether a set's going meant this StatefulSet, too."""
    lasting = told.spec.ended is None and LOST not in told.metadata.annotations
    return lasting or own.metadata.uid in told.spec.made


def ended(told: StatefulSetPart, snapshot: Snapshot, broker: ClusterId, *, released: bool) -> Plan:
    """The report as the record of an end, for as long as it is worth that."""
    spec, now = told.spec, snapshot.now.replace(microsecond=0)
    age = now - (spec.ended or now)
    if (
        not spec.made
        or age >= TOMBSTONE_RETENTION
        or told.metadata.name in _too_many(snapshot, broker)
    ):
        return Plan()
    record = StatefulSetPartSpec(
        namespace=spec.namespace,
        name=spec.name,
        cluster=spec.cluster,
        made=spec.made,
        ended=spec.ended or now,
        released=spec.released or released,
    )
    meta = Meta(name=told.metadata.name, namespace=told.metadata.namespace)
    desired = Desired(
        StatefulSetPart(metadata=meta, spec=record), broker, sources=frozenset({snapshot.local})
    )
    return Plan((desired,), requeue_after=TOMBSTONE_RETENTION - age)


def returned(
    own: StatefulSet, told: StatefulSetPart, snapshot: Snapshot, broker: ClusterId
) -> Plan:
    """Take away what came back though its set was deleted, and say so."""
    spec, place = told.spec, ClusterObjectRef(snapshot.local, object_ref(own))
    when = f" at {spec.ended:%Y-%m-%dT%H:%M:%SZ}" if spec.ended is not None else ""
    text = (
        f"StatefulSet {own.metadata.name} is back, though its set {spec.namespace}/{spec.name} was "
        f"deleted{when}: it is deleted again, its claims stay"
    )
    notice = EventRequest(place, "Returned", text, "Warning", recorded_with=place)
    return Plan(kept=(ClusterObjectRef(broker, object_ref(told)),), events=(notice,))


def returned_with_claims_message(own: StatefulSet, told: StatefulSetPart) -> str:
    """What is said of something that came back and whose going would take claims with it."""
    spec, meta = told.spec, own.metadata
    return (
        f"StatefulSet {meta.name} is back, though its set {spec.namespace}/{spec.name} was "
        "deleted; its claims would go with it, so it runs on: submit the set again, or delete both "
        f"with `kubectl -n {meta.namespace} delete statefulset {meta.name}`"
    )


def keys_of_expired_tombstones(snapshot: Snapshot, broker: ClusterId) -> Iterator[Key]:
    """The sets whose end is no longer remembered, since too many others ended later."""
    names = _too_many(snapshot, broker)
    for part in snapshot.by(broker, TOMBSTONES_BY_CLUSTER, snapshot.local):
        if part.metadata.name in names:
            yield Key("local", part.spec.name, part.spec.namespace)


def _too_many(snapshot: Snapshot, broker: ClusterId) -> frozenset[str]:
    ends = list(snapshot.by(broker, TOMBSTONES_BY_CLUSTER, snapshot.local))
    if len(ends) <= MAX_TOMBSTONES:
        return frozenset()
    ends.sort(key=lambda p: (p.spec.ended or snapshot.now, p.metadata.name))
    return frozenset(part.metadata.name for part in ends[:-MAX_TOMBSTONES])
