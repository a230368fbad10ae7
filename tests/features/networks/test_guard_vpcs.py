"""VPCs whose subnets overlap: packets between pods that have each other's addresses."""

from typing import Any

import pytest
from msgspec.structs import replace

from hanse.features.networks.cni import PodRef
from hanse.features.networks.guard.facts import (
    Access,
    AddressOwner,
    ClusterFacts,
    NetworkFacts,
    Owner,
    Undecided,
    address_owner,
)
from hanse.features.networks.guard.ruleset import build_ruleset
from hanse.features.networks.guard.transaction import (
    REMOVAL,
    difference,
    render_changes,
    replacement,
    set_owners,
)
from hanse.features.networks.guard.vpcs import Attachment, VpcFacts, attachment, vpc_facts
from hanse.features.networks.names import NetworkName
from hanse.model.kinds.networks import Network
from hanse.model.objects import Object
from tests.features.networks.builders import network, pod
from tests.features.networks.test_guard import guarded
from tests.features.networks.test_guard_packets import WEB, listed, packets, sorted_elements
from tests.features.networks.test_packets import lacking

ACME, BOLT = NetworkName("acme"), NetworkName("bolt")
VPCS = {ACME: "vpc-a", BOLT: "vpc-b"}
BOTH = Undecided(((ACME, "vpc-a"), (BOLT, "vpc-b")))
ONE, TWO, THREE, FOUR = (f"10.4.0.{n}" for n in range(1, 5))
PODS = [
    *(("a1", ONE), ("a2", TWO), ("a3", THREE)),
    *(("b1", ONE), ("b2", TWO), ("b4", FOUR)),
]
"""Both have the first two addresses, and each has one that the other has not."""
PLATFORM, API = "10.5.0.1", "192.0.2.1"
OWNERS: dict[str, Owner] = {
    ONE: BOTH,
    TWO: BOTH,
    THREE: AddressOwner("acme-web", ACME, vpc="vpc-a"),
    FOUR: AddressOwner("bolt-web", BOLT, vpc="vpc-b"),
    PLATFORM: AddressOwner("ingress"),
}
OWN = {(x, y) for x in ("a1", "a2", "a3") for y in ("a1", "a2", "a3") if x != y} | {
    (x, y) for x in ("b1", "b2", "b4") for y in ("b1", "b2", "b4") if x != y
}


@pytest.fixture
def _namespaces() -> None:
    if reason := lacking():
        pytest.skip(reason)


def vpcs(*, bridges: bool) -> tuple[VpcFacts, ...]:
    """What a node knows of both VPCs, whose pods are wired as podN in their order."""
    names = list(enumerate(PODS))
    return tuple(
        VpcFacts(
            vpc,
            (name,),
            (
                *([f"br-{first}"] if bridges else []),
                *(f"pod{n}" for n, (p, _) in names if p[0] == first),
            ),
            () if bridges else tuple((f"pod{n}", a) for n, (p, a) in names if p[0] == first),
        )
        for (name, vpc), first in zip(VPCS.items(), "ab", strict=True)
    )


def facts(*, bridges: bool, peered: bool = False, **more: Any) -> ClusterFacts:
    acme = NetworkFacts(ACME, (BOLT,) if peered else (), accesses=(Access(True, "ingress"),))
    networks = (acme, NetworkFacts(BOLT, (ACME,) if peered else ()))
    return ClusterFacts(
        networks=networks, vpcs=vpcs(bridges=bridges), inside=("10.4.0.0/15",), **more
    )


def reached(rules: str, **more: Any) -> set[tuple[str, str]]:
    """Who reached whom, by name."""
    names, addresses = zip(*PODS, strict=True)
    plan = {"names": [*names, *more.pop("more_names", ())], "ports": [WEB], **more}
    found = packets(rules, [*addresses, *more.pop("more", ())], **plan)["reached"]
    return {(a, b) for a, b, _ in found if a != b}


@pytest.mark.usefixtures("_namespaces")
def test_pods_on_bridges_of_their_vpcs_reach_their_own_of_two_with_one_address() -> None:
    bridges = [f"br-{name[0]}" for name, _ in PODS]

    assert reached(replacement(build_ruleset(facts(bridges=True), OWNERS)), bridges=bridges) == OWN


