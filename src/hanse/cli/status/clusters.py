"""Clusters, their agents and their Federation in `hanse status`."""

from collections.abc import Sequence
from typing import Any, assert_never

import click
import msgspec

from hanse.cli.inventory import (
    ClusterInventory,
    InventoryResult,
    MembershipState,
    ServiceInventory,
    UnreadCluster,
)
from hanse.cli.status.local import ConnectionPhases, LocalFederationState
from hanse.cli.tables import table


def json_document(cluster: InventoryResult, local: LocalFederationState) -> dict[str, Any]:
    """A cluster's inventory as JSON, with the connections, DNS and metrics of a local federation.

    The latter are empty for a cluster that no local federation runs.
    """
    name = cluster.name
    return {
        **_inventory_document(cluster),
        "sees": local.phases.get(name, {}),
        "dns": local.dns.get(name, ""),
        "metrics": local.metrics.get(name, ""),
        "networkDns": local.network_dns.get(name, {}),
    }


def _inventory_document(cluster: InventoryResult) -> dict[str, Any]:
    """A cluster's inventory as JSON values; of one not read only its name and the reason."""
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


def _service_counts(services: ServiceInventory) -> dict[str, Any]:
    """How many exports, ready ones and imports there are, and the troubles of exports.

    What could not be read is null.
    """
    if services.exports is None:
        return {"exports": None, "ready": None, "imports": services.imports, "troubles": None}
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


def print_table(clusters: Sequence[InventoryResult]) -> None:
    """Print the table of clusters; one that was not read shows dashes and the reason.

    Nodes are `ready/all`, `?` if not read, and a dash for a broker without any.
    """
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


def _agent_cell(cluster: ClusterInventory) -> str:
    """`alive` or `silent`; without an agent `broker` for a broker, else `none`."""
    if cluster.agent is None:
        return "broker" if cluster.is_broker else click.style("none", fg="yellow")
    if cluster.agent.alive:
        return click.style("alive", fg="green")
    return click.style("silent", fg="red")


def _exports_cell(cluster: ClusterInventory) -> str:
    """How many of the exports are ready, in red if something is wrong with one.

    `?` if they could not be read; a dash where there can be none, or for a broker without any.
    """
    if cluster.services is None:
        return "-"
    exports = cluster.services.exports
    if exports is None:
        return "?"
    if cluster.is_broker and not exports:
        return "-"
    counts = f"{cluster.services.ready}/{len(exports)}"
    wrong = any(export.trouble for export in exports)
    return click.style(counts, fg="red") if wrong else counts


def _imports_cell(cluster: ClusterInventory) -> str:
    """The number of imports; `?` if not read, `-` for a broker or where there can be none."""
    if cluster.services is None or cluster.is_broker:
        return "-"
    return "?" if cluster.services.imports is None else str(cluster.services.imports)


def print_memberships(clusters: Sequence[InventoryResult]) -> None:
    """Print the membership table of the clusters that were read and have a membership."""
    read = [one for one in clusters if isinstance(one, ClusterInventory)]
    print_membership([(o.name, o.membership) for o in read if o.membership is not None])


def print_unsynced(phases: ConnectionPhases) -> None:
    """Print a line for each connection of a local agent that is not Synced; else nothing."""
    for agent, clusters in phases.items():
        for cluster, phase in clusters.items():
            if phase != "Synced":
                how = click.style(phase, fg="yellow")
                name = "its own cluster" if cluster == agent else cluster
                click.echo(f"! the agent of {agent} does not see {name} as it is now: {how}")


def membership_document(membership: MembershipState | None) -> dict[str, Any] | None:
    """The membership in the JSON of `hanse status`; None without one."""
    if membership is None:
        return None
    return {
        "name": membership.name,
        "supervises": membership.supervises,
        "leaders": list(membership.leaders),
        "members": [msgspec.to_builtins(member) for member in membership.members],
        "troubles": list(membership.troubles),
    }


def print_membership(clusters: Sequence[tuple[str, MembershipState]]) -> None:
    """Print who leads each member and which supervisors reach it, sorted by member.

    By the status of supervisors' Federations alone; prints nothing if they list no member.
    """
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
