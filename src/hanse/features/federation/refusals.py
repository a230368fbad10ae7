"""The condition MembersWritten: writes that API servers of led members refuse."""

from collections.abc import Iterator
from datetime import timedelta

from msgspec import Struct

from hanse.model.conditions import Condition, condition, find_condition
from hanse.model.facts import ClusterState, ElectionFailure, Leadership, WriteOutcome, age
from hanse.model.kinds.antrea import AntreaClusterNetworkPolicy, AntreaNetworkPolicy
from hanse.model.kinds.federation import SYSTEM, Federation
from hanse.model.snapshot import Snapshot

MEMBERS_WRITTEN = "MembersWritten"

REPORT_AFTER = timedelta(seconds=10)
"""How long a refusal lasts before it is reported: CRDs and rights may be applied late."""
CLEAR_AFTER = timedelta(seconds=60)
"""How long members must be connected without a refusal before the condition turns True."""
MOST_NAMED = 5
_LONGEST = 400
_REPORTED_ELSEWHERE = (AntreaNetworkPolicy.kind, AntreaClusterNetworkPolicy.kind)
"""Kinds whose refusals are reported in the policies' own records."""


class RefusalReport(Struct, frozen=True):
    """The conditions to set, if any, and when to look again."""

    conditions: tuple[Condition, ...] = ()
    requeue_after: timedelta | None = None


def refusal_report(federation: Federation, snapshot: Snapshot) -> RefusalReport:
    """The condition MembersWritten, and when to look again.

    No condition where the old one is to stay. False once refusals of writes last, or at once if a
    leader election fails; True only after a False, when led members have been connected for a while
    without refusals.
    """
    refused = sorted(_refused(snapshot), key=lambda o: str((o.target.where, o.target.ref)))
    lasting = [o for o in refused if age(o.since, snapshot.now) >= REPORT_AFTER]
    young = [REPORT_AFTER - age(o.since, snapshot.now) for o in refused if o not in lasting]
    failed = sorted(snapshot.facts(ElectionFailure), key=lambda f: f.member)
    if failed:
        text = "; ".join(f"{f.member}: {election_message(f)}" for f in failed)
        return RefusalReport((condition(MEMBERS_WRITTEN, False, "ElectionFailed", text),))
    before = find_condition(federation.status.conditions, MEMBERS_WRITTEN)
    if lasting:
        return RefusalReport(
            (condition(MEMBERS_WRITTEN, False, "WriteRefused", _message(lasting)),), _soonest(young)
        )
    if before is None or before.status == "True":
        return RefusalReport(requeue_after=_soonest(young))
    wait = max(CLEAR_AFTER - _connected_for(snapshot), *young, timedelta(0))
    if wait > timedelta(0):
        return RefusalReport(requeue_after=wait)
    return RefusalReport((condition(MEMBERS_WRITTEN, True, "AllWritten"),))


def election_message(failure: ElectionFailure) -> str:
    """Why a member cannot be led, and the remedy."""
    return (
        f"its leader cannot be elected: Lease {SYSTEM}/{failure.member}: {failure.message}; "
        "let it `hanse join --federation` once more"
    )


def is_refusal(outcome: WriteOutcome) -> bool:
    """Whether a write was Refused or Forbidden.

    False for Antrea policies, whose refusals are in their own records.
    """
    kind = outcome.target.ref.kind
    return outcome.result in ("Refused", "Forbidden") and kind not in _REPORTED_ELSEWHERE


def _refused(snapshot: Snapshot) -> Iterator[WriteOutcome]:
    """The outcomes of refused writes (`is_refusal`) in members that this supervisor leads."""
    for outcome in snapshot.facts(WriteOutcome):
        lead = snapshot.fact(Leadership, outcome.target.where)
        if lead is not None and lead.ours and is_refusal(outcome):
            yield outcome


def _connected_for(snapshot: Snapshot) -> timedelta:
    """How long all led members have been in their present connection state.

    That is the shortest of their times; zero if none is led.
    """
    led = {lead.member for lead in snapshot.facts(Leadership) if lead.ours}
    ages = [age(s.since, snapshot.now) for s in snapshot.facts(ClusterState) if s.cluster in led]
    return min(ages, default=timedelta(0))


def _message(refused: list[WriteOutcome]) -> str:
    """The first MOST_NAMED refused writes with cluster, object and message, and how many more."""
    shown = [
        f"{o.target.where}: {o.target.ref}: {o.message[:_LONGEST]}" for o in refused[:MOST_NAMED]
    ]
    more = len(refused) - len(shown)
    return "; ".join([*shown, *([f"and {more} more"] if more else [])])


def _soonest(young: list[timedelta]) -> timedelta | None:
    """The shortest of the times; None if there are none."""
    return min(young, default=None)
