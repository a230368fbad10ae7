"""`hanse version`: which one this is."""

import json

import click

from hanse import __version__
from hanse.cli.settings import Settings, settings_of


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
    told: dict[str, str | None] = _ask(settings_of(context)) if servers else {}
    if as_json:
        document: dict[str, object] = {"hanse": __version__}
        click.echo(json.dumps({**document, "servers": told} if servers else document, indent=2))
        return
    click.echo(f"hanse {__version__}")
    for name, version in told.items():
        click.echo(f"{name} {version or 'does not answer'}")


def _ask(settings: Settings) -> dict[str, str | None]:
    from hanse.cli.clusters import ways
    from hanse.cli.errors import credentials_error
    from hanse.cli.inventory import ClusterInventory, read_inventories
    from hanse.cli.process import run_async, start_logging
    from hanse.kube.errors import BadCredentials

    start_logging(settings)
    try:
        chosen = ways(settings)
    except BadCredentials as error:
        raise credentials_error(error) from None
    seen = run_async(lambda: read_inventories(chosen))
    return {one.name: one.version if isinstance(one, ClusterInventory) else None for one in seen}
