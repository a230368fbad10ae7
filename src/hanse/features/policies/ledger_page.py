"""The ledger page of a member: when its ledger is complete, and which tombstones it collects."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import NamedTuple

from msgspec.structs import replace

from hanse.features.policies.content import KINDS, is_federated, policy_key
from hanse.features.policies.ledger import (
    PAGE_NAME,
    PAGE_TOPIC,
    LedgerPage,
    MissingRecord,
    PolicyRecord,
    UnreadableRecord,
    decode_record,
    page_config_map,
    record_key,
    record_name,
)
from hanse.features.policies.member_view import (
    LedgerPages,
    cluster_uid,
    is_fully_synced,
    is_led_by_us,
    list_leaving_members,
    merged_history,
    read_ledger_pages,
    read_record,
)
from hanse.features.policies.options import PolicyOptions
from hanse.features.policies.versions import Dot, History, merge
from hanse.model.facts import age
from hanse.model.kinds.core import ConfigMap
from hanse.model.kinds.federation import SYSTEM
from hanse.model.objects import ClusterId, parse_time
from hanse.model.plan import Desired, Key, Plan, TakeOver
from hanse.model.snapshot import Snapshot

RECHECK_INTERVAL = timedelta(seconds=10)


def plan_page(member: ClusterId, options: PolicyOptions, snapshot: Snapshot) -> Plan:
    """The plan of a led member's ledger page: its stay, others' stays, last collected tombstones.

    The stored page stays as it is until the member is fully synced and, if it joins, its ledger is
    complete, which is checked every RECHECK_INTERVAL. Requeued when the next tombstone can be
    collected. An empty plan for a member that is leaving, or that this agent does not lead.
    """
    if member in list_leaving_members(snapshot) or not is_led_by_us(member, snapshot):
        return Plan()
    stored = snapshot.get(member, ConfigMap, PAGE_NAME, SYSTEM)
    kept = () if stored is None else (Desired(stored, member, as_leader_of=member),)
    if not all(is_fully_synced(member, kind, snapshot) for kind in KINDS.values()):
        return Plan(kept)
    ledgers = read_ledger_pages(snapshot)
    joined = ledgers.has_joined(member, snapshot)
    if not joined and not _is_ledger_complete(member, ledgers, snapshot):
        return Plan(kept, requeue_after=RECHECK_INTERVAL)
    page = ledgers.pages.get(member)
    known = page.collected if page is not None else {}
    collectable = dict(_collectable_tombstones(member, ledgers, options, snapshot))
    collected = {name: context for name, context in known.items() if name not in collectable}
    collected.update(collectable)
    latest = dict(list(collected.items())[-options.remembered :])
    stay = ledgers.current_stay(member, snapshot)
    current = LedgerPage(cluster_uid(member, snapshot), stay, *_other_stays(member, ledgers))
    written = page_config_map(member, replace(current, collected=latest))
    wait = _time_to_next_collection(member, options, snapshot)
    desired = Desired(written, member, as_leader_of=member, ownership=TakeOver())
    return Plan((desired,), requeue_after=wait)


class _OtherStays(NamedTuple):
    members: dict[ClusterId, int]
    left: dict[ClusterId, int]


def _other_stays(member: ClusterId, ledgers: LedgerPages) -> _OtherStays:
    """The current stays of the other members, and the last stays of those that left, by cluster.

    From the member's own page and the others' pages. One that is on its page but no longer a member
    has left; a stay (the number of a join) that has ended is never current again.
    """
    page = ledgers.pages.get(member)
    known = dict(page.members) if page is not None else {}
    left = dict(page.left) if page is not None else {}
    for other in sorted(known.keys() - set(ledgers.members)):
        left[other] = max(known.pop(other), left.get(other, 0))
    for other, found in ledgers.pages.items():
        if other != member and found.stay > left.get(other, 0):
            known[other] = max(found.stay, known.get(other, 0))
    return _OtherStays(dict(sorted(known.items())), dict(sorted(left.items())))


def is_history_collected(
    member: ClusterId, key: Key, history: History, ledgers: LedgerPages
) -> bool:
    """Whether a member's page counts every event of a policy's history as collected.

    True for a history without events.
    """
    known = ledgers.collected(member, key)
    return all(known.covers(Dot(actor, count)) for actor, count in history.context.items())


def _is_ledger_complete(member: ClusterId, ledgers: LedgerPages, snapshot: Snapshot) -> bool:
    """Whether a member has a record of every policy that it needs, written since it last joined."""
    stay = ledgers.current_stay(member, snapshot)
    return all(
        _is_key_known(member, key, stay, ledgers, snapshot)
        for key in set(_keys_to_record(member, ledgers, snapshot))
    )


def _is_key_known(
    member: ClusterId, key: Key, stay: int, ledgers: LedgerPages, snapshot: Snapshot
) -> bool:
    """Whether a member's record of a policy is of its current stay (join), or has a newer schema.

    Without a record: whether its page has collected all that is known of the policy.
    """
    match decode_record(snapshot.get(member, ConfigMap, record_name(key), SYSTEM)):
        case PolicyRecord() as record:
            return record.stay == stay
        case UnreadableRecord():
            return True
        case MissingRecord():
            return is_history_collected(
                member, key, merged_history(key, ledgers, snapshot), ledgers
            )


def _keys_to_record(member: ClusterId, ledgers: LedgerPages, snapshot: Snapshot) -> Iterator[Key]:
    """The policies that a member's ledger needs, perhaps repeatedly.

    Those that are federated there, and those recorded in another member that still have a version.
    """
    for kind in KINDS.values():
        yield from (policy_key(p) for p in snapshot.all(member, kind) if is_federated(p))
    for other in ledgers.members:
        for config_map in snapshot.all(other, ConfigMap):
            key = record_key(config_map)
            if key is None or key.topic == PAGE_TOPIC or other == member:
                continue
            if (
                isinstance(decode_record(config_map), PolicyRecord)
                and merged_history(key, ledgers, snapshot).entries
            ):
                yield key


def _collectable_tombstones(
    member: ClusterId, ledgers: LedgerPages, options: PolicyOptions, snapshot: Snapshot
) -> Iterator[tuple[str, dict[str, int]]]:
    """Key and version context of each record of an ended policy that the page can replace.

    It was released at least `options.retention` ago, the policy is not present again, and every
    member knows its end, which is not asked where no version is left.
    """
    for key, record in _list_tombstones(member, snapshot):
        if _tombstone_age(record, snapshot.now) < options.retention:
            continue
        history = merge(record.history, merged_history(key, ledgers, snapshot))
        winner = history.winner
        if winner is not None and winner.state == "Present":
            continue
        if winner is None or _is_end_known_everywhere(key, history, ledgers, snapshot):
            yield str(key), history.context


def _is_end_known_everywhere(
    key: Key, history: History, ledgers: LedgerPages, snapshot: Snapshot
) -> bool:
    """Whether every member has released a policy at these versions, or collected its record.

    False if one is unsynced.
    """
    return all(
        _is_end_known_by(member, key, history, ledgers, snapshot) for member in ledgers.members
    )


def _is_end_known_by(
    member: ClusterId, key: Key, history: History, ledgers: LedgerPages, snapshot: Snapshot
) -> bool:
    """Whether a member has released a policy at these versions, or collected its record.

    False while the member is not synced.
    """
    if not snapshot.synced(member, ConfigMap):
        return False
    dots = [e.dot for e in history.entries]
    past = ledgers.collected(member, key)
    if all(past.covers(dot) for dot in dots):
        return True
    record = read_record(key, member, ledgers, snapshot)
    if not isinstance(record, PolicyRecord) or record.here.phase != "Released":
        return False
    return all(record.history.covers(dot) for dot in dots)


def _list_tombstones(member: ClusterId, snapshot: Snapshot) -> Iterator[tuple[Key, PolicyRecord]]:
    """The records of a member whose phase is Released, with their keys."""
    for config_map in snapshot.all(member, ConfigMap):
        key, record = record_key(config_map), decode_record(config_map)
        if key is None or key.topic == PAGE_TOPIC or not isinstance(record, PolicyRecord):
            continue
        if record.here.phase == "Released":
            yield key, record


def _time_to_next_collection(
    member: ClusterId, options: PolicyOptions, snapshot: Snapshot
) -> timedelta | None:
    """The time until the next record of an ended policy is old enough to collect.

    None if there is none, or all are old enough: changes of other members requeue the key then.
    """
    waits = [
        options.retention - _tombstone_age(r, snapshot.now)
        for _, r in _list_tombstones(member, snapshot)
    ]
    return min((wait for wait in waits if wait > timedelta(0)), default=None)


def _tombstone_age(record: PolicyRecord, now: datetime) -> timedelta:
    """How long ago a policy was released; never negative.

    0 if its record has no time, or one that cannot be parsed.
    """
    return age(parse_time(record.here.since) or now, now)
