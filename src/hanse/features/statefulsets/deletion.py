"""What a cluster does about a set that the broker does not have: deleted there, or lost with it.

A broker that was restored from a backup looks like one where sets were deleted. The cluster's own
report tells them apart: it is written before anything runs and goes last of all, so a set that
runs without one was never known to this broker, and nobody can have deleted it there.
"""

from msgspec import Struct
from msgspec.structs import replace

from hanse.features.statefulsets.names import LOST, REVISION, cluster_set_name, part_name
from hanse.features.statefulsets.owned_objects import kept, released, standing
from hanse.features.statefulsets.tombstones import (
    add_created_uid,
    deletes_claims,
    ended,
    is_covered_by_deletion,
    returned,
    returned_with_claims_message,
)
from hanse.model.kinds.apps import StatefulSet
from hanse.model.kinds.stateful import StatefulSetPart, StatefulSetPartSpec
from hanse.model.objects import ClusterId, ClusterObjectRef, Meta, object_ref
from hanse.model.ownership import OWNER
from hanse.model.plan import Desired, EventRequest, Key, Plan
from hanse.model.snapshot import Snapshot


class _Left(Struct, frozen=True):
    """What runs here of a set, and what is told of it at the broker."""

    key: Key
    own: StatefulSet
    told: StatefulSetPart | None
    broker: ClusterId
    home: str


def plan_missing_set(key: Key, snapshot: Snapshot, broker: ClusterId, home: str) -> Plan:
    """Nothing here of a set that was deleted; all as it is, and told, of one that was lost."""
    own, told = _running(key, snapshot), _reported(key, snapshot, broker, home)
    if own is None:
        return _going(key, told, snapshot, broker)
    left = _Left(key, own, told, broker, home)
    if told is None or not is_covered_by_deletion(own, told):
        return _runs_on(left, snapshot, "Lost", _why_lost(left))
    if told.spec.released:
        return released(key, snapshot, broker, home)
    if told.spec.ended is None and LOST not in told.metadata.annotations:
        return _deleted(own, told, snapshot, broker)
    if deletes_claims(own.spec):
        return _runs_on(left, snapshot, "Returned", returned_with_claims_message(own, told))
    return returned(own, told, snapshot, broker)


def plan_without_shares(key: Key, snapshot: Snapshot, broker: ClusterId, home: str) -> Plan:
    """All as it is until there are shares, which are made from what clusters say they run."""
    own, told = _running(key, snapshot), _reported(key, snapshot, broker, home)
    if own is None or (told is not None and told.spec.ended is None):
        return kept(key, snapshot, broker, home)
    left = _Left(key, own, told, broker, home)
    return _with_report(_report(left, snapshot), left, snapshot)


def plan_release_with_tombstone(key: Key, snapshot: Snapshot, broker: ClusterId, home: str) -> Plan:
    """Leave what runs here to the cluster's people; it is remembered that it was let go of."""
    told = _reported(key, snapshot, broker, home)
    if told is None or standing(key, snapshot):
        return released(key, snapshot, broker, home)
    return ended(told, snapshot, broker, released=True)


def _going(key: Key, told: StatefulSetPart | None, snapshot: Snapshot, broker: ClusterId) -> Plan:
    """The report goes when all else has gone, or stays as the record of that."""
    if told is None:
        return Plan()
    if standing(key, snapshot):
        return Plan(kept=(ClusterObjectRef(broker, object_ref(told)),))
    return ended(told, snapshot, broker, released=False)


def _deleted(
    own: StatefulSet, told: StatefulSetPart, snapshot: Snapshot, broker: ClusterId
) -> Plan:
    """Everything goes but the report, which names what went."""
    made = add_created_uid(own, told.spec.made)
    if made == told.spec.made:
        return Plan(kept=(ClusterObjectRef(broker, object_ref(told)),))
    meta = Meta(name=told.metadata.name, namespace=told.metadata.namespace)
    report = StatefulSetPart(metadata=meta, spec=replace(told.spec, made=made))
    return Plan((Desired(report, broker, sources=frozenset({snapshot.local})),))


def _runs_on(left: _Left, snapshot: Snapshot, reason: str, text: str) -> Plan:
    """Leave all as it is, and tell it at the broker and by an Event here."""
    report = _report(left, snapshot, trouble=text, annotations={LOST: "true"})
    place = ClusterObjectRef(snapshot.local, object_ref(left.own))
    with_report = ClusterObjectRef(left.broker, object_ref(report))
    notice = EventRequest(place, reason, text, "Warning", recorded_with=with_report)
    return replace(_with_report(report, left, snapshot), events=(notice,))


def _why_lost(left: _Left) -> str:
    space, name = left.key.namespace, left.own.metadata.name
    return (
        f"the federation does not know the set {space}/{left.key.name}, which was not deleted "
        f"there; StatefulSet {name} runs on: submit the set again, or delete what runs with "
        f"`kubectl -n {space} delete statefulset {name}`"
    )


def _with_report(report: StatefulSetPart, left: _Left, snapshot: Snapshot) -> Plan:
    place = ClusterObjectRef(left.broker, object_ref(report))
    all_else = kept(left.key, snapshot, left.broker, left.home).kept
    desired = Desired(report, left.broker, sources=frozenset({snapshot.local}))
    return Plan((desired,), kept=tuple(p for p in all_else if p != place))


def _report(
    left: _Left,
    snapshot: Snapshot,
    *,
    trouble: str = "",
    annotations: dict[str, str] | None = None,
) -> StatefulSetPart:
    """What can be said of a part by its StatefulSet alone, with what is known of its past."""
    key, own, before = left.key, left.own, left.told.spec if left.told is not None else None
    name = part_name(key.namespace, key.name, snapshot.local)
    return StatefulSetPart(
        metadata=Meta(name=name, namespace=left.home, annotations=annotations or {}),
        spec=StatefulSetPartSpec(
            namespace=key.namespace,
            name=key.name,
            cluster=snapshot.local,
            share=own.spec.replicas,
            applied=own.metadata.annotations.get(REVISION, ""),
            trouble=trouble,
            made=before.made if before is not None else (),
            released=before.released if before is not None else False,
        ),
    )


def _running(key: Key, snapshot: Snapshot) -> StatefulSet | None:
    """The StatefulSet here, if it is ours and not about to go."""
    own = snapshot.get(
        snapshot.local, StatefulSet, cluster_set_name(key.name, snapshot.local), key.namespace
    )
    if own is None or OWNER not in own.metadata.labels:
        return None
    return own if own.metadata.deletion_timestamp is None else None


def _reported(key: Key, snapshot: Snapshot, broker: ClusterId, home: str) -> StatefulSetPart | None:
    return snapshot.get(
        broker, StatefulSetPart, part_name(key.namespace, key.name, snapshot.local), home
    )
