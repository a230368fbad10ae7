"""What is to be done about one policy in one member, once it is known what people did."""

from datetime import datetime

from msgspec import Struct
from msgspec.structs import replace

from hanse.features.policies.content import (
    FEDERATED,
    Policy,
    change_to,
    change_to_plain,
    is_federated,
    made_of,
    normal_spec,
)
from hanse.features.policies.ledger import (
    RESOLVE_MARK,
    Here,
    Lost,
    Reason,
    Record,
    mark_in,
    mark_of,
)
from hanse.features.policies.member_view import Sight
from hanse.features.policies.observation import Draft
from hanse.features.policies.versions import Entry
from hanse.model.facts import WriteOutcome
from hanse.model.objects import Wire
from hanse.model.plan import Desired, Patch, Removal

Write = Desired | Patch | Removal

_TOLD: dict[str, Reason] = {"Refused": "Refused", "Forbidden": "Forbidden"}


class Step(Struct, frozen=True):
    """The record that should stand, and the writes that come after it."""

    record: Record
    writes: tuple[Write, ...] = ()


def decide(
    sight: Sight, own: Record | Lost, draft: Draft, outcome: WriteOutcome | None, now: datetime
) -> Step:
    """Bring what stands here to the version that counts."""
    before = own.here if isinstance(own, Record) else Here()
    winner = draft.history.winner
    if draft.here.phase == "Quarantined":
        step = _waiting(draft)
    elif winner is None or winner.state == "Deleted":
        step = _ended(sight, draft, winner)
    elif winner.state == "Orphaned":
        step = _orphaned(sight, draft, winner)
    else:
        step = _present(sight, draft, winner, before, outcome)
    return _timed(step, before, now)


def _waiting(draft: Draft) -> Step:
    here = replace(draft.here, message=_QUARANTINED.get(draft.here.reason, ""))
    return _step(replace(draft, here=here))


_QUARANTINED: dict[str, str] = {
    "Stale": "it stood here before the member joined, and differs from what the federation has",
    "Unknown": "it carries a version that no member knows of",
    "Returned": "it carries a version that was deleted",
    "Flapping": "something here brings it back again and again, against another cluster's change",
}


def _ended(sight: Sight, draft: Draft, winner: Entry | None) -> Step:
    """The policy was deleted: what stands here goes, unless it is not ours to take."""
    policy = sight.policy
    if policy is None or not draft.here.stands or not is_federated(policy):
        return _step(replace(draft, here=_released(draft.here)))
    here = replace(draft.here, phase="Pending", target=winner.dot if winner else None, reason="")
    cause = "deleted in another member"
    removal = Removal(
        sight.place, policy.metadata.uid, cause, 1, as_leader_of=sight.member, as_seen=True
    )
    return _step(replace(draft, here=here), removal)


def _orphaned(sight: Sight, draft: Draft, winner: Entry) -> Step:
    """Its users took it out of the federation: what stands here is left to this cluster."""
    policy = sight.policy
    if policy is None:
        return _step(replace(draft, here=_released(draft.here)))
    is_copy = is_federated(policy) and draft.here.stands
    was_ours = not is_federated(policy) and mark_in(sight.key, policy.metadata.annotations)
    if not is_copy and not was_ours:
        return _step(replace(draft, here=_released(draft.here)))
    here = replace(draft.here, phase="Pending", target=winner.dot, reason="")
    return _step(replace(draft, here=here), _patch(sight, change_to_plain(policy)))


