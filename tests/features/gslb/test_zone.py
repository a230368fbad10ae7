"""Global host names: weights, priorities, algorithms, and answers while all members are down."""

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from random import Random
from typing import Any, get_args

import dns.edns
import dns.flags
import dns.message
import dns.rcode
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from hanse.dns.compiler import Compiler
from hanse.dns.responder import respond
from hanse.dns.selection import rendezvous_choice
from hanse.dns.table import Table
from hanse.features.gslb.external_dns import build_dns_endpoint
from hanse.features.gslb.feature import Gslb
from hanse.features.gslb.health import UNTRIED, probe_target
from hanse.features.gslb.leader_lease import leader_word
from hanse.features.gslb.names import LEADER_LEASE, LED_BY, WITHDRAWN
from hanse.features.gslb.options import GslbOptions
from hanse.features.gslb.zone import GlobalZone
from hanse.model.dns.zones import View
from hanse.model.facts import LeaseFreshness, Role
from hanse.model.kinds.coordination import Lease, LeaseMeta, LeaseSpec
from hanse.model.kinds.globalservice import (
    GlobalMember,
    GlobalService,
    GlobalServiceSpec,
    GlobalServiceStatus,
    MemberHealth,
    Monitor,
)
from hanse.model.kinds.gslb import NAMESPACE, WhenDown
from hanse.model.objects import Meta
from hanse.model.probes import ProbeTarget, TargetHealth
from hanse.model.snapshot import ObjectChange, Snapshot
from tests.support.builders import cluster, snapshot, stored
from tests.support.zones import compiled
from tinykube.virtual_time import EPOCH

HOST = "shop.global.test"
RESOLVER = "192.0.2.53"
VIEW = View(
    "all",
    global_zones=("global.test",),
    regions=(
        ("198.51.100.0/24", "bergen"),
        ("198.51.0.0/16", "lubeck"),
        ("2001:db8::/32", "bergen"),
    ),
    resolvers=("192.0.2.0/24",),
)


def member(
    name: str, address: str, weight: int = 1, priority: int = 10, **more: Any
) -> GlobalMember:
    return GlobalMember(cluster=name, address=address, weight=weight, priority=priority, **more)


def observed_host(
    *members: GlobalMember,
    facts: Sequence[TargetHealth] = (),
    health: Sequence[MemberHealth] | None = None,
    **settings: Any,
) -> Snapshot:
    """A cluster that knows one host, whose members are all up unless it is said."""
    spec = GlobalServiceSpec(host=HOST, members=members, **settings)
    up = tuple(MemberHealth(cluster=m.cluster, address=m.address, up=True) for m in members)
    service = GlobalService(
        metadata=Meta(name=HOST, namespace=NAMESPACE),
        spec=spec,
        status=GlobalServiceStatus(members=up if health is None else tuple(health)),
    )
    return snapshot(
        Gslb(), "lubeck", [cluster("lubeck", Role.LOCAL)], {"lubeck": [stored(service)]}, facts
    )


def table_of(*members: GlobalMember, **how: Any) -> Table:
    """A worker's table that knows one host, as `observed_host` has it."""
    table = Table("all", Random(1))
    table.apply(compiled(VIEW, [GlobalZone(VIEW)], observed_host(*members, **how)))
    return table


def ask(
    table: Table, client: str = "203.0.113.1", subnet: str = "", rtype: str = "A"
) -> dns.message.Message | None:
    options = [dns.edns.ECSOption.from_text(subnet)] if subnet else None
    query = dns.message.make_query(HOST, rtype, use_edns=bool(subnet) or None, options=options)
    packet = respond(query.to_wire(), table, stream=False, client=client)
    return dns.message.from_wire(packet) if packet is not None else None


def answer_addresses(table: Table, *args: Any, **how: Any) -> list[str]:
    answer = ask(table, *args, **how)
    assert answer is not None
    return [rdata.address for rrset in answer.answer for rdata in rrset]


def test_weights_are_met_and_turns_are_spread() -> None:
    table = table_of(member("lubeck", "10.0.0.1", 3), member("bergen", "10.0.0.2", 1))

    answers = [answer_addresses(table)[0] for _ in range(400)]

    assert Counter(answers) == {"10.0.0.1": 300, "10.0.0.2": 100}
    assert all("10.0.0.2" in answers[n : n + 4] for n in range(0, 400, 4))


def test_the_highest_priority_that_is_up_answers_alone() -> None:
    high = member("lubeck", "10.0.0.1", priority=20)
    low = member("bergen", "10.0.0.2", priority=10)

    assert {*answer_addresses(table_of(low, high)), *answer_addresses(table_of(low, high))} == {
        "10.0.0.1"
    }


