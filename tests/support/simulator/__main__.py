"""`python -m tests.support.simulator`: play seeds, replay one, or search for hours."""

import argparse
import secrets
import sys
from collections.abc import Iterator, Sequence

from tests.support.simulator.faults import Faults
from tests.support.simulator.forks import StartedFleets, Wanted
from tests.support.simulator.part import Part
from tests.support.simulator.runner import (
    PARTS,
    parts_named,
    parts_of,
    step_kinds,
)
from tests.support.simulator.schedule import Schedule, draw_schedule
from tests.support.simulator.search import Kinds, Played, Search, end_after
from tests.support.simulator.shrink import shrink

PROGRESS = 50
"""Schedules after which a search says how many it has played."""


def main() -> int:
    """The exit status: 1 if a law was broken."""
    fleets = StartedFleets()
    try:
        return _play(_parser().parse_args(), fleets)
    finally:
        fleets.end()


def _play(options: argparse.Namespace, fleets: StartedFleets) -> int:
    parts = PARTS if options.features == "all" else parts_named(options.features.split(","))
    kinds = step_kinds(parts, searched=bool(options.hours) or options.every_step)
    if options.trace:
        wanted = Wanted(draw_schedule(int(options.seeds), kinds), traced=True)
        _say("\n".join(fleets.play(wanted, parts).trace))
        return 0
    if options.hours:
        seed = options.seed if options.seed is not None else secrets.randbelow(10**9)
        _say(f"searching: HANSE_SEED={seed}")
        search = Search(seed, kinds, parts, fleets)
        results = search.play(end_after(options.hours))
    else:
        results = _seeded(options.seeds, kinds, parts, fleets)
    played = failed = 0
    for result in results:
        played += 1
        if result.failure is not None:
            failed += 1
            _say(_report(result, fleets, whole=options.no_shrink))
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
    parser.add_argument("--seed", type=int, help="the seed of a search; else a fresh one")
    parser.add_argument(
        "--features",
        default="all",
        help="all, or some: a,b",
    )
    parser.add_argument(
        "--every-step", action="store_true", help="draw from all steps, as a search does"
    )
    parser.add_argument("--no-shrink", action="store_true", help="print failing schedules whole")
    parser.add_argument("--keep-going", action="store_true", help="go on after a failure")
    parser.add_argument("--trace", action="store_true", help="print every request of one seed")
    return parser


def _say(text: str) -> None:
    print(text, flush=True)  # noqa: T201


def _seeded(
    seeds: str, kinds: Kinds, parts: Sequence[type[Part]], fleets: StartedFleets
) -> Iterator[Played]:
    first, _, end = seeds.partition(":")
    for seed in range(int(first), int(end) if end else int(first) + 1):
        schedule = draw_schedule(seed, kinds)
        own = parts_of(schedule) if parts is PARTS else parts
        yield Played(schedule, fleets.failure_of(schedule, own), own)


def _report(result: Played, fleets: StartedFleets, *, whole: bool) -> str:
    """The failure, and a test to paste."""
    schedule, failure, parts = result.schedule, result.failure, result.parts
    assert failure is not None, "there is something to report"
    if not whole:
        law = failure.law

        def breaks(smaller: Schedule) -> bool:
            found = fleets.failure_of(smaller, parts)
            return found is not None and found.law == law

        schedule = shrink(schedule, breaks)
        failure = fleets.failure_of(schedule, parts) or failure
    name = failure.law.replace("-", "_")
    names = [part.name for part in parts if part is not Faults]
    written = str(schedule).removesuffix("\n    )")
    chosen = "" if parts is PARTS else f"\n        parts=parts_named({names}),"
    return f"{failure}\n\ndef test_{name}_{schedule.seed}() -> None:\n{written}{chosen}\n    )\n"


if __name__ == "__main__":
    sys.exit(main())
