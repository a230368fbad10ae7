"""Reads of a cluster what takes part in federated Services."""

from hanse.cli.clusters import ClusterAccess
from hanse.cli.exported_services import list_or_empty
from hanse.cli.reaching import reached
from hanse.features.federated.antrea import AntreaManifests, MigratedObjects, antrea_manifests
from hanse.kube.discovery import refresh
from hanse.model.kinds.core import Service
from hanse.model.kinds.discovery import EndpointSlice
from hanse.model.kinds.federation import NativeService, NetworkInterface


async def moved(way: ClusterAccess, namespace: str) -> AntreaManifests:
    """What stands for a cluster's part, by what it holds now."""
    async with reached(way) as client:
        await refresh(client)
        held = MigratedObjects(
            await list_or_empty(client, Service),
            await list_or_empty(client, EndpointSlice),
            await list_or_empty(client, NativeService),
            await list_or_empty(client, NetworkInterface),
        )
    return antrea_manifests(held, namespace)
