"""`hanse verify`: try services, names, routes, policies and hosts between clusters."""

import json
from datetime import timedelta
from typing import TYPE_CHECKING

import click

from hanse.cli.errors import EXIT_PROBLEM, InputError
from hanse.cli.settings import GlobalOptions, global_options

if TYPE_CHECKING:
    from hanse.cli.clusters import ClusterAccess
    from hanse.cli.verify.attempts import Topic, VerifyResult

_COLOURS = {"ok": "green", "warning": "yellow", "failed": "red"}


@click.command("verify")
@click.option("--clusters", metavar="CONTEXT,...", help="Between these; else all of the file.")
@click.option(
    "--only",
    metavar="TOPIC,...",
    help="Of routes, names, services, policies, hosts; else all. Routes need no Hanse.",
)
@click.option("--image", default="", help="The image of the pods; else that of the agents.")
@click.option(
    "--timeout",
    type=click.IntRange(5, 600),
    default=30,
    show_default=True,
    metavar="SECONDS",
    help="How long pods may take to start, imports to arrive, and each failure to go away.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def command(
    context: click.Context,
    clusters: str | None,
    only: str | None,
    image: str,
    timeout: int,
    as_json: bool,
) -> None:
    """Try whether services, names and packets arrive between clusters.

    Creates a namespace of its own in each cluster, with small pods that answer and connect, and an
    exported Service; tries the addresses of pods and Services, the service by its name and its
    clusterset IP, isolated pods, and the names of global hosts; prints what failed and why; and
    removes everything, also when it is interrupted.
    The exit status is 1 if anything failed; warnings do not count.

    \b
    Examples:
      hanse verify
      hanse verify --clusters lubeck,bergen --only routes       before an installation, too
      hanse verify --image registry.example.org/hanse:1.0
      hanse verify --json | jq '.results[] | select(.status == "failed")'
    """
    from hanse.cli.process import run_async, start_logging
    from hanse.cli.verify.workflow import VerifyRequest, verify

    settings = global_options(context)
    start_logging(settings)
    request = VerifyRequest(
        _chosen_clusters(settings, clusters),
        _parse_topics(only),
        image,
        timedelta(seconds=timeout),
        lambda text: None if as_json else click.echo(f"… {text}", err=True),
    )
    results = run_async(lambda: verify(request))
    if as_json:
        import msgspec

        click.echo(json.dumps({"results": msgspec.to_builtins(results)}, indent=2))
    else:
        _print_results(results)
    context.exit(EXIT_PROBLEM if any(r.status == "failed" for r in results) else 0)


def _chosen_clusters(settings: GlobalOptions, named: str | None) -> "tuple[ClusterAccess, ...]":
    """The clusters of the named contexts; without names all, but for a local fleet's broker.

    Raises `InputError` for an unknown context, and for a text without any.
    """
    from hanse.cli.clusters import is_local, select_clusters

    known = {cluster.name: cluster for cluster in select_clusters(settings)}
    if named is None:
        return tuple(c for name, c in known.items() if name != "broker" or not is_local(settings))
    names = [name.strip() for name in named.split(",") if name.strip()]
    for name in names:
        if name not in known:
            raise InputError(f"--clusters: no context {name!r}; there is: {', '.join(known)}")
    if not names:
        raise InputError("--clusters names no context; name them as lubeck,bergen")
    return tuple(known[name] for name in dict.fromkeys(names))


def _parse_topics(text: str | None) -> "tuple[Topic, ...]":
    """The topics of a comma-separated text in the order of `TOPICS`; all of them for None.

    Raises `InputError` for an unknown one, and for a text without any.
    """
    from hanse.cli.verify.attempts import TOPICS

    if text is None:
        return TOPICS
    names = {name.strip() for name in text.split(",") if name.strip()}
    if not names or names - set(TOPICS):
        raise InputError(f"--only: name some of {', '.join(TOPICS)}")
    return tuple(topic for topic in TOPICS if topic in names)


def _print_results(results: "list[VerifyResult]") -> None:
    """Print a table of all results, then each failure and warning with its remedy.

    Equal ones are printed once; the last line is how many failed.
    """
    from hanse.cli.tables import table

    rows = [
        (r.source, r.topic, r.target, r.subject, click.style(r.status, fg=_COLOURS[r.status]))
        for r in results
    ]
    click.echo(table(("FROM", "TOPIC", "TO", "BY", "RESULT"), rows))
    told: set[tuple[str, str]] = set()
    for result in results:
        if result.status == "ok" or (result.message, result.remedy) in told:
            continue
        told.add((result.message, result.remedy))
        mark = click.style("✗" if result.status == "failed" else "!", fg=_COLOURS[result.status])
        click.echo(f"{mark} {result.message}: {result.output}")
        click.echo(f"  mend it: {result.remedy}")
    failed = sum(result.status == "failed" for result in results)
    click.echo(f"{failed} of {len(results)} failed" if failed else f"all {len(results)} arrived")
