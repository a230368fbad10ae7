"""The simulated nodes of a real cluster: kwok keeps them alive, we say what they are."""

from typing import Any

import msgspec

from hanse.kube.errors import error_of
from hanse.kube.request import Request, Transport
from hanse.local.real.layout import Ranges

_FIRST_HOST = 10
"""Lower addresses of a node range are for the API server and for kwok."""


def node(cluster: str, number: int, ranges: Ranges) -> dict[str, Any]:
    """A node with addresses inside and outside, in a zone of its own, with room for everything."""
    name = f"{cluster}-{number}"
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
                "topology.kubernetes.io/region": cluster,
                "topology.kubernetes.io/zone": f"{cluster}-{chr(ord('a') + (number - 1) % 26)}",
            },
        },
        "status": {
            "addresses": [
                {"type": "InternalIP", "address": str(ranges.nodes[_FIRST_HOST + number])},
                {"type": "ExternalIP", "address": str(ranges.outside[_FIRST_HOST + number])},
                {"type": "Hostname", "address": name},
            ],
            "capacity": _ROOM,
            "allocatable": _ROOM,
        },
    }


_ROOM = {"cpu": "1000", "memory": "1Ti", "ephemeral-storage": "10Ti", "pods": "10000"}


async def create_nodes(transport: Transport, cluster: str, count: int, ranges: Ranges) -> None:
    """Make sure that the nodes exist; those of an earlier run are left as they are."""
    for number in range(1, count + 1):
        body = msgspec.json.encode(node(cluster, number, ranges))
        response = await transport.send(Request("POST", "/api/v1/nodes", body=body))
        if response.status not in (201, 409):
            raise error_of(response)


async def all_schedulable(transport: Transport, count: int) -> bool:
    """Whether that many nodes are ready and bear no taint that would keep pods away."""
    response = await transport.send(Request("GET", "/api/v1/nodes"))
    if response.status != 200:
        return False
    nodes = msgspec.json.decode(response.body)["items"]
    return sum(_schedulable(found) for found in nodes) >= count


def _schedulable(found: dict[str, Any]) -> bool:
    conditions = found.get("status", {}).get("conditions", [])
    ready = any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
    return ready and not found["spec"].get("taints")
