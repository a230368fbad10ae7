"""`hanse networks`: tenant networks, and the reachability that policies allow."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hanse.cli.errors import EXIT_PROBLEM, InputError
from hanse.cli.settings import global_options

if TYPE_CHECKING:
    from hanse.features.networks.reachability import ReachabilityMatrix

_SYMBOLS = {"all": "✓", "some": "~", "none": "·"}


@click.group("networks")
def command() -> None:
    """Look at the networks of tenants.

    \b
    Examples:
      hanse networks list
      hanse networks matrix --context lubeck --json
    """


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def list_(context: click.Context, as_json: bool) -> None:
    """Show every network: whose, of which type, how far it is, and how much is in it.

    The exit status is 1 if one is Failed or Unknown.

    \b
    Examples:
      hanse networks list
      hanse networks list --json | jq '.[] | select(.phase != "Ready")'
    """
    from hanse.cli.clusters import select_cluster
    from hanse.cli.networks.view import read_networks
    from hanse.cli.process import run_async, start_logging
    from hanse.cli.tables import table

    settings = global_options(context)
    start_logging(settings)
    cluster = select_cluster(settings)
    networks = run_async(lambda: read_networks(cluster))
    if as_json:
        import msgspec

        click.echo(json.dumps(msgspec.to_builtins(networks), indent=2))
    elif not networks:
        click.echo(f"{cluster.name} has no networks; create a Tenant, and it gets one")
    else:
        head = ("NETWORK", "TYPE", "PHASE", "DNS", "PODS", "SERVICES", "WHY")
        rows = [
            (n.name, n.type, n.phase, n.dns, str(n.pods), str(n.services), n.message)
            for n in networks
        ]
        click.echo(table(head, rows))
    context.exit(EXIT_PROBLEM if any(n.phase in ("Failed", "Unknown") for n in networks) else 0)


@command.command("matrix")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def matrix(context: click.Context, as_json: bool) -> None:
    """Show which networks reach which, by the policies written in the cluster.

    Rows open connections, columns take them. NetworkPolicies, ClusterNetworkPolicies of
    administrators and policies of Antrea count; what of the latter is not evaluated (groups,
    names, Services, accounts, nodes, layer 7) is listed. It tells what is written: whether it
    holds is up to the cluster's network plugin, and to guards on the nodes, which stop packets
    between networks that are not peered whatever is written. The exit status is 1 if a network
    reaches another with which it is not peered, and not all nodes are guarded.

    \b
    Examples:
      hanse networks matrix
      hanse networks matrix --json | jq '.leaks'
    """
    from hanse.cli.clusters import select_cluster
    from hanse.cli.networks.view import read_reachability
    from hanse.cli.process import run_async, start_logging

    settings = global_options(context)
    start_logging(settings)
    cluster = select_cluster(settings)
    view = run_async(lambda: read_reachability(cluster))
    leaks = [f"{one} -> {other}" for one, other in view.leaks]
    if as_json:
        rows = {
            one: {o: view.matrix.reach[one, o] for o in view.matrix.names}
            for one in view.matrix.names
        }
        guards = {"wanted": view.guards.wanted, "ready": view.guards.ready}
        found = {"written": rows, "leaks": leaks, "guards": guards}
        click.echo(json.dumps({**found, "notEvaluated": list(view.unevaluated)}, indent=2))
    else:
        _print_matrix(view.matrix)
        for policy in view.unevaluated:
            click.echo(f"not evaluated, as if they matched nothing: {policy}")
        if view.guards.wanted:
            click.echo(f"guards are ready on {view.guards.ready} of {view.guards.wanted} nodes")
        for leak in leaks if not view.guards.complete else ():
            click.echo(f"{click.style('✗', fg='red')} {leak}: they are not peered")
        if leaks and view.guards.complete:
            click.echo(f"guards stop {len(leaks)} pairs that policies let through")
    context.exit(EXIT_PROBLEM if leaks and not view.guards.complete else 0)


@command.command("verify")
@click.argument("networks", nargs=-1, metavar="[TENANT.NETWORK]...")
@click.option("--image", default="", help="The image of the pods; else that of the agents.")
@click.option(
    "--timeout",
    type=click.IntRange(5, 600),
    default=60,
    show_default=True,
    metavar="SECONDS",
    help="How long pods may take to start.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def verify(
    context: click.Context, networks: tuple[str, ...], image: str, timeout: int, as_json: bool
) -> None:
    """Try by packets which networks reach which.

    A small pod of each network answers, others on two nodes connect to all, in the namespaces
    TENANT-default; they are deleted again. It compares what is seen with what policies say
    (written) and what guards on the nodes let through (guarded): a network reaches itself and its
    peers. The exit status is 1 if a network is reached that should not be, or is not reached though
    policies allow it.

    \b
    Examples:
      hanse networks verify
      hanse networks verify acme.default globex.default --image registry.example.org/hanse:1.0
    """
    import msgspec

    from hanse.cli.clusters import select_cluster
    from hanse.cli.networks.verify import verify_networks
    from hanse.cli.process import run_async, start_logging
    from hanse.cli.tables import table

    settings = global_options(context)
    start_logging(settings)
    cluster = select_cluster(settings)
    pairs = run_async(lambda: verify_networks(cluster, networks, image, timeout))
    wrong = [pair for pair in pairs if pair.contradicts]
    if as_json:
        rows = [{**msgspec.to_builtins(pair), "wrong": pair.contradicts} for pair in pairs]
        click.echo(json.dumps({"pairs": rows}, indent=2))
    else:
        cells = [(p.source, p.target, p.written, p.guarded or "-", p.seen) for p in pairs]
        click.echo(table(("FROM", "TO", "WRITTEN", "GUARDED", "SEEN"), cells))
        for pair in wrong:
            verb = "does not always reach" if pair.expected else "reaches"
            click.echo(f"{click.style('✗', fg='red')} {pair.source} {verb} {pair.target}")
    context.exit(EXIT_PROBLEM if wrong else 0)


@command.command("provider")
@click.option(
    "--listen",
    default="127.0.0.1:8460",
    show_default=True,
    metavar="ADDRESS:PORT",
    help="Where requests of agents are answered.",
)
@click.option(
    "--range",
    "pool",
    default="10.60.0.0/16",
    show_default=True,
    metavar="NETWORK",
    help="The addresses to give out; each network gets a part of 256.",
)
@click.option(
    "--file",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Keeps what is given out over a restart.",
)
@click.pass_context
def provider(context: click.Context, listen: str, pool: str, file: Path | None) -> None:
    """Give addresses to Services of networks with ipam External.

    A reference for providers of your own, and an address book that works. Agents POST JSON objects
    with `action` and `network` (see docs/network-providers.md); GET / shows all that is given out,
    with the backends of each Service.

    \b
    Examples:
      hanse networks provider --file book.json
      hanse agent --network-provider mizar=http://127.0.0.1:8460/ ...
      curl -s http://127.0.0.1:8460/
    """
    import asyncio
    from ipaddress import IPv4Network

    from hanse.app.network_provider import SMALLEST_POOL_PREFIX, providing_addresses
    from hanse.cli.addresses import bind_listener
    from hanse.cli.process import run_async, start_logging

    start_logging(global_options(context), service=True)
    try:
        prefix = IPv4Network(pool).prefixlen
    except ValueError:
        raise InputError(f"--range {pool!r} is no IPv4 network; write it as 10.60.0.0/16") from None
    if prefix > SMALLEST_POOL_PREFIX:
        raise InputError(
            f"--range {pool} is too small for a network; give at least a /{SMALLEST_POOL_PREFIX}"
        )

    async def serve() -> int:
        """Serve the address book until cancelled.

        Raises `InputError` if the address cannot be bound.
        """
        async with providing_addresses(bind_listener("--listen", listen), pool, file):
            await asyncio.get_running_loop().create_future()
        return 0

    context.exit(run_async(serve, long_running=True))


def _print_matrix(matrix: "ReachabilityMatrix") -> None:
    """Print a row per network: whether it reaches all, some or no pods of each, by policies.

    Columns have the numbers of the rows; the legend explains the symbols.
    """
    from hanse.cli.tables import table

    numbers = [str(at) for at, _ in enumerate(matrix.names, 1)]
    rows = [
        (number, one, *(_SYMBOLS[matrix.reach[one, other]] for other in matrix.names))
        for number, one in zip(numbers, matrix.names, strict=True)
    ]
    click.echo(table(("", "WRITTEN: FROM", *numbers), rows))
    click.echo("✓ all pods, ~ some pods, · none; the network plugin enforces it, or does not")
