"""Packets through the guard's rules, between network namespaces on a real network stack."""

import json
import socket
import struct
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import astuple, replace

from hanse.features.networks.guard.facts import Access, AddressOwner, ClusterFacts, NetworkFacts
from hanse.features.networks.guard.ports import PodPort, ports_table
from hanse.features.networks.guard.ruleset import Ruleset, build_ruleset
from hanse.features.networks.guard.transaction import (
    REMOVAL,
    ElementChange,
    difference,
    render_changes,
    replacement,
    set_owners,
)
from hanse.features.networks.names import NetworkName
from tests.features.networks.test_packets import lacking

SCRIPT = Path(__file__).with_name("netns_runner.py")
ACME, LAB, BOLT = NetworkName("acme"), NetworkName("acme", "lab"), NetworkName("bolt")
WEB, DNS = 8080, 53

A1, A2, LAB1, B1, B2 = (f"10.4.0.{n}" for n in range(1, 6))
INGRESS, PLATFORM, UNKNOWN, SHARED = "10.4.0.6", "10.4.0.7", "10.4.0.8", "10.4.0.9"
API, WORLD, NODE = "192.0.2.1", "192.0.2.2", "192.0.2.3"
NAMES = {A1: "a1", A2: "a2", LAB1: "lab", B1: "b1", B2: "b-dns", INGRESS: "ingress"}
NAMES |= {PLATFORM: "platform", UNKNOWN: "unknown", API: "api", WORLD: "world", NODE: "node"}
NAMES |= {SHARED: "shared-dns"}
OWNERS = {
    A1: AddressOwner("acme-web", ACME),
    A2: AddressOwner("acme-db", ACME),
    LAB1: AddressOwner("acme-web", LAB),
    B1: AddressOwner("bolt-web", BOLT),
    B2: AddressOwner("bolt-kube-system", BOLT, is_dns=True),
    INGRESS: AddressOwner("ingress"),
    PLATFORM: AddressOwner("monitoring"),
    SHARED: AddressOwner("hanse-system", is_dns=True),
}
TENANT_PODS, OURS = ("a1", "a2", "lab", "b1", "b-dns"), ("ingress", "platform", "shared-dns")
FACTS = ClusterFacts(
    networks=(
        NetworkFacts(
            ACME,
            accesses=(
                Access(True, "ingress", ports=(("tcp", WEB),)),
                Access(False, range="0.0.0.0/0"),
            ),
        ),
        NetworkFacts(LAB, peers=(BOLT,)),
        NetworkFacts(BOLT, peers=(LAB,), accesses=(Access(True, range="192.0.2.2/31"),)),
    ),
    apiservers=((API, WEB),),
    nodes=(NODE,),
    inside=("10.4.0.0/16",),
    local_pods=("10.4.0.0/24",),
)
PASSES = {
    *(("a1", "a2"), ("a2", "a1"), ("b1", "b-dns"), ("b-dns", "b1")),
    *(("lab", "b1"), ("b1", "lab"), ("lab", "b-dns"), ("b-dns", "lab")),
    *(("a1", "world"), ("a2", "world"), ("a1", "api"), ("a2", "api")),
    ("world", "b1"),
    ("world", "b-dns"),
    *((one, other) for one in OURS for other in OURS),
    *((one, other) for one in OURS for other in ("api", "world", "node")),
    *((one, other) for one in ("api", "world", "node") for other in OURS),
    *((one, other) for one in ("api", "world", "node") for other in ("api", "world", "node")),
}
"""Who reaches whom on all ports."""
PASSES_WEB = {("ingress", "a1"), ("ingress", "a2"), *((t, "api") for t in ("lab", "b1", "b-dns"))}
PASSES_DNS = {
    *(("b-dns", name) for name in ("ingress", "platform", "api", "world", "node")),
    *((pod, "shared-dns") for pod in TENANT_PODS),
}


@pytest.fixture(scope="module", autouse=True)
def _namespaces() -> None:
    if reason := lacking():
        pytest.skip(reason)


