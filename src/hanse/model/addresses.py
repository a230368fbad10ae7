"""IP addresses as text, and the IPv4 addresses that IPv6 addresses stand for."""

from collections.abc import Iterator
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address

Address = IPv4Address | IPv6Address

_LAST_32_BITS = tuple(
    IPv6Network(prefix)
    for prefix in (
        "::/96",  # IPv4-compatible
        "::ffff:0:0/96",  # IPv4-mapped
        "::ffff:0:0:0/96",  # IPv4-translated
        "64:ff9b::/96",  # NAT64
    )
)
_LOCAL_NAT64 = IPv6Network("64:ff9b:1::/48")
_NAT64_LENGTHS = (32, 40, 48, 56, 64, 96)
"""The lengths of a NAT64 prefix (RFC 6052)."""
_ISATAP = (0x00005EFE, 0x02005EFE)


@lru_cache(maxsize=65_536)
def is_address(text: str) -> bool:
    """Whether a text is an IP address; remembered, since the same ones are asked about again."""
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def is_loopback_host(host: str) -> bool:
    """Whether a host is a loopback address or `localhost`; False for other names, not looked up."""
    return ip_address(host).is_loopback if is_address(host) else host == "localhost"


def reached_addresses(address: Address) -> tuple[Address, ...]:
    """The address, and the IPv4 addresses that packets to it reach by a standard translation.

    An IPv4 address reaches itself alone.
    """
    if isinstance(address, IPv4Address):
        return (address,)
    return (address, *dict.fromkeys(_embedded(address)))


def possible_targets(address: Address) -> tuple[Address, ...]:
    """`reached_addresses`, and the IPv4 addresses if any prefix of it were a NAT64 prefix.

    Each is named once; an IPv4 address reaches itself alone.
    """
    if isinstance(address, IPv4Address):
        return (address,)
    guessed = (_by_nat64(address, length) for length in _NAT64_LENGTHS)
    return (*dict.fromkeys((*reached_addresses(address), *guessed)),)


def is_routable(text: str) -> bool:
    """Whether a text is an IP address that is not loopback, link-local, multicast or unspecified.

    The IPv4 addresses that it reaches by translation must not be so either; private ones may.
    """
    if not is_address(text):
        return False
    return not any(
        one.is_loopback or one.is_link_local or one.is_multicast or one.is_unspecified
        for one in reached_addresses(ip_address(text))
    )


def _embedded(address: IPv6Address) -> Iterator[IPv4Address]:
    """The IPv4 addresses inside an address of a standard translation or tunnel; some come twice.

    By prefix: IPv4-compatible, -mapped and -translated, NAT64, 6to4, Teredo and ISATAP; none for
    any other address.
    """
    number = int(address)
    if number > 1 and any(address in prefix for prefix in _LAST_32_BITS):
        yield IPv4Address(number & 0xFFFFFFFF)
    if address in _LOCAL_NAT64:
        yield from (_by_nat64(address, length) for length in _NAT64_LENGTHS[2:])
    if address.sixtofour is not None:
        yield address.sixtofour
    if address.teredo is not None:
        yield from address.teredo
    if number >> 32 & 0xFFFFFFFF in _ISATAP:
        yield IPv4Address(number & 0xFFFFFFFF)


def _by_nat64(address: IPv6Address, length: int) -> IPv4Address:
    """The IPv4 address behind a NAT64 prefix; bits 64 to 71 are skipped (RFC 6052)."""
    octets = address.packed
    after = length // 8
    return IPv4Address(bytes([octets[i] for i in range(after, 16) if i != 8 or length == 96][:4]))
