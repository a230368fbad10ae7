"""What a cluster does about a set that the broker does not have: deleted there, or lost with it.

A broker that was restored from a backup looks like one where sets were deleted. The cluster's own
report tells them apart: it is written before anything runs and goes last of all, so a set that
runs without one was never known to this broker, and nobody can have deleted it there.
"""

from hanse.features.statefulsets.holding import kept, standing
from hanse.features.statefulsets.names import LOST, REVISION, part_name, set_in
from hanse.model.keys import Key
from hanse.model.kinds.apps import StatefulSet
from hanse.model.kinds.stateful import StatefulSetPart, StatefulSetPartSpec
from hanse.model.marks import OWNER
from hanse.model.objects import ClusterId, Meta, Place, ref_of
from hanse.model.plan import Desired, Notice, Plan
from hanse.model.snapshot import Snapshot


def deleted_or_lost(key: Key, seen: Snapshot, broker: ClusterId, home: str) -> Plan:
    """Nothing here of a set that was deleted; all as it is, and told, of one that was lost."""
    own, told = _running(key, seen), _reported(key, seen, broker, home)
    if own is not None and (told is None or LOST in told.metadata.annotations):
        return _lost(key, own, seen, broker, home)
    if told is not None and standing(key, seen):
        return Plan(kept=(Place(broker, ref_of(told)),))  # it goes when all else has gone
    return Plan()


def without_shares(key: Key, seen: Snapshot, broker: ClusterId, home: str) -> Plan:
    """All as it is until there are shares, which are made from what clusters say they run."""
    own = _running(key, seen)
    if own is None or _reported(key, seen, broker, home) is not None:
        return kept(key, seen, broker, home)
    return _with_report(_report(key, own, seen, home), key, seen, broker, home)


def _lost(key: Key, own: StatefulSet, seen: Snapshot, broker: ClusterId, home: str) -> Plan:
    text = (
        f"the federation does not know the set {key.namespace}/{key.name}, which was not deleted "
        f"there; StatefulSet {own.metadata.name} runs on: submit the set again, or delete it here"
    )
    report = _report(key, own, seen, home, trouble=text, annotations={LOST: "true"})
    plan = _with_report(report, key, seen, broker, home)
    place = Place(seen.local, ref_of(own))
    notice = Notice(place, "Lost", text, "Warning", told_with=Place(broker, ref_of(report)))
    return Plan(plan.desired, notices=(notice,), kept=plan.kept)


def _with_report(
    report: StatefulSetPart, key: Key, seen: Snapshot, broker: ClusterId, home: str
) -> Plan:
    place = Place(broker, ref_of(report))
    others = tuple(p for p in kept(key, seen, broker, home).kept if p != place)
    return Plan((Desired(report, broker, sources=frozenset({seen.local})),), kept=others)


def _report(
    key: Key,
    own: StatefulSet,
    seen: Snapshot,
    home: str,
    *,
    trouble: str = "",
    annotations: dict[str, str] | None = None,
) -> StatefulSetPart:
    """What can be said of a part by its StatefulSet alone."""
    name = part_name(key.namespace, key.name, seen.local)
    return StatefulSetPart(
        metadata=Meta(name=name, namespace=home, annotations=annotations or {}),
        spec=StatefulSetPartSpec(
            namespace=key.namespace,
            name=key.name,
            cluster=seen.local,
            share=own.spec.replicas,
            applied=own.metadata.annotations.get(REVISION, ""),
            trouble=trouble,
        ),
    )


def _running(key: Key, seen: Snapshot) -> StatefulSet | None:
    """The StatefulSet here, if it is ours and not about to go."""
    own = seen.get(seen.local, StatefulSet, set_in(key.name, seen.local), key.namespace)
    if own is None or OWNER not in own.metadata.labels:
        return None
    return own if own.metadata.deletion_timestamp is None else None


def _reported(key: Key, seen: Snapshot, broker: ClusterId, home: str) -> StatefulSetPart | None:
    return seen.get(broker, StatefulSetPart, part_name(key.namespace, key.name, seen.local), home)
