"""`hanse join`: a cluster becomes a member."""

import re
from datetime import timedelta

import click

from hanse.cli.oops import Oops
from hanse.cli.settings import settings_of

_LIFETIME = re.compile(r"(\d+)([hd])")
_SHORTEST = timedelta(hours=1)
_LONGEST = timedelta(days=3650)


@click.command("join")
@click.option(
    "--broker",
    required=True,
    metavar="CONTEXT",
    help="The context of the broker, with an administrator's rights.",
)
@click.option(
    "--cluster-id",
    required=True,
    envvar="HANSE_CLUSTER_ID",
    show_envvar=True,
    metavar="ID",
    help="This cluster's name in the fleet; part of DNS names, and for good.",
)
@click.option(
    "--broker-server",
    default="",
    metavar="URL",
    help="Where the agent finds the broker, if that is another address than the context's.",
)
@click.option(
    "--broker-namespace",
    default="hanse-broker",
    show_default=True,
    metavar="NAME",
    help="Where clusters share there.",
)
@click.option(
    "--token-lifetime",
    default="7d",
    show_default=True,
    metavar="DURATION",
    help="How long the agent's token for the broker holds; the agent renews it at half its life.",
)
@click.option("--dry-run", is_flag=True, help="Print what would be written, and write nothing.")
@click.pass_context
def command(
    context: click.Context,
    broker: str,
    cluster_id: str,
    broker_server: str,
    broker_namespace: str,
    token_lifetime: str,
    dry_run: bool,
) -> None:
    """Let a cluster join a broker.

    The cluster is that of --context, or of the current one. On the broker it gets an account that
    may write its own slices and the aggregates, and nothing else; in the cluster, the agent gets
    its account, its rights, and a Secret with its way to the broker. Running it again changes only
    what is not so yet, and renews a token that is past half its life.

    \b
    Examples:
      hanse join --broker broker --cluster-id lubeck --context lubeck
      hanse join --broker broker --cluster-id lubeck --context lubeck --dry-run
    """
    from hanse.cli.joining import Joining, join
    from hanse.cli.reaching import way_to
    from hanse.cli.running import run_async, start_logging
    from hanse.features.services.manifests import why_bad_id

    if why := why_bad_id(cluster_id):
        raise Oops(f"--cluster-id: {why}")
    settings = settings_of(context)
    start_logging(settings)
    wish = Joining(
        cluster=cluster_id,
        member=way_to(settings),
        broker=way_to(settings, broker),
        home=broker_namespace,
        server=broker_server,
        lifetime=_lifetime(token_lifetime),
    )
    run_async(lambda: join(wish, dry_run=dry_run))


def _lifetime(text: str) -> timedelta:
    found = _LIFETIME.fullmatch(text)
    hours = int(found[1]) * (24 if found[2] == "d" else 1) if found else 0
    if not _SHORTEST <= timedelta(hours=min(hours, 10**6)) <= _LONGEST:
        raise Oops(f"--token-lifetime {text!r} is not between 1h and 3650d; write it as 90d or 12h")
    return timedelta(hours=hours)
