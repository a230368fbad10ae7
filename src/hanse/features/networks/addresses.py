"""The addresses that a network keeps for itself, and the ranges it gives Services theirs from."""

from hashlib import blake2b
from ipaddress import IPv4Address, IPv6Address, ip_address

from hanse.features.networks.names import RANGE_OF, NetworkName, fitted
from hanse.features.networks.ranges import Range, range_in
from hanse.model.kinds.networking import IPAddress, ServiceCIDR, ServiceCIDRSpec
from hanse.model.kinds.networks import Network
from hanse.model.objects import Meta, Ref
from hanse.model.snapshot import Snapshot

Address = IPv4Address | IPv6Address

CLUSTER_RANGE = "kubernetes"
"""The ServiceCIDR that a cluster has from its start."""
FOR_KUBERNETES = 1
FOR_DNS = 10
"""Places within a network's first range, as clusters have them in theirs."""

_TRIES = 1000


def address_in(text: str) -> Address | None:
    """The address that a text tells; None where it is none."""
    try:
        return ip_address(text)
    except ValueError:
        return None


def is_inside(address: Address, ranges: tuple[Range, ...]) -> bool:
    """Whether one of the ranges has the address."""
    return any(address in r for r in ranges if r.version == address.version)


def is_an_edge(address: Address, ranges: tuple[Range, ...]) -> bool:
    """Whether it is a range's own address, or the one of all hosts in it; nobody can have those."""
    return any(
        address == r.network_address or (r.version == 4 and address == r.broadcast_address)
        for r in ranges
        if r.version == address.version
    )


def gateway_of(range_: Range) -> Address:
    """The address by which pods of a subnet leave it."""
    return range_[1]


def ranges_of(network: Network) -> tuple[Range, ...]:
    """The ranges of a network's Services, in order; malformed ones are left out."""
    return tuple(r for text in network.spec.service.cidrs if (r := range_in(text)) is not None)


def cluster_ranges(snapshot: Snapshot) -> tuple[Range, ...]:
    """The cluster's own ranges; none where it does not tell them."""
    own = snapshot.get(snapshot.local, ServiceCIDR, CLUSTER_RANGE)
    found = own.spec.cidrs if own is not None else ()
    return tuple(r for text in found if (r := range_in(text)) is not None)


def static_part(range_: Range) -> int:
    """Addresses at the start of a range that people choose by hand, as API servers leave them."""
    return min(max(16, range_.num_addresses // 16), 256)


def of_the_cluster(service: Ref, snapshot: Snapshot) -> str:
    """An address of the cluster's own range that nobody has; empty: let the API server choose.

    Left to choose it takes one of any range, and a network whose range it is could not end.
    """
    for range_ in cluster_ranges(snapshot)[:1]:
        first = static_part(range_)
        places = range_.num_addresses - 1 - first
        start = int.from_bytes(blake2b(str(service).encode(), digest_size=8).digest())
        for step in range(min(places, _TRIES)):
            address = str(range_[first + (start + step) % places])
            taken = snapshot.get(snapshot.local, IPAddress, address)
            if taken is None or _is_of(taken, service):
                return address
    return ""


def _is_of(address: IPAddress, service: Ref) -> bool:
    by = address.spec.parent_ref
    return by is not None and (by.namespace, by.name) == (service.namespace, service.name)


def kept(range_: Range, place: int) -> str:
    """An address that a network keeps for itself; in a small range it is nearer."""
    return str(range_[min(place, range_.num_addresses - 2)])


def kept_addresses(network: Network) -> frozenset[str]:
    """What is never given to a Service of the tenant's."""
    first = ranges_of(network)[:1]
    return frozenset(kept(r, place) for r in first for place in (FOR_KUBERNETES, FOR_DNS))


def service_cidrs(name: NetworkName, ranges: tuple[Range, ...]) -> list[ServiceCIDR]:
    """Each range as an object of the cluster, which then takes addresses in it for good."""
    return [
        ServiceCIDR(
            metadata=Meta(
                name=fitted(f"{name}-{_digest(range_)}"),
                labels={RANGE_OF: fitted(str(name))},
            ),
            spec=ServiceCIDRSpec(cidrs=(str(range_),)),
        )
        for range_ in ranges
    ]


def _digest(range_: Range) -> str:
    return blake2b(str(range_).encode(), digest_size=4).hexdigest()
