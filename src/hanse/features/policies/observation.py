"""What users did to a policy in one member, derived from its record and the policy there."""

from collections.abc import Iterable
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

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
    Reason,
    SupersededContent,
    VersionMark,
    new_actor_id,
    parse_version_annotation,
)
from hanse.features.policies.member_view import MemberView
from hanse.features.policies.versions import (
    DELETED_DIGEST,
    Dot,
    History,
    State,
    Version,
    append_event,
    count_flips,
    merge,
    reset_flips,
)

KEEP = "keep"
YIELD = "yield"
ORPHANED_DIGEST = "Orphaned"


class RecordDraft(Struct, frozen=True):
    """The new record, before it is decided what to write to the policy."""

    history: History
    here: LocalState
    actor: str = ""
    kept: SupersededContent | None = None


class Disappeared(Struct, frozen=True):
    """The recorded policy is gone; whether a user deleted it is still to be determined."""

    if_deleted: RecordDraft
    if_not: RecordDraft


class StaleRead(Struct, frozen=True):
    """The observed policy is older than the record: the watch has to catch up first."""


Observation: TypeAlias = RecordDraft | Disappeared | StaleRead


class ObservedPolicy(Struct, frozen=True):
    """A federated policy that exists in the member, and its last recorded state."""

    view: MemberView
    policy: Policy
    content: Content
    digest: str
    version: VersionMark | None
    before: LocalState

    def state_at(self, dot: Dot | None) -> LocalState:
        """The state in which this policy is acknowledged to be a version."""
        meta, before = self.policy.metadata, self.before
        known = meta.uid in (before.uid, before.former)  # objects never change their namespace
        return LocalState(
            phase="Applied",
            dot=dot,
            digest=self.digest,
            uid=meta.uid,
            generation=meta.generation,
            seen=_resource_version(self.policy),
            home=before.home if known else self.view.namespace_uid,
            definition=before.definition if known else self.view.definition_uid,
        )

    def matches(self, version: Version | None) -> bool:
        """Whether the policy has the content of a version."""
        return version is not None and version.state == "Present" and version.digest == self.digest


def observe(
    view: MemberView, stored: PolicyRecord | MissingRecord, known: History, flips: int
) -> Observation:
    """Compare a member with its record: what happened there since the record was written."""
    policy = view.policy
    if isinstance(stored, MissingRecord):
        if policy is None or not is_federated(policy):
            return RecordDraft(known, LocalState())
        return _observe_unrecorded(_observe_policy(view, policy, LocalState()), known, flips)
    if policy is not None and _resource_version(policy) < stored.here.seen:
        return StaleRead()
    if policy is None:
        return _observe_absent(view, stored, known)
    if not is_federated(policy):
        return _observe_unfederated(view, policy, stored, known)
    observed = _observe_policy(view, policy, stored.here)
    if stored.here.phase == "Quarantined":
        return _observe_quarantined(observed, stored, known, flips)
    resolved = _observe_resolution(observed, stored, known)
    if resolved is not None:
        return resolved
    if stored.here.exists:
        return _observe_existing(observed, stored, known, flips)
    return _observe_appeared(observed, stored, known, flips)


def _observe_policy(view: MemberView, policy: Policy, before: LocalState) -> ObservedPolicy:
    """A policy with its replicated content, digest and version annotation."""
    content = replicated_content(policy)
    version = parse_version_annotation(view.key, policy.metadata.annotations)
    return ObservedPolicy(view, policy, content, content_digest(content), version, before)


