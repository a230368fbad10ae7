"""`hanse broker`: set up the API server by which clusters share their exports."""

from typing import Literal

import click

from hanse.cli.name_options import checked_broker_namespace
from hanse.cli.settings import global_options


@click.group("broker")
def command() -> None:
    """Set up the API server by which clusters share what they export.

    \b
    Examples:
      hanse broker init --context broker
      hanse broker init --context broker --profile kep-1645 --dry-run
      hanse broker retire --context old --successor new
    """


@command.command("init")
@click.option(
    "--namespace",
    default="hanse-broker",
    show_default=True,
    metavar="NAME",
    callback=checked_broker_namespace,
    help="Where clusters share; agents look in hanse-broker.",
)
@click.option(
    "--profile",
    type=click.Choice(("lighthouse", "kep-1645")),
    help="Whose rules services follow; lighthouse, unless a ClusterSet says otherwise.",
)
@click.option("--dry-run", is_flag=True, help="Print what would be written, and write nothing.")
@click.pass_context
def init(
    context: click.Context,
    namespace: str,
    profile: Literal["lighthouse", "kep-1645"] | None,
    dry_run: bool,
) -> None:
    """Make an API server a broker.

    Any Kubernetes API server will do, that of a member too. It is given our kinds, a namespace, a
    ClusterSet with the rules of the fleet, the role of members, and admission policies that let
    each member write only what is its own. Running it again brings all of that up to date; a
    ClusterSet that is there stays as it is.

    \b
    Examples:
      hanse broker init --context broker
      hanse broker init --context broker --profile kep-1645
      hanse broker init --context broker --dry-run
    """
    from hanse.cli.clusters import select_cluster
    from hanse.cli.join.broker import init_broker
    from hanse.cli.process import run_async, start_logging

    settings = global_options(context)
    start_logging(settings)
    cluster = select_cluster(settings)
    run_async(lambda: init_broker(cluster, namespace, profile, dry_run=dry_run))


@command.command("retire")
@click.option(
    "--successor",
    required=True,
    metavar="CONTEXT",
    help="The broker to which all members have moved.",
)
@click.option(
    "--namespace",
    default="hanse-broker",
    show_default=True,
    metavar="NAME",
    callback=checked_broker_namespace,
    help="Where clusters share, on both.",
)
@click.option("--dry-run", is_flag=True, help="Print what would be done, and do nothing.")
@click.pass_context
def retire(context: click.Context, successor: str, namespace: str, dry_run: bool) -> None:
    """Leave a broker, that of --context, when its fleet has moved to another one.

    `hanse join --broker NEW --from OLD` moves each cluster. This waits until every member is ready
    on the successor; then it deletes on the old broker what members published, their accounts,
    rights, Leases and records. Interrupted, it is resumed by running it again.

    \b
    Examples:
      hanse broker retire --context old --successor new --dry-run
      hanse broker retire --context old --successor new
    """
    from hanse.cli.clusters import select_cluster
    from hanse.cli.join.move import connect_brokers, retire_broker
    from hanse.cli.process import run_async, start_logging

    settings = global_options(context)
    start_logging(settings)
    old, new = select_cluster(settings), select_cluster(settings, successor)

    async def run() -> None:
        """Connect to both brokers, and retire the old one; a dry run only prints what it would do.

        Raises `InputError` or `CommandFailed`.
        """
        async with connect_brokers(old, new, namespace) as brokers:
            await retire_broker(brokers, dry_run=dry_run)

    run_async(run)
