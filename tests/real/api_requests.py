"""Short helpers for requests to the API server of a real cluster."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from hanse.kube.errors import error_from_response
from hanse.kube.transport import Request, Transport
from hanse.local.real.cluster import RealCluster


@asynccontextmanager
async def admin_transport(cluster: RealCluster) -> AsyncIterator[Transport]:
    """The administrator's transport, closed at the end."""
    transport = cluster.connect()
    try:
        yield transport
    finally:
        await transport.close()


async def get(transport: Transport, path: str) -> Any:
    """Read a path; raises the typed error of a failure."""
    return await _send(transport, Request("GET", path))


async def post(transport: Transport, path: str, body: object) -> Any:
    """Create an object; returns it as the server stored it."""
    return await _send(transport, Request("POST", path, body=msgspec.json.encode(body)))


async def create_config_map(transport: Transport, name: str) -> None:
    """Create an empty ConfigMap in the default namespace."""
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
    await post(transport, "/api/v1/namespaces/default/configmaps", body)


async def config_map_names(transport: Transport) -> set[str]:
    """The names of the ConfigMaps in the default namespace."""
    found = await get(transport, "/api/v1/namespaces/default/configmaps")
    return {one["metadata"]["name"] for one in found["items"]} - {"kube-root-ca.crt"}


async def _send(transport: Transport, request: Request) -> Any:
    response = await transport.send(request)
    if response.status >= 300:
        raise error_from_response(response)
    return msgspec.json.decode(response.body)
