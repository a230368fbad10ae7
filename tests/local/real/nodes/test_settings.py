"""The settings of the programs of a node with containers."""

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from pathlib import Path

from hanse.local.real.nodes.settings import NodeConfig, NodeIpv6, guard_arguments


def test_a_guard_closes_the_pod_ranges_of_both_families() -> None:
    ipv6 = NodeIpv6(
        IPv6Address("fd00:172:20::1"), IPv6Network("fd00:10:101::/64"), IPv6Network("fd00:10::/56")
    )
    node = NodeConfig(
        cluster="lubeck",
        name="node-1",
        number=1,
        address=IPv4Address("172.20.0.1"),
        pods=IPv4Network("10.101.0.0/24"),
        cluster_pods=IPv4Network("10.101.0.0/16"),
        directory=Path("/nowhere"),
        dns_server=IPv4Address("172.20.0.253"),
        zones=(),
        cgroup="",
        ipv6=ipv6,
    )

    ranges = [one for one in guard_arguments(node) if one.startswith("--pod-range")]

    assert ranges == ["--pod-range=10.101.0.0/24", "--pod-range=fd00:10:101::/64"]
