"""The addresses that a network keeps for itself, and the ranges it gives Services theirs from."""

from hashlib import blake2b
from ipaddress import IPv4Address, IPv6Address, ip_address

from hanse.features.networks.names import RANGE_OF, NetworkName, fitted
from hanse.features.networks.ranges import Range, range_in
from hanse.model.kinds.networking import ServiceCIDR, ServiceCIDRSpec
from hanse.model.kinds.networks import Network
from hanse.model.objects import Meta

Address = IPv4Address | IPv6Address

FOR_KUBERNETES = 1
FOR_DNS = 10
"""Places within a network's first range, as clusters have them in theirs."""


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
