"""Kubernetes Events about a policy, emitted when its record changes."""

from collections.abc import Iterator

from hanse.features.policies.ledger import LocalState, MissingRecord, PolicyRecord, record_name
from hanse.features.policies.member_view import MemberView
from hanse.features.policies.versions import Version
from hanse.model.plan import EventRequest

RESOLVE = "settle it with `hanse policies resolve`"


def record_events(
    view: MemberView, stored: PolicyRecord | MissingRecord, record: PolicyRecord
) -> tuple[EventRequest, ...]:
    """The Events for the change from the stored record to a new one, about the policy.

    A record that was not stored counts as an empty one.
    """
    before = stored if isinstance(stored, PolicyRecord) else PolicyRecord()
    return tuple(_record_events(view, before, record))


def _record_events(
    view: MemberView, before: PolicyRecord, after: PolicyRecord
) -> Iterator[EventRequest]:
    """The Events for versions, a changed phase or reason, and content kept after a restore."""
    yield from _history_events(view, before, after)
    if before.here.phase != after.here.phase or before.here.reason != after.here.reason:
        yield from _phase_events(view, before, after)
    if after.kept is not None and after.kept != before.kept:
        message = "this cluster went back in time; what stood here is kept in its record"
        yield _warning_event(view, "Restored", message)


def _history_events(
    view: MemberView, before: PolicyRecord, after: PolicyRecord
) -> Iterator[EventRequest]:
    """VersionsCrossed for each newly overruled version, and an Event for a new winner made here.

    None without a winner.
    """
    winner = after.history.winner
    if winner is None:
        return
    known = {e.dot for e in before.history.overruled}
    for loser in after.history.overruled:
        if loser.dot not in known:
            yield _warning_event(view, "VersionsCrossed", conflict_message(winner, loser, view))
    old = before.history.winner
    if winner.dot.cluster == view.member and (old is None or old.dot != winner.dot):
        yield _normal_event(
            view, _REASONS[winner.state], f"{_MESSAGES[winner.state]} in every member"
        )


_REASONS = {"Present": "Federated", "Deleted": "FederationEnded", "Orphaned": "LeftFederation"}
_MESSAGES = {
    "Present": "what this policy says holds",
    "Deleted": "this policy is deleted",
    "Orphaned": "this policy is left to its cluster",
}


def conflict_message(winner: Version, loser: Version, view: MemberView) -> str:
    """The message about conflicting versions: which one won, and where the other is kept."""
    winning = winner.dot.cluster
    winner_action = f"{_ACTIONS[winner.state]} in {winning}"
    loser_action = f"{_ACTIONS[loser.state]} in {loser.dot.cluster}"
    return (
        f"{winner_action} and {loser_action} crossed: the one in {winning} counts, "
        f"the other is kept in record {record_name(view.key)}; {RESOLVE}"
    )


_ACTIONS = {"Present": "a change", "Deleted": "a deletion", "Orphaned": "leaving the federation"}


def _phase_events(
    view: MemberView, before: PolicyRecord, after: PolicyRecord
) -> Iterator[EventRequest]:
    """The Event for a state in this member: replicated, blocked, quarantined, deletion held.

    Replicated only for a version of another cluster, after Pending or Blocked; none for Pending and
    Released.
    """
    here: LocalState = after.here
    winner = after.history.winner
    origin = winner.dot.cluster if winner is not None else ""
    match here.phase:
        case "Applied" if here.reason:
            yield _warning_event(view, "DeletionHeld", here.message)
        case "Applied" if origin != view.member and before.here.phase in ("Pending", "Blocked"):
            yield _normal_event(view, "Replicated", f"it is as {origin} has it")
        case "Blocked":
            yield _warning_event(view, f"Blocked{here.reason}", here.message)
        case "Quarantined":
            yield _warning_event(view, "Quarantined", f"{here.message}; {RESOLVE}")
        case _:
            return


def _normal_event(view: MemberView, reason: str, message: str) -> EventRequest:
    """A Normal Event about the policy, to be recorded when its record is written."""
    return EventRequest(view.policy_ref, reason, message, recorded_with=view.record_ref)


def _warning_event(view: MemberView, reason: str, message: str) -> EventRequest:
    """A Warning Event about the policy, to be recorded when its record is written."""
    return EventRequest(view.policy_ref, reason, message, "Warning", recorded_with=view.record_ref)
