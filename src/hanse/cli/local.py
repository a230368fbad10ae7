"""`hanse local`: fault injection in a federation that `hanse up` runs."""

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hanse.cli.program_name import program_name
from hanse.cli.settings import global_options

if TYPE_CHECKING:
    from hanse.local.up.control import (
        ControlRequest,
        LocalClusterStatus,
        LocalFederationStatus,
    )

FOLDER = click.option(
    "--dir",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    envvar="HANSE_DIR",
    show_envvar=True,
    metavar="DIR",
    help="The folder in which it runs; else that of $KUBECONFIG, else ./.hanse.",
)
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s)")


@click.group("local")
def command() -> None:
    """Make things go wrong in a running local federation, and right again.

    \b
    Examples:
      hanse local cut lubeck hamburg     nothing passes between the two
      hanse local heal lubeck hamburg
      hanse local kill bergen            its API server is gone
      hanse local start bergen           and back, with its data
      hanse local stop agent bergen      its API server stays, nobody works for it
      hanse local start agent bergen
      hanse local save broker monday     all its objects, as they are now
      hanse local restore broker monday  as from a backup
      hanse local slow broker 200ms      every answer takes that much longer
      hanse local heal --all             everything as it was
      hanse local list                   how things are
    """


@command.command("cut")
@click.argument("one", metavar="CLUSTER")
@click.argument("other", metavar="CLUSTER")
@FOLDER
@click.pass_context
def cut(context: click.Context, one: str, other: str, folder: Path | None) -> None:
    """Let nothing pass between two clusters.

    The agent of each no longer reaches the API server of the other; `kubectl` reaches both.

    \b
    Examples:
      hanse local cut lubeck hamburg
      hanse local cut bergen broker
    """
    from hanse.local.up.control import Cut

    _send_control_request(context, folder, Cut(one, other))
    click.echo(f"{one} and {other} no longer reach each other")


@command.command("heal")
@click.argument("clusters", metavar="[CLUSTER CLUSTER]", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="Heal all cuts, slowness and deaths.")
@FOLDER
@click.pass_context
def heal(
    context: click.Context, clusters: tuple[str, ...], everything: bool, folder: Path | None
) -> None:
    """Let everything pass between two clusters again.

    \b
    Examples:
      hanse local heal lubeck hamburg
      hanse local heal --all
    """
    from hanse.local.up.control import Heal, HealAll

    match clusters, everything:
        case (), True:
            _send_control_request(context, folder, HealAll())
            click.echo("everything is whole again")
        case (one, other), False:
            _send_control_request(context, folder, Heal(one, other))
            click.echo(f"{one} and {other} reach each other")
        case _:
            raise click.UsageError("Give two clusters, or --all", context)


@command.command("kill")
@click.argument("cluster")
@FOLDER
@click.pass_context
def kill(context: click.Context, cluster: str, folder: Path | None) -> None:
    """Stop the API server of a cluster: connections to it are refused.

    \b
    Examples:
      hanse local kill bergen
    """
    from hanse.local.up.control import Kill

    _send_control_request(context, folder, Kill(cluster))
    click.echo(f"{cluster} is gone; bring it back with `{program_name()} local start {cluster}`")


@command.command("start")
@click.argument("what", metavar="[agent] CLUSTER", nargs=-1)
@FOLDER
@click.pass_context
def start(context: click.Context, what: tuple[str, ...], folder: Path | None) -> None:
    """Bring a killed API server back, with all that it held, or a stopped agent.

    \b
    Examples:
      hanse local start bergen
      hanse local start agent bergen
    """
    from hanse.local.up.control import Start, StartAgent

    match what:
        case (cluster,):
            _send_control_request(context, folder, Start(cluster))
            click.echo(f"{cluster} runs")
        case ("agent", cluster):
            _send_control_request(context, folder, StartAgent(cluster))
            click.echo(f"the agent of {cluster} runs")
        case _:
            raise click.UsageError("Give a cluster, or `agent` and a cluster", context)


@command.command("stop")
@click.argument("what", metavar="agent CLUSTER", nargs=-1)
@FOLDER
@click.pass_context
def stop(context: click.Context, what: tuple[str, ...], folder: Path | None) -> None:
    """Stop the agent of a cluster, whose API server goes on: see what holds without one.

    What it wrote stays, in its cluster and on the broker, until others take it for dead. Names are
    answered as it last knew them. `start` starts it again.

    \b
    Examples:
      hanse local stop agent bergen
    """
    from hanse.local.up.control import StopAgent

    match what:
        case ("agent", cluster):
            _send_control_request(context, folder, StopAgent(cluster))
            again = f"{program_name()} local start agent {cluster}"
            click.echo(f"the agent of {cluster} is stopped; start it again with `{again}`")
        case (cluster,):
            program = program_name()
            raise click.UsageError(
                f"Say what: `{program} local stop agent {cluster}`, or for its API server "
                f"`{program} local kill {cluster}`",
                context,
            )
        case _:
            raise click.UsageError("Give `agent` and a cluster", context)


