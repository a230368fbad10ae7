"""What people did to a policy in one member, told from its record and from what stands there."""

from collections.abc import Iterable
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from hanse.features.policies.content import Content, Policy, content_of, digest_of, is_federated
from hanse.features.policies.ledger import (
    RESOLVE_MARK,
    Here,
    Kept,
    Lost,
    Mark,
    Reason,
    Record,
    actor_of,
    mark_in,
)
from hanse.features.policies.member_view import Sight
from hanse.features.policies.versions import (
    GONE,
    Dot,
    Entry,
    History,
    State,
    event,
    flips_of,
    merge,
    without_flips,
)

KEEP = "keep"
YIELD = "yield"
LEFT = "Orphaned"


class Draft(Struct, frozen=True):
    """The record as it should be, apart from what is still to be done about the policy."""

    history: History
    here: Here
    actor: str = ""
    kept: Kept | None = None


class Vanished(Struct, frozen=True):
    """What stood here is gone, and whether a person deleted it has to be found out."""

    if_deleted: Draft
    if_not: Draft


class Past(Struct, frozen=True):
    """What is seen is older than what the record knows: better wait."""


Observation: TypeAlias = Draft | Vanished | Past


class _Standing(Struct, frozen=True):
    """A federated policy as it stands in the member."""

    sight: Sight
    policy: Policy
    content: Content
    digest: str
    mark: Mark | None
    before: Here

    def acknowledged(self, dot: Dot | None) -> Here:
        """What stands here is that version."""
        meta, before = self.policy.metadata, self.before
        known = meta.uid in (before.uid, before.former)  # and nothing moves to another namespace
        return Here(
            phase="Applied",
            dot=dot,
            digest=self.digest,
            uid=meta.uid,
            generation=meta.generation,
            seen=_version(self.policy),
            home=before.home if known else self.sight.home,
            definition=before.definition if known else self.sight.definition,
        )

    def says(self, entry: Entry | None) -> bool:
        """Whether it means the same as a version that is to stand."""
        return entry is not None and entry.state == "Present" and entry.digest == self.digest


def observe(sight: Sight, own: Record | Lost, known: History, flips: int) -> Observation:
    """What happened in a member since its record was written."""
    policy = sight.policy
    if isinstance(own, Lost):
        if policy is None or not is_federated(policy):
            return Draft(known, Here())
        return _found(_standing(sight, policy, Here()), known, flips)
    if policy is not None and _version(policy) < own.here.seen:
        return Past()
    if policy is None:
        return _absent(sight, own, known)
    if not is_federated(policy):
        return _plain(sight, policy, own, known)
    standing = _standing(sight, policy, own.here)
    if own.here.phase == "Quarantined":
        return _quarantined(standing, own, known, flips)
    resolved = _resolved(standing, own, known)
    if resolved is not None:
        return resolved
    if own.here.stands:
        return _stood(standing, own, known, flips)
    return _appeared(standing, own, known, flips)


def _standing(sight: Sight, policy: Policy, before: Here) -> _Standing:
    content = content_of(policy)
    mark = mark_in(sight.key, policy.metadata.annotations)
    return _Standing(sight, policy, content, digest_of(content), mark, before)


def _found(it: _Standing, known: History, flips: int) -> Draft | Past:
    """A federated policy of which the member's ledger knows nothing."""
    winner, mark = known.winner, it.mark
    if it.says(winner):
        assert winner is not None
        return Draft(known, it.acknowledged(winner.dot))
    if it.sight.joining and it.sight.joins_others and not known.is_empty:
        return _quarantine(it, known, "Stale")
    if mark is None or it.sight.alone:
        return _created(it, Record(), known, flips)
    if not known.covers(mark.dot):
        heard = it.sight.heard.covers(mark.dot)  # of a member that will tell more when it is back
        return Past() if heard else _quarantine(it, known, "Unknown")
    if winner is None or winner.state != "Present":
        return _quarantine(it, known, "Returned")
    if it.digest == mark.digest:
        return Draft(known, it.acknowledged(mark.dot))
    beside = [e.dot for e in known.entries if e.dot != mark.dot]
    return _edited(it, Record(known), known, beside, flips)