@pytest.mark.usefixtures("_namespaces")
def test_the_rules_of_a_vpc_go_with_its_last_pod_on_the_node_in_one_transaction() -> None:
    before, after = build_ruleset(facts(bridges=True), OWNERS), build_ruleset(ClusterFacts(), {})

    rules = listed(replacement(before) + difference(before, after))

    assert sorted_elements(rules) == sorted_elements(listed(replacement(after)))


TABLES = ["100" if name[0] == "a" else "200" for name, _ in PODS]
LEAKS = [("100", FOUR, 5), ("200", TWO, 1), ("200", THREE, 2)]
"""From acme to the pod that only bolt has; from bolt to acme's pods, one instead of its own."""


@pytest.mark.usefixtures("_namespaces")
def test_routes_that_lead_to_another_vpc_carry_no_packet() -> None:
    without = reached(REMOVAL, tables=TABLES, leaks=LEAKS)
    found = reached(
        replacement(build_ruleset(facts(bridges=False), OWNERS)), tables=TABLES, leaks=LEAKS
    )

    assert {("a2", "b4"), ("b4", "a2"), ("b4", "a3")} <= without  # the routes do lead there
    lost = {(x, y) for x, y in OWN if "b2" in (x, y)}
    assert found - lost == OWN - lost
    assert not {(x, y) for x, y in found if x[0] != y[0]}


@pytest.mark.usefixtures("_namespaces")
def test_no_pod_of_a_vpc_sends_with_the_address_of_another() -> None:
    sends = {"a1": [(TWO, THREE, "as a2"), (THREE, TWO, "as a3"), (None, THREE, "own")]}
    names, addresses = zip(*PODS, strict=True)
    rules = replacement(build_ruleset(facts(bridges=False), OWNERS))

    heard = packets(rules, addresses, names=names, tables=TABLES, sends=sends)["heard"]

    assert heard == {**{name: [] for name in names}, "a3": ["own"]}


@pytest.mark.usefixtures("_namespaces")
def test_without_known_interfaces_an_address_of_two_reaches_nothing() -> None:
    """Also addresses outside of the pod ranges of the node, as those of VPCs are."""
    closed = replace(facts(bridges=False), vpcs=())

    found = reached(replacement(build_ruleset(closed, OWNERS)), tables=TABLES, leaks=LEAKS)

    assert not {pair for pair in found if {"a1", "a2", "b1", "b2"} & set(pair)}


@pytest.mark.usefixtures("_namespaces")
def test_elements_of_vpcs_changed_over_netlink_are_those_of_new_rules() -> None:
    before: dict[str, Owner] = {ONE: AddressOwner("acme-web", ACME, vpc="vpc-a"), TWO: BOTH}
    ruleset = build_ruleset(facts(bridges=False), before)
    old = replacement(ruleset)

    changes = set_owners(ruleset, OWNERS)

    assert ruleset == build_ruleset(facts(bridges=False), OWNERS)
    anew = listed(replacement(build_ruleset(facts(bridges=False), OWNERS)))
    assert sorted_elements(listed(old, changes)) == sorted_elements(anew)
    assert render_changes(changes)


def vpc_network(name: str, vpc: str) -> Network:
    made = network(name)
    return replace(made, spec=replace(made.spec, type="vpc", vpc_id=vpc))


def observed(*objects: Object) -> Any:
    lab = (vpc_network("acme.lab", "vpc-a"), vpc_network("bolt.lab", "vpc-b"))
    return guarded(*lab, *objects)


def in_lab(name: str, where: str, ip: str) -> Any:
    return pod(name, where, ip, **{"arktos.futurewei.com/network": "lab"})


LAB_A, LAB_B = NetworkName("acme", "lab"), NetworkName("bolt", "lab")


