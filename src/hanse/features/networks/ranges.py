"""Parsing and validation of CIDRs of networks: format, size and overlaps."""

from collections.abc import Iterable, Iterator
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network, ip_network
from itertools import product

from hanse.features.networks.lookups import FLAT
from hanse.features.networks.names import RANGE_OF
from hanse.model.kinds.core import Node, Pod, Service
from hanse.model.kinds.networking import ServiceCIDR
from hanse.model.kinds.networks import Network, Subnet
from hanse.model.snapshot import Snapshot

Range = IPv4Network | IPv6Network

_SPECIAL_PURPOSE = {
    ip_network("0.0.0.0/8"): "hosts that have no address yet",
    ip_network("127.0.0.0/8"): "each host itself",
    ip_network("169.254.0.0/16"): "single links",
    ip_network("224.0.0.0/4"): "multicast",
    ip_network("::/127"): "each host itself",
    ip_network("fe80::/10"): "single links",
    ip_network("ff00::/8"): "multicast",
}
"""Special-purpose ranges that Services cannot use, with their purpose."""

DEFAULT_SUBNET = Subnet(name="default", cidr="10.0.0.0/16")
"""The subnet of a vpc network that names none."""

MIN_ADDRESSES = 8
"""Minimum size of a service range: two addresses are reserved by the network."""


@lru_cache(maxsize=16384)
def parse_range(text: str) -> Range | None:
    """Parse a CIDR; None if it is invalid or has host bits set."""
    try:
        return ip_network(text)
    except ValueError:
        return None


def usable_addresses(range_: Range) -> int:
    """The number of addresses of a range without its network address.

    For IPv4 also without the broadcast address.
    """
    return range_.num_addresses - (2 if range_.version == 4 else 1)


def overlaps(one: Range, other: Range) -> bool:
    """Whether two ranges share an address; never if their IP versions differ."""
    if isinstance(one, IPv4Network):
        return isinstance(other, IPv4Network) and one.overlaps(other)
    return isinstance(other, IPv6Network) and one.overlaps(other)


def validate_ranges(
    network: Network, snapshot: Snapshot, *, include_newer: bool = True
) -> Iterator[str]:
    """Yield one message per fault of a network's ranges: the field, the conflict and the remedy.

    Faults are malformed ranges, overlaps among its subnets or service ranges, and service ranges
    that overlap those of the cluster or an older network. With `include_newer`, as in admission,
    also those of newer networks, nodes, pods and load balancers.
    """
    yield from malformed_ranges(network)
    yield from _overlaps_within("spec.service.cidrs", network.spec.service.cidrs)
    yield from _overlaps_within("spec.subnets", [s.cidr for s in network.spec.subnets])
    own = {text: range_ for text in network.service_cidrs if (range_ := parse_range(text))}
    if not own:
        return
    for owner, text in _ranges_of_others(network, snapshot, include_newer=include_newer):
        other = parse_range(text)
        for mine, range_ in own.items():
            if other is not None and overlaps(range_, other):
                yield f"spec.service.cidrs: {mine} overlaps {text} of {owner}; choose another range"


def validate_vpc(
    network: Network, snapshot: Snapshot, *, include_newer: bool = True
) -> Iterator[str]:
    """Messages if another tenant has the vpcID, or another network of its type overlapping subnets.

    The latter only with the same vpcID. Only older networks count, unless `include_newer`. Ids are
    compared as network plugins get them, whatever the types. Flat networks, and those without
    vpcID, have no messages.
    """
    spec = network.spec
    if not spec.vpc_id or spec.type == FLAT:
        return
    own = vpc_argument(network).strip()
    for other in _other_networks(network, snapshot, include_newer=include_newer):
        if other.spec.type == FLAT or vpc_argument(other).strip() != own:
            continue
        if other.spec.tenant != spec.tenant:
            yield (
                f"spec.vpcID: {spec.vpc_id} is of tenant {other.spec.tenant} (network "
                f"{other.metadata.name}); choose another"
            )
        same_type = other.spec.type == spec.type  # other providers have subnets of their own
        for one, two in product(subnets_of(network), subnets_of(other)) if same_type else ():
            if overlaps(one, two):
                yield f"spec.subnets: {one} overlaps {two} of network {other.metadata.name}"


def vpc_argument(network: Network) -> str:
    """The vpcID of a network as a value of CNI_ARGS: with dashes for `;` and `=`."""
    return network.spec.vpc_id.replace(";", "-").replace("=", "-")


def subnets_of(network: Network) -> list[Range]:
    """The valid CIDRs of a network's subnets, or of the default one that it gets without any."""
    subnets = network.spec.subnets or (DEFAULT_SUBNET,)
    return [range_ for s in subnets if (range_ := parse_range(s.cidr)) is not None]


