"""The network between the nodes of all clusters: a router in a namespace of its own.

Each cluster has a bridge in it, named by the cluster's index, with the addresses of its API server
and its DNS. What passes between clusters is decided by one nftables table.
"""

import os
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from itertools import chain
from pathlib import Path
from typing import Literal

from msgspec import Struct

from hanse.dns.listeners import Listeners, bind_listeners
from hanse.local.ranges import AddressRanges
from hanse.local.real.errors import NodesFailed
from hanse.local.real.nodes.cgroups import remove_groups, remove_stale
from hanse.local.real.nodes.namespaces import NetworkNamespace, run_command
from hanse.local.real.server import ProcessGroup

FabricKind = Literal["routed", "flat", "isolated"]
"""What passes between clusters: pods and services, pods only, or neither. Addresses of nodes and
load balancers always do."""

IPAddress = IPv4Address | IPv6Address
IPNetwork = IPv4Network | IPv6Network

_TABLE = "hanse"


class FabricCluster(Struct, frozen=True):
    """A cluster of the fabric: its name and its address ranges."""

    name: str
    ranges: AddressRanges


class Fabric:
    """The router between clusters; links can be cut and healed."""

    def __init__(
        self,
        kind: FabricKind,
        clusters: Sequence[FabricCluster],
        namespace: NetworkNamespace,
        group: ProcessGroup,
    ) -> None:
        """No link exists yet and nothing is cut; each cluster has its index by its place."""
        self.kind = kind
        self.namespace = namespace
        self.group = group
        """The process group that ends with the fabric; nodes join it."""
        self._clusters = {cluster.name: cluster.ranges for cluster in clusters}
        self._index = {cluster.name: index for index, cluster in enumerate(clusters)}
        self._cuts: set[tuple[str, str]] = set()

    def bridge(self, cluster: str) -> str:
        """The name of a cluster's bridge: `c` and the cluster's index."""
        return f"c{self._index[cluster]}"

    def bind_dns(self, view: str) -> tuple[Listeners, ...]:
        """New sockets in the fabric, on port 53 of the cluster's DNS address, for its DNS view.

        Empty for a view that is not of a cluster.
        """
        if view not in self._clusters:
            return ()
        address = str(dns_address(self._clusters[view]))
        return (self.namespace.call(bind_listeners, address, 53, workers=1),)

    def open_socket(self, cluster: str, family: int, kind: int) -> socket.socket:
        """A socket in the fabric that sends from an address of the cluster, so that its cuts apply.

        It is bound to a free port of the cluster's DNS address, with IPv6 of the router's.
        """
        ranges = self._clusters[cluster]
        source = ranges.ipv6.router if family == socket.AF_INET6 else dns_address(ranges)
        opened = self.namespace.call(socket.socket, family, kind)
        opened.bind((str(source), 0))
        return opened

    async def start(self) -> None:
        """Create the bridges with their addresses and the rules between them.

        Let the router forward. Raises `NodesFailed` if a command fails.
        """
        lines = ["link set lo up"]
        for name, ranges in self._clusters.items():
            bridge, prefix = self.bridge(name), ranges.nodes.prefixlen
            link = f"link add {bridge} address {_hardware_address(self._index[name])}"
            lines += [f"{link} type bridge", f"link set {bridge} up"]
            for address in (ranges.api_server, dns_address(ranges)):
                lines.append(f"addr add {address}/{prefix} dev {bridge}")
            router, prefix = ranges.ipv6.router, ranges.ipv6.nodes.prefixlen
            lines.append(f"addr add {router}/{prefix} dev {bridge} nodad")
        await self._run_ip(lines)
        await self.namespace.run("sysctl", "-qw", *_ROUTER_SETTINGS)
        await self._write_rules()

    async def attach(
        self, cluster: str, pid: int, addresses: Sequence[IPAddress], number: int
    ) -> None:
        """Connect the namespace of a process to a cluster's bridge, as eth0 with addresses.

        The bridge is its default route; `number` is the node's, and makes the peer's name. Raises
        `NodesFailed` if a command fails.
        """
        bridge, ranges = self.bridge(cluster), self._clusters[cluster]
        peer = f"{bridge}n{number}"
        eth0 = ("name", "eth0", "netns", str(pid))
        far = ("peer", "name", peer, "netns", str(self.namespace.pid))
        await run_command("ip", "link", "add", *eth0, "type", "veth", *far)
        await self._run_ip([f"link set {peer} master {bridge}", f"link set {peer} up"])
        inside = ["link set lo up", "link set eth0 up"]
        for address in addresses:
            if address.version == 4:
                inside.append(f"addr add {address}/{ranges.nodes.prefixlen} dev eth0")
                inside.append(f"route add default via {ranges.api_server}")
            else:
                inside.append(f"addr add {address}/{ranges.ipv6.nodes.prefixlen} dev eth0 nodad")
                inside.append(f"route add default via {ranges.ipv6.router}")
        command = ("nsenter", "--target", str(pid), "--net", "ip", "-batch", "-")
        await run_command(*command, stdin=_batch(inside))

    async def route(self, node: IPAddress, networks: Sequence[IPNetwork]) -> None:
        """Route networks from the router to a node, in place of where they were routed before."""
        await self._run_ip([f"route replace {network} via {node}" for network in networks])

    async def cut(self, one: str, other: str) -> None:
        """Drop every packet between two clusters, in both directions, also of open connections."""
        self._cuts.add(_sorted_pair(one, other))
        await self._write_rules()

    async def heal(self, one: str, other: str) -> None:
        """Undo the cut between two clusters, if there is one."""
        self._cuts.discard(_sorted_pair(one, other))
        await self._write_rules()

    async def heal_all(self) -> None:
        """Undo all cuts."""
        self._cuts.clear()
        await self._write_rules()

    def unmasqueraded(self) -> tuple[IPNetwork, ...]:
        """The pod and Service networks of all clusters, of those kinds that pass between clusters.

        Only these destinations see the addresses of pods in other clusters.
        """
        return tuple(
            chain(*(_reachable_networks(self.kind, ranges) for ranges in self._clusters.values()))
        )

    async def _write_rules(self) -> None:
        """Replace the router's nftables table at once: rules that drop, none that masquerade.

        Dropped are packets to pods and Services of other clusters that the fabric's kind does not
        let pass, and all between clusters that are cut.
        """
        forward = [
            f'iifname != "{self.bridge(name)}" oifname "{self.bridge(name)}" {_match_to(net)} drop'
            for name, ranges in self._clusters.items()
            for net in (ranges.pods, ranges.services, ranges.ipv6.pods, ranges.ipv6.services)
            if net not in _reachable_networks(self.kind, ranges)
        ]
        to_router = []
        for pair in sorted(self._cuts):
            for source, target in (pair, pair[::-1]):
                here, there = self.bridge(source), self.bridge(target)
                forward.insert(0, f'iifname "{here}" oifname "{there}" drop')
                ranges = self._clusters[target]
                to_router += [
                    f'iifname "{here}" {_match_to(net)} drop'
                    for net in (ranges.nodes, ranges.ipv6.nodes)
                ]
        await self.namespace.run("nft", "-f", "-", stdin=_ruleset(forward, to_router))

    async def _run_ip(self, lines: Sequence[str]) -> None:
        """Run commands of `ip` in the router's namespace; raises `NodesFailed` if one fails."""
        await self.namespace.run("ip", "-batch", "-", stdin=_batch(lines))


