"""The addresses that a network keeps for itself, and the ranges it gives Services theirs from."""

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
"""The ServiceCIDR that a cluster has from its start."""
KUBERNETES_OFFSET = 1
DNS_OFFSET = 10
"""Places within a network's first range, as clusters have them in theirs."""

_TRIES = 1000


def parse_address(text: str) -> Address | None:
    """The address that a text tells; None where it is none."""
    try:
        return ip_address(text)
    except ValueError:
        return None


def is_in_ranges(address: Address, ranges: tuple[Range, ...]) -> bool:
    """Whether one of the ranges has the address."""
    return any(address in r for r in ranges if r.version == address.version)


def is_network_or_broadcast(address: Address, ranges: tuple[Range, ...]) -> bool:
    """Whether it is a range's own address, or the one of all hosts in it; nobody can have those."""
    return any(
        address == r.network_address or (r.version == 4 and address == r.broadcast_address)
        for r in ranges
        if r.version == address.version
    )


def gateway_address(range_: Range) -> Address:
    """The address by which pods of a subnet leave it."""
    return range_[1]


def service_ranges(network: Network) -> tuple[Range, ...]:
    """The ranges of a network's Services, in order; malformed ones are left out."""
    return tuple(r for text in network.spec.service.cidrs if (r := parse_range(text)) is not None)


def cluster_ranges(snapshot: Snapshot) -> tuple[Range, ...]:
    """The cluster's own ranges; none where it does not tell them."""
    own = snapshot.get(snapshot.local, ServiceCIDR, DEFAULT_SERVICE_CIDR)
    found = own.spec.cidrs if own is not None else ()
    return tuple(r for text in found if (r := parse_range(text)) is not None)


def static_band_size(range_: Range) -> int:
    """Addresses at the start of a range that people choose by hand, as API servers leave them."""
    return min(max(16, range_.num_addresses // 16), 256)


def pick_cluster_address(service: ObjectRef, snapshot: Snapshot) -> str:
    """An address of the cluster's own range that nobody has; empty: let the API server choose.

    Left to choose it takes one of any range, and a network whose range it is could not end.
    """
    for range_ in cluster_ranges(snapshot)[:1]:
        first = static_band_size(range_)
        places = range_.num_addresses - 1 - first
        start = int.from_bytes(blake2b(str(service).encode(), digest_size=8).digest())
        for step in range(min(places, _TRIES)):
            address = str(range_[first + (start + step) % places])
            taken = snapshot.get(snapshot.local, IPAddress, address)
            if taken is None or _is_of(taken, service):
                return address
    return ""


def _is_of(address: IPAddress, service: ObjectRef) -> bool:
    by = address.spec.parent_ref
    return by is not None and (by.namespace, by.name) == (service.namespace, service.name)


def reserved_address(range_: Range, place: int) -> str:
    """An address that a network keeps for itself; in a small range it is nearer."""
    return str(range_[min(place, range_.num_addresses - 2)])


def reserved_addresses(network: Network) -> frozenset[str]:
    """What is never given to a Service of the tenant's."""
    first = service_ranges(network)[:1]
    return frozenset(
        reserved_address(r, place) for r in first for place in (KUBERNETES_OFFSET, DNS_OFFSET)
    )


def service_cidrs(name: NetworkName, ranges: tuple[Range, ...]) -> list[ServiceCIDR]:
    """Each range as an object of the cluster, which then takes addresses in it for good."""
    return [
        ServiceCIDR(
            metadata=Meta(
                name=shorten_name(f"{name}-{_digest(range_)}"),
                labels={RANGE_OF: shorten_name(str(name))},
            ),
            spec=ServiceCIDRSpec(cidrs=(str(range_),)),
        )
        for range_ in ranges
    ]


def _digest(range_: Range) -> str:
    return blake2b(str(range_).encode(), digest_size=4).hexdigest()
