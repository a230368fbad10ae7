"""The decision about one policy in one member, once it is known what users did."""

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
from hanse.features.policies.record_drafts import RecordDraft
from hanse.features.policies.versions import Dot, Version
from hanse.model.facts import WriteOutcome
from hanse.model.objects import Wire
from hanse.model.plan import CreateOnly, Desired, Patch, Removal

Write = Desired | Patch | Removal

_BLOCKING_RESULTS: dict[str, Reason] = {"Refused": "Refused", "Forbidden": "Forbidden"}


class MemberDecision(Struct, frozen=True):
    """The desired record, and the writes to the policy that follow it."""

    record: PolicyRecord
    writes: tuple[Write, ...] = ()


def decide(
    view: MemberView,
    stored: PolicyRecord | MissingRecord,
    draft: RecordDraft,
    outcome: WriteOutcome | None,
    now: datetime,
) -> MemberDecision:
    """The new record of a policy in a member, and the writes that bring it to the winning version.

    The copy is created or patched (Present), removed (Deleted, no version) or made local
    (Orphaned); a quarantined one stays as it is. If the member's AcceptancePolicy refuses it, due
    writes are dropped and the record is Blocked, but an applied one gets its annotations.
    """
    before = stored.here if isinstance(stored, PolicyRecord) else LocalState()
    winner = draft.history.winner
    if draft.here.phase == "Quarantined":
        decision = _quarantined(draft)
    elif winner is None or winner.state == "Deleted":
        decision = _decide_removal(view, draft, winner, before, outcome)
    elif winner.state == "Orphaned":
        decision = _decide_orphaning(view, draft, winner, before, outcome)
    else:
        decision = _decide_copy(view, draft, winner, before, outcome)
    if view.refusal and decision.writes and decision.record.here.phase != "Applied":
        decision = _not_accepted(view.refusal, draft, decision)
    return _with_release_time(decision, before, now)


def _not_accepted(refusal: str, draft: RecordDraft, decision: MemberDecision) -> MemberDecision:
    """The decision without its writes, its record Blocked: Refused, with `refusal` as the message.

    The recorded generation is the draft's, as nothing is patched.
    """
    here = replace(
        decision.record.here,
        phase="Blocked",
        reason="Refused",
        message=refusal,
        generation=draft.here.generation,
    )
    return MemberDecision(replace(decision.record, here=here))


def _quarantined(draft: RecordDraft) -> MemberDecision:
    """The decision that leaves a quarantined policy as it is, with a message for its reason."""
    here = replace(draft.here, message=_QUARANTINE_MESSAGES.get(draft.here.reason, ""))
    return _member_decision(replace(draft, here=here))


_QUARANTINE_MESSAGES: dict[str, str] = {
    "Stale": "it stood here before the member joined, and differs from what the federation has",
    "Unknown": "it carries a version that no member knows of",
    "Returned": "it carries a version that was deleted",
    "Flapping": "something here brings it back again and again, against another cluster's change",
}


def _decide_removal(
    view: MemberView,
    draft: RecordDraft,
    winner: Version | None,
    before: LocalState,
    outcome: WriteOutcome | None,
) -> MemberDecision:
    """The decision that removes a federated copy that was deleted elsewhere, if still as observed.

    Its record is Pending, or Blocked while the cluster refuses the deletion. If the policy is
    absent, not federated, or not known as a copy, nothing is written and the record is Released.
    """
    policy = view.policy
    if policy is None or not draft.here.exists or not is_federated(policy):
        return _member_decision(replace(draft, here=_released_state(draft.here)))
    here = _pending_state(draft.here, winner.dot if winner else None, before, outcome)
    cause = "deleted in another member"
    removal = Removal(
        view.policy_ref, policy.metadata.uid, cause, 1, as_leader_of=view.member, as_seen=True
    )
    return _member_decision(replace(draft, here=here), removal)


def _decide_orphaning(
    view: MemberView,
    draft: RecordDraft,
    winner: Version,
    before: LocalState,
    outcome: WriteOutcome | None,
) -> MemberDecision:
    """The decision to make a copy local, as the winner is Orphaned: a patch removes annotations.

    The record is Pending towards `winner`, or Blocked while the patch is refused. Patched is a
    recorded federated copy, or a policy that is not federated but has our version annotation; in
    any other case nothing is written and the record is Released.
    """
    policy = view.policy
    if policy is None:
        return _member_decision(replace(draft, here=_released_state(draft.here)))
    is_copy = is_federated(policy) and draft.here.exists
    was_ours = not is_federated(policy) and parse_version_annotation(
        view.key, policy.metadata.annotations
    )
    if not is_copy and not was_ours:
        return _member_decision(replace(draft, here=_released_state(draft.here)))
    here = _pending_state(draft.here, winner.dot, before, outcome)
    return _member_decision(
        replace(draft, here=here), _policy_patch(view, patch_to_unfederated(policy))
    )


