"""`hanse uninstall`: take Hanse out of a cluster, and leave nothing behind."""

from typing import TYPE_CHECKING

import click

from hanse.cli.errors import CommandFailed
from hanse.cli.settings import settings_of

if TYPE_CHECKING:
    from hanse.cli.uninstall.removal import Installation
    from hanse.kube.client import Client


@click.command("uninstall")
@click.option("--yes", is_flag=True, help="Do it; without this it is only shown.")
@click.option(
    "--keep-kinds",
    is_flag=True,
    help="Leave the definitions of our kinds, and with them all objects that people made of them.",
)
@click.option("--force", is_flag=True, help="Although an agent seems alive that runs elsewhere.")
@click.option("--kubectl", "by_hand", is_flag=True, help="Print the same as kubectl commands.")
@click.pass_context
def command(
    context: click.Context, yes: bool, keep_kinds: bool, force: bool, by_hand: bool
) -> None:
    """Take Hanse out of a cluster, and leave nothing behind.

    Of the cluster of --context: the agent first, then webhooks and policies, then everything that
    agents wrote, accounts and rights, and the definitions of our kinds last. What people made of
    those kinds goes with them; how much that is is shown before. Namespaces are left. It ends when
    all of it is gone. In a federation `hanse leave` comes first.

    \b
    Examples:
      hanse uninstall --context bergen
      hanse uninstall --context bergen --yes
      hanse uninstall --context bergen --kubectl >by-hand.sh
    """
    from hanse.cli.process import run_async, start_logging
    from hanse.cli.reaching import reached, way_to
    from hanse.cli.uninstall.removal import find_installation, kubectl_commands, remove_installation

    settings = settings_of(context)
    start_logging(settings)
    way = way_to(settings)

    async def work() -> None:
        async with reached(way) as client:
            found = await find_installation(client, definitions=not keep_kinds)
            if by_hand:
                click.echo("\n".join(kubectl_commands(found, way.name)))
                return
            _show(way.name, found)
            if not found:
                return
            if not yes:
                click.echo("Nothing was deleted; add --yes to do it.")
                return
            await _check_agent(client, way.name, found, force=force)
            await remove_installation(
                client, found, lambda text: click.echo(f"{way.name}: {text}", err=True)
            )
            left = await find_installation(client, definitions=not keep_kinds)
            if left:
                _show(way.name, left)
                raise CommandFailed(f"{way.name}: something came back; is an agent still running?")
            click.echo(f"{way.name}: nothing of Hanse is left")

    run_async(work)


def _show(name: str, found: "Installation") -> None:
    if not found:
        click.echo(f"{name}: nothing of Hanse is here")
        return
    for what, several in found.steps():
        if several:
            shown = ", ".join(str(one) for one in several[:3])
            more = f", and {len(several) - 3} more" if len(several) > 3 else ""
            click.echo(f"{name}: {what}: {shown}{more}")
    for kind, count in sorted(found.objects.items()):
        if found.definitions:
            click.echo(f"{name}: with them go {count} {kind}")


async def _check_agent(client: "Client", name: str, found: "Installation", *, force: bool) -> None:
    """Refuse while an agent works here that we do not stop by this: it would write all again."""
    from datetime import UTC, datetime

    from hanse.cli.inventory import parse_agent_lease
    from hanse.kube.errors import NotFound
    from hanse.model.kinds.coordination import Lease
    from hanse.model.naming import AGENT, SYSTEM_NAMESPACE
    from hanse.model.objects import to_wire

    if force or any(one.name == AGENT for one in found.workloads):
        return
    try:
        lease = to_wire(await client.read(Lease, AGENT, SYSTEM_NAMESPACE))
    except NotFound:
        return
    seen = parse_agent_lease(lease, datetime.now(UTC))
    if seen is not None and seen.alive:
        raise CommandFailed(
            f"{name}: the agent {seen.holder} is alive and runs elsewhere; "
            "stop it first, or add --force"
        )