def test_an_address_of_two_vpcs_is_undecided_and_names_both() -> None:
    mine, theirs = in_lab("a", "acme-web", ONE), in_lab("b", "bolt-web", ONE)

    assert address_owner(ONE, observed(mine)) == AddressOwner("acme-web", LAB_A, vpc="acme/vpc-a")
    assert address_owner(ONE, observed(mine, theirs)) == Undecided(
        ((LAB_A, "acme/vpc-a"), (LAB_B, "bolt/vpc-b"))
    )


def test_a_bridge_is_of_a_vpc_if_all_pods_on_it_are() -> None:
    a, b = in_lab("a", "acme-web", ONE), in_lab("b", "bolt-web", ONE)
    on_bridge = Attachment(PodRef("acme-web", "a"), "veth1", ("br0",), (ONE,))
    alone = Attachment(PodRef("bolt-web", "b"), "veth2", (), (ONE,))
    gone = Attachment(PodRef("bolt-web", "b", "another uid"), "veth3", ("br0",), (ONE,))

    assert vpc_facts([on_bridge, alone, gone], observed(a, b)) == (
        VpcFacts("acme/vpc-a", (LAB_A,), ("br0", "veth1")),
        VpcFacts("bolt/vpc-b", (LAB_B,), ("veth2",), (("veth2", ONE),)),
    )
    shared = replace(alone, joined=("br0",))
    assert [v.interfaces for v in vpc_facts([on_bridge, shared], observed(a, b))] == [
        ("veth1",),
        ("veth2",),
    ]


@pytest.mark.parametrize("kind", ["flat", "vpc"])
def test_no_interface_counts_as_one_of_a_vpc_because_another_tenant_names_that_vpc(
    kind: str,
) -> None:
    taken = network("bolt.lab", kind, vpcID="vpc-a", age=2)
    snapshot = guarded(
        vpc_network("acme.lab", "vpc-a"),
        taken,
        in_lab("a", "acme-web", ONE),
        in_lab("b", "bolt-web", TWO),
    )
    mine = Attachment(PodRef("acme-web", "a"), "veth1", ("br0",), (ONE,))
    theirs = Attachment(PodRef("bolt-web", "b"), "veth2", ("cni0",), (TWO,))

    owner, other = address_owner(ONE, snapshot), address_owner(TWO, snapshot)
    found = vpc_facts([mine, theirs], snapshot)

    assert isinstance(owner, AddressOwner)
    assert isinstance(other, AddressOwner)
    assert owner.vpc != other.vpc
    (own,) = (vpc for vpc in found if vpc.networks == (LAB_A,))
    assert (own.id, own.interfaces) == (owner.vpc, ("br0", "veth1"))


def test_no_interface_counts_as_one_of_a_vpc_if_a_static_pod_is_joined_to_it() -> None:
    mirror = pod("node-log", "kube-system", TWO)
    meta = replace(mirror.metadata, uid="u2", annotations={"kubernetes.io/config.mirror": "u1"})
    snapshot = guarded(
        vpc_network("acme.lab", "vpc-a"),
        in_lab("a", "acme-web", ONE),
        replace(mirror, metadata=meta),
    )
    static = Attachment(PodRef("kube-system", "node-log", "u1"), "veth2", ("br0",), (TWO,))

    (vpc,) = vpc_facts(
        [Attachment(PodRef("acme-web", "a"), "veth1", ("br0",), (ONE,)), static], snapshot
    )

    assert vpc.interfaces == ("veth1",)


def test_an_interface_is_known_if_the_plugin_names_one_of_the_node_alone() -> None:
    ref = PodRef("acme-web", "a")
    links: dict[str, tuple[str, ...]] = {"veth1": (), "veth2": ()}
    inside = {"name": "eth0", "sandbox": "/run/netns/x"}
    one: dict[str, Any] = {
        "interfaces": [{"name": "br0"}, {"name": "veth1"}, inside],
        "ips": [{"address": f"{ONE}/24"}],
    }

    assert attachment(ref, one, links.get) == Attachment(ref, "veth1", (), (ONE,))
    two = {**one, "interfaces": [{"name": "veth1"}, {"name": "veth2"}, inside]}
    for other in (two, {**one, "interfaces": [inside]}, {**one, "ips": [{"address": "?"}]}):
        assert attachment(ref, other, links.get) is None
