"""Unusual and malformed packets: the response of the RFCs, or none."""

import dns.edns
import dns.flags
import dns.message
import dns.opcode
import dns.rcode
import pytest

from hanse.dns.responder import respond
from tests.dns.builders import WEB, ZoneResolver, cluster_snapshot, endpoint_slice, imported

QUERY = dns.message.make_query(WEB, "A", id=0x1234).to_wire()
QUESTION = QUERY[12:]
OPT = b"\0\0\x29\x04\xd0\0\0\0\0\0\0"
FORMERR, NOTIMP, REFUSED = dns.rcode.FORMERR, dns.rcode.NOTIMP, dns.rcode.REFUSED


def answer_to(packet: bytes) -> bytes | None:
    table = ZoneResolver(
        cluster_snapshot("lubeck", imported(), endpoint_slice("bergen", "10.2.0.1"))
    ).table
    return respond(packet, table, stream=False)


def header(flags: int = 0x0100, *counts: int) -> bytes:
    numbers = (*counts, 1, 0, 0, 0)[:4] if counts else (1, 0, 0, 0)
    return b"\x12\x34" + flags.to_bytes(2) + b"".join(n.to_bytes(2) for n in numbers)


@pytest.mark.parametrize(
    "packet",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"\0", id="one byte"),
        pytest.param(QUERY[:11], id="less than a header"),
        pytest.param(header(0x8180) + QUESTION, id="an answer"),
        pytest.param(b"\xff" * 12, id="only ones"),
    ],
)
def test_what_is_no_question_is_met_with_silence(packet: bytes) -> None:
    assert answer_to(packet) is None


@pytest.mark.parametrize(
    ("packet", "rcode"),
    [
        pytest.param(header(), FORMERR, id="a header alone"),
        pytest.param(header(0x0100, 0), FORMERR, id="no question"),
        pytest.param(header(0x0100, 2) + QUESTION * 2, FORMERR, id="two questions"),
        pytest.param(header() + QUESTION[:-1], FORMERR, id="cut in the class"),
        pytest.param(header() + QUESTION[:9], FORMERR, id="cut in the name"),
        pytest.param(header() + b"\x40abc\0\0\1\0\1", FORMERR, id="reserved label type"),
        pytest.param(header() + b"\xc0\x0c\0\1\0\1", FORMERR, id="a name that points to itself"),
        pytest.param(header() + b"\1a\xc0\x0c\0\1\0\1", FORMERR, id="a loop of pointers"),
        pytest.param(
            header()
            + b"\x3f"
            + b"a" * 63
            + b"\x3f"
            + b"b" * 63
            + b"\x3f"
            + b"c" * 63
            + b"\x3f"
            + b"d" * 63
            + b"\0\0\1\0\1",
            FORMERR,
            id="a name of more than 255 bytes",
        ),
        pytest.param(header(0x0100, 1, 0, 0, 1) + QUESTION, FORMERR, id="an absent record"),
        pytest.param(header(0x0100, 1, 0, 0, 1) + QUESTION + OPT[:-1], FORMERR, id="a cut OPT"),
        pytest.param(header(0x0100, 1, 0, 0, 2) + QUESTION + OPT * 2, FORMERR, id="two OPTs"),
        pytest.param(header(0x0100, 1, 1, 0, 0) + QUESTION + OPT, FORMERR, id="OPT as an answer"),
        pytest.param(
            header(0x0100, 1, 0, 0, 1) + QUESTION + b"\1a" + OPT, FORMERR, id="OPT with an owner"
        ),
        pytest.param(
            header(0x0100, 1, 0, 0, 1) + QUESTION + OPT[:-2] + b"\0\5\0\x0a\0\x08\1",
            FORMERR,
            id="an option longer than its record",
        ),
        pytest.param(header() + QUESTION[:-4] + b"\0\x29\0\1", FORMERR, id="OPT as a type"),
        pytest.param(header(0x2800) + QUESTION, NOTIMP, id="UPDATE"),
        pytest.param(header(0x2000) + QUESTION, NOTIMP, id="NOTIFY"),
        pytest.param(header(0x1000) + QUESTION, NOTIMP, id="STATUS"),
        pytest.param(header() + QUESTION[:-4] + b"\0\xff\0\1", REFUSED, id="ANY"),
        pytest.param(header() + QUESTION[:-4] + b"\0\xfc\0\1", REFUSED, id="AXFR"),
        pytest.param(header() + QUESTION[:-4] + b"\0\xfb\0\1", REFUSED, id="IXFR"),
        pytest.param(header() + QUESTION[:-4] + b"\0\1\0\3", REFUSED, id="class CH"),
        pytest.param(header() + QUESTION[:-4] + b"\0\1\0\xff", REFUSED, id="class ANY"),
    ],
)
def test_bad_questions_are_answered_with_the_right_code(packet: bytes, rcode: int) -> None:
    answer = answer_to(packet)

    assert answer is not None
    message = dns.message.from_wire(answer)
    assert (message.id, message.rcode()) == (0x1234, rcode)
    assert message.flags & dns.flags.QR
    assert not message.flags & dns.flags.AA
    assert len(answer) <= len(packet) + 12, "nobody is amplified"


def test_garbage_after_a_question_does_not_change_its_answer() -> None:
    answer = answer_to(QUERY + b"garbage")

    assert answer is not None
    assert dns.message.from_wire(answer).answer


def test_an_answer_is_authoritative_and_offers_no_recursion() -> None:
    answer = answer_to(QUERY)

    assert answer is not None
    flags = dns.message.from_wire(answer).flags
    assert flags & dns.flags.AA
    assert flags & dns.flags.RD, "as it was asked"
    assert not flags & (dns.flags.RA | dns.flags.AD | dns.flags.TC)


def test_edns_is_answered_with_edns_and_unknown_options_are_ignored() -> None:
    options: list[dns.edns.Option] = [
        dns.edns.GenericOption(dns.edns.OptionType.COOKIE, b"12345678"),
        dns.edns.GenericOption(dns.edns.OptionType.make(65001), b"?"),
    ]
    query = dns.message.make_query(WEB, "A", use_edns=0, payload=4096, options=options)

    answer = answer_to(query.to_wire())

    assert answer is not None
    message = dns.message.from_wire(answer)
    assert (message.edns, message.payload, message.options) == (0, 1232, ())
    assert message.answer


def test_the_dnssec_ok_flag_is_repeated() -> None:
    answer = answer_to(dns.message.make_query(WEB, "A", want_dnssec=True).to_wire())

    assert answer is not None
    assert dns.message.from_wire(answer).ednsflags & dns.flags.DO


def test_another_version_of_edns_is_refused_by_name() -> None:
    answer = answer_to(dns.message.make_query(WEB, "A", use_edns=1).to_wire())

    assert answer is not None
    message = dns.message.from_wire(answer)
    assert (message.rcode(), message.edns, message.answer) == (dns.rcode.BADVERS, 0, [])


def test_a_question_without_edns_gets_none() -> None:
    answer = answer_to(QUERY)

    assert answer is not None
    assert dns.message.from_wire(answer).edns == -1
