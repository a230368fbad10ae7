"""Addresses that only some clusters reach: those of machines and nodes in a network they share.

Nobody guesses who shares a network: the owner of a machine names the clusters.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import DecodeError, Struct, json

from hanse.model.json_input import decode_json
from hanse.model.kinds.discovery import address_family
from hanse.model.naming import is_label
from hanse.model.objects import ClusterId

INTERNAL_FROM = "federated.hanse.dev/internal-from"
"""Tag of a machine, or annotation of a member Service: the clusters on the network of the machine,
the network interface or the nodes, as `lubeck,hamburg`."""
CLUSTERS_FORMAT = "a list of clusters as lubeck,hamburg"

INTERNAL_ADDRESSES = "machines.hanse.dev/internal-addresses"
"""Annotation of the slices of machines, whose endpoints have one address each: the others."""


class PreferredAddress(Struct, frozen=True):
    """The address of one family by which all reach a machine, and its internal one, or empty."""

    address: str
    internal: str


class InternalAddress(Struct, frozen=True):
    """Two addresses of the same machine: the internal one for some clusters, else the other."""

    address: str
    internal: str
    clusters: tuple[ClusterId, ...]


def parse_clusters(text: str) -> tuple[ClusterId, ...] | None:
    """The clusters in an annotation or tag, () if it is empty; None if one of them is no label."""
    clusters = tuple(part.strip() for part in text.split(",")) if text else ()
    return clusters if all(map(is_label, clusters)) else None


def preferred_addresses(addresses: Sequence[tuple[str, str]]) -> Iterator[PreferredAddress]:
    """For IPv4, then IPv6, of (address, type) pairs the first ExternalIP, or else InternalIP.

    Each with the first InternalIP, which may be empty; none for a family without either.
    """
    for family in ("IPv4", "IPv6"):
        external, internal = (
            next((a for a, t in addresses if t == type_ and address_family(a) == family), "")
            for type_ in ("ExternalIP", "InternalIP")
        )
        if external or internal:
            yield PreferredAddress(external or internal, internal)


def internal_addresses(
    addresses: Iterable[PreferredAddress], clusters: tuple[ClusterId, ...]
) -> Iterator[InternalAddress]:
    """The addresses whose internal address is set and another one, for use by these clusters.

    None without clusters.
    """
    for one in addresses if clusters else ():
        if one.internal not in ("", one.address):
            yield InternalAddress(one.address, one.internal, clusters)


def internal_by_address(cluster: ClusterId, machines: Iterable[InternalAddress]) -> dict[str, str]:
    """The internal addresses that a cluster uses, by the address that others use."""
    return {m.address: m.internal for m in machines if cluster in m.clusters}


def address_by_internal(machines: Iterable[InternalAddress]) -> dict[str, str]:
    """Of all machines, the address that others use, by the internal address."""
    return {m.internal: m.address for m in machines}


def encode_addresses(machines: Iterable[InternalAddress]) -> dict[str, str]:
    """The annotation of a slice as JSON, each machine's address once, sorted by address.

    An empty dict without machines.
    """
    found = sorted(set(machines), key=lambda m: m.address)
    return {INTERNAL_ADDRESSES: json.encode(found).decode()} if found else {}


def decode_addresses(annotations: Mapping[str, str]) -> tuple[InternalAddress, ...]:
    """What the annotation of a slice says; nothing if it is missing or invalid."""
    try:
        return decode_json(annotations.get(INTERNAL_ADDRESSES, "[]"), tuple[InternalAddress, ...])
    except DecodeError:
        return ()
