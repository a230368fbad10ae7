"""Drafts of a policy's record after an event: what is known, and the state here."""

from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from hanse.features.policies.content import (
    Content,
    Policy,
)
from hanse.features.policies.ledger import (
    LocalState,
    PolicyRecord,
    Reason,
    SupersededContent,
    VersionMark,
    new_actor_id,
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
)


class RecordDraft(Struct, frozen=True):
    """The new record, before it is decided what to write to the policy."""

    history: History
    here: LocalState
    actor: str = ""
    kept: SupersededContent | None = None


class ObservedPolicy(Struct, frozen=True):
    """A federated policy that exists in the member, and its last recorded state."""

    view: MemberView
    policy: Policy
    content: Content
    digest: str
    version: VersionMark | None
    before: LocalState

    def state_at(self, dot: Dot | None) -> LocalState:
        """The state Applied of this policy as a version; `dot` None: as none that is known.

        The object that was recorded keeps the recorded uids of namespace and definition, another
        one has those there now.
        """
        meta, before = self.policy.metadata, self.before
        known = meta.uid in (before.uid, before.former)  # objects never change their namespace
        return LocalState(
            phase="Applied",
            dot=dot,
            digest=self.digest,
            uid=meta.uid,
            generation=meta.generation,
            seen=version_number(self.policy),
            home=before.home if known else self.view.namespace_uid,
            definition=before.definition if known else self.view.definition_uid,
        )

    def matches(self, version: Version | None) -> bool:
        """Whether a version is Present and has the digest of the policy; False for None."""
        return version is not None and version.state == "Present" and version.digest == self.digest


def draft_creation(
    observed: ObservedPolicy, stored: PolicyRecord, known: History, max_flips: int
) -> RecordDraft:
    """The draft after a user created the policy: a new version in the members' merged history.

    It supersedes only the deletions and orphanings in the member's own record. Instead, the policy
    is quarantined as Flapping if clusters have undone each other's versions `max_flips` times in a
    row.
    """
    merged = merge(stored.history, known)
    winner = merged.winner
    if (
        winner is not None
        and count_flips(winner, observed.view.member, observed.digest) >= max_flips
    ):
        return draft_quarantine(observed, merged, "Flapping", stored)
    ended = [e.dot for e in stored.history.entries if e.state != "Present"]
    concurrent = [e.dot for e in merged.entries if e.dot not in ended]
    base = PolicyRecord(merged, stored.here, stored.actor, stored.kept)
    return draft_edit(observed, base, known, concurrent, max_flips)


def draft_edit(
    observed: ObservedPolicy,
    stored: PolicyRecord,
    known: History,
    concurrent: Iterable[Dot],
    max_flips: int,
) -> RecordDraft:
    """The draft after a user's edit, which supersedes all versions in `stored` but `concurrent`.

    Versions that only `known`, the merged history of all members, has stay beside it. If by this
    edit clusters undo each other for the `max_flips`th time in a row, the policy is quarantined as
    Flapping instead, without a new version.
    """
    unseen = frozenset(concurrent)
    seen = [e for e in stored.history.entries if e.dot not in unseen]
    before = max(seen, key=lambda e: e.priority, default=None)
    if count_flips(before, observed.view.member, observed.digest) >= max_flips:
        return draft_quarantine(observed, merge(stored.history, known), "Flapping", stored)
    actor = choose_actor(
        stored, known, observed.view, observed.digest, version_number(observed.policy)
    )
    after = append_event(
        stored.history, actor, "Present", observed.content, observed.digest, unseen
    )
    dot = Dot(actor, after.context[actor])
    return RecordDraft(
        merge(after, known), observed.state_at(dot), actor, superseded_content(stored, known)
    )


def draft_deletion(view: MemberView, stored: PolicyRecord, known: History) -> RecordDraft:
    """The draft after a user deleted the policy: an event that supersedes all recorded versions.

    Versions that only `known`, the merged history of all members, has stay beside it.
    """
    return draft_event(
        stored, known, view, "Deleted", DELETED_DIGEST, absent_state(stored.here), ()
    )


def draft_event(
    stored: PolicyRecord,
    known: History,
    view: MemberView,
    state: State,
    digest: str,
    here: LocalState,
    concurrent: Iterable[Dot],
) -> RecordDraft:
    """The draft after a deletion or orphaning (`state`) in this member, which is `here` then.

    The event supersedes all stored versions but `concurrent`, which the user did not know; versions
    that only `known`, the merged history of all members, has stay beside it.
    """
    actor = choose_actor(stored, known, view, digest, stored.here.seen)
    after = append_event(stored.history, actor, state, Content(), digest, concurrent)
    return RecordDraft(merge(after, known), here, actor, stored.kept)


def draft_unchanged(stored: PolicyRecord, known: History, here: LocalState) -> RecordDraft:
    """The draft without a new event: state `here`, and the stored history merged with `known`.

    It keeps content that is lost by a restore of the member, as `superseded_content` says.
    """
    return RecordDraft(
        merge(stored.history, known), here, stored.actor, superseded_content(stored, known)
    )


def draft_quarantine(
    observed: ObservedPolicy, history: History, reason: Reason, stored: PolicyRecord | None = None
) -> RecordDraft:
    """The draft that records a policy as Quarantined, at no version, with this reason and history.

    The actor id, and content that a restore superseded, are those of `stored`.
    """
    here = replace(observed.state_at(None), phase="Quarantined", reason=reason)
    if stored is None:
        return RecordDraft(history, here)
    return RecordDraft(history, here, stored.actor, stored.kept)


def absent_state(here: LocalState) -> LocalState:
    """The state of a policy that does not exist here: Pending, without a uid.

    It keeps the target of `here`, a write that may be unfinished, if that is Pending or Released.
    """
    return LocalState(target=here.target if here.phase in ("Pending", "Released") else None)


def choose_actor(stored: PolicyRecord, known: History, view: MemberView, *parts: object) -> str:
    """The actor id for the next event: the stored one, unless others know more of its events.

    Then, or without a stored one, a new id into which `parts` are hashed, so that it differs from
    earlier ones.
    """
    own_count = stored.history.context.get(stored.actor, 0)
    others_know = max(h.context.get(stored.actor, 0) for h in (known, view.known_events))
    if stored.actor and others_know <= own_count:
        return stored.actor
    uid = view.policy.metadata.uid if view.policy is not None else stored.here.uid
    return new_actor_id(view.member, str(view.key), uid, own_count, *parts)


def superseded_content(stored: PolicyRecord, known: History) -> SupersededContent | None:
    """The content to keep in the record because a restore of the member lost it.

    That of the stored winner, if it is Present, other members know later events of the record's
    actor, and the merge with `known` supersedes it by other content. Else what the record keeps
    already, which may be None.
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


def version_number(policy: Policy) -> int:
    """The resourceVersion as a number; 0 if it is no decimal number."""
    version = policy.metadata.resource_version
    return int(version) if version.isdecimal() else 0
