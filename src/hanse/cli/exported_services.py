"""Exported services, read from the API servers of all clusters."""

from collections.abc import Iterable
from typing import Any

from hanse.features.services.exported import ClusterServices, ExportedService
from hanse.features.services.names import DOMAIN, SERVICE_NAME, SERVICE_NAMESPACE
from hanse.kube.client import Client
from hanse.kube.optional_reads import list_or_empty, read_or_none
from hanse.model.kinds.coordination import Lease
from hanse.model.kinds.discovery import MANAGED_BY, EndpointSlice
from hanse.model.kinds.multicluster import ImportedPort, ServiceExport, ServiceImport
from hanse.model.naming import AGENT, SYSTEM_NAMESPACE

_IMPORTED_SLICES = f"{SERVICE_NAME},{MANAGED_BY}={DOMAIN},!{SERVICE_NAMESPACE}"
"""Selects imported slices; those with the namespace as a label are on a broker."""


async def read_cluster_services(client: Client, name: str, namespace: str = "") -> ClusterServices:
    """List ServiceExports, ServiceImports and imported EndpointSlices, in one namespace or in all.

    Without what the cluster has as a broker; kinds that are not served are empty. Its id is `name`
    where the agent's Lease has no holder.
    """
    return ClusterServices(
        await read_cluster_id(client, name),
        await list_or_empty(client, ServiceExport, namespace),
        tuple(
            one
            for one in await list_or_empty(client, ServiceImport, namespace)
            if SERVICE_NAMESPACE not in one.metadata.labels
        ),
        await list_or_empty(client, EndpointSlice, namespace, _IMPORTED_SLICES),
    )


async def read_cluster_id(client: Client, default: str) -> str:
    """Read the cluster id from the holder of the agent's Lease, also if that has expired.

    The default without a Lease, or if its holder is not `<cluster>_<agent>`.
    """
    lease = await read_or_none(client, Lease, AGENT, SYSTEM_NAMESPACE)
    cluster, parted, _ = (lease.spec.holder_identity if lease else "").partition("_")
    return cluster if parted else default


def json_document(service: ExportedService) -> dict[str, Any]:
    """A service as JSON values: ports, exporters, importers, endpoint counts and problems."""
    return {
        "namespace": service.namespace,
        "name": service.name,
        "type": service.type,
        "ports": port_documents(service.ports),
        "exporters": list(service.exporters),
        "importers": list(service.importers),
        "endpoints": {
            cluster: {"ready": count.ready, "all": count.all}
            for cluster, count in service.endpoints.items()
        },
        "problems": [
            {"cluster": p.cluster, "reason": p.reason, "message": p.message}
            for p in service.problems
        ],
    }


def port_documents(ports: Iterable[ImportedPort]) -> list[dict[str, Any]]:
    """Ports as they are in the JSON output of commands."""
    return [
        {"name": p.name, "port": p.port, "protocol": p.protocol, "appProtocol": p.app_protocol}
        for p in ports
    ]
