"""A look at federated Services and machines, through the API servers of all clusters."""

from collections.abc import Iterable

import click

from hanse.cli.clusters import ClusterAccess, at_each
from hanse.cli.exported_services import list_or_empty, read_cluster_id
from hanse.cli.federated_services import FederatedView, Holding, build_view
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


async def read_federated_services(ways: Iterable[ClusterAccess]) -> FederatedView:
    """What clusters that answer hold; one that does not hides no other."""
    held = await at_each(ways, _held_by)
    return build_view([one for one in held if one is not None])


async def _held_by(way: ClusterAccess) -> Holding | None:
    client = Client(HttpTransport(way.credentials))
    try:
        await client.send(Request("GET", "/version", timeout=PATIENCE))  # a dead one ends it here
        await refresh(client)
        return Holding(
            await read_cluster_id(client, way.name),
            await list_or_empty(client, Service),
            await list_or_empty(client, EndpointSlice, labels=_OURS),
            await list_or_empty(client, NativeService),
            await list_or_empty(client, VirtualMachine),
        )
    except KubeError:
        return None  # the look at the cluster itself says why
    finally:
        await client.close()


def show(seen: FederatedView) -> None:
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
