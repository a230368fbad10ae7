"""The model of docs/scale.md: fits what fleets cost, checks it on a larger one, and looks further.

`python -m bench.scale` simulates what is not in its file yet, and writes tables and chart anew.
"""

import argparse
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from pathlib import Path

import msgspec
from msgspec import Struct

from bench.growth import FEATURES, Cost, cost
from bench.growth_chart import growth_svg
from bench.record import with_results

ROOT = Path(__file__).parent.parent
PAGE, CHART = ROOT / "docs" / "scale.md", ROOT / "docs" / "scale.svg"
COSTS = ROOT / "bench" / "scale.json"
FIT = (3, 10, 30)
CHECK = 60
SIZES = (100, 1_000, 10_000)
INTERFACE = 125e6
"""Bytes that 1 Gbit/s carries in a second."""

EXPORTS, EXPORTERS, MINUTES = 50, 3, 10
"""The fleet that is looked at: exports of a cluster, of a service, and between changes of one."""

Costs = dict[str, dict[str, Cost]]
"""By feature and size."""


class Coefficients(Struct, frozen=True):
    """What was measured, and by which row of `python -m bench`."""

    base_memory: float = 41.0
    """MiB of an agent that has read nothing; `beside`."""
    slice_memory: float = 2_420.0
    """Bytes of an agent for each slice on the broker; `beside`."""
    passing_event: float = 0.096
    """Milliseconds of an agent's CPU for a change that does not concern it; `beside`."""
    planned_import: float = 0.61
    """Milliseconds of an agent's CPU for each import, at its start; `restart`."""
    broker_event: float = 0.16
    """Milliseconds of CPU of the broker's API server for each event to an agent; `fleet`."""
    event_bytes: float = 2_000.0
    """Of a slice on a watch: a third of what a change of `services` brings each member."""


class Line(Struct, frozen=True):
    """A quantity that is linear in the number of clusters."""

    fixed: float
    each: float

    def at(self, size: int) -> float:
        """The quantity in a fleet of this size."""
        return self.fixed + self.each * size


def fit(points: Mapping[int, float]) -> Line:
    """The line with the least squares."""
    number, xs, ys = len(points), list(points), list(points.values())
    mean_x, mean_y = sum(xs) / number, sum(ys) / number
    spread = sum((x - mean_x) ** 2 for x in xs)
    each = sum((x - mean_x) * (y - mean_y) for x, y in points.items()) / spread
    return Line(mean_y - each * mean_x, each)


class Prediction(Struct, frozen=True):
    """One quantity of a feature: the line of small fleets, and what a larger one had."""

    feature: str
    quantity: str
    line: Line
    measured: float

    @property
    def error(self) -> float:
        """By which share the line is wrong about the larger fleet."""
        return abs(self.line.at(CHECK) - self.measured) / self.measured if self.measured else 0.0


def predictions(costs: Costs) -> list[Prediction]:
    """Each quantity of each feature."""
    return [
        Prediction(
            feature,
            name,
            fit({size: quantities(found[str(size)])[name] for size in FIT}),
            quantities(found[str(CHECK)])[name],
        )
        for feature, found in costs.items()
        if {*map(str, FIT), str(CHECK)} <= set(found)
        for name in quantities(found[str(CHECK)])
    ]


def quantities(one: Cost) -> dict[str, float]:
    """What the model is about."""
    return {
        "plans of a change": one.plans,
        "writes of a change": one.writes,
        "events of a change": one.events,
        "bytes of a change": one.bytes_read,
        "watches": one.watches,
        "bytes cached by an agent": one.held,
    }


class Outlook(Struct, frozen=True):
    """The services of a fleet of some size, by the model."""

    clusters: int
    slices: float
    changes: float
    """In a second."""
    agent_memory: float
    agent_cpu: float
    """Share of a core."""
    agent_start: float
    """Seconds of CPU."""
    broker_events: float
    broker_cores: float
    broker_bytes: float


