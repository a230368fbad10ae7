"""`hanse dissolve`: end a Federation."""

import click

from hanse.cli.name_options import check_federation_name
from hanse.cli.settings import global_options


@click.command("dissolve")
@click.option("--federation", required=True, metavar="NAME", help="The Federation to end.")
@click.option("--dry-run", is_flag=True, help="Print what would be done, and do nothing.")
@click.pass_context
def command(context: click.Context, federation: str, dry_run: bool) -> None:
    """End a Federation: nothing of it remains in any member.

    The cluster of --context, or of the current one, must be one of its supervisors; the other
    members are found from it, and the kubeconfig must reach all of them. Supervisors withdraw all
    that they wrote, which is waited for; then Secrets, Federations, accounts, policies and claims
    go. Users' own Services and policies stay. Running it again goes on where it ended.

    \b
    Examples:
      hanse dissolve --federation league --context lubeck --dry-run
      hanse dissolve --federation league --context lubeck
    """
    from hanse.cli.clusters import all_contexts, select_cluster
    from hanse.cli.join.federation import MembershipRequest
    from hanse.cli.join.leaving import dissolve_federation
    from hanse.cli.process import run_async, start_logging

    check_federation_name(federation)
    settings = global_options(context)
    start_logging(settings)
    request = MembershipRequest(
        federation, "", select_cluster(settings), contexts=all_contexts(settings)
    )
    run_async(lambda: dissolve_federation(request, dry_run=dry_run))
