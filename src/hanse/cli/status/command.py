"""`hanse status`: all clusters and what spans them, as tables or JSON."""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, assert_never

import click

from hanse.cli.errors import EXIT_PROBLEM
from hanse.cli.settings import GlobalOptions, global_options

if TYPE_CHECKING:
    from hanse.cli.doctor.examination import FleetExamination
    from hanse.cli.federated_services import FederatedView
    from hanse.cli.gslb.view import GslbView
    from hanse.cli.inventory import (
        ClusterInventory,
        InventoryResult,
        MembershipState,
        ServiceInventory,
    )
    from hanse.cli.statefulsets.replicas import SetView
    from hanse.cli.status.local import ConnectionPhases, LocalFederationState
    from hanse.features.services.view import ServiceItem
    from hanse.model.findings import Finding

    Results = tuple[
        FleetExamination,
        FederatedView,
        list[SetView],
        GslbView,
        LocalFederationState,
    ]


WATCH_INTERVAL = 2.0
"""Seconds between two readings with --watch."""


@click.command("status")
@click.option("--json", "as_json", is_flag=True, help="Print JSON; the same as -o json.")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "wide", "json", "yaml"]),
    default="table",
    help="How to print it; wide has all findings with their remedies.",
)
@click.option("-n", "--namespace", default="", metavar="NAME", help="Only what is in a namespace.")
@click.option("--watch", is_flag=True, help="Print it again whenever it changes, until Ctrl-C.")
@click.option(
    "--fail-on",
    type=click.Choice(["outage", "degraded", "risk", "note"]),
    default=None,
    help="Exit with status 1 if anything so bad, or worse, is found.",
)
@click.pass_context
def command(
    context: click.Context,
    as_json: bool,
    output: str,
    namespace: str,
    watch: bool,
    fail_on: str | None,
) -> None:
    """Show every cluster at a glance, and first what is wrong.

    Of a local federation that runs in this folder, else of the kubeconfig's contexts: whether each
    cluster answers, its version, whether its agent is alive, how many nodes and exported services
    are ready, and how many services it imports. Then every exported service: who exports it, its
    ports, and the endpoints that are ready in each cluster; then the same of federated Services
    and of machines that are Services; then StatefulSets over clusters, with the clusters that
    refuse one, and global hosts. A cluster that does not answer is shown as such; the exit status
    is 0 all the same, unless --fail-on says otherwise. `hanse doctor` has the remedies.

    \b
    Examples:
      hanse status
      hanse status -n shop -o wide
      hanse status --watch
      hanse status --context lubeck --fail-on degraded
      hanse status --json | jq '.clusters[] | select(.reachable | not) | .name'
      hanse status --json | jq '.services[] | select(.findings != [])'
    """
    import time

    settings = global_options(context)
    form = "json" if as_json else output
    last = ""
    while True:
        shown, failed = _status_text(settings, form, namespace, fail_on)
        if shown != last:
            click.echo(
                f"\n--- {time.strftime('%H:%M:%S')}" if last and watch else "", nl=bool(last)
            )
            click.echo(shown)
            last = shown
        if not watch:
            context.exit(EXIT_PROBLEM if failed else 0)
        time.sleep(WATCH_INTERVAL)


def _status_text(
    settings: GlobalOptions, form: str, namespace: str, fail_on: str | None
) -> tuple[str, bool]:
    """What is shown, and whether anything as bad as `fail_on` was found."""
    from hanse.cli.findings import reaches
    from hanse.model.findings import Severity

    results = _read_results(settings)
    examination = results[0]
    findings = tuple(f for f in examination.report.findings if _concerns(f, namespace))
    services = [
        one for one in examination.items["services"].values() if namespace in ("", one.namespace)
    ]
    failed = fail_on is not None and reaches(findings, Severity(fail_on))
    if form in ("json", "yaml"):
        document = _document(results, findings, services)
        if form == "json":
            return json.dumps(document, indent=2), failed
        from hanse.cli.yaml_text import to_yaml

        return to_yaml([document]).strip(), failed
    return _tables(results, findings, services, wide=form == "wide"), failed


def _concerns(finding: "Finding", namespace: str) -> bool:
    """Whether a finding, or what follows from it, is in a namespace, or in none."""
    spaces = {finding.subject.namespace, *(c.subject.namespace for c in finding.consequences)}
    return not namespace or "" in spaces or namespace in spaces


def _document(
    results: "Results", findings: "Sequence[Finding]", services: "Sequence[ServiceItem]"
) -> dict[str, Any]:
    """Everything as JSON values."""
    from hanse.cli.findings import findings_document
    from hanse.cli.gslb import view as gslb_view
    from hanse.cli.status import federated, statefulsets

    examination, federated_view, sets, gslb, local = results
    clusters = examination.inventories
    return {
        "clusters": [_cluster_document(one, local) for one in clusters],
        "dns": local.clusterless_dns,
        "findings": findings_document(findings),
        "services": [_service_document(one) for one in services],
        **federated.json_document(federated_view),
        "statefulSets": statefulsets.json_document(sets),
        "gslb": gslb_view.json_document(gslb),
    }