def _stood(it: _Standing, own: Record, known: History, flips: int) -> Draft:
    """A policy of which some version stood here when the record was written."""
    here, merged = own.here, merge(own.history, known)
    if it.digest == here.digest:
        same = here if it.policy.metadata.uid == here.uid else it.acknowledged(here.dot)
        return _draft(own, known, same)
    target = own.history.entry(here.target) if here.target != here.dot else None
    if target is not None and it.mark is not None and it.mark.dot == target.dot:
        return _landed(it, own, known, target, flips)
    if it.says(merged.winner):
        assert merged.winner is not None
        return _draft(own, known, it.acknowledged(merged.winner.dot))
    beside = [target.dot] if target is not None else []
    return _edited(it, own, known, beside, flips)


def _appeared(it: _Standing, own: Record, known: History, flips: int) -> Draft:
    """A policy that was not here when the record was written."""
    here, mark, merged = own.here, it.mark, merge(own.history, known)
    winner = merged.winner
    present = winner is not None and winner.state == "Present"
    target = own.history.entry(here.target)
    ours = target is not None and mark is not None and mark.dot == target.dot
    if target is not None and ours and target.state == "Present":
        return _landed(it, own, known, target, flips)
    if it.says(winner):
        assert winner is not None
        return _draft(own, known, it.acknowledged(winner.dot))
    if mark is None or not merged.covers(mark.dot):
        return _created(it, own, known, flips)
    unedited = it.digest == mark.digest
    if unedited and (present or mark.dot == here.target):
        return _draft(own, known, it.acknowledged(mark.dot))
    if present:
        return _created(it, own, known, flips)
    return _quarantine(it, merged, "Returned", own)


def _landed(it: _Standing, own: Record, known: History, target: Entry, flips: int) -> Draft:
    """Our own write stands here; what admission made of it is no edit, what people did is."""
    meta = it.policy.metadata
    given = own.here.generation if own.here.uid == meta.uid else 1
    same_marks = (it.content.labels, it.content.annotations) == (
        target.content.labels,
        target.content.annotations,
    )
    untouched = meta.generation <= given and same_marks
    if it.digest == target.digest or untouched:
        return _draft(own, known, it.acknowledged(target.dot))
    return _edited(it, own, known, (), flips)


def _absent(sight: Sight, own: Record, known: History) -> Draft | Vanished:
    """No policy of that name."""
    here = own.here
    cleared = _draft(own, known, _cleared(here))
    if not here.stands or here.phase != "Applied":
        return cleared
    winner = cleared.history.winner
    if winner is None or winner.state != "Present":
        return cleared
    if not sight.served or sight.home != here.home or sight.definition != here.definition:
        return cleared
    return Vanished(_deleted(sight, own, known), cleared)


def _plain(sight: Sight, policy: Policy, own: Record, known: History) -> Draft | Vanished:
    """A policy of that name that is its cluster's alone."""
    here = own.here
    cleared = _draft(own, known, _cleared(here))
    winner = cleared.history.winner
    over = winner is None or winner.state != "Present"
    if not here.stands or here.phase == "Quarantined" or over:
        return cleared
    if here.uid == policy.metadata.uid:
        beside = [here.target] if here.target and here.target != here.dot else []
        return _acted(own, known, sight, "Orphaned", LEFT, _cleared(here), beside)
    unmoved = sight.home == here.home and sight.definition == here.definition
    if here.phase == "Applied" and unmoved:
        return Vanished(_deleted(sight, own, known), cleared)
    return cleared


def _quarantined(it: _Standing, own: Record, known: History, flips: int) -> Draft:
    """A policy that waits until it says what all say, or a person decides."""
    merged = merge(own.history, known)
    if it.says(merged.winner):
        assert merged.winner is not None
        return _draft(own, known, it.acknowledged(merged.winner.dot))
    match it.policy.metadata.annotations.get(RESOLVE_MARK, ""):
        case "keep":
            return _decided(it, own, merged, it.content, it.digest)
        case "yield":
            return _draft(own, known, it.acknowledged(None))
        case _ if own.here.reason == "Flapping" and it.digest != own.here.digest:
            return _created(it, own, known, flips)
        case _:
            return _draft(own, known, own.here)


