"""Address ranges of local clusters: disjoint within a fleet, the same on both engines."""

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

from msgspec import Struct

MAX_CLUSTERS = 100


class Ipv6Ranges(Struct, frozen=True):
    """The IPv6 ranges of one cluster, for those that have both families."""

    services: IPv6Network
    pods: IPv6Network
    nodes: IPv6Network

    @property
    def router(self) -> IPv6Address:
        """The default gateway of the nodes: the last address but one of their range."""
        return self.nodes[-2]


class AddressRanges(Struct, frozen=True):
    """The address ranges of one cluster; none is loopback, which EndpointSlices reject."""

    services: IPv4Network
    pods: IPv4Network
    nodes: IPv4Network
    external: IPv4Network
    """The ExternalIPs of its nodes."""
    load_balancers: IPv4Network
    ipv6: Ipv6Ranges

    @property
    def api_server(self) -> IPv4Address:
        """The endpoint of `default/kubernetes`: the last address but one of the nodes' range."""
        return self.nodes[-2]


def address_ranges(index: int) -> AddressRanges:
    """The ranges of the cluster at an index, from 0 on; raises `ValueError` if out of range."""
    if not 0 <= index < MAX_CLUSTERS:
        raise ValueError(f"cluster {index + 1}: a fleet has at most {MAX_CLUSTERS} clusters")
    return AddressRanges(
        services=IPv4Network(f"10.{index + 1}.0.0/16"),
        pods=IPv4Network(f"10.{index + 101}.0.0/16"),
        nodes=IPv4Network(f"172.20.{index}.0/24"),
        external=IPv4Network(f"198.18.{index}.0/24"),
        load_balancers=IPv4Network(f"198.19.{index}.0/24"),
        ipv6=Ipv6Ranges(
            services=IPv6Network(f"fd00:10:{index + 1}::/112"),
            pods=IPv6Network(f"fd00:10:{index + 101}::/56"),
            nodes=IPv6Network(f"fd00:172:20:{index}::/64"),
        ),
    )
