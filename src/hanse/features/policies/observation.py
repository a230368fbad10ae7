"""What people did to a policy in one member, told from its record and from what stands there."""

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
    """The record as it should be, apart from what is still to be done about the policy."""

    history: History
    here: LocalState
    actor: str = ""
    kept: SupersededContent | None = None


class Disappeared(Struct, frozen=True):
    """What stood here is gone, and whether a person deleted it has to be found out."""

    if_deleted: RecordDraft
    if_not: RecordDraft


class StaleRead(Struct, frozen=True):
    """What is seen is older than what the record knows: better wait."""


Observation: TypeAlias = RecordDraft | Disappeared | StaleRead


class ObservedPolicy(Struct, frozen=True):
    """A federated policy as it stands in the member."""

    view: MemberView
    policy: Policy
    content: Content
    digest: str
    mark: VersionMark | None
    before: LocalState

    def state_at(self, dot: Dot | None) -> LocalState:
        """What stands here is that version."""
        meta, before = self.policy.metadata, self.before
        known = meta.uid in (before.uid, before.former)  # and nothing moves to another namespace
        return LocalState(
            phase="Applied",
            dot=dot,
            digest=self.digest,
            uid=meta.uid,
            generation=meta.generation,
            seen=_version(self.policy),
            home=before.home if known else self.view.home,
            definition=before.definition if known else self.view.definition,
        )

    def matches(self, entry: Version | None) -> bool:
        """Whether it means the same as a version that is to stand."""
        return entry is not None and entry.state == "Present" and entry.digest == self.digest


def observe(
    view: MemberView, own: PolicyRecord | MissingRecord, known: History, flips: int
) -> Observation:
    """What happened in a member since its record was written."""
    policy = view.policy
    if isinstance(own, MissingRecord):
        if policy is None or not is_federated(policy):
            return RecordDraft(known, LocalState())
        return _found(_standing(view, policy, LocalState()), known, flips)
    if policy is not None and _version(policy) < own.here.seen:
        return StaleRead()
    if policy is None:
        return _absent(view, own, known)
    if not is_federated(policy):
        return _plain(view, policy, own, known)
    standing = _standing(view, policy, own.here)
    if own.here.phase == "Quarantined":
        return _quarantined(standing, own, known, flips)
    resolved = _resolved(standing, own, known)
    if resolved is not None:
        return resolved
    if own.here.exists:
        return _stood(standing, own, known, flips)
    return _appeared(standing, own, known, flips)


def _standing(view: MemberView, policy: Policy, before: LocalState) -> ObservedPolicy:
    content = replicated_content(policy)
    mark = parse_version_annotation(view.key, policy.metadata.annotations)
    return ObservedPolicy(view, policy, content, content_digest(content), mark, before)


def _found(observed: ObservedPolicy, known: History, flips: int) -> RecordDraft | StaleRead:
    """A federated policy of which the member's ledger knows nothing."""
    winner, mark = known.winner, observed.mark
    if observed.matches(winner):
        assert winner is not None
        return RecordDraft(known, observed.state_at(winner.dot))
    if observed.view.joining and observed.view.joins_others and not known.is_empty:
        return _quarantine(observed, known, "Stale")
    if mark is None or observed.view.alone:
        return _created(observed, PolicyRecord(), known, flips)
    if not known.covers(mark.dot):
        known_events = observed.view.known_events.covers(
            mark.dot
        )  # of a member that will tell more when it is back
        return StaleRead() if known_events else _quarantine(observed, known, "Unknown")
    if winner is None or winner.state != "Present":
        return _quarantine(observed, known, "Returned")
    if observed.digest == mark.digest:
        return RecordDraft(known, observed.state_at(mark.dot))
    concurrent = [e.dot for e in known.entries if e.dot != mark.dot]
    return _edited(observed, PolicyRecord(known), known, concurrent, flips)


def _stood(observed: ObservedPolicy, own: PolicyRecord, known: History, flips: int) -> RecordDraft:
    """A policy of which some version stood here when the record was written."""
    here, merged = own.here, merge(own.history, known)
    if observed.digest == here.digest:
        same = here if observed.policy.metadata.uid == here.uid else observed.state_at(here.dot)
        return _draft(own, known, same)
    target = own.history.entry(here.target) if here.target != here.dot else None
    if target is not None and observed.mark is not None and observed.mark.dot == target.dot:
        return _landed(observed, own, known, target, flips)
    if observed.matches(merged.winner):
        assert merged.winner is not None
        return _draft(own, known, observed.state_at(merged.winner.dot))
    concurrent = [target.dot] if target is not None else []
    return _edited(observed, own, known, concurrent, flips)


