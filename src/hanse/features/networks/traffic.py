"""The two ends of a connection, its port, and the ranges that policies compare them with."""

from collections.abc import Iterable
from ipaddress import ip_address, ip_network

from msgspec import Struct

from hanse.model.kinds.core import Protocol


class TrafficEndpoint(Struct, frozen=True):
    """One end of a connection: a pod, or without a namespace an external address."""

    name: str
    namespace: str = ""
    labels: dict[str, str] = {}
    namespace_labels: dict[str, str] = {}
    addresses: tuple[str, ...] = ()
    ports: dict[tuple[str, str], int] = {}
    """Named ports by name and protocol."""

    @property
    def is_pod(self) -> bool:
        """Whether it is a pod, that is, has a namespace; else it is an external address."""
        return bool(self.namespace)


class TrafficPort(Struct, frozen=True):
    """The destination port and protocol of a connection."""

    port: int
    protocol: Protocol = "TCP"


def is_in_block(address: str, cidr: str, exceptions: Iterable[str] = ()) -> bool:
    """Whether an address is in a CIDR of its IP version, and in none of the exceptions.

    CIDRs may have host bits. Raises ValueError if one of the texts is malformed.
    """
    parsed = ip_address(address)
    inside, *outside = (parsed in ip_network(text, strict=False) for text in (cidr, *exceptions))
    return inside and not any(outside)