def packets(rules: str, addresses: Sequence[str], **more: Any) -> dict[str, Any]:
    """What the pods of these addresses reached and heard, when commands have been run."""
    plan = {"rules": rules, "addresses": list(addresses), "ports": [WEB, DNS], **more}
    output = subprocess.run(
        ["unshare", "-rn", sys.executable, str(SCRIPT)],
        input=json.dumps(plan),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert output.returncode == 0, output.stderr
    found: dict[str, Any] = json.loads(output.stdout)
    return found


def connections(
    rules: str, names: dict[str, str] = NAMES, **more: Any
) -> set[tuple[str, str, int]]:
    """Who reached whom on which port, when these commands have been run."""
    reached = packets(rules, tuple(names), **more)["reached"]
    found = [(names[a], names[b], port) for a, b, port in reached]
    return {one for one in found if one[0] != one[1]}


def expected(passes: set[tuple[str, str]]) -> set[tuple[str, str, int]]:
    return {
        *((a, b, port) for a, b in passes for port in (WEB, DNS) if a != b),
        *((a, b, WEB) for a, b in PASSES_WEB),
        *((a, b, DNS) for a, b in PASSES_DNS),
    }


def six(address: str) -> str:
    """The IPv6 counterpart of an address, range or endpoint of these tests."""
    network, _, length = address.partition("/")
    first, _, rest = network.partition(".0.")
    here = {"10.4": "fd04::", "192": "fd19::", "0": "::"}[first]
    bits = {"": "", "0": "/0", "16": "/64", "24": "/64", "31": "/127"}[length]
    return f"{here}{rest.rpartition('.')[2].replace('0', '')}{bits}"


def facts_of_six() -> ClusterFacts:
    """The same cluster with IPv6 addresses alone."""
    networks = [
        replace(n, accesses=tuple(replace(a, range=a.range and six(a.range)) for a in n.accesses))
        for n in FACTS.networks
    ]
    return ClusterFacts(
        networks=tuple(networks),
        apiservers=((six(API), WEB),),
        nodes=(six(NODE),),
        inside=(six("10.4.0.0/16"),),
        local_pods=(six("10.4.0.0/24"),),
    )


def test_networks_reach_themselves_their_peers_and_what_the_platform_allows() -> None:
    dual_stack = {**OWNERS, "fd00::1": AddressOwner("acme-web", ACME)}

    assert connections(replacement(build_ruleset(FACTS, dual_stack))) == expected(PASSES)


def test_packets_of_ipv6_pass_as_those_of_ipv4() -> None:
    owners = {six(address): owner for address, owner in OWNERS.items()}
    names = {six(address): name for address, name in NAMES.items()}

    assert connections(replacement(build_ruleset(facts_of_six(), owners)), names) == expected(
        PASSES
    )


PODS = {address: name for address, name in NAMES.items() if address.startswith("10.4.")}


@pytest.mark.parametrize("family", [4, 6])
def test_pods_on_one_bridge_are_kept_apart(family: int) -> None:
    facts = FACTS if family == 4 else facts_of_six()
    address = str if family == 4 else six
    rules = replacement(build_ruleset(facts, {address(a): o for a, o in OWNERS.items()}))

    found = connections(rules, {address(a): n for a, n in PODS.items()}, bridged=True)

    inside = set(PODS.values())
    assert found == {one for one in expected(PASSES) if {one[0], one[1]} <= inside}


LINK_LOCAL = {address: f"fe80::ff:fe00:{number}" for number, address in enumerate(PODS)}


def test_no_datagram_reaches_others_by_link_local_addresses_groups_or_broadcast() -> None:
    """A1 may reach everything outside the cluster, and all pods are on one bridge."""
    sends = {
        A1: [
            *((None, LINK_LOCAL[a], "link-local") for a in PODS),
            (None, "255.255.255.255", "broadcast"),
            (None, "10.4.255.255", "subnet broadcast"),
            (None, "224.0.0.251", "group"),
            (None, "ff02::1", "all nodes"),
            (None, A2, "to its own network"),
            (None, B1, "to another network"),
        ]
    }
    rules = replacement(build_ruleset(FACTS, OWNERS))

    heard = packets(rules, tuple(PODS), bridged=True, sends=sends)["heard"]

    assert heard.pop(A2) == ["to its own network"]
    heard.pop(A1)  # it hears what it sends to groups
    assert heard == {address: [] for address in heard}


def test_no_pod_sends_with_the_address_of_another() -> None:
    """Each pod has an interface of the node to itself."""
    others = (A2, LAB1, B1, INGRESS, PLATFORM, UNKNOWN, API, WORLD, NODE, "198.51.100.7")
    sends = {
        **{
            me: [(o, t, f"as {o}") for o in others for t in NAMES if t != me]
            for me in (A1, UNKNOWN)
        },
        LAB1: [(None, B1, "to a peer")],
    }
    rules = replacement(build_ruleset(FACTS, OWNERS))

    heard = packets(rules, tuple(NAMES), sends=sends)["heard"]

    assert heard.pop(B1) == ["to a peer"]
    assert heard == {address: [] for address in heard}


PORTS = [
    PodPort(f"pod{n}", f"02:00:00:00:00:{n:02x}", (address, six(address)))
    for n, address in enumerate(PODS)
]
MACS = {port.addresses[0]: port.mac for port in PORTS}


@pytest.mark.parametrize("family", [4, 6])
def test_pods_with_rules_of_their_ports_reach_whom_they_may(family: int) -> None:
    facts = FACTS if family == 4 else facts_of_six()
    address = str if family == 4 else six
    owners = {address(a): o for a, o in OWNERS.items()}
    rules = replacement(build_ruleset(facts, owners)) + ports_table(PORTS)

    found = connections(rules, {address(a): n for a, n in PODS.items()}, bridged=True)

    inside = set(PODS.values())
    assert found == {one for one in expected(PASSES) if {one[0], one[1]} <= inside}


STRANGER, STRANGER6 = "10.4.0.200", "fd04::c8"


@pytest.mark.parametrize("checked", [True, False])
def test_no_pod_on_a_bridge_forges_a_source_or_another_as_neighbour(checked: bool) -> None:
    """B1 and B2 are of one network, A1 is the attacker; without rules of ports it succeeds."""
    as_b2 = udp_frame(MACS[A1], MACS[B1], B2, B1, "as B2")
    wholly_b2 = udp_frame(MACS[B2], MACS[B1], B2, B1, "as B2, by its MAC")
    attacks = [
        *(as_b2, wholly_b2, as_b2[:24] + "8100000a" + as_b2[24:]),
        arp_request(MACS[A1], STRANGER, B1),
        (B2, B1, "by the kernel"),
    ]
    sends = {A1: attacks, B2: [(None, B1, "from B2")]}
    rules = replacement(build_ruleset(FACTS, OWNERS)) + ports_table(PORTS if checked else [])

    found = packets(rules, tuple(PODS), bridged=True, sends=sends, neighbours=[STRANGER])

    told = ["as B2", "as B2, by its MAC", "by the kernel", "from B2"]
    assert found["heard"][B1] == (["from B2"] if checked else told)
    assert found["known"][B1] == ({} if checked else {STRANGER: MACS[A1]})


@pytest.mark.parametrize("checked", [True, False])
def test_no_pod_on_a_bridge_forges_another_as_neighbour_by_ipv6(checked: bool) -> None:
    owners = {six(a): o for a, o in OWNERS.items()}
    attack = neighbour_solicitation(MACS[A1], STRANGER6, six(B1), MACS[B1])
    ports = ports_table(PORTS if checked else [])
    rules = replacement(build_ruleset(facts_of_six(), owners)) + ports
    more: Any = {"sends": {six(A1): [attack]}, "neighbours": [STRANGER6]}

    found = packets(rules, [six(a) for a in PODS], bridged=True, **more)

    assert found["known"][six(B1)] == ({} if checked else {STRANGER6: MACS[A1]})


def test_a_pod_on_a_bridge_asks_for_its_address_again_and_no_other_pod_hears_it() -> None:
    """By DHCP, from no address to all; the server is on the bridge, and no pod of the node."""
    server, everybody, nobody = INGRESS, ("ff:" * 5 + "ff", "255.255.255.255"), "0.0.0.0"
    frames = [
        udp_frame(MACS[A1], everybody[0], nobody, everybody[1], "renewal", (68, 67)),
        udp_frame(MACS[A1], everybody[0], nobody, everybody[1], "other port", (69, 67)),
        udp_frame(MACS[A1], MACS[server], nobody, server, "to one", (68, 67)),
    ]
    ports = [port for port in PORTS if port.addresses[0] != server]
    rules = replacement(build_ruleset(FACTS, OWNERS)) + ports_table(ports)

    heard = packets(rules, tuple(PODS), bridged=True, sends={A1: frames}, udp=67)["heard"]

    assert heard == {**{address: [] for address in PODS}, server: ["renewal"]}


def hardware(mac: str) -> bytes:
    return bytes.fromhex(mac.replace(":", ""))


def udp_frame(
    from_mac: str,
    to_mac: str,
    source: str,
    target: str,
    word: str,
    ports: tuple[int, int] = (9, 9000),
) -> str:
    body = struct.pack("!HHHH", *ports, 8 + len(word), 0) + word.encode()
    ends = socket.inet_aton(source), socket.inet_aton(target)
    head = struct.pack("!BBHHHBBH4s4s", 69, 0, 20 + len(body), 0, 0, 64, 17, 0, *ends)
    total = sum(struct.unpack("!10H", head))
    checksum = struct.pack("!H", ~(total + (total >> 16)) & 0xFFFF)
    packet = head[:10] + checksum + head[12:] + body
    return (hardware(to_mac) + hardware(from_mac) + b"\x08\x00" + packet).hex()


def arp_request(mac: str, source: str, target: str) -> str:
    """Who has the target? Tell the source, at this MAC: the target learns it."""
    ends = (hardware(mac), socket.inet_aton(source), bytes(6), socket.inet_aton(target))
    request = struct.pack("!HHBBH6s4s6s4s", 1, 0x0800, 6, 4, 1, *ends)
    return (b"\xff" * 6 + hardware(mac) + b"\x08\x06" + request).hex()


def neighbour_solicitation(mac: str, source: str, target: str, to_mac: str) -> str:
    """The same by IPv6."""
    ends = [socket.inet_pton(socket.AF_INET6, text) for text in (source, target)]
    body = b"\x87\0\0\0" + bytes(4) + ends[1] + b"\x01\x01" + hardware(mac)
    pseudo = b"".join(ends) + struct.pack("!II", len(body), 58)
    total = sum(struct.unpack(f"!{(len(pseudo) + len(body)) // 2}H", pseudo + body))
    total = (total & 0xFFFF) + (total >> 16)
    checksum = struct.pack("!H", ~(total + (total >> 16)) & 0xFFFF)
    body = body[:2] + checksum + body[4:]
    head = struct.pack("!IHBB", 6 << 28, len(body), 58, 255) + ends[0] + ends[1]
    return (hardware(to_mac) + hardware(mac) + b"\x86\xdd" + head + body).hex()


def test_changes_in_steps_end_in_the_same_rules() -> None:
    """From an empty cluster, with addresses of others, by one transaction after another."""
    ruleset = build_ruleset(ClusterFacts(local_pods=("10.4.0.0/24",)), {})
    steps = [replacement(ruleset)]
    others = {A1: AddressOwner("bolt-web", BOLT), B1: AddressOwner("monitoring")}
    earlier = build_ruleset(ClusterFacts(networks=FACTS.networks[1:]), others)
    steps.append(difference(ruleset, earlier))
    later = build_ruleset(FACTS, others)
    steps.append(difference(earlier, later))
    steps.append(render_changes(set_owners(later, OWNERS)))

    assert later == build_ruleset(FACTS, OWNERS)
    assert connections("".join(steps)) == expected(PASSES)


CHANGE = """
import json, sys
from hanse.features.networks.guard.ruleset import TABLE
from hanse.features.networks.guard.transaction import ElementChange
from hanse.providers.nftables import Nftables, NftablesError
plan = json.load(sys.stdin)
rules = Nftables()
rules.run(plan["rules"])
rules.change(TABLE, [ElementChange(*change) for change in plan["changes"]])
listed = rules.run(f"list table inet {TABLE}")
unknown = [ElementChange(True, "tenants4", "10.9.0.1"), ElementChange(True, "nowhere4", "10.9.0.1")]
try:
    rules.change(TABLE, unknown)
except NftablesError as error:
    print(error)
assert rules.run(f"list table inet {TABLE}") == listed, "half of it was applied"
print(listed)
"""


def listed(rules: str, changes: Sequence[ElementChange] = ()) -> str:
    """The table after rules and changes of elements over netlink; a wrong change is refused."""
    plan = {"rules": rules, "changes": [astuple(change) for change in changes]}
    output = subprocess.run(
        ["unshare", "-rn", sys.executable, "-c", CHANGE],
        input=json.dumps(plan),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert output.returncode == 0, output.stderr
    error, _, table = output.stdout.partition("\n")
    assert error == "nowhere4 No such file or directory"
    return table


def test_elements_changed_over_netlink_are_those_of_new_rules() -> None:
    six_too = {**OWNERS, "fd04::1": AddressOwner("acme-web", ACME)}
    others = {
        A1: AddressOwner("bolt-web", BOLT),
        B1: AddressOwner("ingress"),
        "fd04::2": six_too[A1],
    }
    ruleset = build_ruleset(FACTS, others)
    before = replacement(ruleset)

    changes = set_owners(ruleset, {**six_too, "fd04::2": None})

    after = listed(replacement(build_ruleset(FACTS, six_too)))
    assert sorted_elements(listed(before, changes)) == sorted_elements(after)


def sorted_elements(table: str) -> list[list[str]]:
    """The lines of a table with their words in order: sets have none."""
    lines = " ".join(table.split()).replace("} set", "}\nset").splitlines()
    return [sorted(line.replace(",", " ").split()) for line in lines]


def test_nothing_is_left_of_rules_that_are_removed() -> None:
    rules = replacement(build_ruleset(FACTS, OWNERS)) + REMOVAL
    everyone = {(a, b) for a in NAMES.values() for b in NAMES.values() if a != b}

    assert {(a, b) for a, b, _ in connections(rules)} == everyone


def test_difference_of_equal_rulesets_is_empty() -> None:
    empty = Ruleset({}, {})

    assert difference(build_ruleset(FACTS, OWNERS), build_ruleset(FACTS, OWNERS)) == ""
    assert difference(empty, empty) == ""
