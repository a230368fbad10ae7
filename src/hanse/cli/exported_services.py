"""A look at every exported service, from outside, through the API servers of all clusters."""

from collections.abc import Iterable
from typing import Any, TypeVar

from hanse.cli.clusters import ClusterAccess, at_each
from hanse.cli.inventory import PATIENCE
from hanse.features.services.names import DOMAIN, SERVICE_NAME, SERVICE_NAMESPACE
from hanse.features.services.view import ClusterServices, ServiceView, service_views
from hanse.kube.client import Client
from hanse.kube.discovery import refresh
from hanse.kube.errors import KubeError, NotFound
from hanse.kube.http_transport import HttpTransport
from hanse.kube.transport import Request
from hanse.model.kinds.coordination import Lease
from hanse.model.kinds.discovery import MANAGED_BY, EndpointSlice
from hanse.model.kinds.multicluster import ServiceExport, ServiceImport
from hanse.model.naming import AGENT, SYSTEM_NAMESPACE
from hanse.model.objects import Object

_OURS = f"{SERVICE_NAME},{MANAGED_BY}={DOMAIN},!{SERVICE_NAMESPACE}"
"""Imported slices; those with the namespace as a label are a broker's."""

K = TypeVar("K", bound=Object)


async def read_exported_services(ways: Iterable[ClusterAccess]) -> list[ServiceView]:
    """The exported services of all clusters that answer."""
    held = await at_each(ways, _held_by)
    return service_views([one for one in held if one is not None])


async def _held_by(way: ClusterAccess) -> ClusterServices | None:
    client = Client(HttpTransport(way.credentials))
    try:
        await client.send(Request("GET", "/version", timeout=PATIENCE))  # a dead one ends it here
        await refresh(client)
        return await read_holding(client, way.name)
    except KubeError:
        return None  # the look at the cluster itself says why
    finally:
        await client.close()


async def read_holding(client: Client, name: str, namespace: str = "") -> ClusterServices:
    """What a cluster holds, in all namespaces or in one; the client knows what is served."""
    return ClusterServices(
        await read_cluster_id(client, name),
        await list_or_empty(client, ServiceExport, namespace),
        tuple(
            one
            for one in await list_or_empty(client, ServiceImport, namespace)
            if SERVICE_NAMESPACE not in one.metadata.labels
        ),
        await list_or_empty(client, EndpointSlice, namespace, _OURS),
    )


async def read_cluster_id(client: Client, otherwise: str) -> str:
    """The id by which a cluster is a member: its agent's Lease is held in that name."""
    try:
        lease = await client.read(Lease, AGENT, SYSTEM_NAMESPACE)
    except NotFound:
        return otherwise
    cluster, parted, _ = lease.spec.holder_identity.partition("_")
    return cluster if parted else otherwise


async def list_or_empty(
    client: Client, kind: type[K], namespace: str = "", labels: str = ""
) -> tuple[K, ...]:
    """Everything of a kind; nothing where a cluster does not know it."""
    try:
        return (await client.list(kind, namespace=namespace, labels=labels)).objects
    except NotFound:
        return ()  # the kind itself is not there


def document(seen: ServiceView) -> dict[str, Any]:
    """The service for other programs."""
    return {
        "namespace": seen.namespace,
        "name": seen.name,
        "type": seen.type,
        "ports": [
            {"name": p.name, "port": p.port, "protocol": p.protocol, "appProtocol": p.app_protocol}
            for p in seen.ports
        ],
        "exporters": list(seen.exporters),
        "importers": list(seen.importers),
        "endpoints": {
            cluster: {"ready": count.ready, "all": count.all}
            for cluster, count in seen.endpoints.items()
        },
        "problems": [
            {"cluster": p.cluster, "reason": p.reason, "message": p.message} for p in seen.problems
        ],
    }
