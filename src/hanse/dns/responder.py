"""The general path from query to response, which handles every case."""

from hanse.dns.cname_chains import Chain, follow_aliases, records_for, resolve_chain
from hanse.dns.questions import (
    HEADER,
    IN,
    MAX_UDP_SIZE,
    MIN_UDP_SIZE,
    DnsQuestion,
    Edns,
    MalformedMessage,
    Rcode,
    build_response,
    fit_records,
    parse_question,
    with_additional,
    with_opt,
)
from hanse.dns.selection import client_from_address, client_from_subnet
from hanse.dns.table import Entry, Table
from hanse.model.dns.records import RecordType, parse_records, type_mnemonic

MAX_TCP_SIZE = 65535
_RESPONSE = 0x80
_OPCODE = 0x78
_TRUNCATED = 0x02
_REFUSED_TYPES = {RecordType.ANY, RecordType.AXFR, RecordType.IXFR, 253, 254}
_MAX_POINTER = 1 << 14
"""Compression pointers lead to lower offsets."""
_IN = IN.to_bytes(2)
_META_TYPES = {0, RecordType.OPT}


def respond(packet: bytes, table: Table, *, stream: bool, client: str = "") -> bytes | None:
    """The response to a packet, which is counted in the table; None if there must not be one.

    None for packets that are too short or responses themselves, and for RRsets marked silent, whose
    queries are dropped. Other packets that are no valid query get NOTIMP, FORMERR or BADVERS. It
    may be longer than a datagram only on a `stream`; `client` is an address as text.
    """
    if len(packet) < HEADER or packet[2] & _RESPONSE:
        return None
    if packet[2] & _OPCODE:
        return _count(
            table, "", "", Rcode.NOTIMP, build_response(packet, Rcode.NOTIMP, b"", 0, b"")
        )
    if packet[4:6] != b"\0\1":
        return _count(
            table, "", "", Rcode.FORMERR, build_response(packet, Rcode.FORMERR, b"", 0, b"")
        )
    try:
        question = parse_question(packet)
    except MalformedMessage:
        return _count(
            table, "", "", Rcode.FORMERR, build_response(packet, Rcode.FORMERR, b"", 0, b"")
        )
    if question.edns is not None and question.edns.version:
        badvers = build_response(packet, Rcode.BADVERS, question.text, 0, b"")
        badvers = with_opt(badvers, question.edns, Rcode.BADVERS)
        return _count(table, "", type_mnemonic(question.type), Rcode.BADVERS, badvers)
    chain = follow_aliases(question, table)
    if chain is not None and question.class_ == IN and table.synced:
        return _respond_alias(packet, question, chain, table, stream=stream)
    return _respond_name(packet, question, table, stream=stream, client=client)


def _respond_alias(
    packet: bytes, question: DnsQuestion, chain: Chain, table: Table, *, stream: bool
) -> bytes:
    """The response for an alias: the CNAME chain, and the records of a target in the table's zones.

    NXDOMAIN if such a target does not exist. If it is too long for UDP or, with `stream`, for TCP,
    no records and the TC flag.
    """
    rcode, count, body = Rcode.NOERROR, chain.count, chain.body
    if table.zone_of(chain.target) is not None:
        rcode, count, body = resolve_chain(chain, question.text[-4:], table)
    answer = _build(packet, question, rcode, count, body)
    if len(answer) > (MAX_TCP_SIZE if stream else max_udp_size(question.edns)):
        answer = with_tc(_build(packet, question, rcode, 0, b""))
    zone = table.zone_of(question.name)
    return _count(table, zone.text if zone else "", type_mnemonic(question.type), rcode, answer)


def _build(packet: bytes, question: DnsQuestion, rcode: int, count: int, body: bytes) -> bytes:
    """An authoritative response with this rcode and `count` answers in `body`.

    It has EDNS if the query has it.
    """
    answer = build_response(packet, rcode, question.text, count, body)
    return answer if question.edns is None else with_opt(answer, question.edns, rcode)


def _respond_name(
    packet: bytes, question: DnsQuestion, table: Table, *, stream: bool, client: str
) -> bytes | None:
    """The response from the table; None for an RRset marked silent, whose queries are dropped.

    REFUSED for names outside the zones, other classes and ANY or transfers; FORMERR for the types 0
    and OPT; SERVFAIL until synced; without records NOERROR or NXDOMAIN with the SOA. It is
    truncated if it is too long for UDP or, with `stream`, for TCP; SRV gets the addresses of its
    targets.
    """
    zone = table.zone_of(question.name)
    rcode, count, body, authority = Rcode.REFUSED, 0, b"", 0
    client_ = _Client(question, table, client)
    if question.type in _META_TYPES:
        rcode = Rcode.FORMERR
    elif zone is None or question.class_ != IN or question.type in _REFUSED_TYPES:
        pass
    elif not table.can_answer(zone, question.name):
        rcode = Rcode.SERVFAIL
    else:
        entry = table.answers.get(question.name + question.text[-4:]) or client_.entry()
        if client_.silent:
            return None
        if entry is not None:
            rcode, (count, authority, body) = Rcode.NOERROR, _next_records(entry)
        else:
            rcode = Rcode.NOERROR if question.name in table.names else Rcode.NXDOMAIN
            body, authority = zone.authority, 1
    answer = build_response(packet, rcode, question.text, count, body, authority)
    if question.edns is not None:
        answer = with_opt(answer, question.edns, rcode, client_.option)
    max_size = MAX_TCP_SIZE if stream else max_udp_size(question.edns)
    if len(answer) > max_size:
        answer = _truncate(packet, question, body, max_size)
    elif question.type == RecordType.SRV:
        answer = _with_target_addresses(answer, body if count else b"", table, max_size)
    return _count(table, zone.text if zone else "", type_mnemonic(question.type), rcode, answer)


