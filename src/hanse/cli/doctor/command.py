"""`hanse doctor`: findings about all clusters, each with a remedy."""

import json
from typing import TYPE_CHECKING

import click

from hanse.cli.errors import EXIT_PROBLEM
from hanse.cli.settings import GlobalOptions, global_options

if TYPE_CHECKING:
    from hanse.cli.doctor.clusters import Report
    from hanse.cli.doctor.lists import ClusterLists
    from hanse.cli.federated_services import FederatedView
    from hanse.cli.inventory import InventoryResult


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
    report = _examine(global_options(context))
    if as_json:
        import msgspec

        click.echo(json.dumps(msgspec.to_builtins(report), indent=2))
    else:
        _print_report(report)
    context.exit(EXIT_PROBLEM if report.findings else 0)


def _examine(settings: GlobalOptions) -> "Report":
    """Read every cluster, and run all checks."""
    import asyncio
    from datetime import UTC, datetime

    from hanse.cli.clusters import configured_clusters, is_local
    from hanse.cli.doctor.clusters import (
        REQUIRED_PERMISSIONS,
        CheckContext,
        Finding,
        Report,
        check_clusters,
    )
    from hanse.cli.doctor.conditions import check_federated_services
    from hanse.cli.doctor.lists import read_lists
    from hanse.cli.doctor.objects import check_objects
    from hanse.cli.federated_services import read_federated_services
    from hanse.cli.inventory import read_inventories
    from hanse.cli.process import run_async, start_logging
    from hanse.kube.errors import BadCredentials
    from hanse.model.crds import crds

    start_logging(settings)
    try:
        clusters = configured_clusters(settings)
    except BadCredentials as error:
        remedy = "name a readable file with --kubeconfig, or start `hanse up`"
        return Report((), (Finding("kubeconfig", str(error), remedy),))

    async def read() -> "tuple[list[InventoryResult], list[ClusterLists], FederatedView]":
        return await asyncio.gather(
            read_inventories(clusters, REQUIRED_PERMISSIONS),
            read_lists(clusters),
            read_federated_services(clusters),
        )

    inventories, lists, federated = run_async(read)
    now = datetime.now(UTC)
    findings = (
        *check_clusters(inventories, CheckContext(now, crds(), is_local(settings))),
        *check_objects(lists, now, local=is_local(settings)),
        *check_federated_services(federated),
    )
    return Report(tuple(cluster.name for cluster in clusters), findings)


def _print_report(report: "Report") -> None:
    """Print each finding with its remedy, or that nothing is wrong."""
    for finding in report.findings:
        click.echo(f"{click.style('✗', fg='red')} {finding.cluster}: {finding.problem}")
        click.echo(f"  mend it: {finding.remedy}")
    if not report.findings:
        mark = click.style("✓", fg="green")
        click.echo(f"{mark} nothing is wrong in {', '.join(report.clusters)}")
