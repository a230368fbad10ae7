"""`hanse check --pre`: whether clusters are fit for an installation, before it."""

import json
from typing import TYPE_CHECKING, Literal

import click

from hanse.cli.errors import EXIT_PROBLEM, InputError
from hanse.cli.settings import GlobalOptions, global_options

if TYPE_CHECKING:
    from hanse.cli.check.results import CheckResult
    from hanse.model.kinds.hanse import ClusterSetSpec

_MARKS = {"ok": ("✓", "green"), "warning": ("!", "yellow"), "failed": ("✗", "red")}


@click.command("check")
@click.option("--pre", is_flag=True, help="Check clusters before Hanse is installed.")
@click.option("--broker", default="", metavar="CONTEXT", help="The context of the broker.")
@click.option(
    "--profile",
    type=click.Choice(("lighthouse", "kep-1645")),
    default="lighthouse",
    show_default=True,
    help="Whose rules services will follow.",
)
@click.option(
    "--endpoints",
    type=click.Choice(("pods", "serviceIPs")),
    help="What clusters will publish; by default pods in kep-1645, else serviceIPs.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def command(
    context: click.Context,
    pre: bool,
    broker: str,
    profile: Literal["lighthouse", "kep-1645"],
    endpoints: Literal["pods", "serviceIPs"] | None,
    as_json: bool,
) -> None:
    """Check whether clusters are fit for an installation.

    Looks at every cluster of the kubeconfig: whether its API server answers, its version, clock and
    nodes, whether the credentials may install Hanse, whether admission policies are served, whether
    its DNS can forward our zone, and whether others define ServiceExports; between clusters whether
    service and pod ranges overlap, clocks agree, and the broker's address is one that others can
    use. Nothing is changed. After an installation see `hanse doctor` and `hanse verify`.
    The exit status is 1 if a check failed; warnings and what is unknown do not count.

    \b
    Examples:
      hanse check --pre
      hanse check --pre --broker hub --profile kep-1645
      hanse check --pre --json | jq '.checks[] | select(.status == "failed")'
    """
    from hanse.cli.process import start_logging
    from hanse.model.kinds.hanse import ClusterSetSpec

    if not pre:
        raise InputError("say --pre to check before an installation; after it: `hanse doctor`")
    if endpoints == "pods" and profile == "lighthouse":
        raise InputError("--endpoints pods needs --profile kep-1645")
    rules = ClusterSetSpec(profile=profile, endpoints=endpoints)
    settings = global_options(context)
    start_logging(settings)
    results = _check(settings, broker, rules)
    if as_json:
        import msgspec

        click.echo(json.dumps({"checks": msgspec.to_builtins(results)}, indent=2))
    else:
        _print_results(results)
    context.exit(EXIT_PROBLEM if any(r.status == "failed" for r in results) else 0)


def _check(
    settings: GlobalOptions, broker: str, rules: "ClusterSetSpec"
) -> "tuple[CheckResult, ...]":
    """Read every cluster, and return the results of all checks; nothing is written.

    `rules` are those that the ClusterSet is to have. Raises `InputError` for an unknown --broker,
    or an unusable kubeconfig.
    """
    from datetime import UTC, datetime

    from hanse.cli.check.preview import read_previews
    from hanse.cli.check.results import Intended, check_previews
    from hanse.cli.clusters import is_local, select_clusters
    from hanse.cli.doctor.clusters import CheckContext
    from hanse.cli.process import run_async

    clusters = select_clusters(settings)
    if broker and broker not in {cluster.name for cluster in clusters}:
        listed = ", ".join(cluster.name for cluster in clusters)
        raise InputError(f"--broker: no context {broker!r}; there is: {listed}")
    previews = run_async(lambda: read_previews(clusters))
    context = CheckContext(datetime.now(UTC), (), is_local(settings))
    return check_previews(previews, Intended(context, rules, broker))


def _print_results(results: "tuple[CheckResult, ...]") -> None:
    """Print each result below its cluster's name, with its remedy, and how many failed."""
    cluster = None
    for result in results:
        if result.cluster != cluster:
            cluster = result.cluster
            click.echo(click.style(cluster, bold=True))
        mark, colour = _MARKS.get(result.status, ("?", "yellow"))
        click.echo(f"  {click.style(mark, fg=colour)} {result.check}: {result.message}")
        if result.remedy:
            click.echo(f"      {result.remedy}")
    failed = sum(result.status == "failed" for result in results)
    click.echo(f"{failed} of {len(results)} checks failed" if failed else "no check failed")
