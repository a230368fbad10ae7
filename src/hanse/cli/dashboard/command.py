"""`hanse dashboard`: a login link for the dashboard of a local federation."""

from pathlib import Path

import click

from hanse.cli.settings import global_options


@click.command("dashboard")
@click.option(
    "--dir",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="The folder of the federation, as given to `hanse up`; by default ./.hanse.",
)
@click.option("--open", "browse", is_flag=True, help="Open it in a browser, too.")
@click.pass_context
def command(context: click.Context, folder: Path | None, browse: bool) -> None:
    """Print a link that lets a browser into the dashboard.

    The link is good once, for ten minutes; the browser then keeps a cookie for as long as the
    federation runs. The dashboard of an agent in a cluster asks for the token that its
    installation names (`hanse agent --dashboard-token-file`).

    \b
    Examples:
      hanse dashboard
      hanse dashboard --open
    """
    from hanse.cli.clusters import local_folder
    from hanse.cli.errors import InputError
    from hanse.cli.process import run_async, start_logging
    from hanse.local.up.control import CreateLoginLink, send_request
    from hanse.local.up.errors import UpError

    settings = global_options(context)
    start_logging(settings)
    place = folder or local_folder(settings)
    try:
        status = run_async(lambda: send_request(place / "control.sock", CreateLoginLink()))
    except UpError as error:
        raise InputError(str(error)) from None
    click.echo(status.dashboard)
    if browse:
        click.launch(status.dashboard)
