"""`hanse resolve`: what DNS answers, from each cluster, and why."""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, assert_never

import click

from hanse.cli.errors import EXIT_PROBLEM, InputError
from hanse.cli.replica_name_options import parse_replica_names, replica_name_options
from hanse.cli.settings import GlobalOptions, global_options
from hanse.model.naming import ZONE

if TYPE_CHECKING:
    from hanse.cli.resolve.services import ClusterAnswer, NoAnswer
    from hanse.features.statefulsets.options import StatefulSetOptions
    from hanse.model.dns.zones import View


@click.command("resolve")
@click.argument("name")
@click.argument("wanted", default="A", metavar="[TYPE]")
@click.option("--zone", default=ZONE, show_default=True, help="The zone of multi-cluster services.")
@click.option(
    "--local-first/--no-local-first",
    default=True,
    show_default=True,
    help="Whether a cluster that is ready answers its own clients.",
)
@click.option(
    "--global-zone",
    "global_zones",
    multiple=True,
    metavar="ZONE",
    help="A zone of global hosts, as name servers are told; can be repeated. In a local "
    "federation its own is known.",
)
@replica_name_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def command(
    context: click.Context,
    name: str,
    wanted: str,
    zone: str,
    local_first: bool,
    global_zones: tuple[str, ...],
    replica_zone: str,
    federation: str,
    as_json: bool,
) -> None:
    """Show what DNS answers, from each cluster, and why.

    NAME is a whole name, of a multi-cluster service, of a global host or of a replica of a
    federated StatefulSet, or SERVICE.NAMESPACE for short. For each cluster it tells the records,
    the rule by which they are chosen, and which clusters are left out for what reason. The exit
    status is 1 when a cluster could not be asked.

    \b
    Examples:
      hanse resolve web.shop
      hanse resolve shop.example.org --global-zone example.org
      hanse resolve etcd.shop.myfederation.svc.example.com SRV
      hanse resolve _http._tcp.web.shop.svc.clusterset.local SRV --context lubeck
      hanse resolve web.shop --json | jq '.clusters[].records'
    """
    fqdn, rtype = _parse_question(name, zone, wanted)
    replicas = parse_replica_names(replica_zone, federation)
    settings = global_options(context)
    view = _view(zone, local_first, global_zones, settings)
    answers = _resolve_in_clusters(fqdn, rtype, view, replicas, settings)
    if as_json:
        documents = [_answer_document(answer) for answer in answers]
        document = {"name": fqdn, "type": wanted.upper(), "clusters": documents}
        click.echo(json.dumps(document, indent=2))
    else:
        _print_answers(fqdn, wanted.upper(), answers)
    context.exit(EXIT_PROBLEM if any(_is_unanswered(one) for one in answers) else 0)


def _parse_question(name: str, zone: str, wanted: str) -> tuple[str, int]:
    """The fully qualified name, with a final dot, and the number of the record type.

    SERVICE.NAMESPACE is completed to a name in the zone. Raises `InputError` if one is invalid.
    """
    from hanse.app.explain import InvalidQuestion, full_name, record_type

    try:
        return full_name(name, zone), record_type(wanted)
    except InvalidQuestion as error:
        raise InputError(str(error)) from None


def _view(
    zone: str, local_first: bool, global_zones: Sequence[str], settings: GlobalOptions
) -> "View":
    """The DNS view of a name server with these options; `InputError` for an invalid global zone.

    `zone` is not checked. Without any global zone, the view has that of a local federation if one
    runs here, else none.
    """
    from hanse.cli.clusters import is_local
    from hanse.local.up.sample import GLOBAL_ZONE
    from hanse.model.dns.names import InvalidName, wire_name
    from hanse.model.dns.zones import View

    named = tuple(one.lower().removesuffix(".") for one in global_zones)
    try:
        for one in named:
            wire_name(one)
    except InvalidName as error:
        raise InputError(f"--global-zone: {error}; give a zone such as example.org") from None
    known = named or ((GLOBAL_ZONE,) if is_local(settings) else ())
    return View("asked", zone=zone, local_first=local_first, global_zones=known)


def _resolve_in_clusters(
    name: str,
    rtype: int,
    view: "View",
    replicas: "StatefulSetOptions",
    settings: GlobalOptions,
) -> "list[ClusterAnswer | NoAnswer]":
    """The answers of the chosen clusters, from what their API servers list; no DNS query is sent.

    A name of a replica that is not in the zone of the view is resolved with the broker, and raises
    `CommandFailed` without one; every other name is that of a Service or host. A broker answers
    only if it is the sole cluster. Starts logging.
    """

    from hanse.app.explain_replicas import parse_replica_name
    from hanse.cli.clusters import configured_clusters, select_clusters
    from hanse.cli.process import run_async, start_logging
    from hanse.cli.resolve.replicas import resolve_replicas
    from hanse.cli.resolve.services import resolve_services
    from hanse.model.dns.names import is_subdomain, wire_name

    start_logging(settings)
    clusters = select_clusters(settings)
    question = parse_replica_name(name, replicas)
    if question is not None and not is_subdomain(wire_name(name), wire_name(view.zone)):
        candidates = configured_clusters(settings._replace(context=""))
        return run_async(
            lambda: resolve_replicas(
                name, rtype, question, clusters, candidates=candidates, options=replicas
            )
        )
    return run_async(lambda: resolve_services(name, rtype, clusters, view))


def _is_unanswered(answer: "ClusterAnswer | NoAnswer") -> bool:
    """Whether a cluster could not be read; False for a negative DNS answer, which is an answer."""
    from hanse.cli.resolve.services import NoAnswer

    return isinstance(answer, NoAnswer)


def _answer_document(answer: "ClusterAnswer | NoAnswer") -> dict[str, Any]:
    """The JSON document of an answer; without one, `reachable` is false and says why."""
    import msgspec

    from hanse.cli.resolve.services import ClusterAnswer, NoAnswer

    match answer:
        case NoAnswer(cluster, why):
            return {"cluster": cluster, "reachable": False, "why": why}
        case ClusterAnswer(cluster, explanation):
            reasons: dict[str, Any] = msgspec.to_builtins(explanation)
            return {"cluster": cluster, "reachable": True, **reasons}
        case _:
            assert_never(answer)


def _print_answers(name: str, rtype: str, answers: "Sequence[ClusterAnswer | NoAnswer]") -> None:
    """Print a table of codes, records and reasons per cluster, several lines if needed."""
    from hanse.cli.resolve.services import ClusterAnswer, NoAnswer
    from hanse.cli.tables import table

    rows: list[tuple[str, ...]] = []
    for answer in answers:
        match answer:
            case NoAnswer(cluster, why):
                rows.append((cluster, click.style("no answer", fg="red"), "-", why))
            case ClusterAnswer(cluster, explanation):
                colour = "green" if explanation.code == "NOERROR" else "yellow"
                records = [
                    r.value if r.percent == 100 else f"{r.value} ({r.percent} %)"
                    for r in explanation.records
                ] or ["-"]
                reasons = [
                    explanation.rule,
                    *(f"without {o.cluster}: {o.why}" for o in explanation.left_out),
                ]
                for line in range(max(len(records), len(reasons))):
                    front = (
                        (cluster, click.style(explanation.code, fg=colour))
                        if not line
                        else ("", "")
                    )
                    record = records[line] if line < len(records) else ""
                    reason = reasons[line] if line < len(reasons) else ""
                    rows.append((*front, record, reason))
            case _:
                assert_never(answer)
    click.echo(f"{name} {rtype}")
    click.echo(table(("CLUSTER", "ANSWER", "RECORDS", "WHY"), rows))
