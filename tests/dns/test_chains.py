"""Responses of upstream servers about a CNAME's target become responses about the CNAME."""

from random import Random

import dns.flags
import dns.message
import dns.name
import dns.rcode
import dns.rrset
from hypothesis import given, settings
from hypothesis import strategies as st

from hanse.dns.forwarding import forwarded_question
from hanse.dns.messages import Delta
from hanse.dns.table import Table
from hanse.model.dns.names import wire_name
from hanse.model.dns.records import ZoneNode, cname_rrsets

ASKED, TARGET = "Far.Shop.svc.cluster.local.", "www.example.org."

labels = st.text("abcxyz-09", min_size=1, max_size=20)
names = st.lists(labels, min_size=1, max_size=4).map(lambda several: ".".join([*several, "org."]))
records = st.one_of(
    st.tuples(st.just("A"), st.ip_addresses(v=4).map(str)),
    st.tuples(st.just("AAAA"), st.ip_addresses(v=6).map(str)),
    st.tuples(st.just("CNAME"), names),
    st.tuples(st.just("MX"), names.map(lambda name: f"10 {name}")),
    st.tuples(st.just("SRV"), names.map(lambda name: f"0 5 80 {name}")),
    st.tuples(st.just("TXT"), labels.map(lambda text: f'"{text}"')),
)


def table() -> Table:
    known = Table("test", Random(1))
    node = ZoneNode(wire_name(ASKED), cname_rrsets(wire_name(TARGET)))
    apex = wire_name("cluster.local")
    known.apply(
        Delta("test", 1, zones=(apex,), synced=True, replace_all=True, nodes=(node,), removed=())
    )
    return known


def lines(message: dns.message.Message) -> list[str]:
    return [line for rrset in message.answer for line in rrset.to_text().splitlines()]


def answered(query: dns.message.Message, *records: tuple[str, str, str]) -> dns.message.Message:
    answer = dns.message.make_response(query)
    for owner, rtype, rdata in records:
        answer.answer.append(dns.rrset.from_text(owner, 60, "IN", rtype, rdata))
    return answer


@given(
    st.lists(st.tuples(st.just(TARGET) | names, records), max_size=12), st.booleans(), st.booleans()
)
@settings(max_examples=150, deadline=None)
def test_an_answer_is_the_alias_followed_by_the_upstream_records(
    records: list[tuple[str, tuple[str, str]]], edns: bool, known: bool
) -> None:
    query = dns.message.make_query(ASKED, "A", use_edns=0 if edns else None)
    onward = forwarded_question(query.to_wire(), table())
    assert onward is not None
    asked = dns.message.from_wire(onward.query)
    assert str(asked.question[0].name) == TARGET
    answer = answered(asked, *((owner, *record) for owner, record in records))
    if not known:
        answer.set_rcode(dns.rcode.NXDOMAIN)

    back = onward.client_response(answer.to_wire(), 65535)

    assert back is not None
    message = dns.message.from_wire(back, one_rr_per_rrset=True)
    assert query.is_response(message)
    assert str(message.question[0].name) == ASKED
    assert message.rcode() == answer.rcode()
    target_name = dns.message.from_wire(answer.to_wire(), one_rr_per_rrset=True)
    assert [line.lower() for line in lines(message)] == [
        f"{ASKED} 5 IN CNAME {TARGET}".lower(),
        *(line.lower() for line in lines(target_name)),
    ]


@given(st.binary(max_size=80))
@settings(max_examples=300, deadline=None)
def test_what_is_no_answer_is_not_handed_on_as_one(garbage: bytes) -> None:
    onward = forwarded_question(dns.message.make_query(ASKED, "A").to_wire(), table())
    assert onward is not None
    header = dns.message.make_response(dns.message.from_wire(onward.query)).to_wire()

    counted = header[:6] + b"\0\2" + header[8:] + garbage
    back = onward.client_response(counted, 65535)

    assert back is None or back[:2] == onward.packet[:2]


def test_what_is_too_long_for_a_datagram_is_cut_and_says_so() -> None:
    onward = forwarded_question(dns.message.make_query(ASKED, "A").to_wire(), table())
    assert onward is not None
    asked = dns.message.from_wire(onward.query)
    many = [(TARGET, "A", f"192.0.2.{n}") for n in range(40)]
    long = answered(asked, *many).to_wire(max_size=65535)
    cut = answered(asked)
    cut.flags |= dns.flags.TC

    for records in (long, cut.to_wire()):
        back = onward.client_response(records, 512)
        assert back is not None
        assert len(back) <= 512
        assert dns.message.from_wire(back).flags & dns.flags.TC
