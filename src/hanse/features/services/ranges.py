"""The addresses that a cluster may publish, as the fleet's rules bound them."""

from collections.abc import Sequence
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network

from msgspec.structs import replace

from hanse.model.kinds.discovery import Endpoint, EndpointSlice


def is_address_allowed(endpoint: Endpoint, ranges: Sequence[str]) -> bool:
    """Whether a cluster with these ranges may publish an endpoint; no ranges: any."""
    return not ranges or all(_within(address, ranges) for address in endpoint.addresses)


def drop_disallowed(endpoint_slice: EndpointSlice, ranges: Sequence[str]) -> EndpointSlice:
    """A slice without what its cluster may not publish."""
    if not ranges:
        return endpoint_slice
    allowed = tuple(e for e in endpoint_slice.endpoints or () if is_address_allowed(e, ranges))
    return replace(endpoint_slice, endpoints=allowed)


def disallowed_addresses(slices: Sequence[EndpointSlice], ranges: Sequence[str]) -> tuple[str, ...]:
    """The addresses among slices that their cluster may not publish."""
    endpoints = (e for s in slices for e in s.endpoints or () if not is_address_allowed(e, ranges))
    return tuple(sorted({address for e in endpoints for address in e.addresses}))


def disallowed_message(addresses: Sequence[str], ranges: Sequence[str]) -> str:
    """What is wrong with addresses outside, and what to do."""
    shown = ", ".join(addresses[:3]) + (f" and {len(addresses) - 3} more" * (len(addresses) > 3))
    return (
        f"{shown}: outside of {', '.join(ranges[:8])}; it is left out of imports until the "
        "ClusterSet allows it"
    )


def _within(address: str, ranges: Sequence[str]) -> bool:
    try:
        where = ip_address(address)
    except ValueError:
        return False
    networks = (_network(text) for text in ranges)
    return any(n is not None and n.version == where.version and where in n for n in networks)


@lru_cache(maxsize=4096)
def _network(text: str) -> IPv4Network | IPv6Network | None:
    try:
        return ip_network(text, strict=False)
    except ValueError:
        return None