def _resolved(it: _Standing, own: Record, known: History) -> Draft | None:
    """What a person decided about versions that crossed; None where nobody did."""
    told = it.policy.metadata.annotations.get(RESOLVE_MARK, "")
    merged = merge(own.history, known)
    if not told or not merged.overruled or it.digest != own.here.digest:
        return None
    if told == KEEP:
        return _decided(it, own, merged, it.content, it.digest)
    chosen = next((e for e in merged.overruled if e.dot.cluster == told), None)
    if chosen is None or chosen.state != "Present":
        return None
    return _decided(it, own, merged, chosen.content, chosen.digest)


def _decided(it: _Standing, own: Record, merged: History, content: Content, digest: str) -> Draft:
    """A person's word: it takes the place of every version there is."""
    actor = _actor(own, merged, it.sight, it.digest, _version(it.policy))
    after = without_flips(event(merged, actor, "Present", content, digest))
    dot = after.winner.dot if after.winner is not None and digest == it.digest else own.here.dot
    return Draft(after, it.acknowledged(dot), actor)


def _created(it: _Standing, own: Record, known: History, flips: int) -> Draft:
    """Somebody made it here: it ends tombstones known here, and stands beside everything else."""
    merged = merge(own.history, known)
    winner = merged.winner
    if winner is not None and flips_of(winner, it.sight.member, it.digest) >= flips:
        return _quarantine(it, merged, "Flapping", own)
    ended = [e.dot for e in own.history.entries if e.state != "Present"]
    beside = [e.dot for e in merged.entries if e.dot not in ended]
    base = Record(merged, own.here, own.actor)
    return _edited(it, base, known, beside, flips)


def _edited(it: _Standing, own: Record, known: History, beside: Iterable[Dot], flips: int) -> Draft:
    """Somebody changed what stood here, knowing all but what is `beside`."""
    unseen = frozenset(beside)
    seen = [e for e in own.history.entries if e.dot not in unseen]
    before = max(seen, key=lambda e: e.priority, default=None)
    if flips_of(before, it.sight.member, it.digest) >= flips:
        return _quarantine(it, merge(own.history, known), "Flapping", own)
    actor = _actor(own, known, it.sight, it.digest, _version(it.policy))
    after = event(own.history, actor, "Present", it.content, it.digest, unseen)
    dot = Dot(actor, after.context[actor])
    return Draft(merge(after, known), it.acknowledged(dot), actor, _kept(own, known))


def _deleted(sight: Sight, own: Record, known: History) -> Draft:
    return _acted(own, known, sight, "Deleted", GONE, _cleared(own.here), ())


def _acted(
    own: Record,
    known: History,
    sight: Sight,
    state: State,
    digest: str,
    here: Here,
    beside: Iterable[Dot],
) -> Draft:
    actor = _actor(own, known, sight, digest, own.here.seen)
    after = event(own.history, actor, state, Content(), digest, beside)
    return Draft(merge(after, known), here, actor, own.kept)


def _draft(own: Record, known: History, here: Here) -> Draft:
    """Nothing happened here; what others know is taken in."""
    return Draft(merge(own.history, known), here, own.actor, _kept(own, known))


def _quarantine(
    it: _Standing, history: History, reason: Reason, own: Record | None = None
) -> Draft:
    here = replace(it.acknowledged(None), phase="Quarantined", reason=reason)
    return Draft(history, here, own.actor if own is not None else "")


def _cleared(here: Here) -> Here:
    """Nothing stands here; what was on its way may still arrive."""
    return Here(target=here.target if here.phase in ("Pending", "Released") else None)


def _actor(own: Record, known: History, sight: Sight, *what: object) -> str:
    """The name to count under: another one once others know more of ours than we do."""
    ours = own.history.context.get(own.actor, 0)
    told = max(h.context.get(own.actor, 0) for h in (known, sight.heard))
    if own.actor and told <= ours:
        return own.actor
    uid = sight.policy.metadata.uid if sight.policy is not None else own.here.uid
    return actor_of(sight.member, str(sight.key), uid, ours, *what)


def _kept(own: Record, known: History) -> Kept | None:
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
    return Kept(lost.digest, content.spec, content.labels, content.annotations)


def _version(policy: Policy) -> int:
    told = policy.metadata.resource_version
    return int(told) if told.isdecimal() else 0