def test_the_next_priority_answers_when_all_above_it_are_down() -> None:
    watched = (Monitor(type="TCP", port=80),)
    high = member("lubeck", "10.0.0.1", priority=20, monitors=watched)
    low = member("bergen", "10.0.0.2", priority=10, monitors=watched)
    down = TargetHealth(ProbeTarget("TCP", "10.0.0.1", 80), False, EPOCH, "refused")

    assert answer_addresses(table_of(high, low, facts=[down])) == ["10.0.0.2"]


def test_a_cluster_that_probes_nothing_uses_the_leaders_health() -> None:
    watched = (Monitor(type="TCP", port=80),)
    members = (
        member("lubeck", "10.0.0.1", priority=20, monitors=watched),
        member("bergen", "10.0.0.2", monitors=watched),
    )

    def answered(*up: bool) -> list[str]:
        health = tuple(
            MemberHealth(cluster=m.cluster, address=m.address, up=is_up)
            for m, is_up in zip(members, up, strict=False)
        )
        return answer_addresses(table_of(*members, health=health))

    assert answered(True, True) == ["10.0.0.1"]
    assert answered(False, True) == ["10.0.0.2"]
    assert answered(False, False) == []
    assert answered(True) == ["10.0.0.1"]
    assert answered(False) == ["10.0.0.2"], "of whom nothing is known may be up"


def test_endpoints_that_their_cluster_reports_unready_are_not_answered() -> None:
    assert answer_addresses(
        table_of(member("lubeck", "10.0.0.1", ready=False), member("bergen", "10.0.0.2"))
    ) == ["10.0.0.2"]


def test_clients_get_the_public_address() -> None:
    assert answer_addresses(table_of(member("lubeck", "10.0.0.1", public_ip="192.0.2.1"))) == [
        "192.0.2.1"
    ]


def test_the_ttl_of_an_answer_is_as_configured() -> None:
    answer = ask(table_of(member("lubeck", "10.0.0.1"), ttl=77))

    assert answer is not None
    assert answer.answer[0].ttl == 77


def test_each_family_has_members_of_its_own() -> None:
    table = table_of(member("lubeck", "10.0.0.1"), member("bergen", "fd00::1"))

    assert answer_addresses(table) == ["10.0.0.1"]
    assert answer_addresses(table, rtype="AAAA") == ["fd00::1"]


# -- a consistent hash

HASHED: dict[str, Any] = {"algorithm": "GSLB_ALGORITHM_CONSISTENT_HASH", "hash_mask": 24}
FOUR = [member(f"c{n}", f"10.0.0.{n}") for n in range(1, 5)]
CLIENTS = [str(ip_address(0x0A000000 + n * 256)) for n in range(400)]


def test_clients_of_one_network_always_get_the_same_member() -> None:
    table = table_of(*FOUR, **HASHED)

    assert len({answer_addresses(table, f"203.0.113.{n}")[0] for n in range(50)}) == 1
    assert len({answer_addresses(table, client)[0] for client in CLIENTS}) == 4


def test_a_member_that_goes_moves_its_own_clients_alone() -> None:
    before, after = table_of(*FOUR, **HASHED), table_of(*FOUR[:-1], **HASHED)

    for client in CLIENTS:
        (was,), (now,) = answer_addresses(before, client), answer_addresses(after, client)
        assert was in (now, "10.0.0.4")


@given(st.lists(st.integers(1, 20), min_size=2, max_size=6), st.integers(0, 2**32))
@settings(deadline=None)
def test_one_who_leaves_a_hash_moves_nobody_else(weights: list[int], key: int) -> None:
    names = [bytes((n,)) for n in range(len(weights))]
    chosen = rendezvous_choice(str(key).encode(), names, weights)

    again = rendezvous_choice(str(key).encode(), names[:-1], weights[:-1])

    assert chosen in (again, len(weights) - 1)


def test_a_heavier_member_gets_more_networks() -> None:
    table = table_of(member("a", "10.0.0.1", 3), member("b", "10.0.0.2", 1), **HASHED)

    shares = Counter(answer_addresses(table, client)[0] for client in CLIENTS)

    assert 0.65 < shares["10.0.0.1"] / len(CLIENTS) < 0.85


# -- near to the client

GEO: dict[str, Any] = {"algorithm": "GSLB_ALGORITHM_GEO"}
PLACES = (member("lubeck", "10.0.0.1"), member("bergen", "10.0.0.2"))


@pytest.mark.parametrize(
    ("subnet", "address"), [("198.51.100.0/24", "10.0.0.2"), ("198.51.7.0/24", "10.0.0.1")]
)
def test_a_listed_resolver_names_its_client_and_the_narrowest_range_counts(
    subnet: str, address: str
) -> None:
    table = table_of(*PLACES, **GEO)

    assert {answer_addresses(table, RESOLVER, subnet)[0] for _ in range(4)} == {address}


