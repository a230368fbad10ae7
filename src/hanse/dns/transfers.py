"""Whole zones to those who may have them (RFC 5936); everybody else is refused."""

from collections.abc import Iterable, Iterator
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network

from hanse.dns.questions import (
    HEADER,
    IN,
    MalformedMessage,
    Question,
    Rcode,
    parse_question,
    with_edns,
)
from hanse.dns.responder import respond
from hanse.dns.table import Table
from hanse.model.dns.records import RecordType, ZoneNode, all_resource_records, type_mnemonic

LARGEST = 32 * 1024
"""Bytes after which a message is full: the rest goes into the next."""

_APEX = b"\xc0\x0c"
"""The zone's name, which is the question of every message."""

Reply = bytes | Iterator[bytes] | None
"""One answer, the many messages of a transfer, or silence."""


class Secondaries:
    """The networks that zones may be transferred to."""

    def __init__(self, ranges: Iterable[str] = ()) -> None:
        self._networks: list[IPv4Network | IPv6Network] = [
            ip_network(text, strict=False) for text in ranges
        ]

    def __bool__(self) -> bool:
        return bool(self._networks)

    def has(self, client: str) -> bool:
        """Whether a client is one of them."""
        address = ip_address(client.partition("%")[0])
        return any(address in network for network in self._networks)


def reply_by_stream(packet: bytes, table: Table, client: str) -> Reply:
    """What is answered to a packet on a connection, where a whole zone may be."""
    if table.kept is not None and packet[2:3] and not packet[2] & 0xF8:
        try:
            question = parse_question(packet) if packet[4:6] == b"\0\1" else None
        except MalformedMessage:
            question = None
        if question is not None and _may_have(question, table, client):
            table.counter(table.zones[question.name].text, type_mnemonic(question.type), 0)[0] += 1
            return _transferred(packet, question, table)
    return respond(packet, table, stream=True, client=client)


def _may_have(question: Question, table: Table, client: str) -> bool:
    return (
        question.type
        in (RecordType.AXFR, RecordType.IXFR)  # who asks for what changed may be told everything
        and question.class_ == IN
        and question.name in table.zones
        and table.synced
        and (question.edns is None or not question.edns.version)
        and Secondaries(table.secondaries).has(client)
    )


def _transferred(packet: bytes, question: Question, table: Table) -> Iterator[bytes]:
    """The zone as it is now, in messages; what changes meanwhile is not in it."""
    assert table.kept is not None, "who may be given zones keeps them"
    zone = question.name
    soa = _APEX + table.zones[zone].authority[len(zone) :]
    nodes = [node for node in table.kept.values() if table.zone_of(node.name) is table.zones[zone]]
    return _messages(packet, question, _records(nodes, zone, soa))


def _records(nodes: Iterable[ZoneNode], zone: bytes, soa: bytes) -> Iterator[bytes]:
    yield soa
    for node in nodes:
        owner = node.name[: len(node.name) - len(zone)] + _APEX
        for answer in node.rrsets:
            for told in all_resource_records(answer):
                front = told.type.to_bytes(2) + b"\0\1" + told.ttl.to_bytes(4)
                yield owner + front + len(told.rdata).to_bytes(2) + told.rdata
    yield soa


def _messages(packet: bytes, question: Question, records: Iterator[bytes]) -> Iterator[bytes]:
    body, count, first = bytearray(), 0, True

    def message() -> bytes:
        flags = (0x8400 | (packet[2] & 1) << 8).to_bytes(2)
        counts = b"\0\1" + count.to_bytes(2) + b"\0\0\0\0"
        whole = packet[:2] + flags + counts + question.text + body
        if first and question.edns is not None:
            return with_edns(whole, question.edns, Rcode.NOERROR)
        return whole

    for record in records:
        if HEADER + len(question.text) + len(body) + len(record) > LARGEST:
            yield message()
            body, count, first = bytearray(), 0, False
        body += record
        count += 1
    yield message()