def _observe_unrecorded(
    observed: ObservedPolicy, known: History, flips: int
) -> RecordDraft | StaleRead:
    """A federated policy without record: adopted, created, edited, quarantined or a stale read."""
    winner, version = known.winner, observed.version
    if observed.matches(winner):
        assert winner is not None
        return RecordDraft(known, observed.state_at(winner.dot))
    if observed.view.joining and observed.view.joins_others and not known.is_empty:
        return _draft_quarantine(observed, known, "Stale")
    if version is None or observed.view.alone:
        return _draft_creation(observed, PolicyRecord(), known, flips)
    if not known.covers(version.dot):
        # an event of a member that is unreachable now: its record has the version
        is_known_event = observed.view.known_events.covers(version.dot)
        return StaleRead() if is_known_event else _draft_quarantine(observed, known, "Unknown")
    if winner is None or winner.state != "Present":
        return _draft_quarantine(observed, known, "Returned")
    if observed.digest == version.digest:
        return RecordDraft(known, observed.state_at(version.dot))
    concurrent = [e.dot for e in known.entries if e.dot != version.dot]
    return _draft_edit(observed, PolicyRecord(known), known, concurrent, flips)


def _observe_existing(
    observed: ObservedPolicy, stored: PolicyRecord, known: History, flips: int
) -> RecordDraft:
    """A policy that existed here when the record was written."""
    here, merged = stored.here, merge(stored.history, known)
    if observed.digest == here.digest:
        same = here if observed.policy.metadata.uid == here.uid else observed.state_at(here.dot)
        return _draft_unchanged(stored, known, same)
    target = stored.history.entry(here.target) if here.target != here.dot else None
    if target is not None and observed.version is not None and observed.version.dot == target.dot:
        return _observe_own_write(observed, stored, known, target, flips)
    if observed.matches(merged.winner):
        assert merged.winner is not None
        return _draft_unchanged(stored, known, observed.state_at(merged.winner.dot))
    concurrent = [target.dot] if target is not None else []
    return _draft_edit(observed, stored, known, concurrent, flips)


def _observe_appeared(
    observed: ObservedPolicy, stored: PolicyRecord, known: History, flips: int
) -> RecordDraft:
    """A policy that did not exist here when the record was written."""
    here, version, merged = stored.here, observed.version, merge(stored.history, known)
    winner = merged.winner
    present = winner is not None and winner.state == "Present"
    target = stored.history.entry(here.target)
    is_own_write = target is not None and version is not None and version.dot == target.dot
    if target is not None and is_own_write and target.state == "Present":
        return _observe_own_write(observed, stored, known, target, flips)
    if observed.matches(winner):
        assert winner is not None
        return _draft_unchanged(stored, known, observed.state_at(winner.dot))
    if version is None or not merged.covers(version.dot):
        return _draft_creation(observed, stored, known, flips)
    unedited = observed.digest == version.digest
    if unedited and (present or version.dot == here.target):
        return _draft_unchanged(stored, known, observed.state_at(version.dot))
    if present:
        return _draft_creation(observed, stored, known, flips)
    return _draft_quarantine(observed, merged, "Returned", stored)


def _observe_own_write(
    observed: ObservedPolicy, stored: PolicyRecord, known: History, target: Version, flips: int
) -> RecordDraft:
    """A policy that we wrote: changes by admission are no edit, changes by users are."""
    meta = observed.policy.metadata
    written = stored.here.generation if stored.here.uid == meta.uid else 1
    same_metadata = (observed.content.labels, observed.content.annotations) == (
        target.content.labels,
        target.content.annotations,
    )
    untouched = meta.generation <= written and same_metadata
    if observed.digest == target.digest or untouched:
        return _draft_unchanged(stored, known, observed.state_at(target.dot))
    return _draft_edit(observed, stored, known, (), flips)


def _observe_absent(
    view: MemberView, stored: PolicyRecord, known: History
) -> RecordDraft | Disappeared:
    """No policy exists: disappeared if it was applied and its parents are there; else cleared."""
    here = stored.here
    cleared = _draft_unchanged(stored, known, _absent_state(here))
    if not here.exists or here.phase != "Applied":
        return cleared
    winner = cleared.history.winner
    if winner is None or winner.state != "Present":
        return cleared
    if not view.served or not view.has_parents_of(here):
        return cleared
    return Disappeared(_draft_deletion(view, stored, known), cleared)


