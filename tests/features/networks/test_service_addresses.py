"""Addresses of Services: of their own network, each given once."""

from datetime import timedelta
from ipaddress import IPv4Network, IPv6Network, ip_address
from itertools import combinations
from typing import Any
from uuid import UUID

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from hanse.features.networks.address_pools import RESERVATION_TTL, Pool, PoolSlot
from hanse.features.networks.addresses import service_ranges
from hanse.features.networks.lifecycle import dns_service_address
from hanse.features.networks.names import NETWORK, NIC, RANGE_OF, TENANT
from hanse.features.networks.ranges import Range, overlaps, parse_range
from hanse.features.networks.service_addresses import AssignedSlot
from hanse.model.admission import NeedsAnswer
from hanse.model.conditions import condition
from hanse.model.facts import Answer
from hanse.model.kinds.core import Service
from hanse.model.kinds.networks import NetworkPort
from hanse.model.naming import SLOT_LEASES
from hanse.model.objects import Object
from hanse.model.ownership import OWNER
from hanse.model.plan import Key
from tests.features.networks.builders import (
    FEATURE,
    HERE,
    admission_request,
    applied_change,
    cidr,
    cluster_snapshot,
    denial_message,
    held,
    hooks,
    network,
    pod,
    service,
    used,
)
from tinykube.virtual_time import EPOCH

SLOTS = len(SLOT_LEASES)
POOL = "10.50.0.0/28"
OWN = network("acme.own", service={"cidrs": [POOL]})
RANGES = (cidr("10.96.0.0/16"), cidr(POOL, "own", **{RANGE_OF: "acme.own"}))
LABELS = {NETWORK: "own"}
AGENT = "system:serviceaccount:hanse-system:hanse-agent"


def in_network(**spec: Any) -> Any:
    return admission_request("Service", labels=LABELS, spec=spec)


def test_a_service_gets_an_address_of_its_networks_pool_and_the_networks_labels() -> None:
    change = applied_change(
        hooks()["networks-services"].review(in_network(), cluster_snapshot(OWN, *RANGES))
    )

    assert change["metadata"]["labels"] == {TENANT: "acme", NETWORK: "own"}
    assert change["spec"] == {"clusterIP": "10.50.0.2", "clusterIPs": ["10.50.0.2"]}


def test_the_networks_own_addresses_and_used_ones_are_not_given() -> None:
    hook = hooks()["networks-services"]
    observed = cluster_snapshot(OWN, *RANGES, used("10.50.0.2"), used("10.50.0.4"))

    given_ = [
        applied_change(hook.review(in_network(), observed))["spec"]["clusterIP"] for _ in range(10)
    ]

    assert len(set(given_)) == 10
    assert not {"10.50.0.1", "10.50.0.2", "10.50.0.4", "10.50.0.10"} & set(given_)


def test_what_other_features_write_for_a_tenant_is_in_its_network_too() -> None:
    hook, observed = hooks()["networks-services"], cluster_snapshot(OWN, *RANGES)
    derived = admission_request(
        "Service", labels={**LABELS, OWNER: "services-1"}, spec={}, user=AGENT
    )

    assert applied_change(hook.review(derived, observed))["spec"]["clusterIP"].startswith(
        "10.50.0."
    )


def test_what_a_network_itself_needs_has_an_address_of_the_clusters_range() -> None:
    plain = network("acme.default", status={})
    first = _planned(plain, *RANGES)

    again = _planned(plain, *RANGES, held(first, "acme-kube-system", "kube-dns-default"))
    other = _planned(plain, *RANGES, used(first))

    assert first.startswith("10.96.")
    assert again == first
    assert other.startswith("10.96.")
    assert other != first


def test_without_a_given_range_the_cluster_chooses() -> None:
    assert _planned(network("acme.default", status={})) == ""


def test_the_address_of_a_networks_dns_stays_for_life() -> None:
    moved = network("acme.default", service={"cidrs": ["10.50.0.0/24"]})

    observed, pool = cluster_snapshot(moved, *RANGES), service_ranges(moved)
    assert dns_service_address(moved, pool, observed) == moved.status.dns_service_ip


def _planned(*objects: Object) -> str:
    plan = FEATURE.plan(Key("network", "acme.default"), cluster_snapshot(*objects))
    (found,) = (
        d.object
        for d in plan.desired
        if d.object.metadata.name == "kube-dns-default" and isinstance(d.object, Service)
    )
    return found.spec.cluster_ip


