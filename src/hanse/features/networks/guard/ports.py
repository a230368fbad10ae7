"""Rules for the interface of each pod: it sends with the addresses that it was given alone.

On a bridge, pods reach each other by frames: neither routes nor connection tracking tell whose a
frame is, but the port that it came from does. The rules are a table of the bridge family, with a
chain for each port. Pods with an interface of the node to themselves are checked by their route.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_interface
from typing import Any

from msgspec import Struct

from hanse.features.networks.guard.ruleset import TABLE

PORTS_TABLE = f"bridge {TABLE}"
PORTS_REMOVAL = f"table {PORTS_TABLE}\ndelete table {PORTS_TABLE}\n"
"""Removes the table, also if there is none."""
_NAME = re.compile(r"[A-Za-z0-9_.\-]{1,15}")
_MAC = re.compile(r"([0-9a-f]{2}:){5}[0-9a-f]{2}")
_HOOK = "type filter hook prerouting priority -300; policy accept;"
_FOREIGN_DISCOVERY = "icmpv6 type { nd-router-advert, nd-redirect } counter drop"
_ADVERTISED = "icmpv6 type nd-neighbor-advert @th,64,128"
"""The address that a neighbour advertisement is about."""
_DHCP = "ip saddr 0.0.0.0 ip daddr 255.255.255.255 udp sport 68 udp dport 67"
"""How a pod asks for its address, also for its renewal; other pods do not hear it."""
_FORWARD = "type filter hook forward priority -300; policy accept;"


class PodPort(Struct, frozen=True):
    """The interface of the node that a pod is wired to, and the addresses that the pod has."""

    interface: str
    mac: str
    addresses: tuple[str, ...] = ()


class LinkKinds(Struct, frozen=True):
    """What the node knows of its interfaces, by name."""

    is_bridge: Callable[[str], bool]
    is_port: Callable[[str], bool]
    """Whether it is a port of a bridge."""


def pod_port(plugin: str, result: Mapping[str, Any], kinds: LinkKinds) -> PodPort | None:
    """The port of a pod on a bridge by the result of a CNI plugin; None if it is on no bridge.

    Raises `ValueError` if it is on a bridge and the result does not list exactly one port, the
    pod's MAC, and valid addresses; it may have none.
    """
    interfaces = [one for one in result.get("interfaces") or () if isinstance(one, dict)]
    inside = [one for one in interfaces if one.get("sandbox")]
    listed = [str(one.get("name", "")) for one in interfaces if not one.get("sandbox")]
    names = [name for name in listed if _NAME.fullmatch(name)]
    ports = [name for name in names if kinds.is_port(name)]
    if not ports and plugin != "bridge" and not any(kinds.is_bridge(name) for name in names):
        return None
    if len(ports) != 1:
        found = ", ".join(ports) or "none"
        raise ValueError(
            f"the pod is on a bridge, and one port of it has to be listed, but {found} is; "
            "use a plugin that lists the interface of each pod on the node"
        )
    mac = str(inside[0].get("mac", "")).lower() if inside else ""
    if not _MAC.fullmatch(mac):
        raise ValueError(f"the interface of the pod behind {ports[0]} has no MAC")
    given = [
        str(one.get("address", "")) for one in result.get("ips") or () if isinstance(one, dict)
    ]
    return PodPort(ports[0], mac, tuple(sorted(str(ip_interface(text).ip) for text in given)))


def ports_table(ports: Iterable[PodPort]) -> str:
    """The nft commands that replace the whole table by one with these ports, in one transaction.

    It also works where the table does not exist.
    """
    lines = [
        f"table {PORTS_TABLE}",
        f"delete table {PORTS_TABLE}",
        f"add table {PORTS_TABLE}",
        f"add map {PORTS_TABLE} ports {{ type ifname : verdict; }}",
        f"add set {PORTS_TABLE} pods {{ type ifname; }}",
        f"add chain {PORTS_TABLE} prerouting {{ {_HOOK} }}",
        f"add rule {PORTS_TABLE} prerouting iifname vmap @ports",
        f"add chain {PORTS_TABLE} forward {{ {_FORWARD} }}",
        f"add rule {PORTS_TABLE} forward {_DHCP} oifname @pods counter drop",
        *(line for port in ports for line in _add_port(port)),
    ]
    return "".join(f"{line}\n" for line in lines)


def replace_ports(old: Iterable[PodPort], new: Iterable[PodPort]) -> str:
    """The nft commands that remove all `old` ports and then add all `new` ones; empty for none.

    The table and the old ports must exist in the kernel.
    """
    lines = [line for port in old for line in _remove_port(port)]
    lines += [line for port in new for line in _add_port(port)]
    return "".join(f"{line}\n" for line in lines)


def _add_port(port: PodPort) -> Iterator[str]:
    """The nft commands that add the chain and the elements of a port."""
    chain = f"port-{port.interface}"
    yield f"add chain {PORTS_TABLE} {chain}"
    yield from (f"add rule {PORTS_TABLE} {chain} {rule}" for rule in _port_rules(port))
    yield f'add element {PORTS_TABLE} ports {{ "{port.interface}" : jump {chain} }}'
    yield f'add element {PORTS_TABLE} pods {{ "{port.interface}" }}'


def _remove_port(port: PodPort) -> Iterator[str]:
    """The nft commands that delete the elements and then the chain of a port."""
    chain = f"port-{port.interface}"
    yield f'delete element {PORTS_TABLE} ports {{ "{port.interface}" }}'
    yield f'delete element {PORTS_TABLE} pods {{ "{port.interface}" }}'
    yield f"flush chain {PORTS_TABLE} {chain}"
    yield f"delete chain {PORTS_TABLE} {chain}"


def _port_rules(port: PodPort) -> Iterator[str]:
    """nft rules for frames from a port: they drop those of other MACs or IP addresses; DHCP passes.

    So does IPv6 link-local of its MAC. They also drop ARP and neighbour discovery about other
    addresses, router advertisements, redirects, and all but IP and ARP.
    """
    four = [a for a in port.addresses if ":" not in a]
    six = [a for a in port.addresses if ":" in a] + [link_local_address(port.mac)]
    yield f"ether saddr != {port.mac} counter drop"
    yield "ether type != { ip, arp, ip6 } counter drop"
    yield f"arp saddr ether != {port.mac} counter drop"
    yield f"arp saddr ip != {{ {', '.join((*four, str(IPv4Address(0))))} }} counter drop"
    yield f"{_DHCP} accept"
    yield (f"ip saddr != {{ {', '.join(four)} }}" if four else "ether type ip") + " counter drop"
    yield _FOREIGN_DISCOVERY
    advertised = ", ".join(f"0x{int(ip_address(a)):032x}" for a in six)
    yield f"{_ADVERTISED} != {{ {advertised} }} counter drop"
    yield f"ip6 saddr != {{ ::, {', '.join(six)} }} counter drop"


def link_local_address(mac: str) -> str:
    """The link-local IPv6 address that an interface gives itself, from its MAC (RFC 4291)."""
    parts = bytearray(bytes.fromhex(mac.replace(":", "")))
    parts[0] ^= 2
    return str(IPv6Address(b"\xfe\x80" + bytes(6) + parts[:3] + b"\xff\xfe" + parts[3:]))
