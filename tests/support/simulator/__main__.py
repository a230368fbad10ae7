"""`python -m tests.support.simulator`: play seeds, replay one, or search for hours."""

import argparse
import secrets
import sys
import time
from collections.abc import Iterator, Mapping, Sequence

from tests.support.simulator.runner import Failure, failure_of, quiet_logs, step_kinds
from tests.support.simulator.schedule import Schedule, StepKind, draw_schedule
from tests.support.simulator.shrink import shrink


def main() -> int:
    """The exit status: 1 if a law was broken."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.support.simulator",
        description="Plays random schedules of users and faults, and checks the laws.",
    )
    parser.add_argument("--seeds", default="0:20", help="FIRST:END, or one seed")
    parser.add_argument("--hours", type=float, help="search for so long, with fresh seeds")
    parser.add_argument("--features", default="all", help="all, or names separated by commas")
    parser.add_argument("--no-shrink", action="store_true", help="print failing schedules whole")
    parser.add_argument("--keep-going", action="store_true", help="go on after a failure")
    options = parser.parse_args()
    quiet_logs()
    kinds = _chosen_kinds(options.features)
    schedules = _fresh(options.hours, kinds) if options.hours else _seeded(options.seeds, kinds)
    played = failed = 0
    for schedule in schedules:
        played += 1
        failure = failure_of(schedule)
        if failure is None:
            continue
        failed += 1
        print(_report(schedule, failure, whole=options.no_shrink), flush=True)  # noqa: T201
        if not options.keep_going:
            break
    print(f"{played} schedules played, {failed} broke a law")  # noqa: T201
    return int(failed > 0)


def _chosen_kinds(features: str) -> Mapping[str, Sequence[StepKind]]:
    kinds = step_kinds()
    return kinds if features == "all" else {n: kinds[n] for n in ("faults", *features.split(","))}


def _seeded(seeds: str, kinds: Mapping[str, Sequence[StepKind]]) -> Iterator[Schedule]:
    first, _, end = seeds.partition(":")
    for seed in range(int(first), int(end) if end else int(first) + 1):
        yield draw_schedule(seed, kinds)


def _fresh(hours: float, kinds: Mapping[str, Sequence[StepKind]]) -> Iterator[Schedule]:
    until = time.monotonic() + hours * 3600
    while time.monotonic() < until:
        yield draw_schedule(secrets.randbelow(10**9), kinds)


def _report(schedule: Schedule, failure: Failure, *, whole: bool) -> str:
    """The failure, and a test to paste."""
    if not whole:

        def breaks(smaller: Schedule) -> bool:
            found = failure_of(smaller)
            return found is not None and found.law == failure.law

        schedule = shrink(schedule, breaks)
        failure = failure_of(schedule) or failure
    name = failure.law.replace("-", "_")
    return f"{failure}\n\ndef test_{name}_{schedule.seed}() -> None:\n{schedule}\n"


if __name__ == "__main__":
    sys.exit(main())
