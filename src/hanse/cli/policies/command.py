"""`hanse policies`: the state of each replicated policy per cluster, and resolving conflicts."""

from typing import TYPE_CHECKING

import click

from hanse.cli.errors import EXIT_PROBLEM, InputError
from hanse.cli.settings import GlobalOptions, global_options

if TYPE_CHECKING:
    from hanse.cli.clusters import ClusterAccess
    from hanse.cli.policies.ledgers import Ledgers
    from hanse.features.policies.listing import MemberStatus, PolicyView

_COLOURS = {
    "Applied": "green",
    "Pending": "yellow",
    "Blocked": "red",
    "Quarantined": "red",
    "Unreadable": "red",
}


@click.group("policies", invoke_without_command=True)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def command(context: click.Context, as_json: bool) -> None:
    """Show where each federated policy is applied, blocked or in conflict, and why.

    It reads the ledgers of all clusters of the kubeconfig. The exit status is 1 when a policy is
    blocked or in quarantine somewhere, or versions of it crossed, or a cluster does not answer.

    \b
    Examples:
      hanse policies
      hanse policies --json | jq '.policies[] | select(.overruled != [])'
      hanse policies resolve acnp/no-telnet --in bergen --keep
    """
    if context.invoked_subcommand is not None:
        return
    import msgspec

    from hanse.cli.policies.ledgers import json_document, read_ledgers
    from hanse.cli.process import run_async

    clusters = _select_clusters(global_options(context))
    ledgers = run_async(lambda: read_ledgers(clusters))
    if as_json:
        text = msgspec.json.format(msgspec.json.encode(json_document(ledgers)), indent=2)
        click.echo(text.decode())
    else:
        _print_ledgers(ledgers)
    context.exit(EXIT_PROBLEM if ledgers.needs_attention else 0)


@command.command("resolve")
@click.argument("policy")
@click.option("--in", "cluster", default="", metavar="CLUSTER", help="The cluster decided about.")
@click.option("--keep", is_flag=True, help="What stands there counts, everywhere.")
@click.option("--yield", "gives_way", is_flag=True, help="What stands there gives way.")
@click.option("--take", default="", metavar="CLUSTER", help="This cluster's overruled change.")
@click.option("--timeout", default=30, show_default=True, help="Seconds to wait for the result.")
@click.pass_context
def resolve(
    context: click.Context,
    policy: str,
    cluster: str,
    keep: bool,
    gives_way: bool,
    take: str,
    timeout: int,
) -> None:
    """Settle versions that crossed, or a policy in quarantine.

    POLICY is acnp/NAME or anp/NAMESPACE/NAME, as `hanse policies` shows it. The decision is written
    as an annotation on the policy in one cluster; its leader carries it out and takes it off again.

    \b
    Examples:
      hanse policies resolve acnp/no-telnet --take hamburg
      hanse policies resolve acnp/no-telnet --in bergen --keep
      hanse policies resolve anp/shop/web --in bergen --yield
    """
    from hanse.cli.policies.ledgers import Decision, apply_decision
    from hanse.cli.process import run_async
    from hanse.features.policies.listing import parse_policy_label

    key = parse_policy_label(policy)
    if key is None:
        raise InputError(f"{policy!r} is no policy; say acnp/NAME or anp/NAMESPACE/NAME")
    options = {"--keep": keep, "--yield": gives_way, f"--take {take}": bool(take)}
    given = [option for option, is_given in options.items() if is_given]
    if not given:
        raise InputError("say what counts: one of --keep, --yield or --take CLUSTER")
    if len(given) > 1:
        listed = f"{', '.join(given[:-1])} and {given[-1]}"
        raise InputError(f"{listed} contradict each other; say one of them")
    clusters = _select_clusters(global_options(context))
    choice = take or given[0].removeprefix("--")
    decision = Decision(key, cluster, choice, timeout)
    click.echo(run_async(lambda: apply_decision(clusters, decision)))


def _select_clusters(settings: GlobalOptions) -> "tuple[ClusterAccess, ...]":
    """Start logging, and return the clusters that the settings name.

    Raises `InputError` for an unknown context or an unusable kubeconfig.
    """
    from hanse.cli.clusters import select_clusters
    from hanse.cli.process import start_logging

    start_logging(settings)
    return select_clusters(settings)


def _print_ledgers(ledgers: "Ledgers") -> None:
    """Print the table of policies, or that there is none, the problems, and clusters not read."""
    from hanse.cli.tables import table

    policies = ledgers.policies
    if not policies:
        where = " in a cluster that answers" if ledgers.failures else ""
        click.echo(f"no policy is federated{where}; see docs/guides/policies.md")
    else:
        rows = [(policy.label, policy.origin, *_member_cells(policy)) for policy in policies]
        click.echo(table(("POLICY", "MADE IN", *sorted(ledgers.records)), rows))
    mark = click.style("✗", fg="red")
    for policy in policies:
        for line in _policy_problems(policy):
            click.echo(f"{mark} {policy.label}: {line}")
    for cluster, why in sorted(ledgers.failures.items()):
        click.echo(f"{mark} {cluster}: {why}")


def _member_cells(policy: "PolicyView") -> list[str]:
    """The coloured phase of each member, sorted by cluster as the table's columns are."""
    return [_member_cell(policy.members[cluster]) for cluster in sorted(policy.members)]


def _member_cell(member: "MemberStatus") -> str:
    """Phase and reason of a member, in the colour of the phase."""
    text = f"{member.phase}: {member.reason}" if member.reason else member.phase
    return click.style(text, fg=_COLOURS.get(member.phase, "white"))


def _policy_problems(policy: "PolicyView") -> list[str]:
    """A line for each member that needs attention, sorted by cluster, with its message or phase.

    Then one for each overruled change, with the command that settles it.
    """
    problems = [
        f"{cluster}: {member.message or member.phase}"
        for cluster, member in sorted(policy.members.items())
        if member.needs_attention
    ]
    for loser in policy.overruled:
        change = {"Present": "the version", "Deleted": "the deletion"}.get(
            loser.state, "the leaving"
        )
        problems.append(
            f"{change} of {loser.cluster} lost against {policy.origin}'s and is kept; settle it "
            f"with `hanse policies resolve {policy.label} --take {loser.cluster}` or --keep"
        )
    return problems
