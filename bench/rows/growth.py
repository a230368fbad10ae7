"""Each feature as a fleet grows: what a change costs for each member, of 3, 30 and 300 clusters."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from bench.figures import AtMost, Figure, Shown
from bench.growth import FEATURES, cost
from bench.processes import apart
from bench.row import Effort, Once, Row

COUNTED = ("plans", "writes", "events", "bytes")
FEW, SOME, MANY = "few", "some", "many"
MOST = {"gslb": 100}
"""The most clusters of a feature, if its kinds limit them."""


@asynccontextmanager
async def _simulated(effort: Effort) -> AsyncIterator[Once]:
    """Virtual time makes every run the same: each is run once, in a process of its own."""
    sizes = {FEW: 3, SOME: effort.of(30, 6), MANY: effort.of(300, 9)}
    figures: dict[str, float] = {}
    for feature in FEATURES:
        limited = {word: min(size, MOST.get(feature, size)) for word, size in sizes.items()}
        costs = await asyncio.gather(*(apart(cost, feature, size) for size in limited.values()))
        for (word, size), found in zip(limited.items(), costs, strict=True):
            for what, value in found.per_change.items():
                figures[_named(feature, what, word)] = value / size

    async def once() -> Mapping[str, float]:
        return figures

    yield once


def _named(feature: str, what: str, size: str) -> str:
    return f"{feature}: {what}, {size}"


def _figures() -> tuple[Figure, ...]:
    """Against the cost for a member of three: of the middle size shown, of the largest judged."""
    return tuple(
        Figure(
            _named(feature, what, size),
            "B" if what == "bytes" else "",
            AtMost(1.2) if size == MANY else Shown(),
            against=_named(feature, what, FEW),
        )
        for feature in FEATURES
        for what in COUNTED
        for size in (SOME, MANY)
    )


GROWTH = Row(
    name="growth",
    about="what one change costs for each member of 3, 30 and 300 simulated clusters, by feature",
    against="the same for a member of 3",
    figures=_figures(),
    prepare=_simulated,
)
