"""`hanse export`: export a Service to the other clusters."""

import json
import re
from datetime import timedelta

import click

from hanse.cli.errors import EXIT_PROBLEM, InputError
from hanse.cli.settings import global_options

_CLUSTER = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


@click.command("export")
@click.argument("service")
@click.option("-n", "--namespace", default="", help="Its namespace; else that of the context.")
@click.option(
    "--to-clusters",
    metavar="ID,...",
    help="Only these clusters import it; '' lets all of them again.",
)
@click.option(
    "--weight",
    type=click.IntRange(0, 1000),
    help="This cluster's share of DNS answers for it, relative to the others'.",
)
@click.option(
    "--priority",
    type=click.IntRange(0, 100),
    help="Of the clusters that are ready, those with the highest answer; others step in.",
)
@click.option(
    "--affinity",
    metavar="local|remote|none",
    help="Whose endpoints a cluster prefers; local:50: its own, while half of them are ready.",
)
@click.option("--wait/--no-wait", default=True, help="Wait until it is exported, or only ask.")
@click.option(
    "--timeout",
    type=click.IntRange(1, 3600),
    default=30,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def command(
    context: click.Context,
    service: str,
    namespace: str,
    to_clusters: str | None,
    weight: int | None,
    priority: int | None,
    affinity: str | None,
    wait: bool,
    timeout: int,
    as_json: bool,
) -> None:
    """Export a Service to the other clusters, and show the result.

    In the cluster of --context, or of the current one, it creates the ServiceExport and waits until
    the agent has published it: who exports it, its ports, the endpoints that are ready in each
    cluster, and what clusters disagree about. Running it again is fine.

    The exit status is 0 when it is exported, 1 when it is not or clusters disagree about it.

    \b
    Examples:
      hanse export web -n shop
      hanse export web -n shop --context bergen --weight 3
      hanse export db -n shop --to-clusters lubeck,hamburg
      hanse export db -n shop --priority 10           the others answer when it is down
      hanse export web -n shop --affinity local:50    others step in below half of the pods
      kubectl -n shop delete serviceexport web        takes it back
    """
    from hanse.cli.clusters import select_cluster
    from hanse.cli.export import workflow
    from hanse.cli.process import run_async, start_logging

    settings = global_options(context)
    start_logging(settings)
    request = workflow.ExportRequest(
        select_cluster(settings),
        service,
        namespace,
        _parse_cluster_ids(to_clusters) if to_clusters is not None else None,
        weight,
        priority,
        _check_affinity(affinity),
        timedelta(seconds=timeout) if wait else None,
    )
    result = run_async(lambda: workflow.export(request))
    click.echo(json.dumps(workflow.json_document(result), indent=2) if as_json else str(result))
    context.exit(EXIT_PROBLEM if result.service.problems else 0)


def _check_affinity(text: str | None) -> str | None:
    """The text unchanged, None included; raises `InputError` if it is no affinity."""
    from hanse.model.affinity import FORMAT, parse_affinity

    if text is not None and parse_affinity(text) is None:
        raise InputError(f"--affinity: {text!r} is not {FORMAT}")
    return text


def _parse_cluster_ids(text: str) -> tuple[str, ...]:
    """The cluster ids of a comma-separated text, without empty ones.

    Raises `InputError` for one that is no DNS label.
    """
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    for name in names:
        if not _CLUSTER.fullmatch(name):
            raise InputError(
                f"--to-clusters: {name!r} is no cluster id; name them as lubeck,hamburg"
            )
    return names
