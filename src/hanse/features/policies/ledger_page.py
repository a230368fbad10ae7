"""The ledger of a member as a whole: when it has taken everything in, and what it may forget."""

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
    Ledgers,
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
from hanse.model.kinds.core import ConfigMap
from hanse.model.kinds.federation import SYSTEM
from hanse.model.objects import ClusterId
from hanse.model.plan import Desired, Key, Plan
from hanse.model.snapshot import Snapshot

RECHECK_INTERVAL = timedelta(seconds=10)


def plan_page(member: ClusterId, options: PolicyOptions, snapshot: Snapshot) -> Plan:
    """Keep the page of a member that we lead; it goes first when the member leaves."""
    if member in list_leaving_members(snapshot) or not is_led_by_us(member, snapshot):
        return Plan()
    standing = snapshot.get(member, ConfigMap, PAGE_NAME, SYSTEM)
    kept = () if standing is None else (Desired(standing, member, as_leader_of=member),)
    if not all(is_fully_synced(member, kind, snapshot) for kind in KINDS.values()):
        return Plan(kept)
    ledgers = read_ledger_pages(snapshot)
    joined = ledgers.has_joined(member, snapshot)
    if not joined and not _is_complete(member, ledgers, snapshot):
        return Plan(kept, requeue_after=RECHECK_INTERVAL)
    page = ledgers.pages.get(member)
    known = page.collected if page is not None else {}
    due = dict(_collectable(member, ledgers, options, snapshot))
    collected = {name: context for name, context in known.items() if name not in due}
    collected.update(due)
    latest = dict(list(collected.items())[-options.remembered :])
    stay = ledgers.current_stay(member, snapshot)
    about = LedgerPage(cluster_uid(member, snapshot), stay, *_others(member, ledgers))
    written = page_config_map(member, replace(about, collected=latest))
    wait = _next_collection(member, options, snapshot)
    desired = Desired(written, member, as_leader_of=member, takes_over=True)
    return Plan((desired,), requeue_after=wait)


class _Others(NamedTuple):
    members: dict[ClusterId, int]
    left: dict[ClusterId, int]


def _others(member: ClusterId, ledgers: Ledgers) -> _Others:
    """Who is a member now and in which stay, and whose stay has ended."""
    page = ledgers.pages.get(member)
    known = dict(page.members) if page is not None else {}
    left = dict(page.left) if page is not None else {}
    for other in sorted(known.keys() - set(ledgers.members)):
        left[other] = max(known.pop(other), left.get(other, 0))
    for other, found in ledgers.pages.items():
        if other != member and found.stay > left.get(other, 0):
            known[other] = max(found.stay, known.get(other, 0))
    return _Others(dict(sorted(known.items())), dict(sorted(left.items())))


def is_history_collected(member: ClusterId, key: Key, history: History, ledgers: Ledgers) -> bool:
    """Whether a member's ledger knows all of a policy's past without a record of it."""
    known = ledgers.collected(member, key)
    return all(known.covers(Dot(actor, count)) for actor, count in history.context.items())


def _is_complete(member: ClusterId, ledgers: Ledgers, snapshot: Snapshot) -> bool:
    """Whether the ledger of a member knows all that it should, as of this stay."""
    stay = ledgers.current_stay(member, snapshot)
    return all(
        _is_known(member, key, stay, ledgers, snapshot)
        for key in set(_keys_to_know(member, ledgers, snapshot))
    )


def _is_known(member: ClusterId, key: Key, stay: int, ledgers: Ledgers, snapshot: Snapshot) -> bool:
    match decode_record(snapshot.get(member, ConfigMap, record_name(key), SYSTEM)):
        case PolicyRecord() as record:
            return record.stay == stay
        case UnreadableRecord():
            return True
        case MissingRecord():
            return is_history_collected(
                member, key, merged_history(key, ledgers, snapshot), ledgers
            )


def _keys_to_know(member: ClusterId, ledgers: Ledgers, snapshot: Snapshot) -> Iterator[Key]:
    for kind in KINDS.values():
        yield from (policy_key(p) for p in snapshot.all(member, kind) if is_federated(p))
    for other in ledgers.members:
        for told in snapshot.all(other, ConfigMap):
            key = record_key(told)
            if key is None or key.topic == PAGE_TOPIC or other == member:
                continue
            if (
                isinstance(decode_record(told), PolicyRecord)
                and merged_history(key, ledgers, snapshot).entries
            ):
                yield key


def _collectable(
    member: ClusterId, ledgers: Ledgers, options: PolicyOptions, snapshot: Snapshot
) -> Iterator[tuple[str, dict[str, int]]]:
    """The policies that are over and that every member knows to be over."""
    for key, record in _released(member, snapshot):
        if _age(record, snapshot.now) < options.retention:
            continue
        history = merge(record.history, merged_history(key, ledgers, snapshot))
        winner = history.winner
        if winner is not None and winner.state == "Present":
            continue
        if winner is None or _all_know(key, history, ledgers, snapshot):
            yield str(key), history.context


def _all_know(key: Key, history: History, ledgers: Ledgers, snapshot: Snapshot) -> bool:
    return all(_knows(member, key, history, ledgers, snapshot) for member in ledgers.members)


def _knows(
    member: ClusterId, key: Key, history: History, ledgers: Ledgers, snapshot: Snapshot
) -> bool:
    """Whether a member has seen the end of a policy, and done what it asks for."""
    if not snapshot.synced(member, ConfigMap):
        return False
    ends = [e.dot for e in history.entries]
    past = ledgers.collected(member, key)
    if all(past.covers(dot) for dot in ends):
        return True
    record = read_record(key, member, ledgers, snapshot)
    if not isinstance(record, PolicyRecord) or record.here.phase != "Released":
        return False
    return all(record.history.covers(dot) for dot in ends)


def _released(member: ClusterId, snapshot: Snapshot) -> Iterator[tuple[Key, PolicyRecord]]:
    for told in snapshot.all(member, ConfigMap):
        key, record = record_key(told), decode_record(told)
        if key is None or key.topic == PAGE_TOPIC or not isinstance(record, PolicyRecord):
            continue
        if record.here.phase == "Released":
            yield key, record


def _next_collection(
    member: ClusterId, options: PolicyOptions, snapshot: Snapshot
) -> timedelta | None:
    """When the next tombstone is old enough; what waits for other members is woken by them."""
    waits = [options.retention - _age(r, snapshot.now) for _, r in _released(member, snapshot)]
    return min((wait for wait in waits if wait > timedelta(0)), default=None)


def _age(record: PolicyRecord, now: datetime) -> timedelta:
    """How long a policy has been over here; never negative, whatever clocks say."""
    since = datetime.fromisoformat(record.here.since) if record.here.since else now
    return max(now - since, timedelta(0))
