"""`hanse statefulsets`: each replica with its cluster, state, address and name."""

from typing import TYPE_CHECKING

import click

from hanse.cli.errors import EXIT_PROBLEM, InputError
from hanse.cli.replica_name_options import parse_replica_names, replica_name_options
from hanse.cli.settings import global_options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hanse.cli.clusters import ClusterAccess
    from hanse.cli.statefulsets.replicas import SetView

_COLOURS = {
    "ready": "green",
    "not ready": "yellow",
    "missing": "red",
    "away": "red",
    "unknown": "red",
}


@click.group("statefulsets", invoke_without_command=True)
@click.option("-n", "--namespace", default="", metavar="NAME", help="Only sets of this namespace.")
@replica_name_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def command(
    context: click.Context, namespace: str, replica_zone: str, federation: str, as_json: bool
) -> None:
    """Show where each replica of a federated StatefulSet is.

    It reads the broker, which it finds among the contexts of the kubeconfig. For each replica it
    tells its cluster, whether it is ready, the address of its load balancer, and the names by which
    it is known. The exit status is 1 when a replica is not ready.

    \b
    Examples:
      hanse statefulsets
      hanse statefulsets -n shop --json | jq '.[].replicas[].cluster'
    """
    if context.invoked_subcommand is not None:
        return
    import msgspec

    from hanse.cli.clusters import select_clusters
    from hanse.cli.process import run_async, start_logging
    from hanse.cli.statefulsets.replicas import read_sets

    settings = global_options(context)
    start_logging(settings)
    clusters = select_clusters(settings)
    names = parse_replica_names(replica_zone, federation)
    sets = run_async(lambda: read_sets(clusters, namespace, names))
    if as_json:
        text = msgspec.json.format(msgspec.json.encode(sets), indent=2)
        click.echo(text.decode())
    else:
        _print_sets(sets, namespace)
    healthy = all(one.ready == len(one.replicas) and not one.trouble for one in sets)
    context.exit(0 if healthy else EXIT_PROBLEM)


@command.command("accept")
@click.argument("name", metavar="NAMESPACE/NAME")
@click.option("--cluster", required=True, metavar="NAME", help="The cluster that was rebuilt.")
@click.pass_context
def accept(context: click.Context, name: str, cluster: str) -> None:
    """Let a rebuilt cluster start its replicas with empty volumes.

    A cluster that was built anew under the name of another does not start the replicas that the
    other had: their volumes would be empty, which an application may take for lost data. This lets
    it start them.

    \b
    Examples:
      hanse statefulsets accept shop/store --cluster lubeck
    """
    from hanse.cli.process import run_async
    from hanse.cli.statefulsets.replicas import accept_cluster

    clusters, namespace, set_name = _select_set(context, name)
    run_async(lambda: accept_cluster(clusters, namespace, set_name, cluster))
    click.echo(f"{cluster} starts its replicas of {name} with empty volumes")


_source_option = click.option(
    "--from",
    "source",
    default="",
    metavar="CONTEXT",
    help="The context of the cluster whose history counts; default: the first that runs the set.",
)


@command.command("history")
@click.argument("name", metavar="NAMESPACE/NAME")
@_source_option
@click.pass_context
def history(context: click.Context, name: str, source: str) -> None:
    """Show the earlier templates of a set.

    The broker has no history that `kubectl rollout history` could show; the clusters that run the
    set have.

    \b
    Examples:
      hanse statefulsets history shop/store
    """
    from hanse.cli.process import run_async
    from hanse.cli.statefulsets.history import read_history
    from hanse.cli.tables import table

    clusters, namespace, set_name = _select_set(context, name)
    found = run_async(lambda: read_history(clusters, namespace, set_name, source))
    rows = [
        (
            str(one.number),
            one.created.isoformat(timespec="seconds") if one.created is not None else "-",
            ", ".join(one.images) or "-",
            "now" if one.is_present else "",
        )
        for one in found.revisions
    ]
    click.echo(f"{name}, as {found.cluster} has it")
    click.echo(table(("REVISION", "CREATED", "IMAGES", ""), rows))


@command.command("undo")
@click.argument("name", metavar="NAMESPACE/NAME")
@click.option("--to-revision", type=int, metavar="N", help="Default: the last one before.")
@_source_option
@click.pass_context
def undo(context: click.Context, name: str, to_revision: int | None, source: str) -> None:
    """Roll a set back to an earlier template.

    It takes the template from a cluster that ran it and submits it where the set was submitted, at
    the broker or in the cluster that hosts it, so that it is rolled out like any other.

    \b
    Examples:
      hanse statefulsets undo shop/store
      hanse statefulsets undo shop/store --to-revision 3 --from lubeck
    """
    from hanse.cli.process import run_async
    from hanse.cli.statefulsets.history import undo as roll_back

    clusters, namespace, set_name = _select_set(context, name)
    done = run_async(lambda: roll_back(clusters, namespace, set_name, to_revision, source))
    images = ", ".join(done.images)
    click.echo(f"{name} has the template of revision {done.number} again ({images})")


@command.command("restart")
@click.argument("name", metavar="NAMESPACE/NAME")
@click.pass_context
def restart(context: click.Context, name: str) -> None:
    """Replace all replicas of a set, one after the other.

    `kubectl rollout restart` does so for StatefulSets at the broker, and does not know
    FederatedStatefulSets; this knows both.

    \b
    Examples:
      hanse statefulsets restart shop/store
    """
    from hanse.cli.process import run_async
    from hanse.cli.statefulsets.history import restart as restart_set

    clusters, namespace, set_name = _select_set(context, name)
    run_async(lambda: restart_set(clusters, namespace, set_name))
    click.echo(f"{name} is restarted; see `hanse statefulsets`")


def _select_set(context: click.Context, name: str) -> "tuple[Sequence[ClusterAccess], str, str]":
    """The clusters that the settings name, and the namespace and name in NAMESPACE/NAME.

    Raises `InputError` for other text. Starts logging.
    """
    from hanse.cli.clusters import select_clusters
    from hanse.cli.process import start_logging

    settings = global_options(context)
    start_logging(settings)
    namespace, _, set_name = name.partition("/")
    if not namespace or not set_name or "/" in set_name:
        raise InputError(f"{name!r} is no set; write NAMESPACE/NAME, as shop/store")
    return select_clusters(settings), namespace, set_name


def _print_sets(sets: "list[SetView]", namespace: str) -> None:
    """Print each set with its replicas and problems, or that there is none."""
    from hanse.cli.tables import table

    if not sets:
        none = f"no StatefulSet of namespace {namespace}" if namespace else "no StatefulSet"
        click.echo(f"{none} is spread over clusters; see docs/guides/statefulsets.md")
    for at, one in enumerate(sets):
        head = f"{one.namespace}/{one.name}"
        blank = "\n" if at else ""
        click.echo(f"{blank}{click.style(head, bold=True)}  {one.ready}/{len(one.replicas)} ready")
        rows = [
            (
                replica.name,
                replica.cluster,
                click.style(replica.state, fg=_COLOURS[replica.state]),
                ", ".join(replica.addresses) or "-",
                replica.names[-1] if replica.names else "-",
            )
            for replica in one.replicas
        ]
        if rows:
            click.echo(table(("REPLICA", "CLUSTER", "STATE", "ADDRESS", "NAME"), rows))
        for trouble in one.trouble:
            click.echo(f"{click.style('✗', fg='red')} {trouble}")
        for waiting in one.waiting:
            click.echo(f"{click.style('…', fg='yellow')} {waiting}")
