"""`hanse gslb`: the state of global load balancing, and changes of the leader."""

import json

import click

from hanse.cli.errors import EXIT_PROBLEM
from hanse.cli.settings import global_options


@click.group("gslb")
def command() -> None:
    """Show who leads global load balancing, and change it after a disaster.

    \b
    Examples:
      hanse gslb status
      hanse gslb promote hamburg --dry-run
      hanse gslb promote hamburg --controller-ip 10.10.20.1
      hanse gslb demote lubeck
    """


@command.command("status")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def status(context: click.Context, as_json: bool) -> None:
    """Show who leads, which followers are in step, and every global host.

    The clusters are those of the kubeconfig. A follower is in step when its configuration is the
    leader's. Below is what `hanse doctor` finds of it, with the remedies: no leader or two, a stage
    of the federation that failed, a host that is down. The exit status is 1 when it finds anything
    of severity risk or worse.

    \b
    Examples:
      hanse gslb status
      hanse gslb status --json | jq '.clusters[] | select(.inStep | not)'
    """
    import asyncio

    from hanse.cli.clusters import is_local, select_clusters
    from hanse.cli.doctor.examination import FleetExamination, examine_clusters
    from hanse.cli.findings import reaches
    from hanse.cli.gslb.view import GslbView, json_document, print_status, read_gslb
    from hanse.cli.process import run_async, start_logging
    from hanse.model.findings import Severity

    settings = global_options(context)
    start_logging(settings)
    clusters = select_clusters(settings)

    async def read() -> tuple[GslbView, FleetExamination]:
        """Read who leads, and examine all clusters, at the same time."""
        examined = examine_clusters(clusters, local=is_local(settings))
        return await asyncio.gather(read_gslb(clusters), examined)

    view, examination = run_async(read)
    if as_json:
        click.echo(json.dumps(json_document(view, examination), indent=2))
    else:
        print_status(view, examination)
    findings = view.concerning(examination.report.findings)
    context.exit(EXIT_PROBLEM if reaches(findings, Severity.RISK) else 0)


@command.command("promote")
@click.argument("cluster")
@click.option(
    "--controller-ip",
    default="",
    metavar="ADDRESS",
    help="The Avi controller that leads from now on, where the old one is lost too.",
)
@click.option("--dry-run", is_flag=True, help="Say what would happen, and change nothing.")
@click.option(
    "--timeout",
    type=click.IntRange(0, 3600),
    default=30,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait for the new leader to say how it went; 0: not at all.",
)
@click.pass_context
def promote(
    context: click.Context, cluster: str, controller_ip: str, dry_run: bool, timeout: int
) -> None:
    """Make CLUSTER, a context of the kubeconfig, the leader.

    For the day when the leader's cluster, or its whole site, is lost. It is refused while another
    leader can be reached: demote that one first. Answers go on meanwhile, as they were.

    \b
    Examples:
      hanse gslb promote hamburg --dry-run
      hanse gslb promote hamburg                                 its cluster is lost
      hanse gslb promote hamburg --controller-ip 10.10.20.1      its site is lost
    """
    _run_leader_change(
        context, cluster, controller_ip, leads=True, dry_run=dry_run, timeout=timeout
    )


@command.command("demote")
@click.argument("cluster")
@click.option("--dry-run", is_flag=True, help="Say what would happen, and change nothing.")
@click.pass_context
def demote(context: click.Context, cluster: str, dry_run: bool) -> None:
    """Make CLUSTER, a context of the kubeconfig, a follower.

    For a leader of old that is back, or before another is promoted. What it answers goes on.

    \b
    Examples:
      hanse gslb demote lubeck
    """
    _run_leader_change(context, cluster, "", leads=False, dry_run=dry_run, timeout=0)


@command.command("drain")
@click.argument("site")
@click.option("--back", is_flag=True, help="Give the site its former priority again.")
@click.option("--dry-run", is_flag=True, help="Say what would happen, and change nothing.")
@click.pass_context
def drain(context: click.Context, site: str, back: bool, dry_run: bool) -> None:
    """Move the traffic of SITE, a cluster of the policy, to the others.

    Before maintenance: in the leader's policy the site gets the lowest priority, so that it serves
    only while all others are down. Host rules with priorities of their own are named.

    \b
    Examples:
      hanse gslb drain hamburg --dry-run
      hanse gslb drain hamburg
      hanse gslb drain hamburg --back
    """
    from hanse.cli.clusters import select_clusters
    from hanse.cli.gslb.drain import DrainRequest, drain_or_restore_site
    from hanse.cli.process import run_async, start_logging

    settings = global_options(context)
    start_logging(settings)
    clusters = select_clusters(settings)
    request = DrainRequest(site, back, dry_run)
    run_async(lambda: drain_or_restore_site(request, clusters, click.echo))


def _run_leader_change(
    context: click.Context,
    cluster: str,
    controller_ip: str,
    *,
    leads: bool,
    dry_run: bool,
    timeout: int,
) -> None:
    """Promote (`leads`) or demote a cluster, and exit: 0, or 1 if `change_leader` is False."""
    from hanse.cli.clusters import select_clusters
    from hanse.cli.gslb.leadership import LeaderChange, change_leader
    from hanse.cli.process import run_async, start_logging

    settings = global_options(context)
    start_logging(settings)
    clusters = select_clusters(settings)
    request = LeaderChange(cluster, leads, controller_ip, dry_run, timeout)
    context.exit(
        0 if run_async(lambda: change_leader(request, clusters, click.echo)) else EXIT_PROBLEM
    )


@command.command("rights")
@click.option(
    "--account",
    default="gslb-leader",
    show_default=True,
    metavar="NAME",
    help="The ServiceAccount in avi-system that leaders use in a cluster.",
)
def rights(account: str) -> None:
    """Print the account that a leader needs in every other cluster.

    Apply it in each of them, and put a token of the account into the kubeconfig of
    gslb-config-secret; agents renew it there. It lives for at most 30 days. The account may
    read what is load balanced, and write in avi-system alone.

    \b
    Examples:
      hanse gslb rights | kubectl --context hamburg apply -f -
      kubectl --context hamburg -n avi-system create token gslb-leader --duration=720h
    """
    import yaml

    from hanse.features.gslb.manifests import leader_account

    documents = [manifest.wire for manifest in leader_account(account)]
    click.echo(yaml.safe_dump_all(documents, sort_keys=False), nl=False)
