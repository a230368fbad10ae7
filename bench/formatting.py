"""Numbers, goals and machines in words, the same in the table, the chart and the record; pure."""

from collections.abc import Sequence
from statistics import median
from typing import assert_never

from bench.figures import AtLeast, AtMost, Goal, Result, Shown, spread
from bench.machine import Machine

TIMES = "\N{MULTIPLICATION SIGN}"


def number(value: float) -> str:
    """A number with three significant digits, or all of those before the point."""
    size = abs(value)
    if size >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.3g}"


def quantity(value: float, unit: str) -> str:
    return f"{number(value)} {unit}".strip()


def measured_text(result: Result) -> str:
    """The median, and how far the repeats lie apart."""
    return _spread_text(result.values, result.figure.unit)


def limit_text(result: Result) -> str:
    """What the figure is held against, as measured beside it."""
    if not result.figure.against:
        return ""
    return f"{result.figure.against}: {_spread_text(result.limits, result.figure.unit)}"


def ratio_text(result: Result) -> str:
    return f"{number(result.judged)} {TIMES}" if result.figure.against and result.judged else ""


def goal_text(result: Result) -> str:
    """The goal, as a ratio where it is one."""
    unit = TIMES if result.figure.against else result.figure.unit
    return _goal(result.figure.goal, unit)


def machine_text(machine: Machine) -> str:
    """One line for people."""
    return (
        f"{machine.date}, commit {machine.commit}, {machine.cpu}, {machine.cores} cores, "
        f"{machine.memory_mib / 1024:.0f} GiB, {machine.system}, Linux {machine.kernel}, "
        f"load {machine.load_at_start} at start"
    )


def versions_text(machine: Machine) -> str:
    return ", ".join(f"{name} {said}" for name, said in machine.versions.items() if said)


def _goal(goal: Goal, unit: str) -> str:
    match goal:
        case AtMost(value):
            return f"≤ {quantity(value, unit)}"
        case AtLeast(value):
            return f"≥ {quantity(value, unit)}"
        case Shown():
            return ""
        case _:
            assert_never(goal)


def _spread_text(values: Sequence[float], unit: str) -> str:
    apart = spread(values)
    middle = quantity(median(values), unit)
    return f"{middle} ± {apart:.0%}" if apart >= 0.005 else middle