def _next_records(entry: Entry) -> tuple[int, int, bytes]:
    """Numbers of answer and authority records, and the records whose turn it is in rotation."""
    headers, body, _, rotation, _ = entry
    if rotation is not None:
        headers, body = next(rotation)
    return int.from_bytes(headers[0][4:6]), int.from_bytes(headers[0][6:8]), body


def _with_target_addresses(answer: bytes, body: bytes, table: Table, max_size: int) -> bytes:
    """A response to SRV with the addresses of its targets (RFC 2782), as far as they fit."""
    for target in dict.fromkeys(record.rdata[6:] for record in parse_records(body)):
        at = answer.index(target, HEADER)
        owner = (0xC000 | at).to_bytes(2) if at < _MAX_POINTER else target
        for rtype in (RecordType.A, RecordType.AAAA):
            records = records_for(target, rtype.to_bytes(2) + _IN, table, owner=owner)
            more = with_additional(answer, len(records), b"".join(records))
            if len(more) > max_size:
                return answer
            answer = more
    return answer


class _Client:
    """The client of a query: its address, or the client subnet of a trusted resolver."""

    def __init__(self, question: DnsQuestion, table: Table, client: str) -> None:
        """The subnet in the question counts only if a trusted resolver asks."""
        edns = question.edns
        sent = edns.subnet if edns is not None else None
        self._subnet = sent if sent is not None and table.resolvers.trusts(client) else None
        self._question = question.name + question.text[-4:]
        self._client = client
        self._table = table
        self._scope = 0
        self.silent = False

    def entry(self) -> Entry | None:
        """The variant for this client of an RRset that depends on the client; None for others.

        Also None if the RRset is silent; it then sets `silent`.
        """
        found = self._table.client_selectors.get(self._question)
        if found is None:
            return None
        chooser, prepared, counter = found
        if chooser.silent:
            self.silent = True
            return None
        address = self._client or "0.0.0.0"  # noqa: S104 - no client in particular
        subnet = self._subnet
        client_ = client_from_subnet(subnet) if subnet else client_from_address(address)
        self._scope = self._subnet.bits if self._subnet else 0
        headers, body = prepared[chooser.choose(client_, self._table.regions)]
        return (headers, body, counter, None, None)

    @property
    def option(self) -> bytes:
        """The client subnet option in the response to a trusted resolver; empty for all others."""
        return self._subnet.wire(self._scope) if self._subnet is not None else b""


def max_udp_size(edns: Edns | None) -> int:
    """The largest UDP response: 512 bytes without EDNS, else the client's size, at most 1232."""
    return MIN_UDP_SIZE if edns is None else min(max(edns.size, MIN_UDP_SIZE), MAX_UDP_SIZE)


def _truncate(packet: bytes, question: DnsQuestion, body: bytes, max_size: int) -> bytes:
    """A NOERROR response of at most `max_size` bytes: the first records that fit, with TC.

    The client retries by TCP.
    """
    around = HEADER + len(question.text) + (11 if question.edns is not None else 0)
    count, fits = fit_records(body, max_size - around)
    answer = build_response(packet, Rcode.NOERROR, question.text, count, fits)
    if question.edns is not None:
        answer = with_opt(answer, question.edns, Rcode.NOERROR)
    return with_tc(answer)


def with_tc(answer: bytes) -> bytes:
    """The response with the TC flag."""
    return answer[:2] + bytes((answer[2] | _TRUNCATED,)) + answer[3:]


def rate_limited_response(packet: bytes) -> bytes | None:
    """An empty truncated response to a rate-limited client, which may retry by TCP.

    None if the packet is no well-formed query.
    """
    if len(packet) < HEADER or packet[2] & (_RESPONSE | _OPCODE) or packet[4:6] != b"\0\1":
        return None
    try:
        question = parse_question(packet)
    except MalformedMessage:
        return None
    return with_tc(build_response(packet, Rcode.NOERROR, question.text, 0, b""))


def _count(table: Table, zone: str, rtype: str, rcode: int, answer: bytes) -> bytes:
    """Count a response by zone, type and rcode in the table, and return it unchanged."""
    table.counter(zone, rtype, rcode)[0] += 1
    return answer
