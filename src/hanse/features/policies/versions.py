"""Versions of one policy: who did what knowing what, merged the same way by everybody.

A history is a register that keeps every version that none of the others knew of. Its context says,
for each writer, up to which of its events everything is known; a version that the context of
another history covers, and that this other history does not hold, was superseded there. So merging
is commutative, associative and idempotent, and no clock takes part in it.
"""

from collections.abc import Iterable, Mapping
from functools import reduce
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from hanse.features.policies.content import Content
from hanse.model.objects import ClusterId

State = Literal["Present", "Deleted", "Orphaned"]
DELETED_DIGEST = "Deleted"
"""What stands for a digest where a policy was deleted."""

_RANK: Mapping[State, int] = {"Orphaned": 2, "Present": 1, "Deleted": 0}


class Dot(Struct, frozen=True, order=True, array_like=True):
    """One event: the name a ledger counts under, and how many it had counted."""

    actor: str
    count: int

    @property
    def cluster(self) -> ClusterId:
        """Where it happened."""
        return self.actor.partition("~")[0]

    def __str__(self) -> str:
        return f"{self.actor}:{self.count}"


class Version(Struct, frozen=True, omit_defaults=True):
    """One version: what somebody made of a policy."""

    dot: Dot
    weight: int
    """The sum of all that was known then, itself included; of what was built on, if not all was."""
    state: State
    digest: str
    content: Content = Content()
    before: str = ""
    """The digest of what it took the place of."""
    flips: int = 0
    """How many times in a row an earlier version was brought back against another cluster's."""

    @property
    def priority(self) -> tuple[int, int, str, int, str]:
        """The fixed rule: who leaves beats who edits, who edits beats who deletes, then the sum."""
        actor, count = self.dot.actor, self.dot.count
        return (_RANK[self.state], self.weight, actor, count, self.digest)


class History(Struct, frozen=True):
    """All that is known of a policy's versions."""

    context: dict[str, int] = {}
    entries: tuple[Version, ...] = ()

    def covers(self, dot: Dot) -> bool:
        """Whether an event is known, be its version still standing or not."""
        return self.context.get(dot.actor, 0) >= dot.count

    def entry(self, dot: Dot | None) -> Version | None:
        """The version of that event, if nothing has taken its place."""
        return next((e for e in self.entries if e.dot == dot), None)

    @property
    def winner(self) -> Version | None:
        """The version that counts, the same for everybody who knows the same."""
        return max(self.entries, key=lambda e: e.priority, default=None)

    @property
    def overruled(self) -> tuple[Version, ...]:
        """The versions that do not count and say something else than the one that does."""
        winner = self.winner
        if winner is None:
            return ()
        return tuple(
            e for e in self.entries if (e.state, e.digest) != (winner.state, winner.digest)
        )

    @property
    def is_empty(self) -> bool:
        return not self.context


EMPTY_HISTORY = History()


def merge(one: History, other: History) -> History:
    """Both histories: what either superseded is gone, what neither did stays."""
    if one == other or other.is_empty:
        return one
    if one.is_empty:
        return other
    kept = {e.dot: e for e in _surviving(one, other)}
    for entry in _surviving(other, one):
        known = kept.get(entry.dot)
        if known is None or known.priority < entry.priority:
            kept[entry.dot] = entry
    actors = sorted(one.context.keys() | other.context.keys())
    context = {a: max(one.context.get(a, 0), other.context.get(a, 0)) for a in actors}
    return History(context, tuple(sorted(kept.values(), key=lambda e: e.dot)))


def merge_all(histories: Iterable[History]) -> History:
    """All histories in one."""
    return reduce(merge, histories, EMPTY_HISTORY)


def _surviving(one: History, other: History) -> Iterable[Version]:
    held = {e.dot for e in other.entries}
    return (e for e in one.entries if e.dot in held or not other.covers(e.dot))


def append_event(
    known: History,
    actor: str,
    state: State,
    content: Content,
    digest: str,
    concurrent: Iterable[Dot] = (),
) -> History:
    """The history after somebody acted; `concurrent` are versions that they did not know of."""
    count = known.context.get(actor, 0) + 1
    context = dict(sorted({**known.context, actor: count}.items()))
    unseen = frozenset(concurrent)
    seen = [e for e in known.entries if e.dot not in unseen]
    before = max(seen, key=lambda e: e.priority, default=None)
    dot = Dot(actor, count)
    entry = Version(
        dot,
        sum(context.values()) if not unseen else 1 + max((e.weight for e in seen), default=0),
        state,
        digest,
        content,
        before.digest if before is not None else "",
        count_flips(before, dot.cluster, digest),
    )
    kept = [e for e in known.entries if e.dot in unseen]
    return History(context, tuple(sorted([*kept, entry], key=lambda e: e.dot)))


def count_flips(before: Version | None, cluster: ClusterId, digest: str) -> int:
    """How often in a row something was brought back, if this happened now."""
    if before is None or before.before != digest or before.dot.cluster == cluster:
        return 0
    return before.flips + 1


def reset_flips(history: History) -> History:
    """The same history with nothing counted against anybody: a person has decided."""
    return replace(history, entries=tuple(replace(e, flips=0) for e in history.entries))
