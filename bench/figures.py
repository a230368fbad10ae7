"""What is measured, and what came of it: medians, spreads, ratios and goals; pure."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from statistics import median
from typing import TypeAlias, assert_never

from msgspec import Struct


class AtMost(Struct, frozen=True, tag="at most"):
    """A goal that is met by less."""

    value: float


class AtLeast(Struct, frozen=True, tag="at least"):
    """A goal that is met by more."""

    value: float


class Shown(Struct, frozen=True, tag="shown"):
    """No goal: told because other numbers cannot be understood without it."""


Goal: TypeAlias = AtMost | AtLeast | Shown


class Figure(Struct, frozen=True):
    """One quantity of a row; with `against` its goal is one of the ratio to that other quantity."""

    name: str
    unit: str
    goal: Goal = Shown()
    against: str = ""


class Verdict(StrEnum):
    """Whether the median meets its goal."""

    MET = "met"
    MISSED = "missed"
    SHOWN = "shown"


class Result(Struct, frozen=True):
    """A figure with its values, one for each repeat, and those of what it is held against."""

    figure: Figure
    values: tuple[float, ...]
    limits: tuple[float, ...] = ()

    @property
    def median(self) -> float:
        return median(self.values)

    @property
    def ratios(self) -> tuple[float, ...]:
        """Each repeat against the limit that was measured beside it."""
        return tuple(
            value / limit for value, limit in zip(self.values, self.limits, strict=True) if limit
        )

    @property
    def judged(self) -> float | None:
        """The number that the goal is about; None if the limit came out as nothing."""
        if not self.figure.against:
            return self.median
        return median(self.ratios) if self.ratios else None

    @property
    def verdict(self) -> Verdict:
        judged = self.judged
        match self.figure.goal:
            case Shown():
                return Verdict.SHOWN
            case AtMost(value):
                met = judged is not None and judged <= value
            case AtLeast(value):
                met = judged is not None and judged >= value
            case _:
                assert_never(self.figure.goal)
        return Verdict.MET if met else Verdict.MISSED

    @property
    def share_of_goal(self) -> float | None:
        """How much of its goal it takes: up to 1 is met, whichever way the goal points."""
        judged = self.judged
        if judged is None:
            return None
        match self.figure.goal:
            case Shown():
                return None
            case AtMost(value):
                return judged / value if value else (0.0 if not judged else None)
            case AtLeast(value):
                return value / judged if judged else None
            case _:
                assert_never(self.figure.goal)


def results_of(
    figures: Sequence[Figure], repeats: Sequence[Mapping[str, float]]
) -> tuple[Result, ...]:
    """Every figure with what the repeats gave for it."""
    return tuple(
        Result(
            figure,
            tuple(one[figure.name] for one in repeats),
            tuple(one[figure.against] for one in repeats) if figure.against else (),
        )
        for figure in figures
    )


def spread(values: Sequence[float]) -> float:
    """Half of what lies between the extremes, as a share of the median."""
    middle = median(values)
    return (max(values) - min(values)) / 2 / abs(middle) if middle else 0.0


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least this share of all do not exceed."""
    ordered = sorted(values)
    rank = -(-len(ordered) * share // 1)  # rounded up
    return ordered[max(int(rank), 1) - 1]