def _appeared(
    observed: ObservedPolicy, own: PolicyRecord, known: History, flips: int
) -> RecordDraft:
    """A policy that was not here when the record was written."""
    here, mark, merged = own.here, observed.mark, merge(own.history, known)
    winner = merged.winner
    present = winner is not None and winner.state == "Present"
    target = own.history.entry(here.target)
    ours = target is not None and mark is not None and mark.dot == target.dot
    if target is not None and ours and target.state == "Present":
        return _landed(observed, own, known, target, flips)
    if observed.matches(winner):
        assert winner is not None
        return _draft(own, known, observed.state_at(winner.dot))
    if mark is None or not merged.covers(mark.dot):
        return _created(observed, own, known, flips)
    unedited = observed.digest == mark.digest
    if unedited and (present or mark.dot == here.target):
        return _draft(own, known, observed.state_at(mark.dot))
    if present:
        return _created(observed, own, known, flips)
    return _quarantine(observed, merged, "Returned", own)


def _landed(
    observed: ObservedPolicy, own: PolicyRecord, known: History, target: Version, flips: int
) -> RecordDraft:
    """Our own write stands here; what admission made of it is no edit, what people did is."""
    meta = observed.policy.metadata
    given = own.here.generation if own.here.uid == meta.uid else 1
    same_marks = (observed.content.labels, observed.content.annotations) == (
        target.content.labels,
        target.content.annotations,
    )
    untouched = meta.generation <= given and same_marks
    if observed.digest == target.digest or untouched:
        return _draft(own, known, observed.state_at(target.dot))
    return _edited(observed, own, known, (), flips)


def _absent(view: MemberView, own: PolicyRecord, known: History) -> RecordDraft | Disappeared:
    """No policy of that name."""
    here = own.here
    cleared = _draft(own, known, _cleared(here))
    if not here.exists or here.phase != "Applied":
        return cleared
    winner = cleared.history.winner
    if winner is None or winner.state != "Present":
        return cleared
    if not view.served or view.home != here.home or view.definition != here.definition:
        return cleared
    return Disappeared(_deleted(view, own, known), cleared)


def _plain(
    view: MemberView, policy: Policy, own: PolicyRecord, known: History
) -> RecordDraft | Disappeared:
    """A policy of that name that is its cluster's alone."""
    here = own.here
    cleared = _draft(own, known, _cleared(here))
    winner = cleared.history.winner
    over = winner is None or winner.state != "Present"
    if not here.exists or here.phase == "Quarantined" or over:
        return cleared
    if here.uid == policy.metadata.uid:
        concurrent = [here.target] if here.target and here.target != here.dot else []
        return _acted(own, known, view, "Orphaned", ORPHANED_DIGEST, _cleared(here), concurrent)
    unmoved = view.home == here.home and view.definition == here.definition
    if here.phase == "Applied" and unmoved:
        return Disappeared(_deleted(view, own, known), cleared)
    return cleared


def _quarantined(
    observed: ObservedPolicy, own: PolicyRecord, known: History, flips: int
) -> RecordDraft:
    """A policy that waits until it says what all say, or a person decides."""
    merged = merge(own.history, known)
    if observed.matches(merged.winner):
        assert merged.winner is not None
        return _draft(own, known, observed.state_at(merged.winner.dot))
    match observed.policy.metadata.annotations.get(RESOLVE_ANNOTATION, ""):
        case "keep":
            return _decided(observed, own, merged, observed.content, observed.digest)
        case "yield":
            return _draft(own, known, observed.state_at(None))
        case _ if own.here.reason == "Flapping" and observed.digest != own.here.digest:
            return _created(observed, own, known, flips)
        case _:
            return _draft(own, known, own.here)


def _resolved(observed: ObservedPolicy, own: PolicyRecord, known: History) -> RecordDraft | None:
    """What a person decided about versions that crossed; None where nobody did."""
    told = observed.policy.metadata.annotations.get(RESOLVE_ANNOTATION, "")
    merged = merge(own.history, known)
    if not told or not merged.overruled or observed.digest != own.here.digest:
        return None
    if told == KEEP:
        return _decided(observed, own, merged, observed.content, observed.digest)
    chosen = next((e for e in merged.overruled if e.dot.cluster == told), None)
    if chosen is None or chosen.state != "Present":
        return None
    return _decided(observed, own, merged, chosen.content, chosen.digest)


