"""The rules of a node: sets and maps of addresses, and a chain for each direction of a network.

A connection is decided by its client and its server as connection tracking knows them: the
client before source NAT, the server after destination NAT. So the rules are the same for both
directions of packets, and a Service is decided by the pod behind it.
"""

from collections.abc import Iterable, Iterator, Mapping
from ipaddress import collapse_addresses, ip_address, ip_network

from msgspec import Struct

from hanse.features.networks.guard.facts import Access, AddressOwner, ClusterFacts, NetworkFacts
from hanse.features.networks.names import NetworkName, shorten_name

TABLE = "hanse-guard"
FAMILIES = (4, 6)
_KEYWORD = {4: "ip", 6: "ip6"}
_TYPE = {4: "ipv4_addr", 6: "ipv6_addr"}
BASE_SETS = ("tenants", "platform", "resolvers", "nameservers")
"""The sets of pod addresses that every table has, each for both families."""
_ASKED = "meta l4proto { tcp, udp } ct reply proto-src 53"
"""A connection to a name server."""
_MAX_NAME = 120
_NOWHERE = (
    *("0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "224.0.0.0/3"),
    *("::/127", "fe80::/10", "ff00::/8"),
)
"""What no range of an access means: a single host or link, and groups, broadcast included."""
_FORGED_BY_POD = 'meta iifkind "veth" fib saddr . iif oif missing counter drop'
"""Pods that have an interface of the node to themselves send with their own address only.

They are looked up once: routes are what most of a packet costs here.
"""
_DISCOVERY = "icmpv6 type {{ {} }} accept"


class Elements(Struct):
    """A set or map of the table: its declaration and its elements with their values."""

    declaration: str
    values: dict[str, str]
    interval: bool = False
    is_map: bool = False


class Ruleset(Struct):
    """The whole table: sets by name, and rules by chain."""

    sets: dict[str, Elements]
    chains: dict[str, tuple[str, ...]]
    families: tuple[int, ...] = (4,)
    """The families of which networks have sets of their own: nftables lists all at each change."""


def build_ruleset(facts: ClusterFacts, owners: Mapping[str, AddressOwner]) -> Ruleset:
    """The table of a node, from the cluster's facts and the owner of each pod address."""
    families = FAMILIES if any(":" in a for a in owners) else FAMILIES[:1]
    ruleset = Ruleset(_sets(facts, families), _chains(facts, families), families)
    for address, owner in owners.items():
        for name, value in address_elements(address, owner, ruleset):
            ruleset.sets[name].values[address] = value
    return ruleset


def address_elements(
    address: str, owner: AddressOwner | None, ruleset: Ruleset
) -> Iterator[tuple[str, str]]:
    """Pairs of set and value for a pod address; none without an owner, or if it is a node's."""
    if owner is None:
        return
    family = _family(address)
    if address in ruleset.sets[f"nodes{family}"].values:
        return
    if owner.network is None:
        yield f"platform{family}", ""
        if owner.is_dns:
            yield f"nameservers{family}", ""
        if (name := f"{_space_set(owner.namespace)}{family}") in ruleset.sets:
            yield name, ""
        return
    network = _short(owner.network)
    if f"pods-{network}-{family}" not in ruleset.sets:
        return  # the network is new: it follows with the next ruleset
    yield f"tenants{family}", ""
    yield f"pods-{network}-{family}", ""
    yield f"clients{family}", f"goto from-{network}"
    if (inbound := f"to-{network}") in ruleset.chains:
        yield f"servers{family}", f"goto {inbound}"
    if owner.is_dns:
        yield f"resolvers{family}", ""


def _sets(facts: ClusterFacts, families: tuple[int, ...]) -> dict[str, Elements]:
    """The sets and maps by name; those of nodes, ranges and API servers filled, of pods empty."""
    spaces = {a.namespace for n in facts.networks for a in n.accesses if a.namespace}
    names = (*BASE_SETS, *(_space_set(space) for space in sorted(spaces)))
    networks = [f"pods-{_short(network.name)}-" for network in facts.networks]
    sets: dict[str, Elements] = {}
    for family in FAMILIES:
        kind = _TYPE[family]
        for name in (*names, *(networks if family in families else ())):
            sets[f"{name}{family}"] = Elements(f"type {kind};", {})
        for name in ("clients", "servers"):
            sets[f"{name}{family}"] = Elements(f"type {kind} : verdict;", {}, is_map=True)
        sets[f"nodes{family}"] = Elements(f"type {kind};", _keys(facts.nodes, family))
        inside = (*facts.inside, *facts.nodes, *_NOWHERE)
        ranges = {"inside": inside, "local-pods": facts.local_pods}
        for name, texts in ranges.items():
            elements = _merged(texts, family)
            sets[f"{name}{family}"] = Elements(
                f"type {kind}; flags interval;", elements, interval=True
            )
        endpoints = {f"{a} . {p}": "" for a, p in facts.apiservers if _family(a) == family}
        sets[f"apiservers{family}"] = Elements(f"type {kind} . inet_service;", endpoints)
    return sets


def _chains(facts: ClusterFacts, families: tuple[int, ...]) -> dict[str, tuple[str, ...]]:
    """The nftables chains by name, each with its rules."""
    chains: dict[str, tuple[str, ...]] = {
        "untracked": tuple(_untracked()),
        "decide": tuple(_decide()),
        "platform-servers": tuple(_platform_servers()),
        "inside-clients": tuple(_inside("original")),
        "links": (
            _DISCOVERY.format("nd-neighbor-solicit, nd-neighbor-advert"),
            *_single_links(),
        ),
        "checked": ("jump decide", *_unknown_pods("reply")),
    }
    for network in facts.networks:
        short = _short(network.name)
        chains[f"from-{short}"] = tuple(_from_network(network, families))
        if any(access.inbound for access in network.accesses):
            chains[f"to-{short}"] = tuple(_to_network(network))
    chains["forward"] = (
        "type filter hook forward priority filter; policy accept;",
        "meta nfproto ipv6 jump links",
        "ct state invalid,untracked goto untracked",
        _FORGED_BY_POD,
        'meta iifkind "veth" goto checked',
        *_forged_sources(),
        "jump decide",
        *_unknown_pods("reply"),
    )
    chains["input"] = (
        "type filter hook input priority filter; policy accept;",
        "iifname lo accept",
        _DISCOVERY.format("nd-neighbor-solicit, nd-neighbor-advert, nd-router-solicit"),
        "ct state invalid,untracked goto untracked",
        "ct direction reply accept",
        _FORGED_BY_POD,
        *_forged_sources(),
        "jump decide",
    )
    return chains


def _from_network(network: NetworkFacts, families: tuple[int, ...]) -> Iterator[str]:
    """The rules where a pod of the network is the client.

    The order matters: only accesses by name reach what is inside the cluster, which
    `platform-servers` drops before any range is looked at.
    """
    for name in (network.name, *network.peers):
        for family in families:
            yield f"{_server(family)} @pods-{_short(name)}-{family} accept"
    outbound = [a for a in network.accesses if not a.inbound]
    yield from _named(outbound, "reply")
    yield "jump platform-servers"
    yield from _ranges(outbound, "reply")
    yield "counter drop"


def _to_network(network: NetworkFacts) -> Iterator[str]:
    """The rules where a pod of the network is the server, and the client is no tenant's pod."""
    inbound = [a for a in network.accesses if a.inbound]
    yield from _named(inbound, "original")
    yield "jump inside-clients"
    yield from _ranges(inbound, "original")
    yield "counter drop"


def _platform_servers() -> Iterator[str]:
    """The rules for what every network reaches: API servers and the DNS server that networks share.

    DNS servers of networks reach other name servers; all else inside the cluster is dropped.
    """
    for family in FAMILIES:
        endpoint = f"{_server(family)} . ct reply proto-src"
        yield f"meta l4proto tcp {endpoint} @apiservers{family} accept"
        yield f"{_ASKED} {_server(family)} @nameservers{family} accept"
        asked = f"{_client(family)} @resolvers{family} {_ASKED} {_server(family)}"
        for other in (f"@platform{family}", f"@nodes{family}", f"!= @inside{family}"):
            yield f"{asked} {other} accept"
    yield from _inside("reply")


def _inside(direction: str) -> Iterator[str]:
    """Rules that drop tenants', platform's and other addresses of the cluster in a direction."""
    for family in FAMILIES:
        for name in ("tenants", "platform", "inside"):
            yield f"ct {direction} {_KEYWORD[family]} saddr @{name}{family} counter drop"


def _decide() -> Iterator[str]:
    """Rules that go to the chain of the client's network, else to that of the server's.

    A server of a tenant without such a chain is dropped, and so is a pod of this node that is
    nobody's.
    """
    for direction, name in (("original", "clients"), ("reply", "servers")):
        for family in FAMILIES:
            yield f"ct {direction} {_KEYWORD[family]} saddr vmap @{name}{family}"
    for family in FAMILIES:  # the kernel looks at all of a map of verdicts with each change
        yield f"{_server(family)} @tenants{family} counter drop"
    yield from _unknown_pods("original")


def _unknown_pods(direction: str) -> Iterator[str]:
    """Rules that drop addresses in this node's pod ranges that are not the platform's.

    Those of tenants have been decided before.
    """
    for family in FAMILIES:
        address = f"ct {direction} {_KEYWORD[family]} saddr"
        yield f"{address} @local-pods{family} {address} != @platform{family} counter drop"


def _untracked() -> Iterator[str]:
    """Rules that drop packets from or to tenants that connection tracking does not know."""
    for family in FAMILIES:
        for side in ("saddr", "daddr"):
            yield f"{_KEYWORD[family]} {side} @tenants{family} counter drop"


def _single_links() -> Iterator[str]:
    """Rules that drop packets from or to link-local addresses, which are nobody's.

    Neighbour discovery passes before; no router forwards either.
    """
    for side in ("saddr", "daddr"):
        yield f"ip6 {side} fe80::/10 counter drop"


def _forged_sources() -> Iterator[str]:
    """Rules that drop tenants' packets that did not come in where their source is routed to."""
    for family in FAMILIES:
        for side in ("saddr", "daddr"):
            yield (
                f"{_KEYWORD[family]} {side} @tenants{family} "
                "fib saddr . iif oif missing counter drop"
            )


def _named(accesses: Iterable[Access], direction: str) -> Iterator[str]:
    """Rules that accept the accesses to or from namespaces and nodes."""
    for access in accesses:
        for family in FAMILIES:
            address = f"ct {direction} {_KEYWORD[family]} saddr"
            if access.namespace:
                target = f"{address} @{_space_set(access.namespace)}{family}"
            elif access.nodes:
                target = f"{address} @nodes{family}"
            else:
                continue
            for ports in _ports(access):
                yield f"{target} {ports}accept"


def _ranges(accesses: Iterable[Access], direction: str) -> Iterator[str]:
    """Rules that accept the accesses to or from ranges."""
    for access in accesses:
        if access.range:
            keyword = _KEYWORD[ip_network(access.range).version]
            for ports in _ports(access):
                yield f"ct {direction} {keyword} saddr {access.range} {ports}accept"


def _ports(access: Access) -> Iterator[str]:
    """A match of protocol and server port for each port; one empty match if all are allowed."""
    if not access.ports:
        yield ""
    for protocol, port in access.ports:
        yield f"meta l4proto {protocol} ct reply proto-src {port} "


def _client(family: int) -> str:
    return f"ct original {_KEYWORD[family]} saddr"


def _server(family: int) -> str:
    return f"ct reply {_KEYWORD[family]} saddr"


def _short(name: NetworkName) -> str:
    return shorten_name(str(name), _MAX_NAME)


def _space_set(namespace: str) -> str:
    return f"namespace-{namespace}-"


def _family(address: str) -> int:
    return ip_address(address).version


def _keys(addresses: Iterable[str], family: int) -> dict[str, str]:
    return {a: "" for a in addresses if _family(a) == family}


def _merged(texts: Iterable[str], family: int) -> dict[str, str]:
    """Ranges and addresses of a family without overlaps, as intervals may not have any."""
    if family == 4:
        four = [n for t in texts if (n := ip_network(t)).version == 4]
        return {str(n): "" for n in collapse_addresses(four)}
    six = [n for t in texts if (n := ip_network(t)).version == 6]
    return {str(n): "" for n in collapse_addresses(six)}
