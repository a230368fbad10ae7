"""Plays many schedules on several cores; those with the same parts share a started fleet."""

from collections.abc import Iterator, Sequence
from functools import partial
from multiprocessing import get_context

from msgspec import Struct

from tests.support.simulator.forks import StartedFleets
from tests.support.simulator.part import Part
from tests.support.simulator.report import Played, shrunk
from tests.support.simulator.runner import PARTS, parts_of
from tests.support.simulator.schedule import Schedule

MOST_TOGETHER = 40
"""Schedules of a batch at most, so that all cores end about together."""


class Batch(Struct, frozen=True):
    """Schedules that are played with the same parts."""

    schedules: tuple[Schedule, ...]
    parts: tuple[type[Part], ...]


def play_on_cores(batches: Sequence[Batch], jobs: int, *, whole: bool) -> Iterator[list[Played]]:
    """Play each batch in one of so many processes; failing schedules are shrunk, or left whole.

    The outcomes of a batch come when all of it was played, in no order of batches.
    """
    with get_context("fork").Pool(jobs) as pool:
        yield from pool.imap_unordered(partial(_play_batch, whole=whole), batches)


def batches_of(schedules: Sequence[Schedule], parts: Sequence[type[Part]]) -> list[Batch]:
    """The schedules by what they are played with, the longest batches first."""
    by_parts: dict[tuple[type[Part], ...], list[Schedule]] = {}
    for schedule in schedules:
        own = parts_of(schedule) if parts == PARTS else tuple(parts)
        by_parts.setdefault(own, []).append(schedule)
    batches = [
        Batch(tuple(of[start : start + MOST_TOGETHER]), own)
        for own, of in by_parts.items()
        for start in range(0, len(of), MOST_TOGETHER)
    ]
    return sorted(batches, key=lambda b: len(b.parts) * len(b.schedules), reverse=True)


def _play_batch(batch: Batch, *, whole: bool) -> list[Played]:
    fleets = StartedFleets()
    try:
        played = [
            Played(schedule, fleets.failure_of(schedule, batch.parts), batch.parts)
            for schedule in batch.schedules
        ]
        return [one if whole or one.failure is None else shrunk(one, fleets) for one in played]
    finally:
        fleets.end()
