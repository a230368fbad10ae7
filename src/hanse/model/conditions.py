"""Status conditions: one per type, with a transition time that changes only with the status."""

from collections.abc import Iterable
from datetime import datetime
from typing import Literal

from msgspec.structs import replace

from hanse.model.objects import Value

Truth = Literal["True", "False", "Unknown"]

MAX_MESSAGE_LENGTH = 32768
"""The API refuses conditions with a longer message."""


class Condition(Value, frozen=True, kw_only=True, omit_defaults=False):
    """One `metav1.Condition`; the reason is mandatory, the message is for people."""

    type: str
    status: Truth
    reason: str
    message: str = ""
    last_transition_time: datetime | None = None
    observed_generation: int = 0


def condition(type_: str, status: bool | None, reason: str, message: str = "") -> Condition:
    """A condition without transition time, which `merge_conditions` sets; None becomes Unknown.

    A message that the API would refuse is cut.
    """
    truth: Truth = "Unknown" if status is None else "True" if status else "False"
    return Condition(type=type_, status=truth, reason=reason, message=message[:MAX_MESSAGE_LENGTH])


def merge_conditions(
    current: Iterable[Condition], desired: Iterable[Condition], now: datetime, generation: int = 0
) -> tuple[Condition, ...]:
    """The conditions to write: desired ones replace those of the same type, others stay unchanged.

    Replaced ones keep their place, new ones come last. A desired one gets `generation`, and `now`
    in whole seconds as transition time; if the status is as before it keeps the transition time it
    had.
    """
    new_by_type = {c.type: c for c in desired}
    kept = tuple(
        _update_condition(old, new_by_type.pop(old.type, None), now, generation) for old in current
    )
    added = tuple(_with_transition(c, now, generation) for c in new_by_type.values())
    return kept + added


def find_condition(conditions: Iterable[Condition], type_: str) -> Condition | None:
    """The condition of that type, or None."""
    return next((c for c in conditions if c.type == type_), None)


def _update_condition(
    old: Condition, new: Condition | None, now: datetime, generation: int
) -> Condition:
    """The new condition with the generation; `old`, unchanged, if there is no new one.

    It has the old transition time if the status is equal and that time is set, else `now`.
    """
    if new is None:
        return old
    changed = _with_transition(new, now, generation)
    if old.status != new.status or old.last_transition_time is None:
        return changed
    return replace(changed, last_transition_time=old.last_transition_time)


def _with_transition(desired: Condition, now: datetime, generation: int) -> Condition:
    """The condition with `now`, in whole seconds, as transition time, and the generation."""
    return replace(
        desired, last_transition_time=now.replace(microsecond=0), observed_generation=generation
    )
