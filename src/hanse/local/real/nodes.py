"""The simulated nodes of a real cluster: kwok keeps them alive, we say what they are."""

from typing import Any

import msgspec

from hanse.kube.errors import error_of
from hanse.kube.request import Request, Transport
from hanse.local.ranges import Ranges
from tinykube.controllers.nodes import NodeRanges, plan_nodes

_ROOM = {"cpu": "1000", "memory": "1Ti", "ephemeral-storage": "10Ti", "pods": "10000"}
"""Enough for every scenario on three nodes: here a scheduler counts."""


def nodes_of(cluster: str, count: int, ranges: Ranges) -> list[dict[str, Any]]:
    """The nodes of an embedded cluster of that name: scenarios cannot tell them apart."""
    # kwok gives out a range from its very first address, which must not be the network's own.
    upper_half = list(ranges.pods.subnets())[1]
    inside = NodeRanges(
        pods=(str(upper_half),), internal=str(ranges.nodes), external=str(ranges.outside)
    )
    return [
        {**node, "status": {**node["status"], "capacity": _ROOM, "allocatable": _ROOM}}
        for node in plan_nodes(cluster, count, inside)
    ]


async def create_nodes(transport: Transport, cluster: str, count: int, ranges: Ranges) -> None:
    """Make sure that the nodes exist; those of an earlier run are left as they are."""
    for node in nodes_of(cluster, count, ranges):
        body = msgspec.json.encode(node)
        response = await transport.send(Request("POST", "/api/v1/nodes", body=body))
        if response.status not in (201, 409):
            raise error_of(response)


async def release_nodes(transport: Transport) -> None:
    """Let a new kwok have the nodes at once: it respects the leases of one that is gone."""
    path = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
    response = await transport.send(Request("DELETE", path))
    if response.status != 200:
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
