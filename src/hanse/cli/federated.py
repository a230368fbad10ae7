"""A look at federated Services and machines, through the API servers of all clusters."""

from collections.abc import Iterable

import click

from hanse.cli.clusters import ClusterAccess, at_each
from hanse.cli.exported_services import all_of, cluster_id
from hanse.cli.federated_services import Holding, Seen, seen_in
from hanse.cli.inventory import PATIENCE
from hanse.cli.tables import table
from hanse.features.federated.names import DOMAIN as FEDERATING
from hanse.features.machines.names import DOMAIN as SERVING_MACHINES
from hanse.kube.client import Client
from hanse.kube.discovery import refresh
from hanse.kube.errors import KubeError
from hanse.kube.http_transport import HttpTransport
from hanse.kube.transport import Request
from hanse.model.kinds.core import Service
from hanse.model.kinds.discovery import MANAGED_BY, EndpointSlice
from hanse.model.kinds.federation import NativeService, VirtualMachine

_OURS = f"{MANAGED_BY} in ({FEDERATING},{SERVING_MACHINES})"


async def look_at_federated(ways: Iterable[ClusterAccess]) -> Seen:
    """What clusters that answer hold; one that does not hides no other."""
    held = await at_each(ways, _held_by)
    return seen_in([one for one in held if one is not None])


async def _held_by(way: ClusterAccess) -> Holding | None:
    client = Client(HttpTransport(way.credentials))
    try:
        await client.send(Request("GET", "/version", timeout=PATIENCE))  # a dead one ends it here
        await refresh(client)
        return Holding(
            await cluster_id(client, way.name),
            await all_of(client, Service),
            await all_of(client, EndpointSlice, labels=_OURS),
            await all_of(client, NativeService),
            await all_of(client, VirtualMachine),
        )
    except KubeError:
        return None  # the look at the cluster itself says why
    finally:
        await client.close()


def show(seen: Seen) -> None:
    """Print what there is; nothing where there is nothing."""
    if seen.services:
        rows = [
            (
                f"{one.namespace}/{one.name}",
                ", ".join(one.ports) or "-",
                ", ".join(f"{cluster} {number}" for cluster, number in one.ready.items()) or "-",
                ", ".join(one.stands_in),
            )
            for one in seen.services
        ]
        click.echo()
        click.echo(table(("FEDERATED SERVICE", "PORTS", "ENDPOINTS READY", "STANDS IN"), rows))
    if seen.machines:
        rows_of_machines = [
            (f"{one.namespace}/{one.name}", one.cluster, str(one.machines)) for one in seen.machines
        ]
        click.echo()
        click.echo(table(("VM SERVICE", "CLUSTER", "MACHINES"), rows_of_machines))
    for trouble in seen.troubles:
        what = click.style(trouble.reason, fg="yellow")
        click.echo(f"! {trouble.object} in {trouble.cluster}: {what}: {trouble.message}")