def test_a_range_that_cannot_go_names_the_services_that_have_addresses_in_it() -> None:
    gone = replace(OWN.metadata, deletion_timestamp=OWN.metadata.creation_timestamp)
    status = replace(OWN.status, conditions=(condition("Drained", True, "Unused"),))
    ending = replace(OWN, metadata=gone, status=status)
    plan = FEATURE.plan(
        Key("network", "acme.own"),
        cluster_snapshot(
            ending,
            *RANGES,
            held("10.50.0.3", "plain", "web"),
            used("10.96.0.7"),
            service("web", "plain"),
        ),
    )

    given_address = plan.patches[0].change["status"]["message"]
    assert (
        given_address
        == "removing ServiceCIDR own; delete Service plain/web, whose addresses are in it"
    )


def test_an_exhausted_pool_refuses_and_names_the_network() -> None:
    hook = hooks()["networks-services"]
    observed = cluster_snapshot(OWN, *RANGES)
    for _ in range(12):
        applied_change(hook.review(in_network(), observed))

    given_address = denial_message(hook.review(in_network(), observed))

    assert "no IPv4 address of network acme.own is free; delete a Service of it" in given_address


def test_an_ip_family_without_a_range_is_not_reported_as_exhausted() -> None:
    asks = in_network(ipFamilies=["IPv6"], ipFamilyPolicy="SingleStack")

    given_address = denial_message(
        hooks()["networks-services"].review(asks, cluster_snapshot(OWN, *RANGES))
    )

    assert given_address.startswith(
        "spec.ipFamilies: network acme.own has no IPv6 range; leave IPv6 out"
    )


def test_an_address_that_was_promised_and_not_used_comes_back_after_half_a_minute() -> None:
    hook = hooks()["networks-services"]
    for _ in range(12):
        applied_change(hook.review(in_network(), cluster_snapshot(OWN, *RANGES)))

    later = cluster_snapshot(OWN, *RANGES, now=EPOCH + RESERVATION_TTL)

    assert applied_change(hook.review(in_network(), later))["spec"]["clusterIP"]


def test_a_dry_run_promises_nothing() -> None:
    hook, observed = hooks()["networks-services"], cluster_snapshot(OWN, *RANGES)
    trial = admission_request("Service", labels=LABELS, spec={}, dry_run=True)

    tried = [applied_change(hook.review(trial, observed)) for _ in range(30)]

    assert not any("clusterIP" in change.get("spec", {}) for change in tried)
    given_ = {
        applied_change(hook.review(in_network(), observed))["spec"]["clusterIP"] for _ in range(12)
    }
    assert len(given_) == 12


@pytest.mark.parametrize(
    "spec", [{"clusterIP": "None"}, {"type": "ExternalName", "externalName": "example.org"}]
)
def test_headless_services_and_external_names_get_none(spec: dict[str, Any]) -> None:
    change = applied_change(
        hooks()["networks-services"].review(in_network(**spec), cluster_snapshot(OWN, *RANGES))
    )

    assert "spec" not in change


@pytest.mark.parametrize(
    ("address", "given_address"),
    [
        ("10.96.0.7", "spec.clusterIP: 10.96.0.7 is outside of network acme.own (10.50.0.0/28)"),
        ("10.50.0.10", "10.50.0.10 is kept for network acme.own itself"),
        ("seven", "is outside of network acme.own"),
    ],
)
def test_an_address_of_ones_own_choice_must_be_inside(address: str, given_address: str) -> None:
    request = in_network(clusterIP=address)

    assert given_address in denial_message(
        hooks()["networks-services"].review(request, cluster_snapshot(OWN, *RANGES))
    )


def test_an_address_of_ones_own_choice_inside_is_left_to_the_api_server() -> None:
    request = in_network(clusterIP="10.50.0.5")

    change = applied_change(
        hooks()["networks-services"].review(request, cluster_snapshot(OWN, *RANGES))
    )

    assert "spec" not in change


def test_everybody_else_gets_an_address_of_the_clusters_own_range() -> None:
    observed = cluster_snapshot(OWN, network(), *RANGES)
    elsewhere = admission_request("Service", "plain", spec={})
    flat = admission_request("Service", spec={})

    others = applied_change(hooks()["networks-addresses"].review(elsewhere, observed))
    default = applied_change(hooks()["networks-services"].review(flat, observed))

    for change in (others, default):
        assert change["spec"]["clusterIP"].startswith("10.96.")


