"""`hanse status`: all clusters and what spans them, as tables or JSON."""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from hanse.cli.errors import EXIT_PROBLEM
from hanse.cli.settings import GlobalOptions, global_options

if TYPE_CHECKING:
    from hanse.cli.doctor.examination import FleetExamination
    from hanse.cli.status.local import LocalFederationState
    from hanse.features.services.view import ServiceItem
    from hanse.model.findings import Finding

    Results = tuple[FleetExamination, LocalFederationState]


WATCH_INTERVAL = 2.0
"""Seconds between two readings with --watch."""


@click.command("status")
@click.option("--json", "as_json", is_flag=True, help="Print JSON; the same as -o json.")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "wide", "json", "yaml"]),
    default="table",
    help="How to print it; wide has remedies, details and every service.",
)
@click.option("-n", "--namespace", default="", metavar="NAME", help="Only what is in a namespace.")
@click.option("--watch", is_flag=True, help="Print it again whenever it changes, until Ctrl-C.")
@click.option(
    "--fail-on",
    type=click.Choice(["outage", "degraded", "risk", "note"]),
    default=None,
    help="Exit with status 1 if anything so bad, or worse, is found.",
)
@click.pass_context
def command(
    context: click.Context,
    as_json: bool,
    output: str,
    namespace: str,
    watch: bool,
    fail_on: str | None,
) -> None:
    """Show every cluster at a glance, and first what is wrong.

    Of a local federation that runs in this folder, else of the kubeconfig's contexts: whether each
    cluster answers, its version, whether its agent is alive, how many nodes and exported services
    are ready, and how many services it imports. Then every exported service: who exports it, its
    ports, and the endpoints that are ready in each cluster; of more than 200 only those with which
    something is wrong, and how many there are. Then federated Services, StatefulSets over
    clusters, global hosts and federated policies, with each cluster's part. A cluster that
    does not answer is shown as such; the exit status is 0 all the same, unless --fail-on says
    otherwise. `hanse doctor` has the remedies.

    \b
    Examples:
      hanse status
      hanse status -n shop -o wide
      hanse status --watch
      hanse status --context lubeck --fail-on degraded
      hanse status --json | jq '.clusters[] | select(.reachable | not) | .name'
      hanse status --json | jq '.services[] | select(.findings != [])'
    """
    import time

    settings = global_options(context)
    form = "json" if as_json else output
    last = ""
    while True:
        shown, failed = _status_text(settings, form, namespace, fail_on)
        if shown != last:
            click.echo(
                f"\n--- {time.strftime('%H:%M:%S')}" if last and watch else "", nl=bool(last)
            )
            click.echo(shown)
            last = shown
        if not watch:
            context.exit(EXIT_PROBLEM if failed else 0)
        time.sleep(WATCH_INTERVAL)


def _status_text(
    settings: GlobalOptions, form: str, namespace: str, fail_on: str | None
) -> tuple[str, bool]:
    """Read everything, and return the text to show, and whether `fail_on` or worse was found.

    `form` is json, yaml, table or wide; `namespace`, unless "", limits findings and items. Without
    `fail_on` the latter is False. Raises `InputError` for an unusable kubeconfig.
    """
    from hanse.cli.findings import reaches
    from hanse.model.findings import Severity

    results = _read_results(settings)
    examination = results[0]
    findings = tuple(f for f in examination.report.findings if _concerns(f, namespace))
    services = [
        one for one in examination.items["services"].values() if namespace in ("", one.namespace)
    ]
    failed = fail_on is not None and reaches(findings, Severity(fail_on))
    if form in ("json", "yaml"):
        document = _document(results, findings, services, namespace)
        if form == "json":
            return json.dumps(document, indent=2), failed
        from hanse.cli.yaml_text import to_yaml

        return to_yaml([document]).strip(), failed
    return _tables(results, findings, services, namespace, wide=form == "wide"), failed


def _concerns(finding: "Finding", namespace: str) -> bool:
    """Whether the subject of a finding, or of a consequence, is in the namespace or in none.

    True for namespace "".
    """
    spaces = {finding.subject.namespace, *(c.subject.namespace for c in finding.consequences)}
    return not namespace or "" in spaces or namespace in spaces


def _document(
    results: "Results",
    findings: "Sequence[Finding]",
    exported: "Sequence[ServiceItem]",
    namespace: str,
) -> dict[str, Any]:
    """Clusters, findings, services and the items of other views as JSON values."""
    from hanse.cli.findings import findings_document
    from hanse.cli.status import clusters, features, services

    examination, local = results
    return {
        "clusters": [clusters.json_document(one, local) for one in examination.inventories],
        "dns": local.clusterless_dns,
        "findings": findings_document(findings),
        "services": [services.json_document(one) for one in exported],
        **features.json_document(examination.items, namespace),
    }


def _tables(
    results: "Results",
    findings: "Sequence[Finding]",
    exported: "Sequence[ServiceItem]",
    namespace: str,
    *,
    wide: bool,
) -> str:
    """Everything as text with tables, what is wrong first; with `wide` in full.

    Coloured as the command's context says, else if stdout is a terminal.
    """
    import io
    import sys
    from contextlib import redirect_stdout

    from hanse.cli.findings import print_finding, print_summaries
    from hanse.cli.status import clusters, features, services

    examination, local = results
    context = click.get_current_context()
    colored = context.color if context.color is not None else sys.stdout.isatty()
    context.color = True  # what is printed into a text keeps its colours until it is shown
    with redirect_stdout(io.StringIO()) as text:
        if wide:
            for one in findings:
                print_finding(one)
        else:
            print_summaries(findings)
        clusters.print_table(examination.inventories)
        clusters.print_unsynced(local.phases)
        clusters.print_memberships(examination.inventories)
        services.print_services(exported, whole=wide or bool(namespace))
        features.print_tables(examination.items, namespace, wide=wide)
    context.color = colored
    shown = text.getvalue().rstrip()
    return shown if colored else click.unstyle(shown)


def _read_results(settings: GlobalOptions) -> "Results":
    """Read all clusters and the local federation's control socket concurrently; starts logging.

    Clusters that cannot be read are in the result. Raises `InputError` for an unusable kubeconfig.
    """
    import asyncio

    from hanse.cli.clusters import is_local, select_clusters
    from hanse.cli.doctor.examination import examine_clusters
    from hanse.cli.process import run_async, start_logging
    from hanse.cli.status.local import read_local_state

    start_logging(settings)
    clusters = select_clusters(settings)

    async def read() -> "Results":
        """Examine all clusters, and ask the local federation, at the same time."""
        return await asyncio.gather(
            examine_clusters(clusters, local=is_local(settings)),
            read_local_state(settings),
        )

    return run_async(read)
