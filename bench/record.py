"""Where results are kept: a JSON file of each run, and the page and chart of those recorded."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, assert_never

import msgspec

from bench.chart import bars_of, svg
from bench.figures import Result
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

BEGIN, END = "<!-- results: begin -->", "<!-- results: end -->"


def as_json(machine: Machine, ended: Sequence[Ended]) -> bytes:
    """Everything a run gave, each repeat included."""
    whole = {"machine": machine, "rows": [_row(one) for one in ended]}
    return msgspec.json.format(msgspec.json.encode(whole), indent=2) + b"\n"


def keep(file: Path, machine: Machine, ended: Sequence[Ended]) -> None:
    """Write a run's JSON file."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(as_json(machine, ended))


def publish(page: Path, chart: Path, machine: Machine, ended: Sequence[Ended]) -> None:
    """Put a run's results on the page, between its two marks, and draw the chart anew."""
    page.write_text(with_results(page.read_text(), results_section(machine, ended)))
    measured = [one for one in ended if isinstance(one, Measured)]
    caption = f"{machine.date}, commit {machine.commit}, {machine.cores} cores of {machine.cpu}"
    chart.write_text(svg(bars_of(measured), caption))


def with_results(page: str, section: str) -> str:
    """The page with another section of results; raises ValueError if it has no place for one."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page has no place for results, between {BEGIN} and {END}")
    return f"{before}{BEGIN}\n{section}{END}{after}"


def results_section(machine: Machine, ended: Sequence[Ended]) -> str:
    """The results as Markdown."""
    lines = [
        f"`{machine.command}`, {machine_text(machine)}.",
        "",
        f"Versions: {versions_text(machine)}.",
        "",
        "![Measured, as a share of each goal](benchmarks.svg)",
        "",
        "| row | what | median | against | ratio | goal | |",
        "|---|---|---:|---|---:|---:|---|",
        *(line for one in ended for line in _lines(one)),
    ]
    return "\n".join(lines) + "\n"


def _lines(one: Ended) -> list[str]:
    match one:
        case Measured(row, results):
            return [_line(row.name, result) for result in results]
        case Skipped(row, reason):
            return [f"| {row.name} | skipped: {reason} | | | | | |"]
        case Failed(row, reason):
            return [f"| {row.name} | failed: {reason} | | | | | |"]
        case _:
            assert_never(one)


def _line(row: str, result: Result) -> str:
    cells = (
        row,
        result.figure.name,
        measured_text(result),
        limit_text(result),
        ratio_text(result),
        goal_text(result),
        "" if not goal_text(result) else str(result.verdict),
    )
    return f"| {' | '.join(cells)} |"


def _row(one: Ended) -> dict[str, Any]:
    common: dict[str, Any] = {
        "name": one.row.name,
        "about": one.row.about,
        "against": one.row.against,
    }
    match one:
        case Measured(_, results, seconds):
            figures = [_figure(result) for result in results]
            return {**common, "ended": "measured", "seconds": round(seconds, 1), "figures": figures}
        case Skipped(_, reason):
            return {**common, "ended": "skipped", "reason": reason}
        case Failed(_, reason):
            return {**common, "ended": "failed", "reason": reason}
        case _:
            assert_never(one)


def _figure(result: Result) -> dict[str, Any]:
    return {
        "name": result.figure.name,
        "unit": result.figure.unit,
        "median": result.median,
        "values": result.values,
        "against": result.figure.against,
        "limits": result.limits,
        "ratios": result.ratios if result.figure.against else (),
        "goal": result.figure.goal,
        "verdict": result.verdict,
    }