def test_client_subnets_of_other_resolvers_are_ignored() -> None:
    table = table_of(*PLACES, **GEO)

    assert {answer_addresses(table, "203.0.113.1", "198.51.100.0/24")[0] for _ in range(4)} == {
        "10.0.0.1",
        "10.0.0.2",
    }


def test_a_client_that_asks_itself_is_judged_by_its_own_address() -> None:
    assert {answer_addresses(table_of(*PLACES, **GEO), "198.51.100.9")[0] for _ in range(4)} == {
        "10.0.0.2"
    }


def test_the_answer_carries_the_scope_of_the_client_subnet() -> None:
    answer = ask(table_of(*PLACES, **GEO), RESOLVER, "198.51.100.0/24")

    assert answer is not None
    (option,) = answer.options
    assert isinstance(option, dns.edns.ECSOption)
    assert (option.address, option.srclen, option.scopelen) == ("198.51.100.0", 24, 24)


def test_clients_of_unknown_location_get_the_configured_fallback() -> None:
    spread = table_of(*PLACES, **GEO)
    hashed = table_of(*PLACES, **GEO, fallback="GSLB_ALGORITHM_CONSISTENT_HASH", hash_mask=24)

    assert len({answer_addresses(spread, "203.0.113.1")[0] for _ in range(4)}) == 2
    assert len({answer_addresses(hashed, "203.0.113.1")[0] for _ in range(4)}) == 1


def test_where_the_near_one_is_down_others_answer() -> None:
    table = table_of(PLACES[0], member("bergen", "10.0.0.2", ready=False), **GEO)

    assert answer_addresses(table, RESOLVER, "198.51.100.0/24") == ["10.0.0.1"]


# -- when all are down

NOON, HOUR = datetime(2026, 1, 1, 12, tzinfo=UTC), timedelta(hours=1)
DOWN = (member("lubeck", "10.0.0.1", ready=False), member("bergen", "10.0.0.2", ready=False))


def test_without_a_configured_response_those_that_were_up_last_are_answered() -> None:
    health = [
        MemberHealth(cluster="lubeck", address="10.0.0.1", since=NOON, was_up=True),
        MemberHealth(cluster="bergen", address="10.0.0.2", since=NOON + HOUR, was_up=True),
    ]

    assert answer_addresses(table_of(*DOWN, health=health)) == ["10.0.0.2"]


def test_without_a_configured_response_a_host_that_was_never_up_has_no_records() -> None:
    never = [MemberHealth(cluster=m.cluster, address=m.address) for m in DOWN]
    answer = ask(table_of(*DOWN, health=never))

    assert answer is not None
    assert (answer.rcode(), answer.answer) == (dns.rcode.NOERROR, [])


WATCHED = (Monitor(type="TCP", port=80),)


@pytest.mark.parametrize(
    ("ready", "fact", "recorded", "when_down", "answered"),
    [
        pytest.param(True, None, None, None, True, id="new"),
        pytest.param(True, None, UNTRIED, None, True, id="untried by the leader, too"),
        pytest.param(False, None, None, None, False, id="unready"),
        pytest.param(True, False, None, None, False, id="failed here"),
        pytest.param(True, None, "refused", None, False, id="failed at the leader"),
        pytest.param(
            True, None, None, "GSLB_SERVICE_DOWN_RESPONSE_EMPTY", False, id="a response is set"
        ),
    ],
)
def test_a_host_without_a_member_that_was_ever_up_is_answered_by_those_that_are_untried(
    ready: bool, fact: bool | None, recorded: str | None, when_down: str | None, answered: bool
) -> None:
    only = member("lubeck", "10.0.0.1", ready=ready, monitors=WATCHED)
    target = probe_target(only, WATCHED[0], HOST)
    facts = [] if fact is None else [TargetHealth(target, fact, NOON, "refused")]
    health = MemberHealth(cluster="lubeck", address="10.0.0.1", reason=recorded or "")

    table = table_of(
        only, facts=facts, health=[] if recorded is None else [health], when_down=when_down
    )

    assert answer_addresses(table) == (["10.0.0.1"] if answered else [])


def test_all_records_are_answered_if_configured() -> None:
    settings: dict[str, Any] = {"when_down": "GSLB_SERVICE_DOWN_RESPONSE_ALL_RECORDS"}

    assert sorted(answer_addresses(table_of(*DOWN, **settings))) == ["10.0.0.1", "10.0.0.2"]


def test_the_fallback_address_is_answered_if_configured() -> None:
    settings: dict[str, Any] = {
        "when_down": "GSLB_SERVICE_DOWN_RESPONSE_FALLBACK_IP",
        "fallback_ip": "192.0.2.9",
    }

    assert answer_addresses(table_of(*DOWN, **settings)) == ["192.0.2.9"]


def test_nothing_is_answered_if_configured() -> None:
    assert ask(table_of(*DOWN, when_down="GSLB_SERVICE_DOWN_RESPONSE_NONE")) is None


