"""The rules of a node: sets and maps of addresses, and a chain for each direction of a network.

A connection is decided by its client and its server as connection tracking knows them: the
client before source NAT, the server after destination NAT. So the rules are the same for both
directions of packets, and a Service is decided by the pod behind it.
"""

from collections.abc import Iterable, Iterator, Mapping
from ipaddress import collapse_addresses, ip_address, ip_network
from sys import intern

from msgspec import Struct

from hanse.features.networks.guard.facts import (
    NOWHERE,
    Access,
    AddressOwner,
    ClusterFacts,
    NetworkFacts,
    Owner,
    Undecided,
)
from hanse.features.networks.guard.vpc_rules import (
    network_chains,
    undecided_targets,
    vpc_chains,
    vpc_elements,
    vpc_sets,
    vpc_sources,
)
from hanse.features.networks.names import NetworkName, shorten_name

TABLE = "hanse-guard"
FAMILIES = (4, 6)
_KEYWORD = {4: "ip", 6: "ip6"}
_TYPE = {4: "ipv4_addr", 6: "ipv6_addr"}
BASE_SETS = ("tenants", "platform", "resolvers", "nameservers", "undecided")
"""The sets of pod addresses that every table has, each for both families."""
_ASKED = "meta l4proto { tcp, udp } ct reply proto-src 53"
"""A connection to a name server."""
_MAX_NAME = 120
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


def build_ruleset(facts: ClusterFacts, owners: Mapping[str, Owner]) -> Ruleset:
    """The nftables table of a node, from the cluster's facts and the owner of each pod address.

    Networks have sets and rules for IPv6 only if a pod has such an address.
    """
    families = FAMILIES if any(":" in a for a in owners) else FAMILIES[:1]
    ruleset = Ruleset(_sets(facts, families), _chains(facts, families), families)
    for address, owner in owners.items():
        for name, value in address_elements(address, owner, ruleset):
            ruleset.sets[name].values[address] = value
    return ruleset


def address_elements(
    address: str, owner: Owner | None, ruleset: Ruleset
) -> Iterator[tuple[str, str]]:
    """Pairs of set and value for a pod address; none without an owner, or if it is a node's.

    None, too, while the ruleset lacks its network; an undecided address has `undecided` even then.
    The ruleset is not changed.
    """
    family = _family(address)
    if owner is None or address in ruleset.sets[f"nodes{family}"].values:
        return
    if isinstance(owner, Undecided):
        yield f"undecided{family}", ""
        members = ((_short_name(name), vpc) for name, vpc in owner.members)
        yield from vpc_elements(members, family, ruleset.sets)
    elif owner.network is None:
        yield from _platform_elements(owner, family, ruleset)
    else:
        yield from _tenant_elements(owner, _short_name(owner.network), family, ruleset)


def _platform_elements(
    owner: AddressOwner, family: int, ruleset: Ruleset
) -> Iterator[tuple[str, str]]:
    """(set, value) for the address of a pod outside of all networks: the platform's set.

    Also the set of name servers if it is one, and its namespace's set if there is one.
    """
    yield f"platform{family}", ""
    if owner.is_dns:
        yield f"nameservers{family}", ""
    if (name := f"{_space_set(owner.namespace)}{family}") in ruleset.sets:
        yield name, ""


def _tenant_elements(
    owner: AddressOwner, network: str, family: int, ruleset: Ruleset
) -> Iterator[tuple[str, str]]:
    """(set, value) for each set or map that gets the address of a network's pod, with its VPC's.

    None while the ruleset lacks the network; `network` is its short name.
    """
    if f"pods-{network}-{family}" not in ruleset.sets:
        return  # the network is new: it follows with the next ruleset
    if owner.vpc:
        yield from vpc_elements([(network, owner.vpc)], family, ruleset.sets)
    yield f"tenants{family}", ""
    yield f"pods-{network}-{family}", ""
    yield f"clients{family}", intern(f"goto from-{network}")
    if (inbound := f"to-{network}") in ruleset.chains:
        yield f"servers{family}", intern(f"goto {inbound}")
    if owner.is_dns:
        yield f"resolvers{family}", ""


