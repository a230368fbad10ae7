"""`hanse version`: the version of the program, and of clusters."""

import json

import click

from hanse import __version__
from hanse.cli.settings import GlobalOptions, global_options


@click.command("version")
@click.option("--servers", is_flag=True, help="Also ask the clusters of the kubeconfig.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def command(context: click.Context, servers: bool, as_json: bool) -> None:
    """Print the version of Hanse, and of clusters.

    \b
    Examples:
      hanse version
      hanse version --servers --json
    """
    servers_versions: dict[str, str | None] = (
        _server_versions(global_options(context)) if servers else {}
    )
    if as_json:
        document: dict[str, object] = {"hanse": __version__}
        click.echo(
            json.dumps({**document, "servers": servers_versions} if servers else document, indent=2)
        )
        return
    click.echo(f"hanse {__version__}")
    for name, version in servers_versions.items():
        click.echo(f"{name} {version or 'does not answer'}")


def _server_versions(settings: GlobalOptions) -> dict[str, str | None]:
    """Start logging, read the selected clusters, and return the Kubernetes version of each by name.

    None for a cluster that could not be read. Raises `InputError` for an unusable kubeconfig.
    """
    from hanse.cli.clusters import select_clusters
    from hanse.cli.inventory import ClusterInventory, read_inventories
    from hanse.cli.process import run_async, start_logging

    start_logging(settings)
    inventories = run_async(lambda: read_inventories(select_clusters(settings)))
    return {
        one.name: one.version if isinstance(one, ClusterInventory) else None for one in inventories
    }
