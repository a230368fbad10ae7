"""Host names that plans need the addresses of: what is asked, and what is known."""

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any

from msgspec import Struct

from hanse.model.facts import Answer
from hanse.model.objects import Wire
from hanse.model.plan import Call, Question, Read
from hanse.model.snapshot import Snapshot

LEAST_TTL = timedelta(seconds=5)
MOST_TTL = timedelta(hours=1)
PROVIDER = "resolve"


class HostLookup(Struct, frozen=True):
    """What is known of a host name, and the question that keeps it so."""

    question: Question
    addresses: tuple[str, ...] | None
    """None: it is not known now; empty: nobody has that name."""
    error: str = ""

    @property
    def requeue_after(self) -> timedelta:
        """When the question is to be asked once more."""
        return self.question.max_age


def host_lookup(host: str, snapshot: Snapshot) -> HostLookup:
    """The addresses of a host, as far as they are known, for as long as its records hold."""
    call = Call(PROVIDER, (("host", host),))
    answer = snapshot.fact(Answer, call.id)
    if answer is None or answer.value is None:
        error = answer.error if answer is not None else ""
        return HostLookup(Question(call, LEAST_TTL), None, error)
    value: dict[str, Any] = answer.value
    ttl = min(max(timedelta(seconds=value.get("ttl", 0)), LEAST_TTL), MOST_TTL)
    return HostLookup(Question(call, ttl), tuple(value.get("addresses", ())))


FRESH = timedelta(seconds=3)


def fresh_values(reads: Sequence[Read], snapshot: Snapshot) -> tuple[Wire | None, ...] | None:
    """What is there in each place, None for nothing; None of all while any of it is not known."""
    found = [snapshot.fact(Answer, read.id) for read in reads]
    known = [a for a in found if a is not None and not a.error and snapshot.now - a.at < FRESH]
    return tuple(answer.value for answer in known) if len(known) == len(reads) else None


def fresh_read_questions(reads: Iterable[Read]) -> tuple[Question, ...]:
    """The questions whose answers count as read just now."""
    return tuple(Question(read, FRESH) for read in reads)


def live_uid(read: Wire | None) -> str:
    """The uid of what was read; empty where nothing is, or it is going."""
    meta = read.get("metadata", {}) if read is not None else {}
    return "" if meta.get("deletionTimestamp") else str(meta.get("uid", ""))