def _sets(facts: ClusterFacts, families: tuple[int, ...]) -> dict[str, Elements]:
    """The sets and maps by name; those of nodes, ranges and API servers filled, of pods empty.

    Networks have sets of `families` only; those of VPCs are filled but for addresses.
    """
    spaces = {a.namespace for n in facts.networks for a in n.accesses if a.namespace}
    names = (*BASE_SETS, *(_space_set(space) for space in sorted(spaces)))
    networks = [f"pods-{_short_name(network.name)}-" for network in facts.networks]
    sets: dict[str, Elements] = {}
    for family in FAMILIES:
        kind = _TYPE[family]
        for name in (*names, *(networks if family in families else ())):
            sets[f"{name}{family}"] = Elements(f"type {kind};", {})
        for name in ("clients", "servers"):
            sets[f"{name}{family}"] = Elements(f"type {kind} : verdict;", {}, is_map=True)
        sets[f"nodes{family}"] = Elements(f"type {kind};", _set_elements(facts.nodes, family))
        inside = (*facts.inside, *facts.nodes, *NOWHERE)
        ranges = {"inside": inside, "local-pods": facts.local_pods}
        for name, texts in ranges.items():
            elements = _interval_elements(texts, family)
            sets[f"{name}{family}"] = Elements(
                f"type {kind}; flags interval;", elements, interval=True
            )
        endpoints = {f"{a} . {p}": "" for a, p in facts.apiservers if _family(a) == family}
        sets[f"apiservers{family}"] = Elements(f"type {kind} . inet_service;", endpoints)
    short = {network.name: _short_name(network.name) for network in facts.networks}
    for name, declaration, values in vpc_sets(facts.vpcs, short):
        sets[name] = Elements(declaration, values, is_map="verdict" in declaration)
    return sets


def _chains(facts: ClusterFacts, families: tuple[int, ...]) -> dict[str, tuple[str, ...]]:
    """The nftables chains by name, each with its rules.

    The hooks are `forward` and `input`, which jump to `decide`. A network has a chain `from-` for
    its clients, and `to-` for its servers if it has inbound accesses.
    """
    chains: dict[str, tuple[str, ...]] = {
        "untracked": tuple(_untracked_rules()),
        "decide": tuple(_dispatch_rules()),
        "platform-servers": tuple(_platform_server_rules()),
        "inside-clients": tuple(_drop_inside_rules("original")),
        "links": (
            _DISCOVERY.format("nd-neighbor-solicit, nd-neighbor-advert"),
            *_link_local_rules(),
        ),
        "checked": ("jump decide", *_unknown_pod_rules("reply")),
        **dict(vpc_chains(facts.vpcs)),
    }
    vpcs = {name: vpc.id for vpc in facts.vpcs for name in vpc.networks}
    for network in facts.networks:
        short = _short_name(network.name)
        chains[f"from-{short}"] = tuple(_client_rules(network, families))
        if any(access.inbound for access in network.accesses):
            chains[f"to-{short}"] = tuple(_inbound_rules(network))
        if network.name in vpcs:
            names = (network.name, *network.peers)
            peers = [(_short_name(name), vpcs[name]) for name in names if name in vpcs]
            chains.update(network_chains(short, peers, tuple(_server_rules(network, families))))
    chains["forward"] = (
        "type filter hook forward priority filter; policy accept;",
        "meta nfproto ipv6 jump links",
        *vpc_sources(facts.vpcs),
        "ct state invalid,untracked goto untracked",
        _FORGED_BY_POD,
        'meta iifkind "veth" goto checked',
        *_forged_source_rules(),
        "jump decide",
        *_unknown_pod_rules("reply"),
    )
    chains["input"] = (
        "type filter hook input priority filter; policy accept;",
        "iifname lo accept",
        _DISCOVERY.format("nd-neighbor-solicit, nd-neighbor-advert, nd-router-solicit"),
        "ct state invalid,untracked goto untracked",
        "ct direction reply accept",
        *vpc_sources(facts.vpcs),
        _FORGED_BY_POD,
        *_forged_source_rules(),
        "jump decide",
    )
    return chains


