"""What is to be done about one policy in one member, once it is known what people did."""

from datetime import datetime

from msgspec import Struct
from msgspec.structs import replace

from hanse.features.policies.content import (
    FEDERATED,
    Policy,
    build_policy,
    is_federated,
    normalize_spec,
    patch_to_content,
    patch_to_unfederated,
)
from hanse.features.policies.ledger import (
    RESOLVE_ANNOTATION,
    LocalState,
    MissingRecord,
    PolicyRecord,
    Reason,
    parse_version_annotation,
    version_annotation,
)
from hanse.features.policies.member_view import MemberView
from hanse.features.policies.observation import RecordDraft
from hanse.features.policies.versions import Version
from hanse.model.facts import WriteOutcome
from hanse.model.objects import Wire
from hanse.model.plan import Desired, Patch, Removal

Write = Desired | Patch | Removal

_TOLD: dict[str, Reason] = {"Refused": "Refused", "Forbidden": "Forbidden"}


class Decision(Struct, frozen=True):
    """The record that should stand, and the writes that come after it."""

    record: PolicyRecord
    writes: tuple[Write, ...] = ()


def decide(
    view: MemberView,
    own: PolicyRecord | MissingRecord,
    draft: RecordDraft,
    outcome: WriteOutcome | None,
    now: datetime,
) -> Decision:
    """Bring what stands here to the version that counts."""
    before = own.here if isinstance(own, PolicyRecord) else LocalState()
    winner = draft.history.winner
    if draft.here.phase == "Quarantined":
        step = _waiting(draft)
    elif winner is None or winner.state == "Deleted":
        step = _ended(view, draft, winner)
    elif winner.state == "Orphaned":
        step = _orphaned(view, draft, winner)
    else:
        step = _present(view, draft, winner, before, outcome)
    return _timed(step, before, now)


def _waiting(draft: RecordDraft) -> Decision:
    here = replace(draft.here, message=_QUARANTINED.get(draft.here.reason, ""))
    return _step(replace(draft, here=here))


_QUARANTINED: dict[str, str] = {
    "Stale": "it stood here before the member joined, and differs from what the federation has",
    "Unknown": "it carries a version that no member knows of",
    "Returned": "it carries a version that was deleted",
    "Flapping": "something here brings it back again and again, against another cluster's change",
}


def _ended(view: MemberView, draft: RecordDraft, winner: Version | None) -> Decision:
    """The policy was deleted: what stands here goes, unless it is not ours to take."""
    policy = view.policy
    if policy is None or not draft.here.exists or not is_federated(policy):
        return _step(replace(draft, here=_released(draft.here)))
    here = replace(draft.here, phase="Pending", target=winner.dot if winner else None, reason="")
    cause = "deleted in another member"
    removal = Removal(
        view.place, policy.metadata.uid, cause, 1, as_leader_of=view.member, as_seen=True
    )
    return _step(replace(draft, here=here), removal)


def _orphaned(view: MemberView, draft: RecordDraft, winner: Version) -> Decision:
    """Its users took it out of the federation: what stands here is left to this cluster."""
    policy = view.policy
    if policy is None:
        return _step(replace(draft, here=_released(draft.here)))
    is_copy = is_federated(policy) and draft.here.exists
    was_ours = not is_federated(policy) and parse_version_annotation(
        view.key, policy.metadata.annotations
    )
    if not is_copy and not was_ours:
        return _step(replace(draft, here=_released(draft.here)))
    here = replace(draft.here, phase="Pending", target=winner.dot, reason="")
    return _step(replace(draft, here=here), _patch(view, patch_to_unfederated(policy)))


def _present(
    view: MemberView,
    draft: RecordDraft,
    winner: Version,
    before: LocalState,
    outcome: WriteOutcome | None,
) -> Decision:
    """The policy is to stand here, as the version that counts says."""
    policy, here = view.policy, draft.here
    if policy is not None and not is_federated(policy):
        message = f"a policy of that name stands here; annotate it with {FEDERATED} or delete it"
        return _blocked(draft, winner, "PlainPolicy", message)
    if not view.served or not view.definition:
        return _displaced(draft, winner, "NotServed", f"{view.member} does not serve its kind")
    if not view.home:
        message = f"{view.member} has no namespace {view.key.namespace}"
        return _displaced(draft, winner, "NamespaceMissing", message)
    if policy is not None and here.exists and winner.dot == here.dot:
        return _applied(view, draft, winner)
    if policy is not None and here.exists and winner.digest == here.digest:
        return _applied(view, replace(draft, here=replace(here, dot=winner.dot)), winner)
    mark = version_annotation(view.key, winner.dot, winner.digest)
    write: Write
    if policy is None:
        made = build_policy(view.key, winner.content, mark)
        write = Desired(made, view.member, 1, as_leader_of=view.member, unowned=True)
    else:
        write = _patch(view, patch_to_content(winner.content, policy, {**mark, **_decided(view)}))
        here = replace(here, generation=_generation_after(policy, winner))
    pending = replace(here, phase="Pending", target=winner.dot, reason="", message="")
    return _step(replace(draft, here=_hindered(pending, before, outcome)), write)


def _generation_after(policy: Policy, winner: Version) -> int:
    """The generation that our write gives a policy: labels and annotations alone give none."""
    changes = normalize_spec(policy.spec) != normalize_spec(winner.content.spec)
    return policy.metadata.generation + changes


def _applied(view: MemberView, draft: RecordDraft, winner: Version) -> Decision:
    """What counts stands here; the policy itself says which version it is."""
    here = replace(draft.here, phase="Applied", target=None, reason="", message="")
    assert view.policy is not None, "it stands here"
    mark: Wire = version_annotation(view.key, winner.dot, here.digest)
    annotations = {**mark, **_decided(view)}
    return _step(
        replace(draft, here=here), _patch(view, {"metadata": {"annotations": annotations}})
    )


def _decided(view: MemberView) -> Wire:
    """A person's word that was heard is taken off."""
    policy = view.policy
    told = policy is not None and RESOLVE_ANNOTATION in policy.metadata.annotations
    return {RESOLVE_ANNOTATION: None} if told else {}


def _blocked(draft: RecordDraft, winner: Version, reason: Reason, message: str) -> Decision:
    here = LocalState(phase="Blocked", reason=reason, message=message, target=winner.dot)
    return _step(replace(draft, here=here))


def _displaced(draft: RecordDraft, winner: Version, reason: Reason, message: str) -> Decision:
    """Blocked, and what is still seen here is about to go."""
    step, was = _blocked(draft, winner, reason, message), draft.here
    if not was.exists:
        return step
    here = replace(step.record.here, former=was.uid, home=was.home, definition=was.definition)
    return replace(step, record=replace(step.record, here=here))


def _hindered(pending: LocalState, before: LocalState, outcome: WriteOutcome | None) -> LocalState:
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


def _released(here: LocalState) -> LocalState:
    """Nothing of it is ours here any more; what was on its way may still arrive."""
    return LocalState(phase="Released", target=here.target)


def _timed(step: Decision, before: LocalState, now: datetime) -> Decision:
    here = step.record.here
    if here.phase != "Released":
        return step
    since = before.since if before.phase == "Released" else ""
    told = since or now.replace(microsecond=0).isoformat()
    return Decision(replace(step.record, here=replace(here, since=told)), step.writes)


def _patch(view: MemberView, change: Wire) -> Patch:
    return Patch(view.place, change, step=1, as_leader_of=view.member)


def _step(draft: RecordDraft, *writes: Write) -> Decision:
    return Decision(PolicyRecord(draft.history, draft.here, draft.actor, draft.kept), writes)
