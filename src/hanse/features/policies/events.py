"""What people are told about a policy, once, when its record changes."""

from collections.abc import Iterator

from hanse.features.policies.ledger import Here, Lost, Record, record_name
from hanse.features.policies.member_view import Sight
from hanse.features.policies.versions import Entry
from hanse.model.plan import EventRequest

RESOLVE = "settle it with `hanse policies resolve`"


def notices_of(sight: Sight, own: Record | Lost, record: Record) -> tuple[EventRequest, ...]:
    """The events that go with a record's change."""
    before = own if isinstance(own, Record) else Record()
    return tuple(_told(sight, before, record))


def _told(sight: Sight, before: Record, after: Record) -> Iterator[EventRequest]:
    yield from _history_told(sight, before, after)
    if before.here.phase != after.here.phase or before.here.reason != after.here.reason:
        yield from _phase_told(sight, before, after)
    if after.kept is not None and after.kept != before.kept:
        message = "this cluster went back in time; what stood here is kept in its record"
        yield _warning(sight, "Restored", message)


def _history_told(sight: Sight, before: Record, after: Record) -> Iterator[EventRequest]:
    winner = after.history.winner
    if winner is None:
        return
    known = {e.dot for e in before.history.overruled}
    for loser in after.history.overruled:
        if loser.dot not in known:
            yield _warning(sight, "VersionsCrossed", crossed(winner, loser, sight))
    old = before.history.winner
    if winner.dot.cluster == sight.member and (old is None or old.dot != winner.dot):
        yield _normal(sight, _DEEDS[winner.state], f"{_DONE[winner.state]} in every member")


_DEEDS = {"Present": "Federated", "Deleted": "FederationEnded", "Orphaned": "LeftFederation"}
_DONE = {
    "Present": "what this policy says holds",
    "Deleted": "this policy is deleted",
    "Orphaned": "this policy is left to its cluster",
}


def crossed(winner: Entry, loser: Entry, sight: Sight) -> str:
    """In one sentence, who won over whom, and where the other version is."""
    mine, other = winner.dot.cluster, loser.dot.cluster
    kept = f"record {record_name(sight.key)}"
    return (
        f"{_WORD[winner.state]} in {mine} and {_WORD[loser.state]} in {other} crossed: the one in "
        f"{mine} counts, the other is kept in {kept}; {RESOLVE}"
    )


_WORD = {"Present": "a change", "Deleted": "a deletion", "Orphaned": "leaving the federation"}


def _phase_told(sight: Sight, before: Record, after: Record) -> Iterator[EventRequest]:
    here: Here = after.here
    winner = after.history.winner
    origin = winner.dot.cluster if winner is not None else ""
    match here.phase:
        case "Applied" if here.reason:
            yield _warning(sight, "DeletionHeld", here.message)
        case "Applied" if origin != sight.member and before.here.phase in ("Pending", "Blocked"):
            yield _normal(sight, "Replicated", f"it is as {origin} has it")
        case "Blocked":
            yield _warning(sight, f"Blocked{here.reason}", here.message)
        case "Quarantined":
            yield _warning(sight, "Quarantined", f"{here.message}; {RESOLVE}")
        case _:
            return


def _normal(sight: Sight, reason: str, message: str) -> EventRequest:
    return EventRequest(sight.place, reason, message, told_with=sight.record_place)


def _warning(sight: Sight, reason: str, message: str) -> EventRequest:
    return EventRequest(sight.place, reason, message, "Warning", told_with=sight.record_place)
