"""What the tests of real clusters ask of an API server, as short sentences."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from hanse.kube.errors import error_from_response
from hanse.kube.transport import Request, Transport
from hanse.local.real.cluster import RealCluster


@asynccontextmanager
async def admin_transport(cluster: RealCluster) -> AsyncIterator[Transport]:
    """The administrator's way in, closed at the end."""
    transport = cluster.connect()
    try:
        yield transport
    finally:
        await transport.close()


async def get(transport: Transport, path: str) -> Any:
    """What is there; raises the typed error if nothing is."""
    return await _answered(transport, Request("GET", path))


async def post(transport: Transport, path: str, body: object) -> Any:
    """Create an object and give it back as the server has it."""
    return await _answered(transport, Request("POST", path, body=msgspec.json.encode(body)))


async def create_config_map(transport: Transport, name: str) -> None:
    """Leave a mark that can be looked for later."""
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
    await post(transport, "/api/v1/namespaces/default/configmaps", body)


async def config_map_names(transport: Transport) -> set[str]:
    """The marks that are there."""
    found = await get(transport, "/api/v1/namespaces/default/configmaps")
    return {one["metadata"]["name"] for one in found["items"]} - {"kube-root-ca.crt"}


async def _answered(transport: Transport, request: Request) -> Any:
    response = await transport.send(request)
    if response.status >= 300:
        raise error_from_response(response)
    return msgspec.json.decode(response.body)
