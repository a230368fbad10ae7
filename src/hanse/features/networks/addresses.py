"""Service addresses: parsing, the ranges of networks, and the addresses they reserve."""

from hashlib import blake2b
from ipaddress import IPv4Address, IPv6Address, ip_address

from hanse.features.networks.names import RANGE_OF, NetworkName, shorten_name
from hanse.features.networks.ranges import Range, parse_range
from hanse.model.kinds.networking import IPAddress, ServiceCIDR, ServiceCIDRSpec
from hanse.model.kinds.networks import Network
from hanse.model.objects import Meta, ObjectRef
from hanse.model.snapshot import Snapshot

Address = IPv4Address | IPv6Address

DEFAULT_SERVICE_CIDR = "kubernetes"
"""The ServiceCIDR that every cluster has from the start."""
KUBERNETES_OFFSET = 1
DNS_OFFSET = 10
"""Offsets within the first range of a network, as in the range of a cluster."""

_MAX_TRIES = 1000


def parse_address(text: str) -> Address | None:
    """Parse an address; None if it is invalid."""
    try:
        return ip_address(text)
    except ValueError:
        return None


def is_in_ranges(address: Address, ranges: tuple[Range, ...]) -> bool:
    """Whether an address is in one of the ranges of its IP version."""
    return any(address in r for r in ranges if r.version == address.version)


def is_network_or_broadcast(address: Address, ranges: tuple[Range, ...]) -> bool:
    """Whether an address is the network address of one of the ranges, or an IPv4 broadcast one.

    Hosts cannot have these.
    """
    return any(
        address == r.network_address or (r.version == 4 and address == r.broadcast_address)
        for r in ranges
        if r.version == address.version
    )


def gateway_address(range_: Range) -> Address:
    """The gateway of a subnet: the address after the network address, or its only one."""
    return range_[min(1, range_.num_addresses - 1)]


def service_ranges(network: Network) -> tuple[Range, ...]:
    """The service ranges of a network, in order, without malformed ones.

    They are those of its spec, or if it has none those that its provider put in the status.
    """
    return tuple(r for text in network.service_cidrs if (r := parse_range(text)) is not None)


def cluster_ranges(snapshot: Snapshot) -> tuple[Range, ...]:
    """The ranges of the ServiceCIDR `kubernetes` here; none if it is not known or not served."""
    own = snapshot.get(snapshot.local, ServiceCIDR, DEFAULT_SERVICE_CIDR)
    found = own.spec.cidrs if own is not None else ()
    return tuple(r for text in found if (r := parse_range(text)) is not None)


def static_band_size(range_: Range) -> int:
    """The number of addresses at the start of a range that API servers allocate last.

    A sixteenth of the range, at least 16 and at most 256.
    """
    return min(max(16, range_.num_addresses // 16), 256)


def pick_cluster_address(service: ObjectRef, snapshot: Snapshot) -> str:
    """An address of the cluster's first range that no IPAddress of another object has.

    The search begins at a hash of the Service, outside of the static band, and tries at most 1000.
    Empty if none was found: the API server allocates one then, from any ServiceCIDR, which blocks
    the deletion of the network that owns it.
    """
    for range_ in cluster_ranges(snapshot)[:1]:
        first = static_band_size(range_)
        count = range_.num_addresses - 1 - first
        start = int.from_bytes(blake2b(str(service).encode(), digest_size=8).digest())
        for step in range(min(count, _MAX_TRIES)):
            address = str(range_[first + (start + step) % count])
            holder = snapshot.get(snapshot.local, IPAddress, address)
            if holder is None or _is_held_by(holder, service):
                return address
    return ""


def _is_held_by(address: IPAddress, service: ObjectRef) -> bool:
    """Whether an IPAddress' parentRef is the Service, by namespace and name."""
    by = address.spec.parent_ref
    return by is not None and (by.namespace, by.name) == (service.namespace, service.name)


def reserved_address(range_: Range, offset: int) -> str:
    """The address at an offset of a range; in a smaller range the one before its last."""
    return str(range_[min(offset, range_.num_addresses - 2)])


def reserved_addresses(network: Network) -> frozenset[str]:
    """The addresses of a network's `kubernetes` Service and DNS, in its first range.

    Empty for a network without valid ranges.
    """
    first = service_ranges(network)[:1]
    return frozenset(
        reserved_address(r, offset) for r in first for offset in (KUBERNETES_OFFSET, DNS_OFFSET)
    )


def service_cidrs(name: NetworkName, ranges: tuple[Range, ...]) -> list[ServiceCIDR]:
    """A ServiceCIDR for each range, labelled with the network, to be written by the caller.

    With it the API server accepts addresses of the range.
    """
    return [
        ServiceCIDR(
            metadata=Meta(
                name=shorten_name(f"{name}-{_range_digest(range_)}"),
                labels={RANGE_OF: shorten_name(str(name))},
            ),
            spec=ServiceCIDRSpec(cidrs=(str(range_),)),
        )
        for range_ in ranges
    ]


def _range_digest(range_: Range) -> str:
    """A short hash of a range, for names."""
    return blake2b(str(range_).encode(), digest_size=4).hexdigest()
