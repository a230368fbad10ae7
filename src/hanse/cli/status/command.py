"""`hanse status`: the fleet at a glance."""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, assert_never

import click

from hanse.cli.settings import Settings, settings_of

if TYPE_CHECKING:
    from hanse.cli.federated_services import Seen as Shared
    from hanse.cli.gslb.view import Seen as Balanced
    from hanse.cli.inventory import ClusterInventory, Seen
    from hanse.cli.services_seen import ServiceInventory
    from hanse.cli.status.local import ConnectionPhases, LocalFederationState
    from hanse.features.services.view import ServiceView


@click.command("status")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def command(context: click.Context, as_json: bool) -> None:
    """Show every cluster at a glance.

    Of a local federation that runs in this folder, else of the kubeconfig's contexts: whether each
    cluster answers, its version, whether its agent is alive, how many nodes and exported services
    are ready, and how many services it imports. Then every exported service: who exports it, its
    ports, the endpoints that are ready in each cluster, and what clusters disagree about; then the
    same of federated Services and of machines that are Services; then global hosts. A cluster
    that does not answer is shown as such, and in a local federation what agents do not reach; the
    exit status is 0 all the same (see `hanse doctor`).

    \b
    Examples:
      hanse status
      hanse status --context lubeck
      hanse status --json | jq '.clusters[] | select(.reachable | not) | .name'
      hanse status --json | jq '.services[] | select(.problems != [])'
    """
    from hanse.cli import exported_services, federated, federated_services
    from hanse.cli.gslb import view

    seen, services, shared, balanced, told = _look(settings_of(context))
    if as_json:
        shown = {
            "clusters": [_whole(one, told) for one in seen],
            "dns": told.dns_of_nobody,
            "services": [exported_services.document(one) for one in services],
            **federated_services.document(shared),
            "gslb": view.document(balanced),
        }
        click.echo(json.dumps(shown, indent=2))
    else:
        _show(seen)
        _show_blind(told.sees)
        _show_membership(seen)
        _show_services(services)
        federated.show(shared)
        view.show(balanced)


def _look(
    settings: Settings,
) -> "tuple[list[Seen], list[ServiceView], Shared, Balanced, LocalFederationState]":
    import asyncio

    from hanse.cli.clusters import ways
    from hanse.cli.errors import credentials_error
    from hanse.cli.exported_services import read_exported_services
    from hanse.cli.federated import read_federated_services
    from hanse.cli.gslb.view import look as look_at_hosts
    from hanse.cli.inventory import read_inventories
    from hanse.cli.process import run_async, start_logging
    from hanse.cli.status.local import read_local_state
    from hanse.kube.errors import BadCredentials

    start_logging(settings)
    try:
        chosen = ways(settings)
    except BadCredentials as error:
        raise credentials_error(error) from None

    async def look() -> (
        "tuple[list[Seen], list[ServiceView], Shared, Balanced, LocalFederationState]"
    ):
        return await asyncio.gather(
            read_inventories(chosen),
            read_exported_services(chosen),
            read_federated_services(chosen),
            look_at_hosts(chosen),
            read_local_state(settings),
        )

    return run_async(look)


def _whole(seen: "Seen", told: "LocalFederationState") -> dict[str, Any]:
    """What is seen of a cluster, and what its own federation tells of it."""
    name = seen.name
    return {
        **_document(seen),
        "sees": told.sees.get(name, {}),
        "dns": told.dns.get(name, ""),
        "networkDns": told.network_dns.get(name, {}),
    }


def _document(seen: "Seen") -> dict[str, Any]:
    from hanse.cli import membership_seen
    from hanse.cli.inventory import ClusterInventory, UnreadCluster

    match seen:
        case UnreadCluster(name, why):
            return {"name": name, "reachable": False, "why": why}
        case ClusterInventory(name, server, version, nodes=nodes, agent=agent, services=services):
            return {
                "name": name,
                "reachable": True,
                "server": server,
                "version": version,
                "broker": seen.is_broker,
                "agent": None
                if agent is None
                else {
                    "alive": agent.alive,
                    "holder": agent.holder,
                    "silentSeconds": round(agent.silent.total_seconds(), 1),
                },
                "nodes": None if nodes is None else {"all": nodes.all, "ready": nodes.ready},
                "features": {"services": _services(services)} if services is not None else {},
                "federation": membership_seen.document(seen.membership),
            }
        case _:
            assert_never(seen)