def test_nobody_else_may_choose_an_address_of_a_network() -> None:
    request = admission_request("Service", "plain", spec={"clusterIP": "10.50.0.5"})

    given_address = denial_message(
        hooks()["networks-addresses"].review(request, cluster_snapshot(OWN, *RANGES))
    )

    assert given_address.startswith("spec.clusterIP: 10.50.0.5 is in a range of network acme.own")


def test_in_a_cluster_without_other_ranges_the_api_server_chooses() -> None:
    observed = cluster_snapshot(network(), cidr("10.96.0.0/16"))

    assert (
        applied_change(
            hooks()["networks-addresses"].review(admission_request("Service", "plain"), observed)
        )
        == {}
    )


def test_a_service_that_becomes_one_with_an_address_gets_it_then() -> None:
    before = {"spec": {"type": "ExternalName"}}
    request = admission_request(
        "Service", labels=LABELS, spec={"type": "ClusterIP"}, before=before, operation="UPDATE"
    )

    change = applied_change(
        hooks()["networks-services"].review(request, cluster_snapshot(OWN, *RANGES))
    )

    assert change["spec"]["clusterIP"].startswith("10.50.0.")


def test_a_provider_is_asked_and_no_answer_means_retry() -> None:
    outside = network("acme.far", "mizar", service={"ipam": "External"})
    hook = hooks()["networks-services"]
    request = admission_request("Service", labels={NETWORK: "far"}, spec={})

    verdict = hook.review(request, cluster_snapshot(outside))
    assert isinstance(verdict, NeedsAnswer)
    yes = Answer(verdict.question.id, {"address": "10.60.0.4"}, "", EPOCH)
    no = Answer(verdict.question.id, None, "timed out", EPOCH)

    assert applied_change(hook.review(request, cluster_snapshot(outside, facts=[yes])))["spec"] == {
        "clusterIP": "10.60.0.4",
        "clusterIPs": ["10.60.0.4"],
    }
    given_address = denial_message(hook.review(request, cluster_snapshot(outside, facts=[no])))
    assert given_address == (
        "provider mizar did not answer for network acme.far (timed out); try again"
    )


def test_replicas_keep_to_residues_of_their_own() -> None:
    mine = hooks()["networks-services"]
    theirs = hooks()["networks-services"]
    wide = network("acme.own", service={"cidrs": ["10.50.0.0/24"]})

    def given_by(hook: Any, number: int) -> set[str]:
        slot = AssignedSlot(HERE, PoolSlot(number, SLOTS))
        observed = cluster_snapshot(wide, *RANGES, facts=[slot])
        return {
            applied_change(hook.review(in_network(), observed))["spec"]["clusterIP"]
            for _ in range(25)
        }

    assert not given_by(mine, 1) & given_by(theirs, 2)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("take"), st.integers(0, 3)),
        st.tuples(st.just("use"), st.integers(0, 20)),
        st.tuples(st.just("free"), st.integers(0, 20)),
        st.tuples(st.just("wait"), st.integers(1, 40)),
    ),
    max_size=60,
)


@given(STEPS, st.sampled_from(["10.0.0.0/29", "10.0.0.0/27", "fd00::/124"]))
@settings(max_examples=200, deadline=None)
def test_no_address_is_ever_promised_while_it_is_promised_or_used(
    steps: list[tuple[str, int]], text: str
) -> None:
    range_ = parse_range(text)
    assert range_ is not None
    pool = Pool((range_,), frozenset())
    now = EPOCH
    reserved: dict[str, Any] = {}
    in_use: list[str] = []
    for what, number in steps:
        live = [a for a, until in reserved.items() if until > now and a not in in_use]
        match what:
            case "take":
                address = pool.take(PoolSlot(number, 4), range_.version, in_use.__contains__, now)
                if address is not None:
                    assert address not in live
                    assert address not in in_use
                    reserved[address] = now + RESERVATION_TTL
            case "use":
                if live:
                    in_use.append(live[number % len(live)])
            case "free":
                if in_use:
                    in_use.pop(number % len(in_use))
            case _:
                now += timedelta(seconds=number)


def test_every_address_of_a_pool_is_given_before_it_is_exhausted_by_whichever_replica() -> None:
    range_ = parse_range("10.0.0.0/28")
    assert range_ is not None
    pool = Pool((range_,), frozenset({"10.0.0.1"}))

    given_ = [pool.take(PoolSlot(5, SLOTS), 4, lambda _: False, EPOCH) for _ in range(13)]

    assert len(set(given_)) == 13
    assert None not in given_
    assert pool.take(PoolSlot(5, SLOTS), 4, lambda _: False, EPOCH) is None