def _client_rules(network: NetworkFacts, families: tuple[int, ...]) -> Iterator[str]:
    """The rules where a pod of the network is the client: it reaches its network and its peers.

    Then accesses to namespaces and nodes, what every network reaches, and accesses to ranges, which
    never mean what is inside the cluster; all else is dropped. The order matters.
    """
    for name in (network.name, *network.peers):
        for family in families:
            yield f"{_server_address(family)} @pods-{_short_name(name)}-{family} accept"
    outbound = [a for a in network.accesses if not a.inbound]
    yield from _named_access_rules(outbound, "reply")
    yield "jump platform-servers"
    yield from _range_access_rules(outbound, "reply")
    yield "counter drop"


def _inbound_rules(network: NetworkFacts) -> Iterator[str]:
    """Rules for clients that are no tenant's pods: inbound accesses accept, the rest is dropped.

    Clients inside the cluster need an access by namespace or nodes; ranges do not mean them.
    """
    inbound = [a for a in network.accesses if a.inbound]
    yield from _named_access_rules(inbound, "original")
    yield "jump inside-clients"
    yield from _range_access_rules(inbound, "original")
    yield "counter drop"


def _server_rules(network: NetworkFacts, families: tuple[int, ...]) -> Iterator[str]:
    """The rules where a pod of the network is the server: clients of it and of its peers pass.

    Others by its inbound accesses; without any they are dropped.
    """
    for name in (network.name, *network.peers):
        for family in families:
            yield f"{_client_address(family)} @pods-{_short_name(name)}-{family} accept"
    inbound = any(access.inbound for access in network.accesses)
    yield f"goto to-{_short_name(network.name)}" if inbound else "counter drop"


def _platform_server_rules() -> Iterator[str]:
    """The rules for what every network reaches: API servers and the DNS server that networks share.

    DNS servers of networks reach other name servers; all else inside the cluster is dropped.
    """
    for family in FAMILIES:
        endpoint = f"{_server_address(family)} . ct reply proto-src"
        yield f"meta l4proto tcp {endpoint} @apiservers{family} accept"
        yield f"{_ASKED} {_server_address(family)} @nameservers{family} accept"
        asked = f"{_client_address(family)} @resolvers{family} {_ASKED} {_server_address(family)}"
        for other in (f"@platform{family}", f"@nodes{family}", f"!= @inside{family}"):
            yield f"{asked} {other} accept"
    yield from _drop_inside_rules("reply")


def _drop_inside_rules(direction: str) -> Iterator[str]:
    """Rules that drop connections with a client (`original`) or server (`reply`) in the cluster.

    That is: pods of tenants and of the platform, undecided addresses, and ranges of the cluster.
    """
    for family in FAMILIES:
        for name in ("tenants", "undecided", "platform", "inside"):
            yield f"ct {direction} {_KEYWORD[family]} saddr @{name}{family} counter drop"


def _dispatch_rules() -> Iterator[str]:
    """Rules that jump to the chain of the client's network, else to that of the server's.

    Servers of tenants without a chain, and unknown pods of this node, are dropped; undecided
    targets are looked up by their interface first.
    """
    yield from undecided_targets()
    for direction, name in (("original", "clients"), ("reply", "servers")):
        for family in FAMILIES:
            yield f"ct {direction} {_KEYWORD[family]} saddr vmap @{name}{family}"
    for family in FAMILIES:  # the kernel looks at all of a map of verdicts with each change
        yield f"{_server_address(family)} @tenants{family} counter drop"
    yield from _unknown_pod_rules("original")


def _unknown_pod_rules(direction: str) -> Iterator[str]:
    """Rules that drop connections whose client (`original`) or server (`reply`) is no known pod.

    That is an address in this node's pod ranges that is not the platform's; those of tenants have
    been decided before.
    """
    for family in FAMILIES:
        address = f"ct {direction} {_KEYWORD[family]} saddr"
        yield f"{address} @local-pods{family} {address} != @platform{family} counter drop"


