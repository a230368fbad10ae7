"""`hanse uninstall`: print or delete everything that Hanse made in a cluster."""

from typing import TYPE_CHECKING

import click

from hanse.cli.errors import CommandFailed
from hanse.cli.settings import global_options

if TYPE_CHECKING:
    from hanse.cli.uninstall.leaving import JoinedBroker
    from hanse.cli.uninstall.removal import Installation
    from hanse.kube.client import Client


@click.command("uninstall")
@click.option("--yes", is_flag=True, help="Do it; without this it is only shown.")
@click.option(
    "--keep-kinds",
    is_flag=True,
    help="Leave the definitions of our kinds, and with them all objects that people made of them.",
)
@click.option(
    "--force",
    is_flag=True,
    help="Although an agent seems alive that runs elsewhere, the broker cannot be left, or it is "
    "the broker of others or in a federation with them.",
)
@click.option("--kubectl", "by_hand", is_flag=True, help="Print the same as kubectl commands.")
@click.pass_context
def command(
    context: click.Context, yes: bool, keep_kinds: bool, force: bool, by_hand: bool
) -> None:
    """Take Hanse out of a cluster, and leave nothing behind.

    A member of a broker leaves it first. Then, of the cluster of --context: the agent, webhooks and
    policies, everything that agents wrote, accounts and rights, and the definitions of our kinds
    last. What people made of those kinds goes with them; how much that is is shown before.
    Namespaces are left, and so are the replicas of StatefulSets over clusters: they run on, without
    an owner. It ends when all of it is gone. In a federation `hanse leave` comes first, and a
    broker is taken out after its members.

    \b
    Examples:
      hanse uninstall --context bergen
      hanse uninstall --context bergen --yes
      hanse uninstall --context bergen --kubectl >by-hand.sh
    """
    from hanse.cli.clusters import connect, select_cluster
    from hanse.cli.process import run_async, start_logging
    from hanse.cli.uninstall.leaving import find_joined_broker
    from hanse.cli.uninstall.removal import find_installation, kubectl_commands

    settings = global_options(context)
    start_logging(settings)
    cluster = select_cluster(settings)

    async def uninstall() -> None:
        """Print what is installed and, with --yes, delete it.

        With --kubectl it only prints how to delete it, also with --yes. A broker that the cluster
        has joined is left before the deletion, but not with --force.
        """
        async with connect(cluster) as client:
            found = await find_installation(client, definitions=not keep_kinds)
            if by_hand:
                click.echo("\n".join(kubectl_commands(found, cluster.name)))
                return
            joined = await find_joined_broker(client) if found and not force else None
            if joined is not None:
                click.echo(f"{cluster.name}: {joined.cluster} leaves its broker first")
            print_installation(cluster.name, found)
            if not found:
                return
            if not yes:
                click.echo("Nothing was deleted; add --yes to do it.")
                return
            await _remove(client, cluster.name, joined, definitions=not keep_kinds, force=force)

    run_async(uninstall)


async def _remove(
    client: "Client", name: str, joined: "JoinedBroker | None", *, definitions: bool, force: bool
) -> None:
    """Leave the broker, if one is given, delete everything, and check that nothing came back.

    CustomResourceDefinitions only with `definitions`. Without `force`, raises `CommandFailed` if
    the cluster is the broker of others or in a Federation with others, or an agent that runs
    elsewhere is alive. Always raises it if the cluster cannot leave the broker, or something is
    there again. Progress goes to stderr.
    """
    from hanse.cli.uninstall.leaving import check_members, leave_first
    from hanse.cli.uninstall.removal import find_installation, remove_installation

    def tell(text: str) -> None:
        """Print progress to stderr."""
        click.echo(f"{name}: {text}", err=True)

    if not force:
        await check_members(client, name)
    if joined is not None:
        await leave_first(client, name, joined, tell)
    found = await find_installation(client, definitions=definitions)
    await _check_agent(client, name, found, force=force)
    await remove_installation(client, found, tell)
    left = await find_installation(client, definitions=definitions)
    if left:
        print_installation(name, left)
        raise CommandFailed(f"{name}: something came back; is an agent still running?")
    click.echo(f"{name}: nothing of Hanse is left")


def print_installation(name: str, found: "Installation") -> None:
    """Print what is to be removed, at most three names for each step, or that there is nothing.

    With CustomResourceDefinitions also how many objects of each of these kinds go with them.
    """
    if not found:
        click.echo(f"{name}: nothing of Hanse is here")
        return
    kept = (
        ("our finalizers on objects", found.held),
        ("replicas of sets run on, with what they need", found.released),
    )
    for title, objects in (*kept, *found.steps()):
        if objects:
            shown = ", ".join(str(one) for one in objects[:3])
            more = f", and {len(objects) - 3} more" if len(objects) > 3 else ""
            click.echo(f"{name}: {title}: {shown}{more}")
    for kind, count in sorted(found.objects.items()):
        if found.definitions:
            click.echo(f"{name}: with them go {count} {kind}")


async def _check_agent(client: "Client", name: str, found: "Installation", *, force: bool) -> None:
    """Raise `CommandFailed` if the agent's Lease is renewed in time and `found` lacks its workload.

    Uninstalling does not stop such an agent. Not checked with `force`.
    """
    from hanse.cli.agent.running import read_agent_lease
    from hanse.model.naming import AGENT

    if force or any(one.name == AGENT for one in found.workloads):
        return
    agent = await read_agent_lease(client)
    if agent is not None and agent.alive:
        raise CommandFailed(
            f"{name}: the agent {agent.holder} is alive and runs elsewhere; "
            "stop it first, or add --force"
        )
