"""`hanse doctor`: what is wrong, and the command that mends it."""

import json
from typing import TYPE_CHECKING

import click

from hanse.cli.errors import WRONG
from hanse.cli.settings import Settings, settings_of

if TYPE_CHECKING:
    from hanse.cli.doctor.clusters import Report
    from hanse.cli.doctor.lists import Chart
    from hanse.cli.federated_services import Seen as Shared
    from hanse.cli.inventory import Seen


@click.command("doctor")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def command(context: click.Context, as_json: bool) -> None:
    """Find what is wrong and say how to mend it.

    Looks at every cluster of the kubeconfig, or of a local federation that runs here: whether it
    answers, whether the credentials last, its version, its clock, our definitions, its agent, its
    nodes, the rights we have there, exports, members, leases, webhooks, forwarded DNS, address
    pools, federated Services and policies, global hosts; and between clusters overlapping ranges,
    two leaders or none, and agents of versions too far apart. Nothing is changed.
    The exit status is 1 if anything is wrong.

    \b
    Examples:
      hanse doctor
      hanse doctor --context lubeck
      hanse doctor --json | jq '.findings[].problem'
    """
    report = _examine(settings_of(context))
    if as_json:
        import msgspec

        click.echo(json.dumps(msgspec.to_builtins(report), indent=2))
    else:
        _show(report)
    context.exit(WRONG if report.findings else 0)


def _examine(settings: Settings) -> "Report":
    import asyncio
    from datetime import UTC, datetime

    from hanse.cli import federated_services
    from hanse.cli.clusters import is_local, ways
    from hanse.cli.doctor.clusters import RIGHTS, Finding, Known, Report, findings
    from hanse.cli.doctor.lists import charts_of
    from hanse.cli.doctor.objects import ailments
    from hanse.cli.federated import look_at_federated
    from hanse.cli.inventory import look_at
    from hanse.cli.process import run_async, start_logging
    from hanse.kube.errors import BadCredentials
    from hanse.model.crds import crds

    start_logging(settings)
    try:
        chosen = ways(settings)
    except BadCredentials as error:
        remedy = "name a readable file with --kubeconfig, or start `hanse up`"
        return Report((), (Finding("kubeconfig", str(error), remedy),))

    async def look() -> "tuple[list[Seen], list[Chart], Shared]":
        shared = look_at_federated(chosen)
        return await asyncio.gather(look_at(chosen, RIGHTS), charts_of(chosen), shared)

    seen, charts, shared = run_async(look)
    now = datetime.now(UTC)
    found = findings(seen, Known(now, crds(), is_local(settings)))
    told = federated_services.findings(shared)
    return Report(tuple(way.name for way in chosen), (*found, *ailments(charts, now), *told))


def _show(report: "Report") -> None:
    for one in report.findings:
        click.echo(f"{click.style('✗', fg='red')} {one.cluster}: {one.problem}")
        click.echo(f"  mend it: {one.remedy}")
    if not report.findings:
        mark = click.style("✓", fg="green")
        click.echo(f"{mark} nothing is wrong in {', '.join(report.clusters)}")