def _untracked_rules() -> Iterator[str]:
    """Rules that drop packets from or to tenants that connection tracking does not know.

    So also those from or to undecided addresses.
    """
    for family in FAMILIES:
        for side in ("saddr", "daddr"):
            for name in ("tenants", "undecided"):
                yield f"{_KEYWORD[family]} {side} @{name}{family} counter drop"


def _link_local_rules() -> Iterator[str]:
    """Rules that drop packets from or to link-local addresses, which are nobody's.

    Neighbour discovery passes before; no router forwards either.
    """
    for side in ("saddr", "daddr"):
        yield f"ip6 {side} fe80::/10 counter drop"


def _forged_source_rules() -> Iterator[str]:
    """Rules that drop packets from or to tenants with a source that is routed elsewhere.

    It must be routed to the interface that they came in by.
    """
    for family in FAMILIES:
        for side in ("saddr", "daddr"):
            yield (
                f"{_KEYWORD[family]} {side} @tenants{family} "
                "fib saddr . iif oif missing counter drop"
            )
        where = f"{_KEYWORD[family]} daddr @undecided{family}"
        yield f"{where} fib saddr . iif oif missing counter drop"


def _named_access_rules(accesses: Iterable[Access], direction: str) -> Iterator[str]:
    """Rules that accept accesses to (`reply`) or from (`original`) namespaces and nodes.

    Accesses with a range have none.
    """
    for access in accesses:
        for family in FAMILIES:
            address = f"ct {direction} {_KEYWORD[family]} saddr"
            if access.namespace:
                target = f"{address} @{_space_set(access.namespace)}{family}"
            elif access.nodes:
                target = f"{address} @nodes{family}"
            else:
                continue
            for ports in _port_matches(access):
                yield f"{target} {ports}accept"


def _range_access_rules(accesses: Iterable[Access], direction: str) -> Iterator[str]:
    """Rules that accept accesses to (`reply`) or from (`original`) ranges.

    Accesses with a namespace or nodes have none.
    """
    for access in accesses:
        if access.range:
            keyword = _KEYWORD[ip_network(access.range).version]
            for ports in _port_matches(access):
                yield f"ct {direction} {keyword} saddr {access.range} {ports}accept"


def _port_matches(access: Access) -> Iterator[str]:
    """A match of protocol and server port for each port; one empty match if all are allowed."""
    if not access.ports:
        yield ""
    for protocol, port in access.ports:
        yield f"meta l4proto {protocol} ct reply proto-src {port} "


def _client_address(family: int) -> str:
    """The nft expression for the client's address of the tracked connection."""
    return f"ct original {_KEYWORD[family]} saddr"


def _server_address(family: int) -> str:
    """The nft expression for the server's address of a connection, after load balancing."""
    return f"ct reply {_KEYWORD[family]} saddr"


def _short_name(name: NetworkName) -> str:
    """A network's name for names of chains and sets, shortened with a hash if it is too long."""
    return shorten_name(str(name), _MAX_NAME)


def _space_set(namespace: str) -> str:
    """The name of the set with a namespace's pod addresses, without the family."""
    return f"namespace-{namespace}-"


def _family(address: str) -> int:
    """The IP version of an address: 4 or 6."""
    return ip_address(address).version


def _set_elements(addresses: Iterable[str], family: int) -> dict[str, str]:
    """The addresses of a family, as elements of a set without values."""
    return {a: "" for a in addresses if _family(a) == family}


def _interval_elements(texts: Iterable[str], family: int) -> dict[str, str]:
    """Ranges and addresses of a family as elements of an interval set, overlaps merged.

    Those of the other family are left out. Raises ValueError if a text is neither.
    """
    if family == 4:
        four = [n for t in texts if (n := ip_network(t)).version == 4]
        return {str(n): "" for n in collapse_addresses(four)}
    six = [n for t in texts if (n := ip_network(t)).version == 6]
    return {str(n): "" for n in collapse_addresses(six)}
