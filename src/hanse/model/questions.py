"""Questions that plans ask: host lookups and live reads, with their last answers."""

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any

from msgspec import Struct

from hanse.model.facts import Answer, is_recent
from hanse.model.objects import Wire
from hanse.model.plan import Call, Question, Read
from hanse.model.snapshot import Snapshot

MIN_TTL = timedelta(seconds=5)
MAX_TTL = timedelta(hours=1)
PROVIDER = "resolve"

MAX_READ_AGE = timedelta(seconds=3)
"""The age up to which the answer of a live read counts as fresh."""


class HostLookup(Struct, frozen=True):
    """The last answer for a host name, and the question that keeps it current."""

    question: Question
    addresses: tuple[str, ...] | None
    """None if not known now; empty if the name does not exist."""
    error: str = ""

    @property
    def requeue_after(self) -> timedelta:
        """After how long the question is due again."""
        return self.question.max_age


def host_lookup(host: str, snapshot: Snapshot) -> HostLookup:
    """The addresses of a host as last answered, and the question, due again after the answer's TTL.

    The TTL is held within 5 seconds and 1 hour. Before an answer and after an error the addresses
    are None, and the question is due after 5 seconds.
    """
    call = Call(PROVIDER, (("host", host),))
    answer = snapshot.fact(Answer, call.id)
    if answer is None or answer.value is None:
        error = answer.error if answer is not None else ""
        return HostLookup(Question(call, MIN_TTL), None, error)
    value: dict[str, Any] = answer.value
    ttl = min(max(timedelta(seconds=value.get("ttl", 0)), MIN_TTL), MAX_TTL)
    return HostLookup(Question(call, ttl), tuple(value.get("addresses", ())))


def fresh_values(reads: Sequence[Read], snapshot: Snapshot) -> tuple[Wire | None, ...] | None:
    """The objects of live reads in their order, None for an absent one, by answers in the snapshot.

    None instead of the tuple if any answer is missing, is an error, or has reached MAX_READ_AGE.
    """
    found = [snapshot.fact(Answer, read.id) for read in reads]
    known = [
        a
        for a in found
        if a is not None and not a.error and is_recent(a.at, snapshot.now, MAX_READ_AGE)
    ]
    return tuple(answer.value for answer in known) if len(known) == len(reads) else None


def fresh_read_questions(reads: Iterable[Read]) -> tuple[Question, ...]:
    """A question for each live read, in their order, due again after MAX_READ_AGE."""
    return tuple(Question(read, MAX_READ_AGE) for read in reads)


def live_uid(read: Wire | None) -> str:
    """The uid of an object that was read; empty if it is absent or being deleted."""
    meta = read.get("metadata", {}) if read is not None else {}
    return "" if meta.get("deletionTimestamp") else str(meta.get("uid", ""))
