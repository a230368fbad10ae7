"""The merge of member Services, in any order."""

from collections.abc import Sequence
from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from hanse.features.federated.merge import merge_members
from hanse.features.federated.records import MemberPort, Origin
from hanse.model.kinds.core import Protocol
from hanse.model.naming import is_label
from tinykube.virtual_time import EPOCH


def origin(cluster: str, *ports: MemberPort, age: float = 1, name: str = "web") -> Origin:
    since = EPOCH - timedelta(seconds=age)
    return Origin(cluster, "Service", "shop", name, since, ports)


def port(number: int, name: str = "", protocol: Protocol = "TCP") -> MemberPort:
    return MemberPort(port=number, name=name, protocol=protocol)


def port_tuples(merged_ports: Sequence[object]) -> list[tuple[str, int, str]]:
    return [(p.name, p.port, p.protocol) for p in merged_ports]  # type: ignore[attr-defined]  # ServicePort


def test_ports_are_the_union_and_the_oldest_member_names_them() -> None:
    old = origin("lubeck", port(80, "http"), age=9)
    young = origin("bergen", port(80, "web"), port(443, "tls"), age=1)

    merged = merge_members([young, old])

    assert port_tuples(merged.ports) == [("http", 80, "TCP"), ("tls", 443, "TCP")]
    assert [m.cluster for m in merged.members] == ["lubeck", "bergen"]


def test_members_of_one_age_count_by_their_cluster() -> None:
    merged = merge_members([origin("lubeck", port(80, "a")), origin("bergen", port(80, "b"))])

    assert port_tuples(merged.ports) == [("b", 80, "TCP")]


def test_one_name_for_two_ports_becomes_two_names() -> None:
    old = origin("lubeck", port(80, "http"), age=9)
    young = origin("bergen", port(8080, "http"), age=1)

    assert port_tuples(merge_members([old, young]).ports) == [
        ("http", 80, "TCP"),
        ("http-tcp-8080", 8080, "TCP"),
    ]


def test_a_single_port_may_have_no_name_and_several_may_not() -> None:
    assert port_tuples(merge_members([origin("lubeck", port(80))]).ports) == [("", 80, "TCP")]
    both = merge_members([origin("lubeck", port(80), age=2), origin("bergen", port(53, "", "UDP"))])
    assert port_tuples(both.ports) == [("udp-53", 53, "UDP"), ("tcp-80", 80, "TCP")]


def test_an_invalid_port_name_is_replaced() -> None:
    assert port_tuples(merge_members([origin("lubeck", port(5432, "SQL_Port!"))]).ports) == [
        ("", 5432, "TCP")
    ]
    good = origin("bergen", port(80, "http"), age=9)
    bad = origin("lubeck", port(5432, "SQL_Port!"), port(5433, "\u00fc" * 63))
    assert port_tuples(merge_members([good, bad]).ports) == [
        ("http", 80, "TCP"),
        ("tcp-5432", 5432, "TCP"),
        ("tcp-5433", 5433, "TCP"),
    ]


def test_whoever_joins_later_with_another_protocol_is_left_out() -> None:
    old = origin("lubeck", port(53, "dns", "UDP"), age=9)
    young = origin("bergen", port(53, "dns", "TCP"), age=1)

    merged = merge_members([young, old])

    assert port_tuples(merged.ports) == [("dns", 53, "UDP")]
    assert [m.cluster for m in merged.members] == ["lubeck"]
    [reason] = merged.left_out.values()
    assert reason.startswith("port 53 is TCP here and UDP in Service shop/web of lubeck")


def test_one_protocol_in_common_is_enough() -> None:
    both = origin("lubeck", port(53, "dns", "UDP"), port(53, "dns-tcp", "TCP"), age=9)
    one = origin("bergen", port(53, "dns", "TCP"), age=1)

    merged = merge_members([one, both])

    assert merged.left_out == {}
    assert port_tuples(merged.ports) == [("dns-tcp", 53, "TCP"), ("dns", 53, "UDP")]


protocols: st.SearchStrategy[Protocol] = st.sampled_from(("TCP", "UDP", "SCTP"))
names = st.sampled_from(("", "a", "http", "tcp-80", "http-tcp-81", "p-tcp-80", "x" * 63, "Bad!"))
ports = st.builds(port, st.integers(79, 82), names, protocols)
origins = st.builds(
    lambda cluster, age, several, name: origin(cluster, *several, age=age, name=name),
    st.sampled_from(("lubeck", "hamburg", "bergen")),
    st.integers(0, 3),
    st.lists(ports, max_size=4, unique_by=lambda p: (p.port, p.protocol)),
    st.sampled_from(("web", "shop")),
)
members = st.lists(origins, max_size=4, unique_by=lambda o: o.identity)


@settings(max_examples=60)
@given(members, st.randoms(use_true_random=False))
def test_the_order_of_members_is_irrelevant(several: list[Origin], random: object) -> None:
    shuffled = list(several)
    random.shuffle(shuffled)  # type: ignore[attr-defined]  # a Random of hypothesis

    assert merge_members(shuffled) == merge_members(several)


@settings(max_examples=60)
@given(members)
def test_ports_have_unique_names_and_numbers(several: list[Origin]) -> None:
    merged = merge_members(several)

    found = [p.name for p in merged.ports]
    assert len(set(found)) == len(found)
    assert all(not name or is_label(name) for name in found)
    assert len({(p.protocol, p.port) for p in merged.ports}) == len(found)
    assert len(found) <= 1 or all(found)


@settings(max_examples=60)
@given(members)
def test_every_member_is_part_of_it_or_left_out_with_a_reason(several: list[Origin]) -> None:
    merged = merge_members(several)

    assert {m.identity for m in merged.members} | set(merged.left_out) == {
        o.identity for o in several
    }
    assert not {m.identity for m in merged.members} & set(merged.left_out)
    served = {(p.protocol, p.port) for p in merged.ports}
    assert served == {(p.protocol, p.port) for m in merged.members for p in m.ports}


@settings(max_examples=60)
@given(members)
def test_who_left_out_is_leaves_no_trace(several: list[Origin]) -> None:
    merged = merge_members(several)

    assert merge_members(merged.members).ports == merged.ports
