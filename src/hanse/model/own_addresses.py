"""Addresses of other clusters that lie in the ranges of this one: they would reach our own."""

from collections.abc import Sequence
from ipaddress import ip_address

from msgspec.structs import replace

from hanse.model.kinds.discovery import Endpoint, EndpointSlice
from hanse.model.member_ranges import parse_range
from hanse.model.summaries import first_of


def without_own_addresses(endpoint_slice: EndpointSlice, ranges: Sequence[str]) -> EndpointSlice:
    """Another cluster's slice less its endpoints with any address in this cluster's ranges.

    The very slice if there are no such endpoints.
    """
    left = tuple(e for e in endpoint_slice.endpoints or () if not _has_address_in(e, ranges))
    kept = len(left) == len(endpoint_slice.endpoints or ())
    return endpoint_slice if kept else replace(endpoint_slice, endpoints=left)


def own_addresses(slices: Sequence[EndpointSlice], ranges: Sequence[str]) -> tuple[str, ...]:
    """The sorted addresses, all of them, of endpoints with any address in this cluster's ranges.

    The slices are those of another cluster.
    """
    endpoints = (e for s in slices for e in s.endpoints or () if _has_address_in(e, ranges))
    return tuple(sorted({address for e in endpoints for address in e.addresses}))


def overlap_message(addresses: Sequence[str], ranges: Sequence[str]) -> str:
    """The condition message for addresses that would reach this cluster itself.

    It names the first three addresses and the first eight ranges.
    """
    return (
        f"{first_of(addresses)}: within {', '.join(ranges[:8])} of this cluster, so that it would "
        "reach our own; it is left out"
    )


def _has_address_in(endpoint: Endpoint, ranges: Sequence[str]) -> bool:
    """Whether an endpoint of another cluster has any address in this cluster's CIDR ranges."""
    return any(is_within(address, ranges) for address in endpoint.addresses)


def is_within(address: str, ranges: Sequence[str]) -> bool:
    """Whether an address is in one of the ranges; False if it is invalid.

    Invalid ranges are ignored.
    """
    try:
        parsed = ip_address(address)
    except ValueError:
        return False
    networks = (parse_range(text) for text in ranges)
    return any(n is not None and n.version == parsed.version and parsed in n for n in networks)
