"""What users did to a policy in one member, derived from its record and the policy there."""

from typing import TypeAlias

from msgspec import Struct

from hanse.features.policies.content import (
    Content,
    Policy,
    content_digest,
    is_federated,
    replicated_content,
)
from hanse.features.policies.ledger import (
    RESOLVE_ANNOTATION,
    LocalState,
    MissingRecord,
    PolicyRecord,
    parse_version_annotation,
)
from hanse.features.policies.member_view import MemberView
from hanse.features.policies.record_drafts import (
    ObservedPolicy,
    RecordDraft,
    absent_state,
    choose_actor,
    draft_creation,
    draft_deletion,
    draft_edit,
    draft_event,
    draft_quarantine,
    draft_unchanged,
    version_number,
)
from hanse.features.policies.versions import (
    History,
    State,
    Version,
    append_event,
    merge,
    reset_flips,
)

KEEP = "keep"
YIELD = "yield"
ORPHANED_DIGEST = "Orphaned"


class Disappeared(Struct, frozen=True):
    """The recorded policy is gone; whether a user deleted it is still to be determined."""

    if_deleted: RecordDraft
    if_not: RecordDraft


class StaleRead(Struct, frozen=True):
    """The observed policy is older than the record: the watch has to catch up first."""


Observation: TypeAlias = RecordDraft | Disappeared | StaleRead


def observe(
    view: MemberView, stored: PolicyRecord | MissingRecord, known: History, max_flips: int
) -> Observation:
    """Compare a member with its record: what happened there since the record was written.

    StaleRead if the policy is older than the record, or has a version that only an unreachable
    member knows; Disappeared if an applied one is gone while its parents remain; else a new draft,
    quarantined once clusters undo each other `max_flips` times in a row. `known`: the members'
    merged history.
    """
    policy = view.policy
    if isinstance(stored, MissingRecord):
        if policy is None or not is_federated(policy):
            return RecordDraft(known, LocalState())
        return _observe_unrecorded(_observe_policy(view, policy, LocalState()), known, max_flips)
    if policy is not None and version_number(policy) < stored.here.seen:
        return StaleRead()
    if policy is None:
        return _observe_absent(view, stored, known)
    if not is_federated(policy):
        return _observe_unfederated(view, policy, stored, known)
    observed = _observe_policy(view, policy, stored.here)
    if stored.here.phase == "Quarantined":
        return _observe_quarantined(observed, stored, known, max_flips)
    resolved = _observe_resolution(observed, stored, known)
    if resolved is not None:
        return resolved
    if stored.here.exists:
        return _observe_existing(observed, stored, known, max_flips)
    return _observe_appeared(observed, stored, known, max_flips)


def _observe_policy(view: MemberView, policy: Policy, recorded: LocalState) -> ObservedPolicy:
    """A policy in a member with its content, digest and version, to be compared with the record.

    `recorded` is the state in that record. The version is the one in the policy's annotation; None
    if it has none, or one that was copied from another policy.
    """
    content = replicated_content(policy)
    version = parse_version_annotation(view.key, policy.metadata.annotations)
    return ObservedPolicy(view, policy, content, content_digest(content), version, recorded)


def _observe_unrecorded(
    observed: ObservedPolicy, known: History, max_flips: int
) -> RecordDraft | StaleRead:
    """The draft for a policy that has no record, by the version in its annotation.

    Unchanged if it equals the winner or that version, else edited; created if there is no version,
    no other member, or it was changed after its end. Quarantined: Stale in a member that joins,
    Unknown version, Returned after its end. StaleRead if only an unreachable member knows the
    version.
    """
    winner, version = known.winner, observed.version
    if observed.matches(winner):
        assert winner is not None
        return RecordDraft(known, observed.state_at(winner.dot))
    if observed.view.joining and observed.view.joins_others and not known.is_empty:
        return draft_quarantine(observed, known, "Stale")
    if version is None or observed.view.alone:
        return draft_creation(observed, PolicyRecord(), known, max_flips)
    if not known.covers(version.dot):
        # an event of a member that is unreachable now: its record has the version
        is_known_event = observed.view.known_events.covers(version.dot)
        return StaleRead() if is_known_event else draft_quarantine(observed, known, "Unknown")
    if winner is None or winner.state != "Present":
        if observed.digest != version.digest:  # made anew from an old manifest
            return draft_creation(observed, PolicyRecord(known), known, max_flips)
        return draft_quarantine(observed, known, "Returned")
    if observed.digest == version.digest:
        return RecordDraft(known, observed.state_at(version.dot))
    concurrent = [e.dot for e in known.entries if e.dot != version.dot]
    return draft_edit(observed, PolicyRecord(known), known, concurrent, max_flips)