def _tables(
    results: "Results",
    findings: "Sequence[Finding]",
    services: "Sequence[ServiceItem]",
    *,
    wide: bool,
) -> str:
    """Everything as tables, what is wrong first."""
    import io
    import sys
    from contextlib import redirect_stdout

    from hanse.cli.findings import print_finding, print_summaries
    from hanse.cli.gslb import view as gslb_view
    from hanse.cli.status import federated, statefulsets

    examination, federated_view, sets, gslb, local = results
    clusters = examination.inventories
    context = click.get_current_context()
    colored = context.color if context.color is not None else sys.stdout.isatty()
    context.color = True  # what is printed into a text keeps its colours until it is shown
    with redirect_stdout(io.StringIO()) as text:
        if wide:
            for one in findings:
                print_finding(one)
        else:
            print_summaries(findings)
        _print_clusters(clusters)
        _print_unsynced(local.phases)
        _print_membership(clusters)
        _print_services(services)
        federated.print_tables(federated_view)
        statefulsets.print_table(sets)
        gslb_view.print_hosts(gslb)
    context.color = colored
    shown = text.getvalue().rstrip()
    return shown if colored else click.unstyle(shown)


def _read_results(settings: GlobalOptions) -> "Results":
    """Start logging and read everything that status shows, concurrently."""
    import asyncio

    from hanse.cli.clusters import is_local, select_clusters
    from hanse.cli.doctor.examination import examine_clusters
    from hanse.cli.federated_services import read_federated_services
    from hanse.cli.gslb.view import read_gslb
    from hanse.cli.process import run_async, start_logging
    from hanse.cli.status.local import read_local_state
    from hanse.cli.status.statefulsets import read_sets_of_broker

    start_logging(settings)
    clusters = select_clusters(settings)

    async def read() -> "Results":
        return await asyncio.gather(
            examine_clusters(clusters, local=is_local(settings)),
            read_federated_services(clusters),
            read_sets_of_broker(clusters),
            read_gslb(clusters),
            read_local_state(settings),
        )

    return run_async(read)


def _cluster_document(cluster: "InventoryResult", local: "LocalFederationState") -> dict[str, Any]:
    """A cluster's inventory, and what a local federation knows about it."""
    name = cluster.name
    return {
        **_inventory_document(cluster),
        "sees": local.phases.get(name, {}),
        "dns": local.dns.get(name, ""),
        "metrics": local.metrics.get(name, ""),
        "networkDns": local.network_dns.get(name, {}),
    }


def _inventory_document(cluster: "InventoryResult") -> dict[str, Any]:
    """The JSON document of a cluster; one not read has only name and reason."""
    from hanse.cli.inventory import ClusterInventory, UnreadCluster

    match cluster:
        case UnreadCluster(name, why):
            return {"name": name, "reachable": False, "why": why}
        case ClusterInventory(name, server, version, nodes=nodes, agent=agent, services=services):
            return {
                "name": name,
                "reachable": True,
                "server": server,
                "version": version,
                "broker": cluster.is_broker,
                "agent": None
                if agent is None
                else {
                    "alive": agent.alive,
                    "holder": agent.holder,
                    "silentSeconds": round(agent.silent.total_seconds(), 1),
                },
                "nodes": None if nodes is None else {"all": nodes.all, "ready": nodes.ready},
                "features": {"services": _service_counts(services)} if services is not None else {},
                "federation": membership_document(cluster.membership),
            }
        case _:
            assert_never(cluster)


def _service_counts(services: "ServiceInventory") -> dict[str, Any]:
    """How many exports, ready ones and imports there are, and the troubles of exports."""
    troubles = [
        {"namespace": one.namespace, "name": one.name, "trouble": one.trouble}
        for one in services.exports
        if one.trouble
    ]
    return {
        "exports": len(services.exports),
        "ready": services.ready,
        "imports": services.imports,
        "troubles": troubles,
    }


def _print_clusters(clusters: "Sequence[InventoryResult]") -> None:
    """Print the table of clusters; one that was not read shows dashes and the reason."""
    from hanse.cli.inventory import ClusterInventory
    from hanse.cli.tables import table

    rows = []
    for one in clusters:
        if isinstance(one, ClusterInventory):
            nodes = f"{one.nodes.ready}/{one.nodes.all}" if one.nodes is not None else "?"
            nodes = "-" if one.is_broker and nodes == "0/0" else nodes
            answers = click.style("yes", fg="green")
            cells = (one.version, _agent_cell(one), nodes, _exports_cell(one), _imports_cell(one))
            rows.append((one.name, answers, *cells, one.server))
        else:
            rows.append((one.name, click.style("no", fg="red"), *"-----", one.why))
    header = ("CLUSTER", "ANSWERS", "VERSION", "AGENT", "NODES", "EXPORTS", "IMPORTS", "WHERE")
    click.echo(table(header, rows))