def _services(seen: "ServiceInventory") -> dict[str, Any]:
    troubles = [
        {"namespace": one.namespace, "name": one.name, "trouble": one.trouble}
        for one in seen.exports
        if one.trouble
    ]
    return {
        "exports": len(seen.exports),
        "ready": seen.ready,
        "imports": seen.imports,
        "troubles": troubles,
    }


def _show(seen: "Sequence[Seen]") -> None:
    from hanse.cli.inventory import ClusterInventory
    from hanse.cli.tables import table

    rows = []
    for one in seen:
        if isinstance(one, ClusterInventory):
            nodes = f"{one.nodes.ready}/{one.nodes.all}" if one.nodes is not None else "?"
            nodes = "-" if one.is_broker and nodes == "0/0" else nodes
            answers = click.style("yes", fg="green")
            told = (one.version, _agent(one), nodes, _exports(one), _imports(one))
            rows.append((one.name, answers, *told, one.server))
        else:
            rows.append((one.name, click.style("no", fg="red"), *"-----", one.why))
    header = ("CLUSTER", "ANSWERS", "VERSION", "AGENT", "NODES", "EXPORTS", "IMPORTS", "WHERE")
    click.echo(table(header, rows))


def _agent(look: "ClusterInventory") -> str:
    if look.agent is None:
        return "broker" if look.is_broker else click.style("none", fg="yellow")
    if look.agent.alive:
        return click.style("alive", fg="green")
    return click.style("silent", fg="red")


def _exports(look: "ClusterInventory") -> str:
    """How many of the exports are ready, in red if something is wrong with one."""
    if look.services is None or (look.is_broker and not look.services.exports):
        return "-"
    told = f"{look.services.ready}/{len(look.services.exports)}"
    wrong = any(export.trouble for export in look.services.exports)
    return click.style(told, fg="red") if wrong else told


def _imports(look: "ClusterInventory") -> str:
    return "-" if look.services is None or look.is_broker else str(look.services.imports)


def _show_membership(seen: "Sequence[Seen]") -> None:
    from hanse.cli import membership_seen
    from hanse.cli.inventory import ClusterInventory

    looks = [one for one in seen if isinstance(one, ClusterInventory)]
    membership_seen.show([(o.name, o.membership) for o in looks if o.membership is not None])


def _show_blind(eyes: "ConnectionPhases") -> None:
    for agent, clusters in eyes.items():
        for cluster, phase in clusters.items():
            if phase != "Synced":
                how = click.style(phase, fg="yellow")
                what = "its own cluster" if cluster == agent else cluster
                click.echo(f"! the agent of {agent} does not see {what} as it is now: {how}")


def _show_services(services: "Sequence[ServiceView]") -> None:
    from hanse.cli.tables import table
    from hanse.features.services.view import format_port

    if not services:
        return
    rows = [
        (
            f"{one.namespace}/{one.name}",
            one.type or "-",
            ", ".join(format_port(port) for port in one.ports) or "-",
            ", ".join(one.exporters) or "-",
            ", ".join(f"{cluster} {count}" for cluster, count in one.endpoints.items()) or "-",
        )
        for one in services
    ]
    click.echo()
    click.echo(table(("SERVICE", "TYPE", "PORTS", "EXPORTED BY", "ENDPOINTS READY"), rows))
    for one in services:
        told: dict[tuple[str, str], list[str]] = {}
        for problem in one.problems:  # what clusters tell in the same words is shown once
            told.setdefault((problem.reason, problem.message), []).append(problem.cluster)
        for (reason, message), clusters in told.items():
            where = f"{one.namespace}/{one.name} in {', '.join(clusters)}"
            click.echo(f"! {where}: {click.style(reason, fg='yellow')}: {message}")