def _observe_existing(
    observed: ObservedPolicy, stored: PolicyRecord, known: History, max_flips: int
) -> RecordDraft:
    """The draft for a policy that existed when the record was written.

    Unchanged if it has the recorded content or that of the winner, or is our own write; else
    edited, which does not supersede a version that was about to be written here.
    """
    here, merged = stored.here, merge(stored.history, known)
    if observed.digest == here.digest:
        same = here if observed.policy.metadata.uid == here.uid else observed.state_at(here.dot)
        return draft_unchanged(stored, known, same)
    target = stored.history.entry(here.target) if here.target != here.dot else None
    if target is not None and observed.version is not None and observed.version.dot == target.dot:
        return _observe_own_write(observed, stored, known, target, max_flips)
    if observed.matches(merged.winner):
        assert merged.winner is not None
        return draft_unchanged(stored, known, observed.state_at(merged.winner.dot))
    concurrent = [target.dot] if target is not None else []
    return draft_edit(observed, stored, known, concurrent, max_flips)


def _observe_appeared(
    observed: ObservedPolicy, stored: PolicyRecord, known: History, max_flips: int
) -> RecordDraft:
    """The draft for a policy that did not exist when the record was written.

    Unchanged if it is our own write, or equals the winner or a known version; else created. A
    version that is back unedited, although the policy ended, is quarantined as Returned.
    """
    here, version, merged = stored.here, observed.version, merge(stored.history, known)
    winner = merged.winner
    present = winner is not None and winner.state == "Present"
    target = stored.history.entry(here.target)
    is_own_write = target is not None and version is not None and version.dot == target.dot
    if target is not None and is_own_write and target.state == "Present":
        return _observe_own_write(observed, stored, known, target, max_flips)
    if observed.matches(winner):
        assert winner is not None
        return draft_unchanged(stored, known, observed.state_at(winner.dot))
    if version is None or not merged.covers(version.dot):
        return draft_creation(observed, stored, known, max_flips)
    unedited = observed.digest == version.digest
    if unedited and (present or version.dot == here.target):
        return draft_unchanged(stored, known, observed.state_at(version.dot))
    if present or not unedited:  # else a deleted version is back, as from a backup
        return draft_creation(observed, stored, known, max_flips)
    return draft_quarantine(observed, merged, "Returned", stored)


def _observe_own_write(
    observed: ObservedPolicy, stored: PolicyRecord, known: History, target: Version, max_flips: int
) -> RecordDraft:
    """The draft for a policy that we wrote at version `target`: unchanged, or edited by a user.

    Other content is taken for a change by admission, and no edit, if labels and annotations are as
    written and the generation is not above that of the write.
    """
    meta = observed.policy.metadata
    written = stored.here.generation if stored.here.uid == meta.uid else 1
    same_metadata = (observed.content.labels, observed.content.annotations) == (
        target.content.labels,
        target.content.annotations,
    )
    untouched = meta.generation <= written and same_metadata
    if observed.digest == target.digest or untouched:
        return draft_unchanged(stored, known, observed.state_at(target.dot))
    return draft_edit(observed, stored, known, (), max_flips)


def _observe_absent(
    view: MemberView, stored: PolicyRecord, known: History
) -> RecordDraft | Disappeared:
    """Disappeared if an applied policy whose winner is Present is gone, and its parents are not.

    Parents are its served kind, definition and namespace. Else the draft without event in which the
    policy is absent here.
    """
    here = stored.here
    cleared = draft_unchanged(stored, known, absent_state(here))
    if not here.exists or here.phase != "Applied":
        return cleared
    winner = cleared.history.winner
    if winner is None or winner.state != "Present":
        return cleared
    if not view.served or not view.has_parents_of(here):
        return cleared
    return Disappeared(draft_deletion(view, stored, known), cleared)


