"""`hanse leave`: remove a cluster from a broker or from a Federation."""

import click

from hanse.cli.errors import InputError
from hanse.cli.name_options import checked_broker_namespace, checked_member_id
from hanse.cli.settings import global_options


@click.command("leave")
@click.option(
    "--broker",
    default="",
    metavar="CONTEXT",
    help="Leave this broker: its context, with an administrator's rights.",
)
@click.option(
    "--broker-namespace",
    default="hanse-broker",
    show_default=True,
    metavar="NAME",
    callback=checked_broker_namespace,
    help="Where clusters share there.",
)
@click.option("--federation", default="", metavar="NAME", help="The Federation to leave.")
@click.option(
    "--cluster-id",
    required=True,
    envvar="HANSE_CLUSTER_ID",
    show_envvar=True,
    metavar="ID",
    callback=checked_member_id,
    help="The cluster's name in it.",
)
@click.option(
    "--supervisor",
    "supervisors",
    multiple=True,
    metavar="CONTEXT",
    help="A supervisor of it; the others are found from it.",
)
@click.option("--force", is_flag=True, help="Give a dead cluster up: what is in it stays behind.")
@click.option("--dry-run", is_flag=True, help="Print what would be done, and do nothing.")
@click.pass_context
def command(
    context: click.Context,
    broker: str,
    broker_namespace: str,
    federation: str,
    cluster_id: str,
    supervisors: tuple[str, ...],
    force: bool,
    dry_run: bool,
) -> None:
    """Let a cluster leave a broker, a Federation, or both.

    The cluster is that of --context, or of the current one. With --broker its agent withdraws
    everything that it published, and at home everything that came from the broker; that is waited
    for. Then its account, its rights, its Lease and its Secret go. Its record stays, and says that
    it has left. Interrupted, it is resumed by running it again.

    With --federation a supervisor retires first: another one leads its members before anything is
    taken away. All supervisors strike the cluster off their Federations and withdraw what they
    wrote there, which is waited for. Then Secrets and accounts on both sides go, its own
    Federation, and its claims. Its id stays its own. Running it again goes on where it ended.

    With --force the cluster itself is not asked: supervisors forget it at once, and on a broker it
    has left at once. If it returns, its agent reads that there and withdraws what it wrote at home.

    \b
    Examples:
      hanse leave --broker broker --cluster-id bergen --context bergen
      hanse leave --broker broker --cluster-id bergen --force
      hanse leave --federation league --cluster-id bergen --context bergen
      hanse leave --federation league --cluster-id bergen --supervisor lubeck --force
    """
    from hanse.cli.clusters import all_contexts, select_cluster
    from hanse.cli.process import run_async, start_logging

    settings = global_options(context)
    start_logging(settings)
    if not broker and not federation:
        raise InputError("name what to leave: --broker CONTEXT, or --federation NAME, or both")
    if supervisors and not federation:
        raise InputError("--supervisor goes with --federation NAME")
    if federation and force and not supervisors:
        raise InputError("--force needs --supervisor CONTEXT: somebody has to forget the cluster")
    if broker:
        from hanse.cli.leave_broker import BrokerLeave, leave_broker
        from hanse.cli.member_records import MemberPlace

        there = select_cluster(settings, broker)
        place = MemberPlace(there.name, broker_namespace, cluster_id)
        leaving = BrokerLeave(place, there, None if force else select_cluster(settings))
        run_async(lambda: leave_broker(leaving, dry_run=dry_run))
    if not federation:
        return
    from hanse.cli.join.federation import MembershipRequest
    from hanse.cli.join.leaving import abandon_member, leave_federation

    supervising = tuple(select_cluster(settings, name) for name in supervisors)
    member = supervising[0] if force else select_cluster(settings)
    request = MembershipRequest(
        federation, cluster_id, member, supervising, contexts=all_contexts(settings)
    )
    leave = abandon_member if force else leave_federation
    run_async(lambda: leave(request, dry_run=dry_run))
