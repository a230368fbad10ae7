"""What a run gave, as a table for people."""

from collections.abc import Iterable
from typing import assert_never

from rich.console import Console
from rich.table import Table

from bench.figures import Result, Verdict
from bench.formatting import (
    goal_text,
    limit_text,
    machine_text,
    measured_text,
    ratio_text,
    versions_text,
)
from bench.machine import Machine
from bench.row import Ended, Failed, Measured, Skipped

_SIGNS = {
    Verdict.MET: "[green]met[/green]",
    Verdict.MISSED: "[red]missed[/red]",
    Verdict.SHOWN: "",
}


def show(console: Console, machine: Machine, ended: Iterable[Ended]) -> None:
    """Print every row, those that did not run with the reason."""
    table = Table(title="Hanse benchmarks", caption_justify="left", title_justify="left")
    table.add_column("row", style="bold")
    table.add_column("what")
    table.add_column("median", justify="right")
    table.add_column("against")
    table.add_column("ratio", justify="right")
    table.add_column("goal", justify="right")
    table.add_column("")
    for one in ended:
        match one:
            case Measured(row, results):
                for place, result in enumerate(results):
                    table.add_row("" if place else row.name, *_cells(result))
            case Skipped(row, reason):
                table.add_row(row.name, f"skipped: {reason}", style="yellow")
            case Failed(row, reason):
                table.add_row(row.name, f"failed: {reason}", style="red")
            case _:
                assert_never(one)
        table.add_section()
    console.print(table)
    console.print(machine_text(machine))
    console.print(versions_text(machine))


def _cells(result: Result) -> tuple[str, ...]:
    return (
        result.figure.name,
        measured_text(result),
        limit_text(result),
        ratio_text(result),
        goal_text(result),
        _SIGNS[result.verdict],
    )