def _observe_unfederated(
    view: MemberView, policy: Policy, stored: PolicyRecord, known: History
) -> RecordDraft | Disappeared:
    """The draft for a policy that is not federated any more: orphaned if it has the recorded uid.

    Only cleared from the record, without an event, if it was not recorded as existing, was
    quarantined, or has ended. With another uid the recorded policy has Disappeared if it was
    applied and its parents remain; else it is cleared too.
    """
    here = stored.here
    cleared = draft_unchanged(stored, known, absent_state(here))
    winner = cleared.history.winner
    is_over = winner is None or winner.state != "Present"
    if not here.exists or here.phase == "Quarantined" or is_over:
        return cleared
    if here.uid == policy.metadata.uid:
        concurrent = [here.target] if here.target and here.target != here.dot else []
        return draft_event(
            stored, known, view, "Orphaned", ORPHANED_DIGEST, absent_state(here), concurrent
        )
    if here.phase == "Applied" and view.has_parents_of(here):
        return Disappeared(draft_deletion(view, stored, known), cleared)
    return cleared


def _observe_quarantined(
    observed: ObservedPolicy, stored: PolicyRecord, known: History, max_flips: int
) -> RecordDraft:
    """The draft for a quarantined policy, which stays so until it equals the winner or is resolved.

    Resolve annotation `keep`: its content becomes the version that supersedes all; `yield`: the
    winner will replace it. One that flapped counts as created once its content is changed.
    """
    merged = merge(stored.history, known)
    if observed.matches(merged.winner):
        assert merged.winner is not None
        return draft_unchanged(stored, known, observed.state_at(merged.winner.dot))
    match observed.policy.metadata.annotations.get(RESOLVE_ANNOTATION, ""):
        case "keep":
            return _resolve_with(observed, stored, merged, observed.content, observed.digest)
        case "yield":
            return draft_unchanged(stored, known, observed.state_at(None))
        case _ if stored.here.reason == "Flapping" and observed.digest != stored.here.digest:
            return draft_creation(observed, stored, known, max_flips)
        case _:
            return draft_unchanged(stored, known, stored.here)


def _observe_resolution(
    observed: ObservedPolicy, stored: PolicyRecord, known: History
) -> RecordDraft | None:
    """The draft with the version that the resolve annotation chooses: `keep`, or a cluster's id.

    `keep` chooses the policy as it is, an id the overruled version made in that cluster. None
    without the annotation or overruled versions, for another id, or if the policy differs from its
    record.
    """
    resolution = observed.policy.metadata.annotations.get(RESOLVE_ANNOTATION, "")
    merged = merge(stored.history, known)
    if not resolution or not merged.overruled or observed.digest != stored.here.digest:
        return None
    if resolution == KEEP:
        return _resolve_with(observed, stored, merged, observed.content, observed.digest)
    chosen = next((e for e in merged.overruled if e.dot.cluster == resolution), None)
    if chosen is None:
        return None
    return _resolve_with(
        observed, stored, merged, chosen.content, chosen.digest, state=chosen.state
    )


def _resolve_with(
    observed: ObservedPolicy,
    stored: PolicyRecord,
    merged: History,
    content: Content,
    digest: str,
    *,
    state: State = "Present",
) -> RecordDraft:
    """The draft after a user's resolution: a new event that supersedes all versions in `merged`.

    It has this content and state, and all flips are reset. The policy is recorded as Applied: at
    the new version if it has the digest, else at the one it was recorded at.
    """
    actor = choose_actor(
        stored, merged, observed.view, observed.digest, version_number(observed.policy)
    )
    after = reset_flips(append_event(merged, actor, state, content, digest))
    dot = (
        after.winner.dot
        if after.winner is not None and digest == observed.digest
        else stored.here.dot
    )
    return RecordDraft(after, observed.state_at(dot), actor, stored.kept)
