"""What leaders were refused in members, told where people look: on the Federation."""

from collections.abc import Iterator
from datetime import timedelta

from msgspec import Struct

from hanse.model.conditions import Condition, condition, find
from hanse.model.facts import ClusterState, Leadership, WriteOutcome, age
from hanse.model.kinds.antrea import AntreaNetworkPolicy, ClusterNetworkPolicy
from hanse.model.kinds.federation import Federation
from hanse.model.snapshot import Snapshot

MEMBERS_WRITTEN = "MembersWritten"

PATIENCE = timedelta(seconds=10)
"""How long a refusal may last before people are told: kinds and rights come late, too."""
CERTAIN = timedelta(seconds=60)
"""How long a member must have been seen before nothing refused there means that all is well."""
MOST_NAMED = 5
_LONGEST = 400
_TOLD_ELSEWHERE = (AntreaNetworkPolicy.kind, ClusterNetworkPolicy.kind)
"""Kinds that tell in records of their own where they are blocked, and why."""


class RefusalReport(Struct, frozen=True):
    """What is to be told of refused writes, if anything is, and when to look again."""

    told: tuple[Condition, ...] = ()
    requeue_after: timedelta | None = None


def refusal_report(federation: Federation, snapshot: Snapshot) -> RefusalReport:
    """Refusals that last; once told, also that there are none any more."""
    refused = sorted(_refused(snapshot), key=lambda o: str((o.place.where, o.place.ref)))
    lasting = [o for o in refused if age(o.since, snapshot.now) >= PATIENCE]
    young = [PATIENCE - age(o.since, snapshot.now) for o in refused if o not in lasting]
    before = find(federation.status.conditions, MEMBERS_WRITTEN)
    if lasting:
        return RefusalReport(
            (condition(MEMBERS_WRITTEN, False, "WriteRefused", _text(lasting)),), _next(young)
        )
    if before is None or before.status == "True":
        return RefusalReport(requeue_after=_next(young))
    wait = max(CERTAIN - _seen_for(snapshot), *young, timedelta(0))
    if wait > timedelta(0):
        return RefusalReport(requeue_after=wait)
    return RefusalReport((condition(MEMBERS_WRITTEN, True, "AllWritten"),))


def is_refusal(outcome: WriteOutcome) -> bool:
    """Whether a member did not take what its leader wrote, and would not take it the next time."""
    kind = outcome.place.ref.kind
    return outcome.result in ("Refused", "Forbidden") and kind not in _TOLD_ELSEWHERE


def _refused(snapshot: Snapshot) -> Iterator[WriteOutcome]:
    for outcome in snapshot.facts(WriteOutcome):
        lead = snapshot.fact(Leadership, outcome.place.where)
        if lead is not None and lead.ours and is_refusal(outcome):
            yield outcome


def _seen_for(snapshot: Snapshot) -> timedelta:
    """How long the member that was connected last has been; an agent that starts knows little."""
    led = {lead.member for lead in snapshot.facts(Leadership) if lead.ours}
    ages = [age(s.since, snapshot.now) for s in snapshot.facts(ClusterState) if s.cluster in led]
    return min(ages, default=timedelta(0))


def _text(refused: list[WriteOutcome]) -> str:
    told = [f"{o.place.where}: {o.place.ref}: {o.message[:_LONGEST]}" for o in refused[:MOST_NAMED]]
    more = len(refused) - len(told)
    return "; ".join([*told, *([f"and {more} more"] if more else [])])


def _next(young: list[timedelta]) -> timedelta | None:
    return min(young, default=None)
