"""`hanse migrate`: what moves a cluster's federated Services to Antrea Multi-cluster."""

import click

from hanse.cli.settings import settings_of


@click.command("migrate")
@click.option(
    "--namespace",
    "-n",
    required=True,
    metavar="NAME",
    help="Where the parts of global federated Services come together.",
)
@click.pass_context
def command(context: click.Context, namespace: str) -> None:
    """Print what moves a cluster's federated Services to Antrea Multi-cluster.

    For the cluster of --context, or of the current one, it prints a ServiceExport for each
    federated Service that a Service there joins, and where that is called otherwise a Service of
    the federated name with the same endpoints. Nothing is changed and nothing is taken away.

    \b
    Examples:
      hanse migrate -n shop --context lubeck
      hanse migrate -n shop --context lubeck | kubectl --context lubeck apply -f -
    """
    from hanse.cli.migrating import moved
    from hanse.cli.process import run_async, start_logging
    from hanse.cli.reaching import way_to
    from hanse.cli.yaml_text import to_yaml

    settings = settings_of(context)
    start_logging(settings)
    way = way_to(settings)
    result = run_async(lambda: moved(way, namespace))
    for note in result.notes:
        click.echo(f"# {note}")
    if result.objects:
        click.echo(to_yaml(result.objects, width=100), nl=False)
    else:
        click.echo("# no Service here joins a federated Service")
