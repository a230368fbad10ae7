"""What plans have read at this very moment, where watches may lag behind each other."""

from collections.abc import Iterable, Sequence
from datetime import timedelta

from hanse.model.facts import Answer
from hanse.model.objects import Wire
from hanse.model.plan import Question, Read
from hanse.model.snapshot import Snapshot

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
