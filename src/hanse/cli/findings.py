"""Findings as commands print them."""

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import click
import msgspec
from msgspec import Struct

from hanse.cli.program_name import program_name
from hanse.model.findings import Finding, Severity, Unknown

SHOWN_CONSEQUENCES = 8
SHOWN_OF_A_CODE = 5
"""How many findings of one code are printed in full."""

_PROGRAM = re.compile(r"(^|[|;&(])(\s*)hanse(?= )", re.MULTILINE)
"""This program where a command calls it, and not where it is the name of something else."""

_COLORS = {
    Severity.OUTAGE: "red",
    Severity.DEGRADED: "red",
    Severity.RISK: "yellow",
    Severity.NOTE: "cyan",
}


class Report(Struct, frozen=True):
    """The clusters that were examined, and what is wrong, causes first."""

    clusters: tuple[str, ...]
    findings: tuple[Finding, ...]

    @property
    def failed(self) -> bool:
        """Whether a finding has the severity RISK or worse."""
        return reaches(self.findings, Severity.RISK)


def reaches(findings: Iterable[Finding], severity: Severity) -> bool:
    """Whether a finding is as bad as a severity, or worse."""
    return any(one.severity.at_least(severity) for one in findings)


def report_document(report: Report) -> dict[str, Any]:
    """The report as JSON values."""
    return {"clusters": list(report.clusters), "findings": findings_document(report.findings)}


def findings_document(findings: Iterable[Finding]) -> list[Any]:
    """Findings as JSON values, as every command and the page have them."""
    return [msgspec.to_builtins(one) for one in findings]


def print_findings(report: Report) -> None:
    """Print findings, at most `SHOWN_OF_A_CODE` per code, and how many more there are.

    If none is RISK or worse, also that nothing is wrong.
    """
    counts: dict[str, int] = {}
    for one in report.findings:
        counts[one.code] = counts.get(one.code, 0) + 1
        if counts[one.code] <= SHOWN_OF_A_CODE:
            print_finding(one)
    for code, count in counts.items():
        if count > SHOWN_OF_A_CODE:
            more = count - SHOWN_OF_A_CODE
            click.echo(f"  and {more} more of {code}: `hanse doctor --json` has all")
    if not report.failed:
        mark = click.style("✓", fg="green")
        click.echo(f"{mark} nothing is wrong in {', '.join(report.clusters)}")


def print_finding(one: Finding) -> None:
    """Print code, severity, summary and age of a finding, consequences, and what mends it.

    Also why it is not certain, if so, and whom to ask. At most `SHOWN_CONSEQUENCES` consequences
    are shown, and how many more there are.
    """
    mark = "·" if one.severity is Severity.NOTE else "✗"
    label = click.style(f"{mark} {one.severity}", fg=_COLORS[one.severity])
    click.echo(f"{label} {one.code}: {one.summary}{_since(one)}")
    if isinstance(one.certainty, Unknown):
        click.echo(f"  not known: {one.certainty.why}")
    for lost in one.consequences[:SHOWN_CONSEQUENCES]:
        click.echo(f"  → {lost.summary}")
    if len(one.consequences) > SHOWN_CONSEQUENCES:
        click.echo(f"  → and {len(one.consequences) - SHOWN_CONSEQUENCES} more")
    for number, command in enumerate(one.remedy.commands):
        click.echo(f"  {'mend it:' if not number else '    then:'} {as_called(command)}")
    if one.remedy.ask:
        click.echo(f"      ask: {one.remedy.ask}")
    if one.remedy.advice:
        click.echo(f"  {'        ' if one.remedy.commands else 'mend it:'} {one.remedy.advice}")


def as_called(command: str) -> str:
    """A command for people, each `hanse` in it replaced by the name that runs this program."""
    return _PROGRAM.sub(lambda found: f"{found[1]}{found[2]}{program_name()}", command)


def _since(one: Finding) -> str:
    """` (for N unit)` with the age of a finding, to be appended; "" if its start is not known.

    N is rounded down, in the largest of d, h and min that makes it 2 or more, else in s.
    """
    if one.since is None:
        return ""
    seconds = max(int((datetime.now(UTC) - one.since).total_seconds()), 0)
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f" (for {seconds // size} {unit})"
    return f" (for {seconds} s)"


def print_summaries(findings: Iterable[Finding]) -> None:
    """Print a line for each finding of RISK or worse, and that `hanse doctor` has the remedies.

    At most `SHOWN_CONSEQUENCES` of them, and how many more; nothing if there is none.
    """
    shown = [one for one in findings if one.severity.at_least(Severity.RISK)]
    for one in shown[:SHOWN_CONSEQUENCES]:
        label = click.style(f"✗ {one.severity}", fg=_COLORS[one.severity])
        lost = f"; {len(one.consequences)} consequences" if one.consequences else ""
        click.echo(f"{label} {one.code}: {one.summary}{_since(one)}{lost}")
    if shown:
        more = (
            f"and {len(shown) - SHOWN_CONSEQUENCES} more; "
            if len(shown) > SHOWN_CONSEQUENCES
            else ""
        )
        click.echo(f"  {more}`hanse doctor` says what mends it\n")