def edges(range_: Range) -> set[str]:
    """What nobody can have: a range's own address and, of IPv4, the one of all its hosts."""
    last = {range_.broadcast_address} if range_.version == 4 else set()
    return {str(address) for address in (range_.network_address, *last)}


@st.composite
def cidrs(draw: st.DrawFn, four: int = 29, six: int = 125) -> Range:
    """A range, small ones more often than not."""
    if draw(st.booleans()):
        prefix = draw(st.sampled_from(range(four, 11, -1)))
        return IPv4Network((draw(st.integers(0x0A000000, 0x0AFFFFFF)), prefix), strict=False)
    prefix = draw(st.sampled_from(range(six, 95, -1)))
    return IPv6Network((0xFD << 120 | draw(st.integers(0, 2**64)), prefix), strict=False)


def keep_apart(ranges: list[Range]) -> bool:
    """Whether no two overlap: others are refused."""
    return not any(overlaps(one, two) for one, two in combinations(ranges, 2))


@given(
    st.lists(cidrs(), min_size=1, max_size=3).filter(keep_apart),
    st.integers(0, SLOTS - 1),
    st.integers(1, 40),
)
@settings(max_examples=40, deadline=None)
def test_no_service_gets_a_ranges_own_address_or_that_of_all_hosts(
    ranges: list[Range], number: int, lowest: int
) -> None:
    pool = Pool(tuple(ranges), frozenset(), lowest)
    kept_free = set[str]().union(*(edges(range_) for range_ in ranges))

    for version in {range_.version for range_ in ranges}:
        slots = [PoolSlot((number + turn) % SLOTS, SLOTS) for turn in range(20)]
        given_address = [pool.take(slot, version, lambda _: False, EPOCH) for slot in slots]
        assert not kept_free & set(given_address)


@given(cidrs(), st.integers(0, SLOTS - 1))
@settings(max_examples=60, deadline=None)
def test_an_address_is_one_of_its_range_as_everybody_else_writes_it(
    range_: Range, number: int
) -> None:
    pool = Pool((range_,), frozenset())

    given_address = [
        pool.take(PoolSlot(number, SLOTS), range_.version, lambda _: False, EPOCH) for _ in "12345"
    ]

    addresses = [ip_address(text) for text in given_address if text is not None]
    assert addresses
    assert [str(address) for address in addresses] == given_address[: len(addresses)]
    assert all(address in range_ for address in addresses)


@given(cidrs())
@settings(max_examples=40, deadline=None)
def test_nor_may_one_choose_it(range_: Range) -> None:
    own = network("acme.own", service={"cidrs": [str(range_)]})

    for address in edges(range_):
        given_address = denial_message(
            hooks()["networks-services"].review(
                in_network(clusterIP=address), cluster_snapshot(own, *RANGES)
            )
        )
        assert f"spec.clusterIP: {address} is kept for network acme.own itself" in given_address


@given(cidrs(four=30, six=126), st.uuids())
@settings(max_examples=40, deadline=None)
def test_no_pod_gets_a_subnets_edges_or_its_gateway_and_none_may_ask_for_them(
    range_: Range, uid: UUID
) -> None:
    subnet = [{"name": "front", "cidr": str(range_)}]
    lab = network("acme.lab", "vpc", vpcID="v", subnets=subnet)
    never = edges(range_) | {str(range_[1])}
    plain = pod("web", **{NETWORK: "lab"})
    plain = replace(plain, metadata=replace(plain.metadata, uid=str(uid)))

    plan = FEATURE.plan(Key("port", "web", "acme-web"), cluster_snapshot(lab, plain))

    given_ = [d.object.spec.address for d in plan.desired if isinstance(d.object, NetworkPort)]
    assert given_
    assert not never & set(given_)
    for type_ in ("vpc", "kube-ovn"):
        of_type = network("acme.lab", type_, vpcID="v", subnets=subnet)
        for address in never:
            notes = {NIC: msgspec.json.encode({"ip": address}).decode()}
            asking = admission_request("Pod", labels={NETWORK: "lab"}, annotations=notes, spec={})
            given_address = denial_message(
                hooks()["networks-pods"].review(asking, cluster_snapshot(of_type))
            )
            assert f"ip {address} is the " in given_address
            assert given_address.endswith("choose another")
