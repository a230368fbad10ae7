"""`hanse doctor`: findings about all clusters, each with a remedy."""

import json
from typing import TYPE_CHECKING

import click

from hanse.cli.errors import EXIT_PROBLEM
from hanse.cli.settings import GlobalOptions, global_options

if TYPE_CHECKING:
    from hanse.cli.findings import Report

INTERVAL = 1.0
"""Seconds between two examinations with --wait."""


@click.command("doctor")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option(
    "--wait",
    type=click.IntRange(min=0),
    metavar="SECONDS",
    default=0,
    help="Look again until nothing is wrong, for so long.",
)
@click.pass_context
def command(context: click.Context, as_json: bool, wait: int) -> None:
    """Find what is wrong and say how to mend it.

    Looks at every cluster of the kubeconfig, or of a local federation that runs here, and prints
    findings: the cause first, what follows from it, and what mends it. A finding is an outage
    (users lose something now), degraded (less than there should be), a risk, or a note.
    `hanse explain CODE` explains one. Nothing is changed.
    The exit status is 1 if anything worse than a note was found.

    \b
    Examples:
      hanse doctor
      hanse doctor --wait 60
      hanse doctor --context lubeck
      hanse doctor --json | jq '.findings[].summary'
    """
    import time

    from hanse.cli.findings import print_findings, report_document
    from hanse.cli.process import start_logging

    settings = global_options(context)
    start_logging(settings)
    until = time.monotonic() + wait
    report = _examine(settings)
    while report.failed and time.monotonic() < until:
        time.sleep(INTERVAL)
        report = _examine(settings)
    if as_json:
        click.echo(json.dumps(report_document(report), indent=2))
    else:
        print_findings(report)
    context.exit(EXIT_PROBLEM if report.failed else 0)


def _examine(settings: GlobalOptions) -> "Report":
    """Read every cluster, and judge what is wrong.

    An unusable kubeconfig is a finding, too, and then the only one.
    """
    from hanse.cli.clusters import configured_clusters, is_local
    from hanse.cli.findings import Report
    from hanse.cli.process import run_async
    from hanse.kube.errors import BadCredentials
    from hanse.model.findings import Finding, Ref, Remedy, Severity

    try:
        clusters = configured_clusters(settings)
    except BadCredentials as error:
        unread = Finding(
            code="KubeconfigInvalid",
            severity=Severity.OUTAGE,
            subject=Ref("Kubeconfig", "kubeconfig"),
            summary=str(error),
            remedy=Remedy(
                "name a readable file with --kubeconfig and contexts of it with --context, or "
                "start `hanse up`"
            ),
        )
        return Report((), (unread,))
    from hanse.cli.doctor.examination import examine_clusters

    local = is_local(settings)
    return run_async(lambda: examine_clusters(clusters, local=local)).report