def _observe_unfederated(
    view: MemberView, policy: Policy, stored: PolicyRecord, known: History
) -> RecordDraft | Disappeared:
    """A policy that is not federated: orphaned if of the recorded uid, else gone or cleared."""
    here = stored.here
    cleared = _draft_unchanged(stored, known, _absent_state(here))
    winner = cleared.history.winner
    is_over = winner is None or winner.state != "Present"
    if not here.exists or here.phase == "Quarantined" or is_over:
        return cleared
    if here.uid == policy.metadata.uid:
        concurrent = [here.target] if here.target and here.target != here.dot else []
        return _draft_event(
            stored, known, view, "Orphaned", ORPHANED_DIGEST, _absent_state(here), concurrent
        )
    if here.phase == "Applied" and view.has_parents_of(here):
        return Disappeared(_draft_deletion(view, stored, known), cleared)
    return cleared


def _observe_quarantined(
    observed: ObservedPolicy, stored: PolicyRecord, known: History, flips: int
) -> RecordDraft:
    """A quarantined policy: it waits until it matches the winner, or a user resolves it."""
    merged = merge(stored.history, known)
    if observed.matches(merged.winner):
        assert merged.winner is not None
        return _draft_unchanged(stored, known, observed.state_at(merged.winner.dot))
    match observed.policy.metadata.annotations.get(RESOLVE_ANNOTATION, ""):
        case "keep":
            return _resolve_with(observed, stored, merged, observed.content, observed.digest)
        case "yield":
            return _draft_unchanged(stored, known, observed.state_at(None))
        case _ if stored.here.reason == "Flapping" and observed.digest != stored.here.digest:
            return _draft_creation(observed, stored, known, flips)
        case _:
            return _draft_unchanged(stored, known, stored.here)


def _observe_resolution(
    observed: ObservedPolicy, stored: PolicyRecord, known: History
) -> RecordDraft | None:
    """The resolution of conflicting versions that a user asked for; None if there is none."""
    resolution = observed.policy.metadata.annotations.get(RESOLVE_ANNOTATION, "")
    merged = merge(stored.history, known)
    if not resolution or not merged.overruled or observed.digest != stored.here.digest:
        return None
    if resolution == KEEP:
        return _resolve_with(observed, stored, merged, observed.content, observed.digest)
    chosen = next((e for e in merged.overruled if e.dot.cluster == resolution), None)
    if chosen is None or chosen.state != "Present":
        return None
    return _resolve_with(observed, stored, merged, chosen.content, chosen.digest)


def _resolve_with(
    observed: ObservedPolicy, stored: PolicyRecord, merged: History, content: Content, digest: str
) -> RecordDraft:
    """A user's resolution: this content supersedes every other version."""
    actor = _choose_actor(
        stored, merged, observed.view, observed.digest, _resource_version(observed.policy)
    )
    after = reset_flips(append_event(merged, actor, "Present", content, digest))
    dot = (
        after.winner.dot
        if after.winner is not None and digest == observed.digest
        else stored.here.dot
    )
    return RecordDraft(after, observed.state_at(dot), actor)


def _draft_creation(
    observed: ObservedPolicy, stored: PolicyRecord, known: History, flips: int
) -> RecordDraft:
    """A user created the policy: it supersedes tombstones only; too many flips quarantine it."""
    merged = merge(stored.history, known)
    winner = merged.winner
    if winner is not None and count_flips(winner, observed.view.member, observed.digest) >= flips:
        return _draft_quarantine(observed, merged, "Flapping", stored)
    ended = [e.dot for e in stored.history.entries if e.state != "Present"]
    concurrent = [e.dot for e in merged.entries if e.dot not in ended]
    base = PolicyRecord(merged, stored.here, stored.actor)
    return _draft_edit(observed, base, known, concurrent, flips)


