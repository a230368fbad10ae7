"""The shape of every row: prepared once, measured again and again, skipped only with a reason."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import timedelta
from typing import TypeAlias

from msgspec import Struct

from bench.figures import Figure, Result, results_of

PATIENCE = timedelta(minutes=5)
"""What one repeat may take before it counts as hung."""


class Skip(Exception):
    """A row cannot run here; the text says what is missing and how to get it."""


class Effort(Struct, frozen=True):
    """How thorough a run is."""

    repeats: int = 5
    quick: bool = False

    def of(self, whole: int, quick: int) -> int:
        """A size: the whole one, or one that only shows that things run."""
        return quick if self.quick else whole


Once: TypeAlias = Callable[[], Awaitable[Mapping[str, float]]]
"""Measures limit and product once, one after the other: each quantity by its figure's name."""

Prepare: TypeAlias = Callable[[Effort], AbstractAsyncContextManager[Once]]
"""Sets up what all repeats of a row share, and takes it down again; raises `Skip`."""


class Row(Struct, frozen=True):
    """One line of the benchmark: what is measured, against what, and what is wanted."""

    name: str
    about: str
    against: str
    figures: tuple[Figure, ...]
    prepare: Prepare


class Measured(Struct, frozen=True, tag="measured"):
    """What a row's repeats gave."""

    row: Row
    results: tuple[Result, ...]
    seconds: float


class Skipped(Struct, frozen=True, tag="skipped"):
    """Why a row did not run."""

    row: Row
    reason: str


class Failed(Struct, frozen=True, tag="failed"):
    """How a row broke."""

    row: Row
    reason: str


Ended: TypeAlias = Measured | Skipped | Failed


async def repeated(row: Row, effort: Effort, tell: Callable[[int], None]) -> tuple[Result, ...]:
    """All repeats of a row; `tell` hears the number of each before it begins."""
    runs: list[Mapping[str, float]] = []
    async with row.prepare(effort) as once:
        for number in range(1, effort.repeats + 1):
            tell(number)
            async with asyncio.timeout(PATIENCE.total_seconds()):
                runs.append(await once())
    return results_of(row.figures, runs)


def unprepared(once: Callable[[Effort], Awaitable[Mapping[str, float]]]) -> Prepare:
    """A row whose repeats share nothing."""

    @asynccontextmanager
    async def prepare(effort: Effort) -> AsyncIterator[Once]:
        yield lambda: once(effort)

    return prepare