def _agent_cell(cluster: "ClusterInventory") -> str:
    """`alive` or `silent`; without an agent `broker` for a broker, else `none`."""
    if cluster.agent is None:
        return "broker" if cluster.is_broker else click.style("none", fg="yellow")
    if cluster.agent.alive:
        return click.style("alive", fg="green")
    return click.style("silent", fg="red")


def _exports_cell(cluster: "ClusterInventory") -> str:
    """How many of the exports are ready, in red if something is wrong with one."""
    if cluster.services is None or (cluster.is_broker and not cluster.services.exports):
        return "-"
    counts = f"{cluster.services.ready}/{len(cluster.services.exports)}"
    wrong = any(export.trouble for export in cluster.services.exports)
    return click.style(counts, fg="red") if wrong else counts


def _imports_cell(cluster: "ClusterInventory") -> str:
    """The number of imports; `-` for the broker and where services cannot be read."""
    return "-" if cluster.services is None or cluster.is_broker else str(cluster.services.imports)


def _print_membership(clusters: "Sequence[InventoryResult]") -> None:
    """Print the membership table of the clusters that were read and have a membership."""
    from hanse.cli.inventory import ClusterInventory

    read = [one for one in clusters if isinstance(one, ClusterInventory)]
    print_membership([(o.name, o.membership) for o in read if o.membership is not None])


def _print_unsynced(phases: "ConnectionPhases") -> None:
    """Print the connections of local agents that are not Synced."""
    for agent, clusters in phases.items():
        for cluster, phase in clusters.items():
            if phase != "Synced":
                how = click.style(phase, fg="yellow")
                name = "its own cluster" if cluster == agent else cluster
                click.echo(f"! the agent of {agent} does not see {name} as it is now: {how}")


def _print_services(services: "Sequence[ServiceItem]") -> None:
    """Print the table of Services."""
    from hanse.cli.tables import table
    from hanse.features.services.exported import format_port

    if not services:
        return
    rows = [
        (
            f"{one.namespace}/{one.name}",
            one.type or "-",
            ", ".join(format_port(port) for port in one.ports) or "-",
            ", ".join(e.cluster for e in one.exporters if not e.lost) or "-",
            ", ".join(
                f"{e.cluster} {'lost' if e.lost else f'{e.ready}/{e.all}'}" for e in one.exporters
            )
            or "-",
        )
        for one in services
    ]
    click.echo()
    click.echo(table(("SERVICE", "TYPE", "PORTS", "EXPORTED BY", "ENDPOINTS READY"), rows))


def _service_document(service: "ServiceItem") -> dict[str, Any]:
    """A service as it is in the JSON of `hanse status`."""
    from hanse.cli.exported_services import port_documents
    from hanse.cli.findings import findings_document

    return {
        "namespace": service.namespace,
        "name": service.name,
        "type": service.type,
        "state": service.state,
        "ports": port_documents(service.ports),
        "exporters": [one.cluster for one in service.exporters if not one.lost],
        "importers": list(service.importers),
        "endpoints": {
            one.cluster: {"ready": one.ready, "all": one.all} for one in service.exporters
        },
        "problems": [
            {"cluster": p.cluster, "reason": p.reason, "message": p.message}
            for p in service.problems
        ],
        "findings": findings_document(service.findings),
    }


def membership_document(membership: "MembershipState | None") -> dict[str, Any] | None:
    """The membership as it is in the JSON of `hanse status`."""
    import msgspec

    if membership is None:
        return None
    return {
        "name": membership.name,
        "supervises": membership.supervises,
        "leaders": list(membership.leaders),
        "members": [msgspec.to_builtins(member) for member in membership.members],
        "troubles": list(membership.troubles),
    }


def print_membership(clusters: "Sequence[tuple[str, MembershipState]]") -> None:
    """Print who leads each member and which supervisors reach it, and failed conditions."""
    from hanse.cli.tables import table

    supervisors = [(cluster, one) for cluster, one in clusters if one.supervises]
    names = sorted({m.cluster for _, one in supervisors for m in one.members})
    rows = []
    for name in names:
        known = {c: m for c, one in supervisors for m in one.members if m.cluster == name}
        leaders = sorted({m.leader for m in known.values() if m.leader})
        unreached = [c for c, m in known.items() if not m.reachable]
        reached_from = [c for c, m in known.items() if m.reachable]
        cell = ", ".join(reached_from) or "-"
        if unreached:
            cell += click.style(f" (not from {', '.join(unreached)})", fg="yellow")
        rows.append((name, ", ".join(leaders) or click.style("nobody", fg="red"), cell))
    if rows:
        click.echo()
        click.echo(table(("MEMBER", "LED BY", "REACHED FROM"), rows))
    for cluster, one in clusters:
        for trouble in one.troubles:
            reason, _, message = trouble.partition(": ")
            label = click.style(reason, fg="yellow")
            click.echo(f"! federation {one.name} in {cluster}: {label}: {message}")
