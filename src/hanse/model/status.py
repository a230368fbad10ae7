"""The conditions of an object as a plan: the status patch, and Events by one rule.

An Event is recorded when a condition turns bad, is bad for another reason, or is no longer bad.
A condition that is good from the start, or that only waits, is no Event.
"""

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from hanse.model.conditions import Condition, find_condition, merge_conditions
from hanse.model.objects import ClusterId, ClusterObjectRef, Object, object_ref
from hanse.model.plan import EventRequest, Patch, Plan
from hanse.model.snapshot import Snapshot

_BAD_IF_TRUE = frozenset({"Conflict", "MembersDiffer", "ShareDisputed", "Trouble"})
"""The types of conditions that are bad if they are True; all others are bad unless they are."""

_WAITING_REASONS = frozenset(
    {
        "Disconnected",
        "Pending",
        "Progressing",
        "RollingOut",
        "WaitingForAddress",
        "WaitingForProvider",
        "WaitingForRanges",
    }
)
"""Reasons of conditions that only wait, as every object does for a while."""


def conditions_plan(
    obj: Object,
    where: ClusterId,
    current: Sequence[Condition],
    desired: Sequence[Condition],
    snapshot: Snapshot,
    *,
    as_leader_of: ClusterId | None = None,
) -> Plan:
    """A plan with a patch of status that sets the desired conditions of an object, and with Events.

    Conditions of other types stay. The patch is there also if nothing changes; the Events are those
    of `condition_events`.
    """
    ref = ClusterObjectRef(where, object_ref(obj))
    after = merge_conditions(current, desired, snapshot.now, obj.metadata.generation)
    change = {"status": {"conditions": msgspec.to_builtins(after)}}
    patch = Patch(ref, change, "status", as_leader_of=as_leader_of)
    return Plan(patches=(patch,), events=tuple(condition_events(ref, current, desired)))


def condition_events(
    ref: ClusterObjectRef, current: Iterable[Condition], desired: Iterable[Condition]
) -> Iterator[EventRequest]:
    """The Events for desired conditions whose status or reason is new, compared with the same type.

    A Warning for one that `_is_bad`; Normal for one that was so and is not now; nothing else. Where
    a bad condition has several reasons, the Event has the first.
    """
    known = tuple(current)
    for now in desired:
        before = find_condition(known, now.type)
        if before is not None and (before.status, before.reason) == (now.status, now.reason):
            continue
        if _is_bad(now):
            yield EventRequest(ref, now.reason.split(",")[0], now.message, "Warning")
        elif before is not None and _is_bad(before):
            yield EventRequest(ref, now.reason, now.message or f"{now.type} is {now.status} again")


def _is_bad(one: Condition) -> bool:
    """Whether a condition's status is not the good one, for a reason that is not a mere wait.

    Good is False for the types in `_BAD_IF_TRUE`, and True for all others.
    """
    good = "False" if one.type in _BAD_IF_TRUE else "True"
    return one.status != good and one.reason not in _WAITING_REASONS