def _decide_copy(
    view: MemberView,
    draft: RecordDraft,
    winner: Version,
    before: LocalState,
    outcome: WriteOutcome | None,
) -> MemberDecision:
    """The decision to create or patch the copy to the winning version, or keep it if it has that.

    Kept, it is Applied, with a patch of annotations alone. Without writes, Blocked by a plain
    policy of that name, or if the member lacks the kind or the namespace. Else Pending, or Blocked
    while the last write is refused, which is tried again.
    """
    policy, here = view.policy, draft.here
    if policy is not None and not is_federated(policy):
        message = f"a policy of that name stands here; annotate it with {FEDERATED} or delete it"
        return _blocked_decision(draft, winner, "PlainPolicy", message)
    if not view.served or not view.definition_uid:
        return _blocked_without_parent(
            draft, winner, "NotServed", f"{view.member} does not serve its kind"
        )
    if not view.namespace_uid:
        message = f"{view.member} has no namespace {view.key.namespace}"
        return _blocked_without_parent(draft, winner, "NamespaceMissing", message)
    if policy is not None and here.exists and winner.dot == here.dot:
        return _keep_applied(view, draft, winner)
    if policy is not None and here.exists and winner.digest == here.digest:
        return _keep_applied(view, replace(draft, here=replace(here, dot=winner.dot)), winner)
    version = version_annotation(view.key, winner.dot, winner.digest)
    write: Write
    if policy is None:
        created = build_policy(view.key, winner.content, version)
        write = Desired(created, view.member, 1, as_leader_of=view.member, ownership=CreateOnly())
    else:
        write = _policy_patch(
            view, patch_to_content(winner.content, policy, {**version, **_resolution_removed(view)})
        )
        here = replace(here, generation=_generation_after_patch(policy, winner))
    here = _pending_state(here, winner.dot, before, outcome)
    return _member_decision(replace(draft, here=here), write)


def _generation_after_patch(policy: Policy, winner: Version) -> int:
    """The policy's generation after our patch: one more if that changes the normalized spec."""
    changes = normalize_spec(policy.spec) != normalize_spec(winner.content.spec)
    return policy.metadata.generation + changes


def _keep_applied(view: MemberView, draft: RecordDraft, winner: Version) -> MemberDecision:
    """The decision if the policy has the winning content: Applied, with a patch of annotations.

    The version annotation is set, and a user's resolve annotation is removed.
    """
    here = replace(draft.here, phase="Applied", target=None, reason="", message="")
    assert view.policy is not None, "an applied policy exists"
    version: Wire = version_annotation(view.key, winner.dot, here.digest)
    annotations = {**version, **_resolution_removed(view)}
    return _member_decision(
        replace(draft, here=here), _policy_patch(view, {"metadata": {"annotations": annotations}})
    )


def _resolution_removed(view: MemberView) -> Wire:
    """Annotations of a merge patch that remove the user's resolve annotation; empty without one."""
    policy = view.policy
    resolved = policy is not None and RESOLVE_ANNOTATION in policy.metadata.annotations
    return {RESOLVE_ANNOTATION: None} if resolved else {}


def _blocked_decision(
    draft: RecordDraft, winner: Version, reason: Reason, message: str
) -> MemberDecision:
    """The decision without writes, its record Blocked by this reason, with the winner as target.

    The record forgets uid, version and digest of a policy that it had.
    """
    here = LocalState(phase="Blocked", reason=reason, message=message, target=winner.dot)
    return _member_decision(replace(draft, here=here))


def _blocked_without_parent(
    draft: RecordDraft, winner: Version, reason: Reason, message: str
) -> MemberDecision:
    """The Blocked decision if the namespace or definition is missing.

    The uids of a policy that still exists, and of its parents, stay in the record, its own as
    `former`: it goes with its parent.
    """
    decision, was = _blocked_decision(draft, winner, reason, message), draft.here
    if not was.exists:
        return decision
    here = replace(decision.record.here, former=was.uid, home=was.home, definition=was.definition)
    return replace(decision, record=replace(decision.record, here=here))


def _pending_state(
    here: LocalState, target: Dot | None, before: LocalState, outcome: WriteOutcome | None
) -> LocalState:
    """The state Pending towards a target version; Blocked if the last write of it was refused.

    Only if `before`, the recorded state, was Pending or Blocked with the same target does
    `outcome`, that of the last write, count; without an outcome a state that was Blocked by a
    refusal stays so.
    """
    pending = replace(here, phase="Pending", target=target, reason="", message="")
    if before.target != pending.target or before.phase not in ("Pending", "Blocked"):
        return pending
    if outcome is None:
        was_refused = before.phase == "Blocked" and before.reason in _BLOCKING_RESULTS.values()
        blocked = replace(pending, phase="Blocked", reason=before.reason, message=before.message)
        return blocked if was_refused else pending
    reason = _BLOCKING_RESULTS.get(outcome.result)
    if reason is None:
        return pending
    return replace(pending, phase="Blocked", reason=reason, message=outcome.message)


def _released_state(here: LocalState) -> LocalState:
    """A new Released state, without uid and version; the target of a late write is kept."""
    return LocalState(phase="Released", target=here.target)


def _with_release_time(
    decision: MemberDecision, before: LocalState, now: datetime
) -> MemberDecision:
    """The decision with the time of release in its record, unchanged unless that is Released.

    The time is that in `before` if it was Released already, else `now`, to the second.
    """
    here = decision.record.here
    if here.phase != "Released":
        return decision
    since = before.since if before.phase == "Released" else ""
    since = since or now.replace(microsecond=0).isoformat()
    return MemberDecision(
        replace(decision.record, here=replace(here, since=since)), decision.writes
    )


def _policy_patch(view: MemberView, change: Wire) -> Patch:
    """The patch of the policy in step 1, written only as the leader of its member."""
    return Patch(view.policy_ref, change, step=1, as_leader_of=view.member)


def _member_decision(draft: RecordDraft, *writes: Write) -> MemberDecision:
    """The decision with the record of a draft, and these writes."""
    return MemberDecision(PolicyRecord(draft.history, draft.here, draft.actor, draft.kept), writes)