def malformed_ranges(network: Network) -> Iterator[str]:
    """Messages for service ranges and subnets that are invalid, too small or special-purpose.

    A service range needs 8 addresses, a subnet 4.
    """
    fields = [("spec.service.cidrs", text, MIN_ADDRESSES) for text in network.spec.service.cidrs]
    fields += [(f"spec.subnets[{s.name}].cidr", s.cidr, 4) for s in network.spec.subnets]
    for field, text, least in fields:
        range_ = parse_range(text)
        if range_ is None:
            yield f"{field}: {text[:50]!r} is not a CIDR; write one such as {_suggest_cidr(text)}"
        elif range_.num_addresses < least:
            yield f"{field}: {text} has fewer than {least} addresses; choose a larger range"
        else:
            for special, use in _SPECIAL_PURPOSE.items():
                if overlaps(range_, special):
                    yield f"{field}: {text} overlaps {special}, which is for {use}; choose another"


def _suggest_cidr(text: str) -> str:
    """The text as a CIDR without host bits; 10.0.0.0/16 if it is no CIDR."""
    try:
        return str(ip_network(text, strict=False))
    except ValueError:
        return "10.0.0.0/16"


def _overlaps_within(field: str, texts: Iterable[str]) -> Iterator[str]:
    """Yield a message for each pair of overlapping CIDRs of one field.

    Invalid CIDRs are skipped.
    """
    ranges = [range_ for text in texts if (range_ := parse_range(text)) is not None]
    for at, one in enumerate(ranges):
        for other in ranges[at + 1 :]:
            if overlaps(one, other):
                yield f"{field}: {one} overlaps {other}; keep ranges apart"


def _ranges_of_others(
    network: Network, snapshot: Snapshot, *, include_newer: bool
) -> Iterator[tuple[str, str]]:
    """Owner and CIDR of the cluster's own ServiceCIDRs, and of older networks' service ranges.

    ServiceCIDRs made for networks are left out. With `include_newer` also of newer networks and of
    nodes, and the addresses of pods and load balancers.
    """
    for cidr in snapshot.all(snapshot.local, ServiceCIDR):
        if RANGE_OF not in cidr.metadata.labels:
            for text in cidr.spec.cidrs:
                yield f"the cluster (ServiceCIDR {cidr.metadata.name})", text
    for other in _other_networks(network, snapshot, include_newer=include_newer):
        for text in other.service_cidrs:
            yield f"network {other.metadata.name}", text
    if include_newer:  # a network that lives on does not fail by what comes later
        yield from _used_addresses(snapshot)


def platform_ranges(snapshot: Snapshot) -> Iterator[tuple[str, str]]:
    """Pairs of owner and CIDR or address: nodes, their pod CIDRs, and all ServiceCIDRs.

    A text may be empty or a host name, as the objects have it.
    """
    yield from _node_ranges(snapshot)
    for cidr in snapshot.all(snapshot.local, ServiceCIDR):
        for text in cidr.spec.cidrs:
            yield f"Services (ServiceCIDR {cidr.metadata.name})", text


def _node_ranges(snapshot: Snapshot) -> Iterator[tuple[str, str]]:
    """Owner and CIDR or address of nodes and their pods; a text may be empty or a host name."""
    for node in snapshot.all(snapshot.local, Node):
        for text in node.spec.pod_cidrs or (node.spec.pod_cidr,):
            yield f"pods on node {node.metadata.name}", text
        for one in node.status.addresses:
            yield f"node {node.metadata.name}", one.address


def _used_addresses(snapshot: Snapshot) -> Iterator[tuple[str, str]]:
    """Pairs of owner and CIDR or address: nodes, their pod ranges, pods and load balancers.

    A text may be empty or a host name, as the objects have it.
    """
    yield from _node_ranges(snapshot)
    for pod in snapshot.all(snapshot.local, Pod):
        for pod_ip in pod.status.pod_ips:
            yield f"pod {pod.metadata.namespace}/{pod.metadata.name}", pod_ip.ip
    for service in snapshot.all(snapshot.local, Service):
        for ingress in service.status.load_balancer.ingress:
            owner = f"the load balancer of {service.metadata.namespace}/{service.metadata.name}"
            yield owner, ingress.ip


def _other_networks(
    network: Network, snapshot: Snapshot, *, include_newer: bool
) -> Iterator[Network]:
    """The other networks of the cluster; without `include_newer` only those created earlier.

    Of networks created at the same time the one with the lower name is the older.
    """
    for other in snapshot.all(snapshot.local, Network):
        if other.metadata.name != network.metadata.name and (
            include_newer or _creation_order(other) < _creation_order(network)
        ):
            yield other


def _creation_order(network: Network) -> tuple[str, str]:
    """Sort key: creation time, then name; a network without a creation time is last."""
    made = network.metadata.creation_timestamp
    return (made.isoformat() if made is not None else "~", network.metadata.name)
