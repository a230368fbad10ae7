"""Conditions: one per type, with a transition time that moves only with the status."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Literal

from msgspec.structs import replace

from hanse.model.objects import Value

Truth = Literal["True", "False", "Unknown"]


class Condition(Value, frozen=True, kw_only=True, omit_defaults=False):
    """One `metav1.Condition`; the reason is mandatory, the message is for people."""

    type: str
    status: Truth
    reason: str
    message: str = ""
    last_transition_time: datetime | None = None
    observed_generation: int = 0


def condition(type_: str, status: bool | None, reason: str, message: str = "") -> Condition:
    """A wanted condition, before it is known when it began; None is Unknown."""
    truth: Truth = "Unknown" if status is None else "True" if status else "False"
    return Condition(type=type_, status=truth, reason=reason, message=message)


def merge_conditions(
    standing: Sequence[Condition], wanted: Iterable[Condition], now: datetime, generation: int = 0
) -> tuple[Condition, ...]:
    """The conditions to write: wanted ones in place of their namesakes, others as they stand.

    A condition that says what it said before keeps its time and its place, so that writing it again
    changes nothing.
    """
    fresh = {c.type: c for c in wanted}
    kept = tuple(_settled(old, fresh.pop(old.type, None), now, generation) for old in standing)
    added = tuple(_begun(c, now, generation) for c in fresh.values())
    return kept + added


def find_condition(conditions: Iterable[Condition], type_: str) -> Condition | None:
    """The condition of that type, if it is told."""
    return next((c for c in conditions if c.type == type_), None)


def _settled(old: Condition, new: Condition | None, now: datetime, generation: int) -> Condition:
    if new is None:
        return old
    begun = _begun(new, now, generation)
    if old.status != new.status or old.last_transition_time is None:
        return begun
    return replace(begun, last_transition_time=old.last_transition_time)


def _begun(wanted: Condition, now: datetime, generation: int) -> Condition:
    return replace(
        wanted, last_transition_time=now.replace(microsecond=0), observed_generation=generation
    )
