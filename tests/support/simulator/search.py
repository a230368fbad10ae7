"""Searches for schedules that break a law, led by what no schedule did before."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random

from msgspec import Struct
from msgspec.structs import replace

from tests.support.simulator.behaviour import Behaviour
from tests.support.simulator.forks import StartedFleets, Wanted
from tests.support.simulator.part import Part
from tests.support.simulator.report import Played
from tests.support.simulator.runner import PARTS, parts_of
from tests.support.simulator.schedule import (
    PAUSES,
    Schedule,
    Step,
    StepKind,
    draw_schedule,
    is_lagging,
)

Kinds = Mapping[str, Sequence[StepKind]]
FRESH = 0.25
"""The share of schedules that are drawn anew instead of changed from an interesting one."""
MOST_STEPS = 40


class Interesting(Struct):
    """A schedule that did something first, and how much; less each time that it is chosen."""

    schedule: Schedule
    weight: float


class Search:
    """An endless sequence of schedules, a function of its seed."""

    def __init__(
        self, seed: int, kinds: Kinds, parts: Sequence[type[Part]], fleets: StartedFleets
    ) -> None:
        self._fleets = fleets
        self._random = Random(seed)
        self._parts = tuple(parts)
        self._kinds = kinds
        self._corpus: list[Interesting] = []
        self._seen: set[object] = set()

    @property
    def behaviours(self) -> int:
        """How many branches and messages were seen."""
        return len(self._seen)

    def play(self, until: Callable[[], bool]) -> Iterator[Played]:
        """Play schedules until a time has come."""
        while not until():
            schedule = self._next()
            parts = parts_of(schedule) if self._parts == PARTS else self._parts
            outcome = self._fleets.play(Wanted(schedule, observed=True), parts)
            self._learn(schedule, outcome.behaviour)
            yield Played(schedule, outcome.failure, parts)

    def _next(self) -> Schedule:
        random = self._random
        if not self._corpus or random.random() < FRESH:
            return draw_schedule(random.randrange(10**9), self._kinds)
        chosen = random.choices(self._corpus, [one.weight for one in self._corpus])[0]
        chosen.weight *= 0.8
        return self._changed(chosen.schedule)

    def _learn(self, schedule: Schedule, behaviour: Behaviour) -> None:
        """Keep a schedule that did what no other did."""
        new = behaviour - self._seen
        self._seen |= new
        if new:
            self._corpus.append(Interesting(schedule, float(len(new))))

    def _changed(self, schedule: Schedule) -> Schedule:
        """A schedule with steps inserted, left out, drawn anew, or spliced in from another."""
        random, steps = self._random, list(schedule.steps)
        for _ in range(random.choice((1, 2, 4))):
            at = random.randrange(len(steps) + 1)
            match random.choice(("insert", "insert", "leave out", "redraw", "pause", "splice")):
                case "insert":
                    steps[at:at] = draw_schedule(random.randrange(10**9), self._kinds).steps[-3:]
                case "leave out":
                    del steps[at : at + random.choice((1, 3))]
                case "redraw" if at < len(steps):
                    steps[at] = self._redrawn(steps[at])
                case "pause" if at < len(steps):
                    steps[at] = replace(steps[at], pause=random.choice(PAUSES))
                case "splice":
                    other = random.choice(self._corpus).schedule.steps
                    steps[at:] = other[random.randrange(len(other) + 1) :]
                case _:
                    pass
        seed = random.randrange(10**9)
        return Schedule(tuple(steps[:MOST_STEPS]), seed, is_lagging(seed))

    def _redrawn(self, step: Step) -> Step:
        """The same kind of step with other arguments."""
        part = self._kinds.get(step.name.partition(".")[0], ())
        kind = next((kind for kind in part if kind.name == step.name), None)
        drawn = kind.draw(self._random) if kind is not None else step
        return step if drawn.is_known else drawn


def end_after(hours: float) -> Callable[[], bool]:
    """A condition that holds once so many hours have passed."""
    end = time.monotonic() + hours * 3600
    return lambda: time.monotonic() >= end