_ROUTER_SETTINGS = (
    "net.ipv4.ip_forward=1",
    "net.ipv4.conf.all.send_redirects=0",
    "net.ipv4.conf.default.send_redirects=0",
    "net.ipv6.conf.all.forwarding=1",
)


@asynccontextmanager
async def running_fabric(
    kind: FabricKind, clusters: Sequence[FabricCluster], holder: Path
) -> AsyncIterator[Fabric]:
    """A started fabric that ends, with all attached to it, when the block or this process ends.

    `holder` is the program that waits in its namespace. Control groups that ended processes left
    are removed first, those of this process at the end. Raises `NodesFailed` without the rights.
    """
    remove_stale()
    group = ProcessGroup()
    try:
        namespace = NetworkNamespace(group, holder)
        try:
            fabric = Fabric(kind, clusters, namespace, group)
            await fabric.start()
            yield fabric
        finally:
            namespace.close()
    except PermissionError as error:
        raise NodesFailed(f"the network of the nodes cannot be made: {error}") from None
    finally:
        group.close()
        await remove_groups(os.getpid())


def dns_address(ranges: AddressRanges) -> IPv4Address:
    """The IPv4 address of a cluster's view of our DNS, on port 53: `nodes[-3]` of its ranges."""
    return ranges.nodes[-3]


def _hardware_address(index: int) -> str:
    """A fixed MAC address for the bridge of the cluster at an index.

    Without one a bridge takes the lowest of what is connected to it; when that leaves, nodes send
    to an address that nobody has, for up to two minutes.
    """
    return f"02:00:00:00:{index >> 8:02x}:{index & 255:02x}"


def _reachable_networks(kind: FabricKind, ranges: AddressRanges) -> tuple[IPNetwork, ...]:
    """A cluster's networks that other clusters reach: pods and Services if `routed`.

    Pods alone if `flat`, none if `isolated`.
    """
    match kind:
        case "routed":
            return (ranges.pods, ranges.services, ranges.ipv6.pods, ranges.ipv6.services)
        case "flat":
            return (ranges.pods, ranges.ipv6.pods)
        case "isolated":
            return ()


def _ruleset(forward: Sequence[str], to_router: Sequence[str]) -> str:
    """The nftables commands that replace the table by one with these rules in forward and input."""
    lines = [f"table inet {_TABLE}", f"delete table inet {_TABLE}", f"table inet {_TABLE} {{"]
    for hook, rules in (("forward", forward), ("input", to_router)):
        lines += [f"chain {hook} {{ type filter hook {hook} priority 0;", *rules, "}"]
    return "\n".join([*lines, "}"]) + "\n"


def _match_to(network: IPNetwork) -> str:
    """The nftables match of packets to a network."""
    return f"{'ip' if network.version == 4 else 'ip6'} daddr {network}"


def _sorted_pair(one: str, other: str) -> tuple[str, str]:
    return (one, other) if one < other else (other, one)


def _batch(lines: Sequence[str]) -> str:
    """The input of `ip -batch`: a command on each line."""
    return "\n".join(lines) + "\n"