def outlook(clusters: int, by: Coefficients) -> Outlook:
    """What the formulas say."""
    slices = clusters * EXPORTS
    changes = slices / (MINUTES * 60)
    events = changes * clusters
    return Outlook(
        clusters,
        slices,
        changes,
        by.base_memory + slices * by.slice_memory / 2**20,
        changes * by.passing_event / 1000,
        slices / EXPORTERS * by.planned_import / 1000,
        events,
        events * by.broker_event / 1000,
        events * by.event_bytes,
    )


def breaks_at(by: Coefficients, full: Callable[[Outlook], bool]) -> int:
    """The least number of clusters with which something at the broker is full."""
    return next(size for size in count(1) if full(outlook(size, by)))


def page(costs: Costs, by: Coefficients) -> str:
    """The tables between the marks of the page."""
    lines = [
        "### Formulas of each feature",
        (
            f"`n` clusters; fitted to {', '.join(map(str, FIT))} clusters, checked with {CHECK}. "
            "All agents together, but for what an agent caches."
        ),
        "",
        f"| feature | quantity | formula | predicted for {CHECK} | measured | wrong by |",
        "|---|---|---|---:|---:|---:|",
        *(
            f"| {p.feature} | {p.quantity} | {p.line.fixed:,.0f} + {p.line.each:,.1f} n "
            f"| {p.line.at(CHECK):,.0f} | {p.measured:,.0f} | {p.error:.0%} |"
            for p in predictions(costs)
        ),
        "",
        "![What a change costs for each member](scale.svg)",
        "",
        "### Services of 100, 1,000 and 10,000 clusters",
        (
            f"Each cluster exports {EXPORTS} services, a service has {EXPORTERS} exporting "
            f"clusters, and each export changes every {MINUTES} minutes."
        ),
        "",
        (
            "| clusters | slices | changes/s | agent: memory | CPU | CPU of a start "
            "| broker: events/s | cores | MB/s |"
        ),
        "|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
        *(_row(outlook(size, by)) for size in SIZES),
        "",
        (
            "The broker's API server takes one core at "
            f"{breaks_at(by, lambda one: one.broker_cores >= 1):,} clusters; an interface of "
            f"1 Gbit/s is full at {breaks_at(by, lambda one: one.broker_bytes >= INTERFACE):,}."
        ),
    ]
    return "\n".join(lines) + "\n"


def _row(one: Outlook) -> str:
    return (
        f"| {one.clusters:,} | {one.slices:,.0f} | {one.changes:,.1f} "
        f"| {one.agent_memory:,.0f} MiB | {one.agent_cpu:.1%} of a core | {one.agent_start:,.0f} s "
        f"| {one.broker_events:,.0f} | {one.broker_cores:,.1f} | {one.broker_bytes / 1e6:,.1f} |"
    )


def simulate(costs: Costs, features: Sequence[str]) -> Costs:
    """The costs of all sizes; those that are known are not simulated again."""
    for feature in features:
        known = costs.setdefault(feature, {})
        for size in (*FIT, CHECK):
            if str(size) not in known:
                known[str(size)] = cost(feature, size)
                COSTS.write_bytes(msgspec.json.format(msgspec.json.encode(costs), indent=1))
    return costs


def main() -> None:
    """Simulate, fit, check, write."""
    parser = argparse.ArgumentParser(prog="python -m bench.scale", description=__doc__)
    parser.add_argument("--anew", action="store_true", help="simulate what is known, too")
    parser.add_argument("--known", action="store_true", help="simulate nothing: only write")
    given = parser.parse_args()
    known: Costs = {}
    if COSTS.exists() and not given.anew:
        known = msgspec.json.decode(COSTS.read_bytes(), type=Costs)
    costs = simulate(known, () if given.known else tuple(FEATURES))
    PAGE.write_text(with_results(PAGE.read_text(), page(costs, Coefficients())))
    CHART.write_text(
        growth_svg({f: {int(n): c for n, c in x.items()} for f, x in costs.items() if len(x) > 1})
    )
    worst = max(predictions(costs), key=lambda p: p.error)
    print(f"worst: {worst.quantity} of {worst.feature}, wrong by {worst.error:.0%}")


if __name__ == "__main__":
    main()
