"""Shrinks a schedule that breaks a law to the few steps that it takes."""

from collections.abc import Callable, Iterator

from msgspec.structs import replace

from tests.support.simulator.schedule import Schedule, Step

Breaks = Callable[[Schedule], bool]
"""Whether a schedule still breaks the same law."""

MOST_TRIES = 150
PAUSES = (0.0, 1.0, 40.0)


def shrink(schedule: Schedule, breaks: Breaks, tries: int = MOST_TRIES) -> Schedule:
    """The smallest schedule found that breaks the law: fewer steps first, then shorter pauses."""
    left = tries
    while left:
        for smaller in (*_fewer_steps(schedule), *_shorter_pauses(schedule)):
            left -= 1
            if breaks(smaller):
                schedule = smaller
                break
            if not left:
                break
        else:
            break
    return schedule


def _fewer_steps(schedule: Schedule) -> Iterator[Schedule]:
    """Without halves, quarters and so on, at last without single steps, the latest first."""
    steps, size = schedule.steps, len(schedule.steps)
    while (size := size // 2) > 0:
        for start in reversed(range(0, len(steps), size)):
            rest = (*steps[:start], *steps[start + size :])
            if start and rest:  # what was left out may have taken its time
                waited = sum(step.pause for step in steps[start : start + size])
                before = rest[start - 1]
                rest = (*rest[: start - 1], _longer(before, waited), *rest[start:])
            yield replace(schedule, steps=rest)


def _longer(step: Step, seconds: float) -> Step:
    return replace(step, pause=step.pause + seconds)


def _shorter_pauses(schedule: Schedule) -> Iterator[Schedule]:
    for number, step in enumerate(schedule.steps):
        for pause in PAUSES:
            if pause < step.pause:
                steps = list(schedule.steps)
                steps[number] = replace(step, pause=pause)
                yield replace(schedule, steps=tuple(steps))
