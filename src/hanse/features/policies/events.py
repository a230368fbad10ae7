"""What people are told about a policy, once, when its record changes."""

from collections.abc import Iterator

from hanse.features.policies.ledger import LocalState, MissingRecord, PolicyRecord, record_name
from hanse.features.policies.member_view import MemberView
from hanse.features.policies.versions import Version
from hanse.model.plan import EventRequest

RESOLVE = "settle it with `hanse policies resolve`"


def record_events(
    view: MemberView, own: PolicyRecord | MissingRecord, record: PolicyRecord
) -> tuple[EventRequest, ...]:
    """The events that go with a record's change."""
    before = own if isinstance(own, PolicyRecord) else PolicyRecord()
    return tuple(_told(view, before, record))


def _told(view: MemberView, before: PolicyRecord, after: PolicyRecord) -> Iterator[EventRequest]:
    yield from _history_told(view, before, after)
    if before.here.phase != after.here.phase or before.here.reason != after.here.reason:
        yield from _phase_told(view, before, after)
    if after.kept is not None and after.kept != before.kept:
        message = "this cluster went back in time; what stood here is kept in its record"
        yield _warning(view, "Restored", message)


def _history_told(
    view: MemberView, before: PolicyRecord, after: PolicyRecord
) -> Iterator[EventRequest]:
    winner = after.history.winner
    if winner is None:
        return
    known = {e.dot for e in before.history.overruled}
    for loser in after.history.overruled:
        if loser.dot not in known:
            yield _warning(view, "VersionsCrossed", conflict_message(winner, loser, view))
    old = before.history.winner
    if winner.dot.cluster == view.member and (old is None or old.dot != winner.dot):
        yield _normal(view, _DEEDS[winner.state], f"{_DONE[winner.state]} in every member")


_DEEDS = {"Present": "Federated", "Deleted": "FederationEnded", "Orphaned": "LeftFederation"}
_DONE = {
    "Present": "what this policy says holds",
    "Deleted": "this policy is deleted",
    "Orphaned": "this policy is left to its cluster",
}


def conflict_message(winner: Version, loser: Version, view: MemberView) -> str:
    """In one sentence, who won over whom, and where the other version is."""
    mine, other = winner.dot.cluster, loser.dot.cluster
    kept = f"record {record_name(view.key)}"
    return (
        f"{_WORD[winner.state]} in {mine} and {_WORD[loser.state]} in {other} crossed: the one in "
        f"{mine} counts, the other is kept in {kept}; {RESOLVE}"
    )


_WORD = {"Present": "a change", "Deleted": "a deletion", "Orphaned": "leaving the federation"}


def _phase_told(
    view: MemberView, before: PolicyRecord, after: PolicyRecord
) -> Iterator[EventRequest]:
    here: LocalState = after.here
    winner = after.history.winner
    origin = winner.dot.cluster if winner is not None else ""
    match here.phase:
        case "Applied" if here.reason:
            yield _warning(view, "DeletionHeld", here.message)
        case "Applied" if origin != view.member and before.here.phase in ("Pending", "Blocked"):
            yield _normal(view, "Replicated", f"it is as {origin} has it")
        case "Blocked":
            yield _warning(view, f"Blocked{here.reason}", here.message)
        case "Quarantined":
            yield _warning(view, "Quarantined", f"{here.message}; {RESOLVE}")
        case _:
            return


def _normal(view: MemberView, reason: str, message: str) -> EventRequest:
    return EventRequest(view.place, reason, message, recorded_with=view.record_ref)


def _warning(view: MemberView, reason: str, message: str) -> EventRequest:
    return EventRequest(view.place, reason, message, "Warning", recorded_with=view.record_ref)