def _decided(
    observed: ObservedPolicy, own: PolicyRecord, merged: History, content: Content, digest: str
) -> RecordDraft:
    """A person's word: it takes the place of every version there is."""
    actor = _actor(own, merged, observed.view, observed.digest, _version(observed.policy))
    after = reset_flips(append_event(merged, actor, "Present", content, digest))
    dot = (
        after.winner.dot if after.winner is not None and digest == observed.digest else own.here.dot
    )
    return RecordDraft(after, observed.state_at(dot), actor)


def _created(
    observed: ObservedPolicy, own: PolicyRecord, known: History, flips: int
) -> RecordDraft:
    """Somebody made it here: it ends tombstones known here, and stands beside everything else."""
    merged = merge(own.history, known)
    winner = merged.winner
    if winner is not None and count_flips(winner, observed.view.member, observed.digest) >= flips:
        return _quarantine(observed, merged, "Flapping", own)
    ended = [e.dot for e in own.history.entries if e.state != "Present"]
    concurrent = [e.dot for e in merged.entries if e.dot not in ended]
    base = PolicyRecord(merged, own.here, own.actor)
    return _edited(observed, base, known, concurrent, flips)


def _edited(
    observed: ObservedPolicy,
    own: PolicyRecord,
    known: History,
    concurrent: Iterable[Dot],
    flips: int,
) -> RecordDraft:
    """Somebody changed what stood here, knowing all but what is `concurrent`."""
    unseen = frozenset(concurrent)
    seen = [e for e in own.history.entries if e.dot not in unseen]
    before = max(seen, key=lambda e: e.priority, default=None)
    if count_flips(before, observed.view.member, observed.digest) >= flips:
        return _quarantine(observed, merge(own.history, known), "Flapping", own)
    actor = _actor(own, known, observed.view, observed.digest, _version(observed.policy))
    after = append_event(own.history, actor, "Present", observed.content, observed.digest, unseen)
    dot = Dot(actor, after.context[actor])
    return RecordDraft(merge(after, known), observed.state_at(dot), actor, _kept(own, known))


def _deleted(view: MemberView, own: PolicyRecord, known: History) -> RecordDraft:
    return _acted(own, known, view, "Deleted", DELETED_DIGEST, _cleared(own.here), ())


def _acted(
    own: PolicyRecord,
    known: History,
    view: MemberView,
    state: State,
    digest: str,
    here: LocalState,
    concurrent: Iterable[Dot],
) -> RecordDraft:
    actor = _actor(own, known, view, digest, own.here.seen)
    after = append_event(own.history, actor, state, Content(), digest, concurrent)
    return RecordDraft(merge(after, known), here, actor, own.kept)


def _draft(own: PolicyRecord, known: History, here: LocalState) -> RecordDraft:
    """Nothing happened here; what others know is taken in."""
    return RecordDraft(merge(own.history, known), here, own.actor, _kept(own, known))


def _quarantine(
    observed: ObservedPolicy, history: History, reason: Reason, own: PolicyRecord | None = None
) -> RecordDraft:
    here = replace(observed.state_at(None), phase="Quarantined", reason=reason)
    return RecordDraft(history, here, own.actor if own is not None else "")


def _cleared(here: LocalState) -> LocalState:
    """Nothing stands here; what was on its way may still arrive."""
    return LocalState(target=here.target if here.phase in ("Pending", "Released") else None)


def _actor(own: PolicyRecord, known: History, view: MemberView, *what: object) -> str:
    """The name to count under: another one once others know more of ours than we do."""
    ours = own.history.context.get(own.actor, 0)
    told = max(h.context.get(own.actor, 0) for h in (known, view.known_events))
    if own.actor and told <= ours:
        return own.actor
    uid = view.policy.metadata.uid if view.policy is not None else own.here.uid
    return new_actor_id(view.member, str(view.key), uid, ours, *what)


def _kept(own: PolicyRecord, known: History) -> SupersededContent | None:
    """What gives way because the member went back in time: no person decided against it."""
    ours = own.history.context.get(own.actor, 0)
    if not own.actor or known.context.get(own.actor, 0) <= ours:
        return own.kept
    merged, lost = merge(own.history, known), own.history.winner
    winner = merged.winner
    if lost is None or lost.state != "Present" or merged.entry(lost.dot) is not None:
        return own.kept
    if winner is not None and winner.digest == lost.digest:
        return own.kept
    content = lost.content
    return SupersededContent(lost.digest, content.spec, content.labels, content.annotations)


def _version(policy: Policy) -> int:
    told = policy.metadata.resource_version
    return int(told) if told.isdecimal() else 0