def test_an_empty_answer_is_given_if_configured() -> None:
    assert answer_addresses(table_of(*DOWN, when_down="GSLB_SERVICE_DOWN_RESPONSE_EMPTY")) == []


@pytest.mark.parametrize("was_up", [True, False], ids=["was up", "never up"])
@pytest.mark.parametrize("when_down", [None, *get_args(WhenDown)])
def test_external_dns_publishes_what_the_name_server_answers_while_all_members_are_down(
    when_down: WhenDown | None, was_up: bool
) -> None:
    last = MemberHealth(cluster="lubeck", address="10.0.0.1", since=NOON, was_up=was_up)
    how: dict[str, Any] = {"when_down": when_down, "fallback_ip": "192.0.2.9", "health": [last]}
    seen = observed_host(*DOWN, **how)
    (service,) = seen.all("lubeck", GlobalService)

    endpoint = build_dns_endpoint(service, leader_word(service, seen), seen, GslbOptions())

    answer = ask(table_of(*DOWN, **how))
    answered = [r.address for rrset in answer.answer for r in rrset] if answer is not None else []
    published = [target for record in endpoint.spec.endpoints for target in record.targets]
    assert sorted(published) == sorted(answered)


def test_an_alias_that_becomes_a_host_is_answered_as_a_host_and_again_as_an_alias() -> None:
    """The name server is told of one GlobalService at a time."""
    alias = "wholesale.global.test"
    shop, buy = (
        GlobalService(
            metadata=Meta(name=host, namespace=NAMESPACE),
            spec=GlobalServiceSpec(host=host, aliases=aliases, members=(member("x", address),)),
            status=GlobalServiceStatus(
                members=(MemberHealth(cluster="x", address=address, up=True),)
            ),
        )
        for host, aliases, address in ((HOST, (alias,), "10.1.0.1"), (alias, (), "10.2.0.1"))
    )
    withdrawn = replace(buy, metadata=replace(buy.metadata, annotations={WITHDRAWN: "true"}))
    compiler = Compiler(VIEW, (GlobalZone(VIEW),))
    found, here = [], [cluster("lubeck", Role.LOCAL)]

    changes = ((None, shop, (shop,)), (None, buy, (shop, buy)), (buy, withdrawn, (shop, withdrawn)))
    for before, after, present in changes:
        objects = {"lubeck": [stored(one) for one in present]}
        observed = snapshot(Gslb(), "lubeck", here, objects)
        compiler.on_change(ObjectChange("lubeck", before, after), observed)
        compiler.compile(observed)
        table = Table("all", Random(1))
        table.apply(compiler.full_delta())
        packet = respond(dns.message.make_query(alias, "A").to_wire(), table, stream=False)
        assert packet is not None
        answer = dns.message.from_wire(packet).answer
        found.append([rdata.address for rrset in answer for rdata in rrset])

    assert found == [["10.1.0.1"], ["10.2.0.1"], ["10.1.0.1"]]


def test_who_serves_by_a_leaders_word_serves_until_the_lease_of_the_next_leader_is_seen() -> None:
    """The status does not have the member yet, and its probes have no result."""
    monitor = Monitor(type="TCP", port=80)
    shop = member("bergen", "10.0.0.2", control_plane_only=True, monitors=(monitor,))
    first, second = (
        GlobalService(
            metadata=Meta(name=HOST, namespace=NAMESPACE, annotations={LED_BY: term}),
            spec=GlobalServiceSpec(host=HOST, members=(member("lubeck", "10.0.0.1"), shop)),
        )
        for term in ("1/lubeck", "2/hamburg")
    )
    lease = Lease(
        metadata=LeaseMeta(
            name=LEADER_LEASE, namespace=NAMESPACE, annotations={LED_BY: "1/lubeck"}
        ),
        spec=LeaseSpec(holder_identity="lubeck"),
    )
    failed = TargetHealth(probe_target(shop, monitor, HOST), up=False, since=EPOCH)
    fresh = LeaseFreshness("lubeck", NAMESPACE, LEADER_LEASE, fresh=True)
    zone, found = GlobalZone(VIEW), []

    for service, facts in ((first, [fresh]), (second, [fresh]), (second, [fresh, failed])):
        objects = {"lubeck": [stored(service), stored(lease)]}
        observed = snapshot(Gslb(), "lubeck", [cluster("lubeck", Role.LOCAL)], objects, facts)
        zone.known.update([service])
        table = Table("all", Random(1))
        table.apply(compiled(VIEW, [zone], observed))
        found.append({address for _ in range(4) for address in answer_addresses(table)})

    assert found == [{"10.0.0.1", "10.0.0.2"}, {"10.0.0.1", "10.0.0.2"}, {"10.0.0.1"}]
