"""All nodes of one cluster, and the connections between them and its API server."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from ipaddress import IPv4Address
from itertools import islice
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from hanse.kube.errors import error_from_response
from hanse.kube.transport import MERGE_PATCH, Request, Transport
from hanse.local.ranges import AddressRanges, Ipv6Ranges
from hanse.local.real.errors import ServerDied
from hanse.local.real.nodes.cgroups import cgroup_parent
from hanse.local.real.nodes.fabric import Fabric, dns_address
from hanse.local.real.nodes.image import Image, write_images
from hanse.local.real.nodes.node import ContainerNode
from hanse.local.real.nodes.relay import egress_proxy, relay_to_loopback
from hanse.local.real.nodes.settings import NodeConfig, NodeIpv6
from tinykube.controllers.simulated_nodes import REGION, ZONE

EGRESS_SOCKET = "egress.sock"
"""The Unix socket of the egress proxy, in the cluster's folder."""

_FIRST_NODE = 11
_DNS_SERVICE = 53
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
    names: Literal["same", "distinct"] = "same"
    """The same names in every cluster, as machines often have: nothing may rest on them."""
    dns: Literal["ours", "in cluster"] = "ours"
    """Where the zones are forwarded: to our DNS in the fabric, or to a Service in the cluster."""
    dual_stack: bool = False
    """Whether pods, Services and nodes have an IPv6 address, too."""
    per_cluster: int = 1
    guard: bool = False
    """Whether a guard on each node keeps the networks of tenants apart."""


def dns_service(ranges: AddressRanges) -> IPv4Address:
    """The address in the range of Services, at index 53, of our DNS if it runs in the cluster."""
    return ranges.services[_DNS_SERVICE]


def plan_container_nodes(
    cluster: str, ranges: AddressRanges, directory: Path, shared: NodeSettings
) -> tuple[NodeConfig, ...]:
    """The `per_cluster` nodes of a cluster, with names, addresses, and a /24 for pods of each."""
    subnets = ranges.pods.subnets(new_prefix=24)
    return tuple(
        NodeConfig(
            cluster=cluster,
            name=f"node-{number}" if shared.names == "same" else f"{cluster}-{number}",
            number=number,
            address=ranges.nodes[_FIRST_NODE + number - 1],
            pods=pods,
            cluster_pods=ranges.pods,
            directory=directory / "nodes" / str(number),
            dns_server=dns_address(ranges) if shared.dns == "ours" else dns_service(ranges),
            zones=shared.zones,
            cgroup=f"{cgroup_parent(shared.pid)}/{cluster}-{number}",
            guard=shared.guard,
            labels={REGION: cluster, ZONE: f"{cluster}-{number}"},
            ipv6=_plan_ipv6(ranges.ipv6, number) if shared.dual_stack else None,
        )
        for number, pods in zip(range(1, shared.per_cluster + 1), subnets, strict=False)
    )


def _plan_ipv6(ranges: Ipv6Ranges, number: int) -> NodeIpv6:
    """The IPv6 address of a node, its /64 for pods, and the range of the cluster's pods."""
    pods = next(islice(ranges.pods.subnets(new_prefix=64), number - 1, None))
    return NodeIpv6(ranges.nodes[_FIRST_NODE + number - 1], pods, ranges.pods)


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
        """Keep the settings of the nodes of one cluster; nothing runs until `prepare`.

        `on_death` is called if a server of a node ends by itself.
        """
        self._shared = shared
        self._images = directory / "images.tar"
        self._ranges = ranges
        self._nodes = [
            ContainerNode(node, binaries, shared.fabric, logs, on_death) for node in nodes
        ]
        self._connections: AsyncExitStack | None = None

    async def connect(self, api_server: IPv4Address, port: int, directory: Path) -> None:
        """Relay from `api_server`, an address in the nodes' network, to loopback on the same port.

        There the API server listens; it need not run yet. Also serves its egress proxy in
        `directory`. No effect if that was done before.
        """
        if self._connections is not None:
            return
        fabric = self._shared.fabric.namespace
        async with AsyncExitStack() as opened:
            await opened.enter_async_context(relay_to_loopback(fabric, str(api_server), port))
            await opened.enter_async_context(egress_proxy(fabric, directory / EGRESS_SOCKET))
            self._connections = opened.pop_all()

    async def prepare(self) -> None:
        """Start containerd on all nodes, and import the images; this needs no API server.

        Writes an archive of the images. No effect without nodes.
        """
        if not self._nodes:
            return
        write_images(self._images, self._shared.images)
        archives = (*self._shared.archives, self._images)
        await asyncio.gather(*(node.prepare(archives) for node in self._nodes))

    async def start(self) -> None:
        """Start all prepared nodes and route the cluster's networks to them.

        The pods of a node are routed to it; Services, ExternalIPs and load balancers (of IPv6 only
        Services) to the first node. It does not wait until they are Ready.
        """
        await asyncio.gather(*(node.start() for node in self._nodes))
        for node in self._nodes:
            await self._shared.fabric.route(node.config.address, [node.config.pods])
            if node.config.ipv6 is not None:
                await self._shared.fabric.route(node.config.ipv6.address, [node.config.ipv6.pods])
        public = (self._ranges.services, self._ranges.external, self._ranges.load_balancers)
        first = self._nodes[0].config
        await self._shared.fabric.route(first.address, public)
        if first.ipv6 is not None:
            services = [self._ranges.ipv6.services]
            await self._shared.fabric.route(first.ipv6.address, services)

    async def publish_pod_ranges(self, transport: Transport) -> None:
        """Patch the pod ranges into the Node of each node, which must be registered.

        No controller of the cluster gives them: the network plugin of a node has its own. Raises an
        error response.
        """
        for node in self._nodes:
            ranges = [str(one) for one in node.config.pod_ranges]
            body = msgspec.json.encode({"spec": {"podCIDR": ranges[0], "podCIDRs": ranges}})
            path = f"/api/v1/nodes/{node.config.name}"
            response = await transport.send(
                Request("PATCH", path, body=body, content_type=MERGE_PATCH)
            )
            if response.status != 200:
                raise error_from_response(response)

    async def stop(self) -> None:
        """Stop all servers of the nodes and end the connections; containers go on."""
        await asyncio.gather(*(node.stop() for node in self._nodes))
        if self._connections is not None:
            await self._connections.aclose()
            self._connections = None

    def unexpected_death(self) -> ServerDied | None:
        """The error of one of the nodes' servers that ended unexpectedly; None if none did."""
        servers = (server for node in self._nodes for server in node.servers.values())
        return next((s.unexpected_death for s in servers if s.unexpected_death is not None), None)
