"""CNAME chains: followed within a table, and joined with the responses of upstream servers.

Stub resolvers in pods do not follow a CNAME themselves: the response must contain the address.
"""

from msgspec import Struct

from hanse.dns.questions import (
    HEADER,
    DnsQuestion,
    MalformedMessage,
    Rcode,
    build_response,
    with_opt,
)
from hanse.dns.table import Entry, Table, headers
from hanse.model.dns.names import MAX_NAME_LENGTH, ROOT
from hanse.model.dns.records import RecordType, parse_records

MAX_LINKS = 8
_NOT_FOLLOWED = {
    0,
    RecordType.CNAME,
    RecordType.OPT,
    RecordType.IXFR,
    RecordType.AXFR,
    253,
    254,
    RecordType.ANY,
}
"""Query types for which a CNAME is not followed."""
_TRUNCATED = 0x02
_NO_ANSWER: Entry = (headers(Rcode.NXDOMAIN, 0), b"", [0], None, None)
_RDATA_NAME_OFFSET = {RecordType.NS: 0, RecordType.CNAME: 0, 12: 0, 15: 2, RecordType.SRV: 6}
"""Offset of the domain name in the rdata, for types whose rdata ends with one."""


class Chain(Struct, frozen=True):
    """The CNAME records from the queried name to the first name without one."""

    count: int
    body: bytes
    target: bytes
    """The last target; itself an alias if the chain is a loop."""


def follow_aliases(question: DnsQuestion, table: Table) -> Chain | None:
    """The chain of CNAMEs in the table from the queried name, of at most `MAX_LINKS`.

    None if the name has no CNAME, or for types that do not follow one, such as CNAME and ANY.
    """
    name = question.name
    if name not in table.aliases or question.type in _NOT_FOLLOWED:
        return None
    count, body, owner = 0, b"", b"\xc0\x0c"
    while count < MAX_LINKS and name in table.aliases:
        ttl, name_after = table.aliases[name]
        body += _record(owner, RecordType.CNAME, ttl, name_after)
        count, name, owner = count + 1, name_after, name_after
    return Chain(count, body, name)


def resolve_chain(chain: Chain, rtype: bytes, table: Table) -> tuple[int, int, bytes]:
    """Rcode, number and bytes of the answers: the chain, then its target's records of that type.

    `rtype` is type and class in wire format. The target must be in a zone of the table. Without
    such records the chain is alone, with NXDOMAIN if the target does not exist.
    """
    if chain.target + rtype not in table.answers:
        known = chain.target in table.names or chain.target in table.aliases
        return (Rcode.NOERROR if known else Rcode.NXDOMAIN), chain.count, chain.body
    records = records_for(chain.target, rtype, table, owner=chain.target)
    return Rcode.NOERROR, chain.count + len(records), chain.body + b"".join(records)


def records_for(name: bytes, rtype: bytes, table: Table, *, owner: bytes) -> list[bytes]:
    """The records of a name and type, written with that owner; each call advances their rotation.

    `rtype` is type and class in wire format. Empty if the table has no such answer, or one that
    depends on the client.
    """
    front, body, _, rotation, _ = table.answers.get(name + rtype, _NO_ANSWER)
    if rotation is not None:
        front, body = next(rotation)
    if not int.from_bytes(front[0][4:6]):
        return []
    return [_record(owner, r.type, r.ttl, r.rdata) for r in parse_records(body)]


def retarget_question(packet: bytes, question: DnsQuestion, chain: Chain) -> bytes:
    """The query packet with the target of a chain as its name, and all else unchanged."""
    return packet[:HEADER] + chain.target + packet[HEADER + len(question.name) :]


def splice_response(
    packet: bytes, question: DnsQuestion, chain: Chain, answer: bytes, most: int
) -> bytes | None:
    """The response to the original query: the chain, then an upstream's answers about its target.

    It has the upstream's rcode. None if the upstream's response cannot be parsed. If the whole is
    longer than `most`, or the upstream's is truncated, no records and TC: clients retry by TCP.
    """
    try:
        records = _parse_answers(answer)
    except (MalformedMessage, IndexError):
        return None
    rcode = answer[3] & 0xF
    body = chain.body + b"".join(records)
    whole = _build(packet, question, rcode, chain.count + len(records), body)
    if len(whole) <= most and not answer[2] & _TRUNCATED:
        return whole
    empty = _build(packet, question, rcode, 0, b"")
    return empty[:2] + bytes((empty[2] | _TRUNCATED,)) + empty[3:]


def servfail_response(packet: bytes) -> bytes:
    """A query packet turned into a SERVFAIL response, for a query that no upstream answered."""
    return packet[:2] + bytes((0x80 | packet[2] & 0x79, 0x80 | Rcode.SERVFAIL)) + packet[4:]


def _build(packet: bytes, question: DnsQuestion, rcode: int, count: int, body: bytes) -> bytes:
    """A non-authoritative response with this rcode and `count` answers in `body`.

    It has recursion available, and EDNS if the query has it.
    """
    answer = build_response(packet, rcode, question.text, count, body)
    answer = answer[:2] + bytes((answer[2] & ~0x04, answer[3] | 0x80)) + answer[4:]
    return answer if question.edns is None else with_opt(answer, question.edns, rcode)


def _record(owner: bytes, rtype: int, ttl: int, rdata: bytes) -> bytes:
    """A whole resource record of class IN."""
    return owner + rtype.to_bytes(2) + b"\0\1" + ttl.to_bytes(4) + len(rdata).to_bytes(2) + rdata


def _parse_answers(packet: bytes) -> list[bytes]:
    """The records of a packet's answer section, each whole and with names decompressed.

    Raises `MalformedMessage`, or IndexError if the packet ends early.
    """
    at = HEADER
    for _ in range(int.from_bytes(packet[4:6])):
        at = _parse_name(packet, at)[1] + 4
    records: list[bytes] = []
    for _ in range(int.from_bytes(packet[6:8])):
        owner, at = _parse_name(packet, at)
        front, end = at + 10, at + 10 + int.from_bytes(packet[at + 8 : at + 10])
        if end > len(packet):
            raise MalformedMessage
        rtype, ttl = int.from_bytes(packet[at : at + 2]), int.from_bytes(packet[at + 4 : at + 8])
        rdata = packet[front:end]
        if rtype in _RDATA_NAME_OFFSET:
            before = _RDATA_NAME_OFFSET[rtype]
            rdata = rdata[:before] + _parse_name(packet, front + before)[0]
        records.append(_record(owner, rtype, ttl, rdata))
        at = end
    return records


def _parse_name(packet: bytes, at: int) -> tuple[bytes, int]:
    """The decompressed name at an offset, and the offset after it in the packet.

    Raises `MalformedMessage` for a pointer that does not lead backwards, which might loop, and for
    too long a name; IndexError if the packet ends early.
    """
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
