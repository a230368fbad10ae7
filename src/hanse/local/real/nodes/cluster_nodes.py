"""All nodes of one cluster, and the connections between them and its API server."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from ipaddress import IPv4Address
from pathlib import Path

from msgspec import Struct

from hanse.local.ranges import AddressRanges
from hanse.local.real.errors import ServerDied
from hanse.local.real.nodes.cgroups import cgroup_parent
from hanse.local.real.nodes.fabric import Fabric, dns_address
from hanse.local.real.nodes.image import Image, write_images
from hanse.local.real.nodes.node import ContainerNode
from hanse.local.real.nodes.relay import egress_proxy, relay_to_loopback
from hanse.local.real.nodes.settings import NodeConfig
from tinykube.controllers.simulated_nodes import REGION, ZONE

EGRESS_SOCKET = "egress.sock"
"""The Unix socket of the egress proxy, in the cluster's folder."""

_FIRST_NODE = 11
"""The last byte of the first node's address."""


class NodeSettings(Struct, frozen=True):
    """What the nodes of all clusters have in common."""

    fabric: Fabric
    images: tuple[Image, ...]
    """The images that every node has."""
    pid: int
    """The process that runs the nodes."""
    archives: tuple[Path, ...] = ()
    """Archives of more images."""
    zones: tuple[str, ...] = ()
    """The zones that the clusters' CoreDNS forwards to our DNS."""
    per_cluster: int = 1
    guard: bool = False
    """Whether a guard on each node keeps the networks of tenants apart."""


def plan_container_nodes(
    cluster: str, ranges: AddressRanges, directory: Path, shared: NodeSettings
) -> tuple[NodeConfig, ...]:
    """The nodes of a cluster with their names and addresses."""
    subnets = ranges.pods.subnets(new_prefix=24)
    return tuple(
        NodeConfig(
            cluster=cluster,
            # The same names in every cluster, as machines often have: nothing may rest on them.
            name=f"node-{number}",
            number=number,
            address=ranges.nodes[_FIRST_NODE + number - 1],
            pods=pods,
            cluster_pods=ranges.pods,
            directory=directory / "nodes" / str(number),
            dns_server=dns_address(ranges),
            zones=shared.zones,
            cgroup=f"{cgroup_parent(shared.pid)}/{cluster}-{number}",
            guard=shared.guard,
            labels={REGION: cluster, ZONE: f"{cluster}-{number}"},
        )
        for number, pods in zip(range(1, shared.per_cluster + 1), subnets, strict=False)
    )


class ClusterNodes:
    """The nodes of one cluster; they start after its API server and stop before it."""

    def __init__(
        self,
        nodes: Sequence[NodeConfig],
        ranges: AddressRanges,
        shared: NodeSettings,
        directory: Path,
        binaries: Mapping[str, Path],
        logs: Path,
        on_death: Callable[[ServerDied], None],
    ) -> None:
        self._shared = shared
        self._images = directory / "images.tar"
        write_images(self._images, shared.images)
        self._ranges = ranges
        self._nodes = [
            ContainerNode(node, binaries, shared.fabric, logs, on_death) for node in nodes
        ]
        self._connections: AsyncExitStack | None = None

    async def connect(self, api_server: IPv4Address, port: int, directory: Path) -> None:
        """Let nodes reach the API server, and it the nodes; no effect if they do."""
        if self._connections is not None:
            return
        fabric, self._connections = self._shared.fabric.namespace, AsyncExitStack()
        relay = relay_to_loopback(fabric, str(api_server), port)
        await self._connections.enter_async_context(relay)
        proxy = egress_proxy(fabric, directory / EGRESS_SOCKET)
        await self._connections.enter_async_context(proxy)

    async def start(self) -> None:
        """Start all nodes and route the cluster's networks to them."""
        archives = (*self._shared.archives, self._images)
        await asyncio.gather(*(node.start(archives) for node in self._nodes))
        for node in self._nodes:
            await self._shared.fabric.route(node.config.address, [node.config.pods])
        public = (self._ranges.services, self._ranges.external, self._ranges.load_balancers)
        await self._shared.fabric.route(self._nodes[0].config.address, public)

    async def stop(self) -> None:
        """Stop all servers of the nodes and end the connections."""
        await asyncio.gather(*(node.stop() for node in self._nodes))
        if self._connections is not None:
            await self._connections.aclose()
            self._connections = None

    def unexpected_death(self) -> ServerDied | None:
        """The error of the first server of a node that ended unexpectedly."""
        servers = (server for node in self._nodes for server in node.servers.values())
        return next((s.unexpected_death for s in servers if s.unexpected_death is not None), None)