def _draft_edit(
    observed: ObservedPolicy,
    stored: PolicyRecord,
    known: History,
    concurrent: Iterable[Dot],
    flips: int,
) -> RecordDraft:
    """A user's edit, knowing all but `concurrent`; too many flips quarantine the policy."""
    unseen = frozenset(concurrent)
    seen = [e for e in stored.history.entries if e.dot not in unseen]
    before = max(seen, key=lambda e: e.priority, default=None)
    if count_flips(before, observed.view.member, observed.digest) >= flips:
        return _draft_quarantine(observed, merge(stored.history, known), "Flapping", stored)
    actor = _choose_actor(
        stored, known, observed.view, observed.digest, _resource_version(observed.policy)
    )
    after = append_event(
        stored.history, actor, "Present", observed.content, observed.digest, unseen
    )
    dot = Dot(actor, after.context[actor])
    return RecordDraft(
        merge(after, known), observed.state_at(dot), actor, _superseded_content(stored, known)
    )


def _draft_deletion(view: MemberView, stored: PolicyRecord, known: History) -> RecordDraft:
    """The draft after a user deleted the policy: an event that supersedes all recorded versions."""
    return _draft_event(
        stored, known, view, "Deleted", DELETED_DIGEST, _absent_state(stored.here), ()
    )


def _draft_event(
    stored: PolicyRecord,
    known: History,
    view: MemberView,
    state: State,
    digest: str,
    here: LocalState,
    concurrent: Iterable[Dot],
) -> RecordDraft:
    """The draft after a deletion or orphaning in this member."""
    actor = _choose_actor(stored, known, view, digest, stored.here.seen)
    after = append_event(stored.history, actor, state, Content(), digest, concurrent)
    return RecordDraft(merge(after, known), here, actor, stored.kept)


def _draft_unchanged(stored: PolicyRecord, known: History, here: LocalState) -> RecordDraft:
    """Nothing happened here: only the histories of other members are merged in."""
    return RecordDraft(
        merge(stored.history, known), here, stored.actor, _superseded_content(stored, known)
    )


def _draft_quarantine(
    observed: ObservedPolicy, history: History, reason: Reason, stored: PolicyRecord | None = None
) -> RecordDraft:
    """The draft of a policy that is quarantined: it is kept, and replicated nowhere."""
    here = replace(observed.state_at(None), phase="Quarantined", reason=reason)
    return RecordDraft(history, here, stored.actor if stored is not None else "")


def _absent_state(here: LocalState) -> LocalState:
    """The state of a policy that does not exist; a write under way may still arrive."""
    return LocalState(target=here.target if here.phase in ("Pending", "Released") else None)


def _choose_actor(stored: PolicyRecord, known: History, view: MemberView, *parts: object) -> str:
    """The actor id for the next event: a new one if others know more events of ours than we do."""
    own_count = stored.history.context.get(stored.actor, 0)
    others_know = max(h.context.get(stored.actor, 0) for h in (known, view.known_events))
    if stored.actor and others_know <= own_count:
        return stored.actor
    uid = view.policy.metadata.uid if view.policy is not None else stored.here.uid
    return new_actor_id(view.member, str(view.key), uid, own_count, *parts)


def _superseded_content(stored: PolicyRecord, known: History) -> SupersededContent | None:
    """Content that is overwritten because the member was restored to an earlier state.

    No user decided against it, so the record keeps it.
    """
    own_count = stored.history.context.get(stored.actor, 0)
    if not stored.actor or known.context.get(stored.actor, 0) <= own_count:
        return stored.kept
    merged, lost = merge(stored.history, known), stored.history.winner
    winner = merged.winner
    if lost is None or lost.state != "Present" or merged.entry(lost.dot) is not None:
        return stored.kept
    if winner is not None and winner.digest == lost.digest:
        return stored.kept
    content = lost.content
    return SupersededContent(lost.digest, content.spec, content.labels, content.annotations)


def _resource_version(policy: Policy) -> int:
    """The resourceVersion as a number; 0 if it is no decimal number."""
    version = policy.metadata.resource_version
    return int(version) if version.isdecimal() else 0
