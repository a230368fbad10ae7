"""The command: `python -m bench [ROW…] [--repeats N] [--quick] [--json FILE] [--record]`."""

import argparse
import gc
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import uvloop
from rich.console import Console

from bench.figures import Verdict
from bench.machine import this_machine
from bench.record import keep, publish
from bench.row import Effort, Ended, Failed, Measured, Row, Skip, Skipped, repeated
from bench.rows.every import ROWS
from bench.table import show

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "bench" / "results"
PAGE = ROOT / "docs" / "benchmarks.md"
CHART = ROOT / "docs" / "benchmarks.svg"


def main() -> int:
    """Measure, show, keep; the status is 1 if a row broke, not if a goal was missed."""
    given = _arguments()
    console = Console(width=None if sys.stdout.isatty() else 160)
    if given.list:
        for row in ROWS:
            console.print(f"{row.name:12} {row.about}", highlight=False)
        return 0
    effort = Effort(given.repeats or (2 if given.quick else 5), given.quick)
    machine = this_machine(" ".join(("python -m bench", *sys.argv[1:])))
    ended: list[Ended] = []
    for row in _chosen(given.rows):
        ended.append(_measured(row, effort, console))
        keep(given.json, machine, ended)  # what was measured is not lost with what comes later
    show(console, machine, ended)
    console.print(f"kept in {given.json}", highlight=False)
    if given.record:
        publish(PAGE, CHART, machine, ended)
        console.print(f"recorded in {PAGE.relative_to(ROOT)} and {CHART.relative_to(ROOT)}")
    return 1 if any(isinstance(one, Failed) for one in ended) else 0


def _measured(row: Row, effort: Effort, console: Console) -> Ended:
    console.print(f"==> {row.name}: {row.about}", highlight=False)
    gc.collect()
    gc.freeze()  # what rows before have left is not looked through again at this one's expense
    began = time.monotonic()
    try:
        with console.status("") as status:
            results = uvloop.run(
                repeated(row, effort, lambda n: status.update(f"repeat {n} of {effort.repeats}"))
            )
    except Skip as reason:
        console.print(f"    skipped: {reason}", style="yellow", highlight=False)
        return Skipped(row, str(reason))
    except Exception as error:  # noqa: BLE001 - one row that breaks does not take the others along
        console.print_exception(suppress=[uvloop])
        return Failed(row, f"{type(error).__name__}: {error}")
    missed = [r.figure.name for r in results if r.verdict is Verdict.MISSED]
    seconds = time.monotonic() - began
    wanted = any(r.verdict is not Verdict.SHOWN for r in results)
    summary = (
        f"missed: {', '.join(missed)}" if missed else "every goal met" if wanted else "no goal"
    )
    console.print(f"    {seconds:.0f} s, {summary}", highlight=False)
    return Measured(row, results, seconds)


def _chosen(names: Sequence[str]) -> list[Row]:
    return [row for row in ROWS if not names or row.name in names]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description="Measure each row beside the limit or peer that it is held against.",
    )
    names = [row.name for row in ROWS]
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"of: {', '.join(names)}")
    parser.add_argument("--repeats", type=int, help="of each row; 5, or 2 with --quick")
    parser.add_argument("--quick", action="store_true", help="small sizes: see that it runs")
    parser.add_argument("--list", action="store_true", help="say what the rows measure")
    parser.add_argument("--record", action="store_true", help="into docs/benchmarks.md and .svg")
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    parser.add_argument("--json", type=Path, default=RESULTS / f"{stamp}.json", metavar="FILE")
    given = parser.parse_args()
    if unknown := [name for name in given.rows if name not in names]:
        parser.error(f"there is no row {', '.join(unknown)}; there are: {', '.join(names)}")
    if given.record and (given.quick or given.rows):
        parser.error("only a whole run is worth recording: every row, and not --quick")
    if given.repeats is not None and given.repeats < 1:
        parser.error(f"--repeats {given.repeats}: at least 1 is needed")
    return given


if __name__ == "__main__":
    sys.exit(main())
