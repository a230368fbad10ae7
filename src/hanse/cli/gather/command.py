"""`hanse gather`: everything that somebody who helps has to see, in one file."""

from pathlib import Path

import click

from hanse.cli.settings import global_options


@click.command("gather")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    default=None,
    metavar="FILE",
    help="Where to write it; by default hanse-TIME.tar.gz here.",
)
@click.pass_context
def command(context: click.Context, output: Path | None) -> None:
    """Write a support bundle: findings, objects, logs and versions, without secrets.

    Of every cluster of the kubeconfig, or of a local federation that runs here, as far as your
    credentials may read it. Values of Secrets, tokens, keys and passwords are left out; names,
    addresses and labels are not: look before you send it.

    \b
    Examples:
      hanse gather
      hanse gather --context lubeck -o lubeck.tar.gz
    """
    import time

    from hanse import __version__
    from hanse.cli.clusters import is_local, select_clusters
    from hanse.cli.doctor.examination import FleetExamination, examine_clusters
    from hanse.cli.errors import CommandFailed
    from hanse.cli.findings import report_document
    from hanse.cli.gather.bundle import Files, as_json, gather, pack_bundle, save_bundle
    from hanse.cli.process import run_async, start_logging

    settings = global_options(context)
    start_logging(settings)
    clusters = select_clusters(settings)
    local = is_local(settings)

    async def read() -> tuple[FleetExamination, Files]:
        """Examine all clusters, then read what the bundle has of each."""
        return await examine_clusters(clusters, local=local), await gather(clusters)

    examination, files = run_async(read)
    files["findings.json"] = as_json(report_document(examination.report))
    files["version.txt"] = f"hanse {__version__}\n".encode()
    name = time.strftime("hanse-%Y%m%d-%H%M%S")
    place = output or Path(f"{name}.tar.gz")
    try:
        save_bundle(place, pack_bundle(files, name))
    except OSError as error:
        raise CommandFailed(f"{place} cannot be written: {error.strerror}") from None
    found = len(examination.report.findings)
    click.echo(f"{place}: {len(files)} files of {len(clusters)} clusters, {found} findings")
