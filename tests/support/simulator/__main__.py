"""`python -m tests.support.simulator`: play seeds, replay one, or search for hours."""

import argparse
import secrets
import sys
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from tests.support.simulator.batch import batches_of, play_on_cores
from tests.support.simulator.forks import StartedFleets, Wanted
from tests.support.simulator.part import Part
from tests.support.simulator.report import Played, report, shrunk
from tests.support.simulator.runner import PARTS, parts_named, step_kinds
from tests.support.simulator.schedule import draw_schedule
from tests.support.simulator.search import Kinds, Search, end_after

PROGRESS = 50
"""Schedules after which a search says how many it has played."""


def main() -> int:
    """The exit status: 1 if a law was broken."""
    options = _parser().parse_args()
    parts = PARTS if options.features == "all" else parts_named(options.features.split(","))
    if (options.hours or options.count) and options.seed is None:
        options.seed = secrets.randbelow(10**9)
    searched = bool(options.hours or options.count) or options.every_step
    kinds = step_kinds(parts, searched=searched)
    if options.trace:
        _print_trace(int(options.seeds), kinds, parts)
        return 0
    results = _searched if options.hours else _seeded
    played = failed = 0
    for result in results(options, kinds, parts):
        played += 1
        if result.failure is not None:
            failed += 1
            _say(report(result))
            if not options.keep_going:
                break
        if played % PROGRESS == 0:
            _say(f"{played} schedules so far")
    _say(f"{played} schedules played, {failed} broke a law")
    return int(failed > 0)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.support.simulator",
        description="Plays random schedules of users and faults, and checks the laws.",
    )
    parser.add_argument("--seeds", default="0:20", help="FIRST:END, or one seed")
    parser.add_argument("--hours", type=float, help="search for so long")
    parser.add_argument("--count", type=int, help="play so many seeds from --seed on")
    parser.add_argument("--seed", type=int, help="the first seed of these; else a fresh one")
    parser.add_argument(
        "--features",
        default="all",
        help="all, or some: a,b",
    )
    parser.add_argument(
        "--every-step", action="store_true", help="draw from all steps, as a search does"
    )
    parser.add_argument("--jobs", type=int, default=1, help="seeds are played on so many cores")
    parser.add_argument("--no-shrink", action="store_true", help="print failing schedules whole")
    parser.add_argument("--keep-going", action="store_true", help="go on after a failure")
    parser.add_argument(
        "--punctual", action="store_true", help="play seeds without lags of watches"
    )
    parser.add_argument("--trace", action="store_true", help="print every request of one seed")
    return parser


def _say(text: str) -> None:
    print(text, flush=True)  # noqa: T201


def _print_trace(seed: int, kinds: Kinds, parts: Sequence[type[Part]]) -> None:
    fleets = StartedFleets()
    try:
        wanted = Wanted(draw_schedule(seed, kinds), traced=True)
        _say("\n".join(fleets.play(wanted, parts).trace))
    finally:
        fleets.end()


def _searched(
    options: argparse.Namespace, kinds: Kinds, parts: Sequence[type[Part]]
) -> Iterator[Played]:
    """The outcomes of a search, failing schedules shrunk."""
    _say(f"searching: HANSE_SEED={options.seed}")
    fleets = StartedFleets()
    try:
        for played in Search(options.seed, kinds, parts, fleets).play(end_after(options.hours)):
            is_whole = options.no_shrink or played.failure is None
            yield played if is_whole else shrunk(played, fleets)
    finally:
        fleets.end()


def _seeded(
    options: argparse.Namespace, kinds: Kinds, parts: Sequence[type[Part]]
) -> Iterator[Played]:
    """The outcomes of seeds, in no order."""
    first, _, end = options.seeds.partition(":")
    seeds = range(int(first), int(end) if end else int(first) + 1)
    if options.count:
        _say(f"playing {options.count} schedules: HANSE_SEED={options.seed}")
        seeds = range(options.seed, options.seed + options.count)
    drawn = [draw_schedule(seed, kinds) for seed in seeds]
    if options.punctual:
        drawn = [replace(schedule, lagging=False) for schedule in drawn]
    batches = batches_of(drawn, parts)
    for batch in play_on_cores(batches, options.jobs, whole=options.no_shrink):
        yield from batch


if __name__ == "__main__":
    sys.exit(main())
