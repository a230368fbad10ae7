"""Rules for pods of VPCs, whose addresses may be others' too: they are told by their interface.

A packet that comes by an interface of a VPC is of the VPC's pod with its source address, and one
that leaves by such an interface goes to the VPC's pod with its target. Connection tracking says no
more than who began: two VPCs may have connections of the same addresses and ports.
"""

from collections.abc import Iterable, Iterator, Mapping
from hashlib import blake2b

from hanse.features.networks.guard.vpcs import VpcFacts
from hanse.features.networks.names import NetworkName

FAMILIES = {4: ("ip", "ipv4_addr"), 6: ("ip6", "ipv6_addr")}
"""The keyword of each family and the type of its addresses."""
PREFIX = "vpc-"
"""How the names of the sets begin that hold such addresses."""


def vpc_key(vpc: str) -> str:
    """A VPC's part of names of sets and chains: a hash, as its id may be any text."""
    return blake2b(vpc.encode(), digest_size=6).hexdigest()


def vpc_sets(
    vpcs: Iterable[VpcFacts], names: Mapping[NetworkName, str]
) -> Iterator[tuple[str, str, dict[str, str]]]:
    """(name, declaration, elements) of each nft set and map for VPCs.

    Sets of addresses are empty: `vpc_elements` fills them. `names` are short names of networks; a
    network without one gets no set. Without VPCs those remain that every table has, empty.
    """
    vpcs = list(vpcs)
    for side in ("in", "out"):
        chains = {f'"{i}"': f"goto {side}-{vpc_key(v.id)}" for v in vpcs for i in v.interfaces}
        yield f"{PREFIX}{side}", "type ifname : verdict;", chains
    single = [pair for vpc in vpcs for pair in vpc.single]
    yield f"{PREFIX}single", "type ifname;", {f'"{name}"': "" for name, _ in single}
    for family, (_, kind) in FAMILIES.items():
        pairs = {f'"{n}" . {a}': "" for n, a in single if (":" in a) == (family == 6)}
        yield f"{PREFIX}single-{family}", f"type ifname . {kind};", pairs
    for vpc in vpcs:
        key = vpc_key(vpc.id)
        yield f"{PREFIX}{key}-ports", "type ifname;", {f'"{i}"': "" for i in vpc.interfaces}
        for family, (_, kind) in FAMILIES.items():
            for side in ("in", "out"):
                yield f"{PREFIX}{key}-{side}-{family}", f"type {kind} : verdict;", {}
            for name in vpc.networks:
                if name in names:
                    yield f"{PREFIX}pods-{names[name]}-{family}", f"type {kind};", {}


def vpc_elements(
    members: Iterable[tuple[str, str]], family: int, sets: Mapping[str, object]
) -> Iterator[tuple[str, str]]:
    """(set, value) for an address that pods of these (short name of a network, VPC) have.

    None for a VPC of which two networks have the address, and for networks without sets in `sets`.
    Nothing is added here.
    """
    members = list(members)
    vpcs = [vpc for _, vpc in members]
    for name, vpc in members:
        if vpcs.count(vpc) == 1 and (own := f"{PREFIX}pods-{name}-{family}") in sets:
            yield own, ""
            yield f"{PREFIX}{vpc_key(vpc)}-in-{family}", f"goto of-{name}"
            yield f"{PREFIX}{vpc_key(vpc)}-out-{family}", f"goto at-{name}"


def vpc_chains(vpcs: Iterable[VpcFacts]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """(name, rules) of the chains that find the network of a source or target in a VPC.

    They drop addresses that are not in the VPC, and sources of another pod on an interface with one
    pod alone. Without VPCs there is `vpc-targets` alone.
    """
    yield "vpc-targets", (f"oifname vmap @{PREFIX}out", "counter drop")
    for key in (vpc_key(vpc.id) for vpc in vpcs):
        yield (
            f"in-{key}",
            (
                *(
                    f"iifname @{PREFIX}single iifname . {word} saddr != @{PREFIX}single-{family} "
                    "counter drop"
                    for family, (word, _) in FAMILIES.items()
                ),
                *_address_lookups("saddr", f"{PREFIX}{key}-in"),
                "counter drop",
            ),
        )
        yield f"out-{key}", (*_address_lookups("daddr", f"{PREFIX}{key}-out"), "counter drop")


def network_chains(
    name: str, peers: Iterable[tuple[str, str]], decided: tuple[str, ...]
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """(name, rules) of the chains for packets from (`of-`) and to (`at-`) pods of a VPC's network.

    `peers` are (short name, VPC) with pods on this node, itself first; `decided` are the rules for
    clients whose address has one owner.
    """
    pairs = [
        f"oifname @{PREFIX}{vpc_key(vpc)}-ports {word} daddr @{PREFIX}pods-{peer}-{family} accept"
        for peer, vpc in peers
        for family, (word, _) in FAMILIES.items()
    ]
    others = [
        f"{word} daddr @undecided{family} counter drop" for family, (word, _) in FAMILIES.items()
    ]
    yield f"of-{name}", (*pairs, *others, f"ct direction original goto from-{name}", *decided)
    yield f"at-{name}", (f"ct direction reply goto from-{name}", *decided)


def vpc_sources(vpcs: Iterable[VpcFacts]) -> Iterator[str]:
    """nft rules that look sources up by the VPC of their interface, if there are VPCs.

    Other sources whose address has several owners are dropped.
    """
    if list(vpcs):
        yield f"iifname vmap @{PREFIX}in"
    for family, (word, _) in FAMILIES.items():
        yield f"{word} saddr @undecided{family} counter drop"


def undecided_targets() -> Iterator[str]:
    """nft rules that look targets up by interface, if their address has several owners."""
    for family, (word, _) in FAMILIES.items():
        yield f"{word} daddr @undecided{family} goto vpc-targets"


def _address_lookups(side: str, name: str) -> Iterator[str]:
    """For each family a rule that looks an address up in a map; `side` is saddr or daddr."""
    for family, (word, _) in FAMILIES.items():
        yield f"{word} {side} vmap @{name}-{family}"
