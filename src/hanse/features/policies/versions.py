"""Versions of one policy and their merge: a multi-value register with a dotted version vector.

A history keeps every version that no other version supersedes. Its context is a version vector: for
each actor, the number of its events that are known. A version that the context of another history
covers, but that the other history does not contain, was superseded there. Merging is therefore
commutative, associative and idempotent, and uses no clock.
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
"""The digest of a version that is a deletion."""

_STATE_RANK: Mapping[State, int] = {"Orphaned": 2, "Present": 1, "Deleted": 0}


class Dot(Struct, frozen=True, order=True, array_like=True):
    """One event: the actor id under which a ledger counts, and its number."""

    actor: str
    count: int

    @property
    def cluster(self) -> ClusterId:
        """The cluster in which the event happened."""
        return self.actor.partition("~")[0]

    def __str__(self) -> str:
        """`ACTOR:COUNT`."""
        return f"{self.actor}:{self.count}"


class Version(Struct, frozen=True, omit_defaults=True):
    """One version of a policy: the result of a user's action."""

    dot: Dot
    weight: int
    """The number of events known when it was made, itself included; in case of concurrent versions
    that were not known, one more than the largest weight of those that were."""
    state: State
    digest: str
    content: Content = Content()
    before: str = ""
    """The digest of the version that it replaced."""
    flips: int = 0
    """How many times in a row an earlier version was restored against another cluster's."""

    @property
    def priority(self) -> tuple[int, int, str, int, str]:
        """Sort key of conflicting versions, the highest wins: orphaned, present, deleted.

        Then the larger weight, actor id, count and digest.
        """
        actor, count = self.dot.actor, self.dot.count
        return (_STATE_RANK[self.state], self.weight, actor, count, self.digest)


class History(Struct, frozen=True):
    """All known versions of a policy that are not superseded."""

    context: dict[str, int] = {}
    entries: tuple[Version, ...] = ()

    def covers(self, dot: Dot) -> bool:
        """Whether an event is known, superseded or not."""
        return self.context.get(dot.actor, 0) >= dot.count

    def entry(self, dot: Dot | None) -> Version | None:
        """The version of an event; None if it is superseded or unknown, or the event is None."""
        return next((e for e in self.entries if e.dot == dot), None)

    @property
    def winner(self) -> Version | None:
        """The version of the highest priority; None for a history without versions."""
        return max(self.entries, key=lambda e: e.priority, default=None)

    @property
    def overruled(self) -> tuple[Version, ...]:
        """The versions that differ from the winner in state or content; none without a winner."""
        winner = self.winner
        if winner is None:
            return ()
        return tuple(
            e for e in self.entries if (e.state, e.digest) != (winner.state, winner.digest)
        )

    @property
    def is_empty(self) -> bool:
        """Whether no event is known; a history of superseded versions is not empty."""
        return not self.context


EMPTY_HISTORY = History()


def merge(one: History, other: History) -> History:
    """The merge of two histories, without versions that one contains and the other has superseded.

    Each actor's count in the context is the larger one. Of two versions with the same dot the one
    of higher priority is kept.
    """
    if one == other or other.is_empty:
        return one
    if one.is_empty:
        return other
    kept = {e.dot: e for e in _not_superseded(one, other)}
    for entry in _not_superseded(other, one):
        known = kept.get(entry.dot)
        if known is None or known.priority < entry.priority:
            kept[entry.dot] = entry
    actors = sorted(one.context.keys() | other.context.keys())
    context = {a: max(one.context.get(a, 0), other.context.get(a, 0)) for a in actors}
    return History(context, tuple(sorted(kept.values(), key=lambda e: e.dot)))


def merge_all(histories: Iterable[History]) -> History:
    """The merge of any number of histories; the empty history for none."""
    return reduce(merge, histories, EMPTY_HISTORY)


def _not_superseded(one: History, other: History) -> Iterable[Version]:
    """The versions of `one` that `other` contains too, or whose events `other` does not know."""
    contained = {e.dot for e in other.entries}
    return (e for e in one.entries if e.dot in contained or not other.covers(e.dot))


def append_event(
    known: History,
    actor: str,
    state: State,
    content: Content,
    digest: str,
    concurrent: Iterable[Dot] = (),
) -> History:
    """A new history: `known` with one more event of an actor, which supersedes the versions in it.

    Only the versions of `concurrent` dots, which the user did not know, stay beside the new one.
    """
    count = known.context.get(actor, 0) + 1
    context = dict(sorted({**known.context, actor: count}.items()))
    unknown = frozenset(concurrent)
    superseded = [e for e in known.entries if e.dot not in unknown]
    before = max(superseded, key=lambda e: e.priority, default=None)
    dot = Dot(actor, count)
    entry = Version(
        dot,
        sum(context.values())
        if not unknown
        else 1 + max((e.weight for e in superseded), default=0),
        state,
        digest,
        content,
        before.digest if before is not None else "",
        count_flips(before, dot.cluster, digest),
    )
    kept = [e for e in known.entries if e.dot in unknown]
    return History(context, tuple(sorted([*kept, entry], key=lambda e: e.dot)))


def count_flips(before: Version | None, cluster: ClusterId, digest: str) -> int:
    """How often in a row clusters undid each other, if `cluster` replaces `before` by this digest.

    One more than the flips of `before` if that was made in another cluster and had replaced this
    very digest; else 0.
    """
    if before is None or before.before != digest or before.dot.cluster == cluster:
        return 0
    return before.flips + 1


def reset_flips(history: History) -> History:
    """The history with all flips reset, after a user resolved the conflict."""
    return replace(history, entries=tuple(replace(e, flips=0) for e in history.entries))