@command.command("save")
@click.argument("cluster")
@click.argument("name")
@FOLDER
@click.pass_context
def save(context: click.Context, cluster: str, name: str, folder: Path | None) -> None:
    """Back a cluster up under a name: all its objects, as they are now.

    With --engine kubernetes it is a snapshot of etcd. What is saved goes when `hanse up` starts
    again, unless that has --dir.

    \b
    Examples:
      hanse local save broker monday
    """
    from hanse.local.up.control import Save

    _send_control_request(context, folder, Save(cluster, name))
    again = f"{program_name()} local restore {cluster} {name}"
    click.echo(f"{cluster} is saved as {name}; go back to it with `{again}`")


@command.command("restore")
@click.argument("cluster")
@click.argument("name")
@click.option(
    "--bump-revision",
    type=click.IntRange(0, 2**40),
    default=0,
    metavar="N",
    help="Let new resourceVersions begin N after the saved ones, as etcdutl does.",
)
@FOLDER
@click.pass_context
def restore(
    context: click.Context, cluster: str, name: str, bump_revision: int, folder: Path | None
) -> None:
    """Restore a cluster from a backup: see what becomes of the fleet.

    Its API server stops, and starts with all objects as they were saved.

    \b
    Examples:
      hanse local restore broker monday
      hanse local restore broker monday --bump-revision 1000000
    """
    from hanse.local.up.control import Restore

    _send_control_request(context, folder, Restore(cluster, name, bump_revision))
    click.echo(f"{cluster} is as it was when {name} was saved")


@command.command("slow")
@click.argument("cluster")
@click.argument("delay", metavar="DURATION")
@FOLDER
@click.pass_context
def slow(context: click.Context, cluster: str, delay: str, folder: Path | None) -> None:
    """Let a cluster answer late; 0s undoes it.

    Everybody waits, `kubectl` too; with --engine kubernetes only agents do.

    \b
    Examples:
      hanse local slow hamburg 200ms
      hanse local slow hamburg 0s
    """
    from hanse.local.up.control import Slow

    milliseconds = _parse_milliseconds(delay, context)
    _send_control_request(context, folder, Slow(cluster, milliseconds))
    late = f"answers {milliseconds} ms late" if milliseconds else "answers at once"
    click.echo(f"{cluster} {late}")


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@FOLDER
@click.pass_context
def list_(context: click.Context, as_json: bool, folder: Path | None) -> None:
    """Show the clusters that run here, and what was done to them.

    \b
    Examples:
      hanse local list
      hanse local list --json | jq '.cuts'
    """
    from hanse.local.up.control import GetStatus

    status = _send_control_request(context, folder, GetStatus())
    if as_json:
        import msgspec

        click.echo(json.dumps(msgspec.to_builtins(status), indent=2))
    else:
        _print_status(status)


def _print_status(status: "LocalFederationStatus") -> None:
    """Print the table of clusters with delays and cuts, then the process id and engine."""
    from hanse.cli.tables import table

    rows = []
    for one in status.clusters:
        cut_off = sorted({name for pair in status.cuts if one.name in pair for name in pair})
        late = f"{one.delay_milliseconds} ms" if one.delay_milliseconds else "-"
        rows.append(
            (
                one.name,
                one.standing,
                click.style("yes", fg="green") if one.running else click.style("no", fg="red"),
                _agent_state(one),
                late,
                ", ".join(name for name in cut_off if name != one.name) or "-",
                one.url,
            )
        )
    click.echo(table(("CLUSTER", "ROLE", "RUNS", "AGENT", "LATE", "CUT FROM", "API SERVER"), rows))
    click.echo(f"\nThe federation is process {status.pid}, engine {status.engine}.")


def _agent_state(cluster: "LocalClusterStatus") -> str:
    """The coloured cell AGENT of the table: `runs`, `stopped`, or `-` without an agent."""
    if not cluster.agent:
        return "-"
    running = cluster.agent_running
    return click.style("runs", fg="green") if running else click.style("stopped", fg="red")


def _send_control_request(
    context: click.Context, folder: Path | None, order: "ControlRequest"
) -> "LocalFederationStatus":
    """Send a request to the control socket of `hanse up`; returns the federation's status after it.

    The socket is in `folder`, else in the folder of the chosen kubeconfig, $HANSE_DIR or ./.hanse.
    Starts logging. Raises `InputError` for an `UpError`, such as that none runs there.
    """
    from hanse.cli.clusters import local_folder
    from hanse.cli.errors import InputError
    from hanse.cli.process import run_async, start_logging
    from hanse.local.up.control import send_request
    from hanse.local.up.errors import UpError

    start_logging(global_options(context))
    place = folder or local_folder(global_options(context))
    try:
        return run_async(lambda: send_request(place / "control.sock", order))
    except UpError as error:
        raise InputError(str(error)) from None


def _parse_milliseconds(text: str, context: click.Context) -> int:
    """The whole milliseconds of a duration written as 200ms or 1.5s, at most 60s.

    Raises `click.UsageError` for other text.
    """
    found = _DURATION.fullmatch(text)
    value = float(found[1]) * (1000 if found[2] == "s" else 1) if found else -1
    if not 0 <= value <= 60_000:
        raise click.UsageError(
            f"{text!r} is not a duration up to 60s; write it as 200ms or 1.5s", context
        )
    return round(value)
