"""Names that stand for others, followed as far as a table knows and spliced with others' answers.

Clients in pods do not follow an alias themselves: what is answered must lead to an address.
"""

from msgspec import Struct

from hanse.dns.questions import HEADER, MalformedMessage, Question, Rcode, reply, with_edns
from hanse.dns.table import Table
from hanse.model.dns.names import MAX_NAME_LENGTH, ROOT
from hanse.model.dns.records import RecordType, parse_records

MOST_LINKS = 8
_OF_ITSELF = {
    0,
    RecordType.CNAME,
    RecordType.OPT,
    RecordType.IXFR,
    RecordType.AXFR,
    253,
    254,
    RecordType.ANY,
}
"""Types of which an alias is asked for itself."""
_TRUNCATED = 0x02
_HELD = {RecordType.NS: 0, RecordType.CNAME: 0, 12: 0, 15: 2, RecordType.SRV: 6}
"""How many bytes stand before the name that is the rest of a record's content."""


class Chain(Struct, frozen=True):
    """The aliases from the name that was asked for to one that is none, as far as we know."""

    count: int
    body: bytes
    target: bytes
    """Where it ends; another alias where it goes round in a circle."""


def follow_aliases(question: Question, table: Table) -> Chain | None:
    """Where a question leads that is about an alias; None where it is about a name itself."""
    name = question.name
    if name not in table.aliases or question.type in _OF_ITSELF:
        return None
    count, body, owner = 0, b"", b"\xc0\x0c"
    while count < MOST_LINKS and name in table.aliases:
        ttl, name_after = table.aliases[name]
        body += _record(owner, RecordType.CNAME, ttl, name_after)
        count, name, owner = count + 1, name_after, name_after
    return Chain(count, body, name)


def resolve_chain(chain: Chain, rtype: bytes, table: Table) -> tuple[int, int, bytes]:
    """The code, number and records of a chain whose end a table has to know."""
    entry = table.answers.get(chain.target + rtype)
    if entry is None:
        known = chain.target in table.names or chain.target in table.aliases
        return (Rcode.NOERROR if known else Rcode.NXDOMAIN), chain.count, chain.body
    headers, body, _, rotation, _ = entry
    if rotation is not None:
        headers, body = next(rotation)
    if not int.from_bytes(headers[0][4:6]):
        return Rcode.NOERROR, chain.count, chain.body
    more = [_record(chain.target, r.type, r.ttl, r.rdata) for r in parse_records(body)]
    return Rcode.NOERROR, chain.count + len(more), chain.body + b"".join(more)


def retarget_question(packet: bytes, question: Question, chain: Chain) -> bytes:
    """The same question about the end of a chain."""
    return packet[:HEADER] + chain.target + packet[HEADER + len(question.name) :]


def splice_response(
    packet: bytes, question: Question, chain: Chain, answer: bytes, most: int
) -> bytes | None:
    """Another server's answer about the end of a chain as one to the question that led there.

    None where it cannot be read. What is longer than `most` is cut: the client comes by TCP.
    """
    try:
        records = _answers_in(answer)
    except (MalformedMessage, IndexError):
        return None
    rcode = answer[3] & 0xF
    body = chain.body + b"".join(records)
    whole = _replied(packet, question, rcode, chain.count + len(records), body)
    if len(whole) <= most and not answer[2] & _TRUNCATED:
        return whole
    empty = _replied(packet, question, rcode, 0, b"")
    return empty[:2] + bytes((empty[2] | _TRUNCATED,)) + empty[3:]


def servfail_response(packet: bytes) -> bytes:
    """What a client hears whose question nobody answered in time."""
    return packet[:2] + bytes((0x80 | packet[2] & 0x79, 0x80 | Rcode.SERVFAIL)) + packet[4:]


def _replied(packet: bytes, question: Question, rcode: int, count: int, body: bytes) -> bytes:
    """Not as one who has authority, but as one who asked for the client."""
    answer = reply(packet, rcode, question.text, count, body)
    answer = answer[:2] + bytes((answer[2] & ~0x04, answer[3] | 0x80)) + answer[4:]
    return answer if question.edns is None else with_edns(answer, question.edns, rcode)


def _record(owner: bytes, rtype: int, ttl: int, rdata: bytes) -> bytes:
    return owner + rtype.to_bytes(2) + b"\0\1" + ttl.to_bytes(4) + len(rdata).to_bytes(2) + rdata


def _answers_in(packet: bytes) -> list[bytes]:
    """The records of a packet's answer, with every name in them written out."""
    at = HEADER
    for _ in range(int.from_bytes(packet[4:6])):
        at = _name_at(packet, at)[1] + 4
    records: list[bytes] = []
    for _ in range(int.from_bytes(packet[6:8])):
        owner, at = _name_at(packet, at)
        front, end = at + 10, at + 10 + int.from_bytes(packet[at + 8 : at + 10])
        if end > len(packet):
            raise MalformedMessage
        rtype, ttl = int.from_bytes(packet[at : at + 2]), int.from_bytes(packet[at + 4 : at + 8])
        rdata = packet[front:end]
        if rtype in _HELD:
            before = _HELD[rtype]
            rdata = rdata[:before] + _name_at(packet, front + before)[0]
        records.append(_record(owner, rtype, ttl, rdata))
        at = end
    return records


def _name_at(packet: bytes, at: int) -> tuple[bytes, int]:
    """The name at a place and what follows it; pointers lead backwards only, so they end."""
    name, end, least = b"", 0, at
    while packet[at]:
        if packet[at] >= 0xC0:
            end = end or at + 2
            at = int.from_bytes(packet[at : at + 2]) & 0x3FFF
            if at >= least:
                raise MalformedMessage
            least = at
        else:
            following = at + 1 + packet[at]
            name += packet[at:following]
            at = following
        if len(name) > MAX_NAME_LENGTH:
            raise MalformedMessage
    return name + ROOT, end or at + 1
