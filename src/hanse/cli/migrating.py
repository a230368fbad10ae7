"""Reads of a cluster what takes part in federated Services."""

from hanse.cli.clusters import ClusterAccess
from hanse.cli.exported_services import all_of
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
            await all_of(client, Service),
            await all_of(client, EndpointSlice),
            await all_of(client, NativeService),
            await all_of(client, NetworkInterface),
        )
    return antrea_manifests(held, namespace)
