"""`hanse plan`: the changes in all clusters that applying a file would cause."""

import json
from typing import TYPE_CHECKING, Any

import click

from hanse.cli.errors import EXIT_PROBLEM
from hanse.cli.settings import GlobalOptions, global_options

if TYPE_CHECKING:
    from hanse.cli.plan.changes import PlannedChanges

_SIGNS = {
    "create": ("+", "green"),
    "update": ("~", "yellow"),
    "delete": ("-", "red"),
    "refused": ("!", "red"),
    "unchanged": ("=", "bright_black"),
}


@click.command("plan")
@click.option(
    "-f",
    "--filename",
    "files",
    multiple=True,
    required=True,
    metavar="FILE",
    help="YAML or JSON, as for kubectl apply; - reads what is piped in. Repeatable.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def command(context: click.Context, files: tuple[str, ...], as_json: bool) -> None:
    """Show what would change in which cluster if a file were applied.

    Applied to the cluster of --context, by default the current one. The API server is asked by dry
    runs, and every agent is asked for what it would write then. Nothing is changed. The exit status
    is 1 if anything would be refused.

    \b
    Examples:
      hanse plan -f shop.yaml
      hanse plan -f shop.yaml --context hamburg --json
      kustomize build . | hanse plan -f -
    """
    from hanse.cli.process import start_logging

    settings = global_options(context)
    start_logging(settings)
    planned = _plan_files(settings, files)
    if as_json:
        click.echo(json.dumps({"changes": _list_changes(planned)}, indent=2))
    else:
        _print_changes(planned)
    context.exit(EXIT_PROBLEM if planned.is_refused else 0)


def _plan_files(settings: GlobalOptions, files: tuple[str, ...]) -> "PlannedChanges":
    """Plan the files' documents for the target context, with all clusters read.

    Raises `CommandFailed` if a cluster cannot be read, and `InputError` for bad credentials or
    files.
    """
    from hanse.cli.clusters import all_contexts, select_cluster
    from hanse.cli.errors import CommandFailed, credentials_error
    from hanse.cli.plan.changes import plan_changes
    from hanse.cli.plan.documents import read_documents
    from hanse.cli.process import run_async
    from hanse.kube.errors import BadCredentials, KubeError

    documents = [document for file in files for document in read_documents(file)]
    try:
        target = select_cluster(settings).name
        clusters = all_contexts(settings)
        return run_async(lambda: plan_changes(documents, clusters, target))
    except BadCredentials as error:
        raise credentials_error(error) from None
    except KubeError as error:
        raise CommandFailed(str(error)) from None


def _list_changes(planned: "PlannedChanges") -> list[dict[str, Any]]:
    """Every planned change as JSON values, see `change_rows`."""
    from hanse.cli.plan.changes import change_rows

    return change_rows(planned)


def _print_changes(planned: "PlannedChanges") -> None:
    """Print the table of changes, and a line if nothing would change."""
    from hanse.cli.tables import table

    rows = []
    for row in _list_changes(planned):
        sign, colour = _SIGNS[row["change"]]
        name = f"{row['namespace']}/{row['name']}" if row["namespace"] else row["name"]
        by = "you" if row["by"] == "you" else f"the agent of {row['by']}"
        change = click.style(f"{sign} {row['change']}", fg=colour)
        rows.append((row["cluster"], change, f"{row['kind']} {name}", by, row["why"]))
    click.echo(table(("CLUSTER", "CHANGE", "OBJECT", "BY", ""), rows))
    if all(row["change"] == "unchanged" for row in _list_changes(planned)):
        click.echo("\nNothing would change.")
