"""Zone transfers (RFC 5936) to configured secondaries; all other clients are refused."""

from collections.abc import Iterable, Iterator
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network

from hanse.dns.questions import (
    HEADER,
    IN,
    DnsQuestion,
    MalformedMessage,
    Rcode,
    parse_question,
    with_opt,
)
from hanse.dns.responder import respond
from hanse.dns.table import Table
from hanse.model.dns.records import RecordType, ZoneNode, all_resource_records, type_mnemonic

MAX_MESSAGE = 32 * 1024
"""Maximum bytes of a message; further records go into the next one."""

_APEX = b"\xc0\x0c"
"""A pointer to the zone's name, which is the question of every message."""

StreamReply = bytes | Iterator[bytes] | None
"""One response, the messages of a transfer, or None for no response."""


class Secondaries:
    """The CIDRs that zones may be transferred to."""

    def __init__(self, ranges: Iterable[str] = ()) -> None:
        """The secondaries in some CIDRs; raises `ValueError` for an invalid one."""
        self._networks: list[IPv4Network | IPv6Network] = [
            ip_network(text, strict=False) for text in ranges
        ]

    def __bool__(self) -> bool:
        """Whether there is any CIDR."""
        return bool(self._networks)

    def has(self, client: str) -> bool:
        """Whether a client's address, less its zone id, is in one of the CIDRs."""
        address = ip_address(client.partition("%")[0])
        return any(address in network for network in self._networks)


def respond_by_stream(packet: bytes, table: Table, client: str) -> StreamReply:
    """The response to a packet on a TCP connection; an iterator of messages for a zone transfer.

    AXFR and IXFR by secondaries of the view get a full transfer, which is counted in the table; all
    other packets are answered by `respond`. None if there must not be a response.
    """
    if table.transfer_nodes is not None and packet[2:3] and not packet[2] & 0xF8:
        try:
            question = parse_question(packet) if packet[4:6] == b"\0\1" else None
        except MalformedMessage:
            question = None
        if question is not None and _is_allowed_transfer(question, table, client):
            table.counter(table.zones[question.name].text, type_mnemonic(question.type), 0)[0] += 1
            return _transfer(packet, question, table)
    return respond(packet, table, stream=True, client=client)


def _is_allowed_transfer(question: DnsQuestion, table: Table, client: str) -> bool:
    """Whether a question is an AXFR or IXFR of a zone by a client in the secondaries' CIDRs.

    False until the table is synced, and for an EDNS version other than 0.
    """
    return (
        question.type in (RecordType.AXFR, RecordType.IXFR)  # a full transfer may answer IXFR
        and question.class_ == IN
        and question.name in table.zones
        and table.synced
        and (question.edns is None or not question.edns.version)
        and Secondaries(table.secondaries).has(client)
    )


def _transfer(packet: bytes, question: DnsQuestion, table: Table) -> Iterator[bytes]:
    """The messages of a transfer of the zone as it is now, whatever changes while they are read."""
    assert table.transfer_nodes is not None, "views with secondaries keep their nodes"
    zone = question.name
    soa = _APEX + table.zones[zone].authority[len(zone) :]
    nodes = [
        node
        for node in table.transfer_nodes.values()
        if table.zone_of(node.name) is table.zones[zone]
    ]
    return _messages(packet, question, _records(nodes, zone, soa))


def _records(nodes: Iterable[ZoneNode], zone: bytes, soa: bytes) -> Iterator[bytes]:
    """The records of a zone, which begin and end with its SOA; owner names are compressed.

    Of an RRset with several variants each record comes once.
    """
    yield soa
    for node in nodes:
        owner = node.name[: len(node.name) - len(zone)] + _APEX
        for rrset in node.rrsets:
            for record in all_resource_records(rrset):
                front = record.type.to_bytes(2) + b"\0\1" + record.ttl.to_bytes(4)
                yield owner + front + len(record.rdata).to_bytes(2) + record.rdata
    yield soa


def _messages(packet: bytes, question: DnsQuestion, records: Iterator[bytes]) -> Iterator[bytes]:
    """Pack records into response messages of at most `MAX_MESSAGE` bytes."""
    body, count, first = bytearray(), 0, True

    def message() -> bytes:
        """The records so far as a message; only the first has OPT, if the query has EDNS."""
        flags = (0x8400 | (packet[2] & 1) << 8).to_bytes(2)
        counts = b"\0\1" + count.to_bytes(2) + b"\0\0\0\0"
        whole = packet[:2] + flags + counts + question.text + body
        if first and question.edns is not None:
            return with_opt(whole, question.edns, Rcode.NOERROR)
        return whole

    for record in records:
        if HEADER + len(question.text) + len(body) + len(record) > MAX_MESSAGE:
            yield message()
            body, count, first = bytearray(), 0, False
        body += record
        count += 1
    yield message()