def _present(
    sight: Sight, draft: Draft, winner: Entry, before: Here, outcome: WriteOutcome | None
) -> Step:
    """The policy is to stand here, as the version that counts says."""
    policy, here = sight.policy, draft.here
    if policy is not None and not is_federated(policy):
        message = f"a policy of that name stands here; annotate it with {FEDERATED} or delete it"
        return _blocked(draft, winner, "PlainPolicy", message)
    if not sight.served or not sight.definition:
        return _displaced(draft, winner, "NotServed", f"{sight.member} does not serve its kind")
    if not sight.home:
        message = f"{sight.member} has no namespace {sight.key.namespace}"
        return _displaced(draft, winner, "NamespaceMissing", message)
    if policy is not None and here.stands and winner.dot == here.dot:
        return _applied(sight, draft, winner)
    if policy is not None and here.stands and winner.digest == here.digest:
        return _applied(sight, replace(draft, here=replace(here, dot=winner.dot)), winner)
    mark = mark_of(sight.key, winner.dot, winner.digest)
    write: Write
    if policy is None:
        made = made_of(sight.key, winner.content, mark)
        write = Desired(made, sight.member, 1, as_leader_of=sight.member, unowned=True)
    else:
        write = _patch(sight, change_to(winner.content, policy, {**mark, **_decided(sight)}))
        here = replace(here, generation=_generation_after(policy, winner))
    pending = replace(here, phase="Pending", target=winner.dot, reason="", message="")
    return _step(replace(draft, here=_hindered(pending, before, outcome)), write)


def _generation_after(policy: Policy, winner: Entry) -> int:
    """The generation that our write gives a policy: labels and annotations alone give none."""
    changes = normal_spec(policy.spec) != normal_spec(winner.content.spec)
    return policy.metadata.generation + changes


def _applied(sight: Sight, draft: Draft, winner: Entry) -> Step:
    """What counts stands here; the policy itself says which version it is."""
    here = replace(draft.here, phase="Applied", target=None, reason="", message="")
    assert sight.policy is not None, "it stands here"
    mark: Wire = mark_of(sight.key, winner.dot, here.digest)
    annotations = {**mark, **_decided(sight)}
    return _step(
        replace(draft, here=here), _patch(sight, {"metadata": {"annotations": annotations}})
    )


def _decided(sight: Sight) -> Wire:
    """A person's word that was heard is taken off."""
    policy = sight.policy
    told = policy is not None and RESOLVE_MARK in policy.metadata.annotations
    return {RESOLVE_MARK: None} if told else {}


def _blocked(draft: Draft, winner: Entry, reason: Reason, message: str) -> Step:
    here = Here(phase="Blocked", reason=reason, message=message, target=winner.dot)
    return _step(replace(draft, here=here))


def _displaced(draft: Draft, winner: Entry, reason: Reason, message: str) -> Step:
    """Blocked, and what is still seen here is about to go."""
    step, was = _blocked(draft, winner, reason, message), draft.here
    if not was.stands:
        return step
    here = replace(step.record.here, former=was.uid, home=was.home, definition=was.definition)
    return replace(step, record=replace(step.record, here=here))


def _hindered(pending: Here, before: Here, outcome: WriteOutcome | None) -> Here:
    """The same, blocked by what the cluster answered; an answer that is not known stands."""
    if before.target != pending.target or before.phase not in ("Pending", "Blocked"):
        return pending
    if outcome is None:
        kept = before.phase == "Blocked" and before.reason in _TOLD.values()
        blocked = replace(pending, phase="Blocked", reason=before.reason, message=before.message)
        return blocked if kept else pending
    reason = _TOLD.get(outcome.result)
    if reason is None:
        return pending
    return replace(pending, phase="Blocked", reason=reason, message=outcome.message)


def _released(here: Here) -> Here:
    """Nothing of it is ours here any more; what was on its way may still arrive."""
    return Here(phase="Released", target=here.target)


def _timed(step: Step, before: Here, now: datetime) -> Step:
    here = step.record.here
    if here.phase != "Released":
        return step
    since = before.since if before.phase == "Released" else ""
    told = since or now.replace(microsecond=0).isoformat()
    return Step(replace(step.record, here=replace(here, since=told)), step.writes)


def _patch(sight: Sight, change: Wire) -> Patch:
    return Patch(sight.place, change, step=1, as_leader_of=sight.member)


def _step(draft: Draft, *writes: Write) -> Step:
    return Step(Record(draft.history, draft.here, draft.actor, draft.kept), writes)
