"""One question, one answer, in bytes: the unusual path, which knows every case."""

from hanse.dns.cname_chains import Chain, follow_aliases, resolve_chain
from hanse.dns.questions import (
    HEADER,
    IN,
    OUR_UDP,
    SMALLEST_UDP,
    Edns,
    MalformedMessage,
    Question,
    Rcode,
    fit_records,
    parse_question,
    reply,
    with_edns,
)
from hanse.dns.selection import client_from_address, client_from_subnet
from hanse.dns.table import Entry, Table
from hanse.model.dns.records import RecordType, type_mnemonic

MOST_TCP = 65535
_RESPONSE = 0x80
_OPCODE = 0x78
_TRUNCATED = 0x02
_REFUSED_TYPES = {RecordType.ANY, RecordType.AXFR, RecordType.IXFR, 253, 254}
_META_TYPES = {0, RecordType.OPT}


def respond(packet: bytes, table: Table, *, stream: bool, client: str = "") -> bytes | None:
    """The answer to a packet; None where the only right answer is silence."""
    if len(packet) < HEADER or packet[2] & _RESPONSE:
        return None
    if packet[2] & _OPCODE:
        return _counted(table, "", "", Rcode.NOTIMP, reply(packet, Rcode.NOTIMP, b"", 0, b""))
    if packet[4:6] != b"\0\1":
        return _counted(table, "", "", Rcode.FORMERR, reply(packet, Rcode.FORMERR, b"", 0, b""))
    try:
        question = parse_question(packet)
    except MalformedMessage:
        return _counted(table, "", "", Rcode.FORMERR, reply(packet, Rcode.FORMERR, b"", 0, b""))
    if question.edns is not None and question.edns.version:
        badvers = reply(packet, Rcode.BADVERS, question.text, 0, b"")
        badvers = with_edns(badvers, question.edns, Rcode.BADVERS)
        return _counted(table, "", type_mnemonic(question.type), Rcode.BADVERS, badvers)
    chain = follow_aliases(question, table)
    if chain is not None and question.class_ == IN and table.synced:
        return _chained(packet, question, chain, table, stream=stream)
    return _answer(packet, question, table, stream=stream, client=client)


def _chained(
    packet: bytes, question: Question, chain: Chain, table: Table, *, stream: bool
) -> bytes:
    """An alias, and all that we know of what it stands for."""
    rcode, count, body = Rcode.NOERROR, chain.count, chain.body
    if table.zone_of(chain.target) is not None:
        rcode, count, body = resolve_chain(chain, question.text[-4:], table)
    answer = _plain(packet, question, rcode, count, body)
    if len(answer) > (MOST_TCP if stream else max_udp_size(question.edns)):
        answer = truncated(_plain(packet, question, rcode, 0, b""))
    zone = table.zone_of(question.name)
    return _counted(table, zone.text if zone else "", type_mnemonic(question.type), rcode, answer)


def _plain(packet: bytes, question: Question, rcode: int, count: int, body: bytes) -> bytes:
    answer = reply(packet, rcode, question.text, count, body)
    return answer if question.edns is None else with_edns(answer, question.edns, rcode)


def _answer(
    packet: bytes, question: Question, table: Table, *, stream: bool, client: str
) -> bytes | None:
    zone = table.zone_of(question.name)
    rcode, count, body, authority = Rcode.REFUSED, 0, b"", 0
    asker = _Asker(question, table, client)
    if question.type in _META_TYPES:
        rcode = Rcode.FORMERR
    elif zone is None or question.class_ != IN or question.type in _REFUSED_TYPES:
        pass
    elif not table.synced:
        rcode = Rcode.SERVFAIL
    else:
        entry = table.answers.get(question.name + question.text[-4:]) or asker.entry()
        if asker.silent:
            return None
        if entry is not None:
            headers, body, _, rotation, _ = entry
            if rotation is not None:
                headers, body = next(rotation)
            count = int.from_bytes(headers[0][4:6])
            authority = int.from_bytes(headers[0][6:8])
            rcode = Rcode.NOERROR
        else:
            rcode = Rcode.NOERROR if question.name in table.names else Rcode.NXDOMAIN
            body, authority = zone.authority, 1
    answer = reply(packet, rcode, question.text, count, body, authority)
    if question.edns is not None:
        answer = with_edns(answer, question.edns, rcode, asker.option)
    most = MOST_TCP if stream else max_udp_size(question.edns)
    if len(answer) > most:
        answer = _cut(packet, question, body, most)
    return _counted(table, zone.text if zone else "", type_mnemonic(question.type), rcode, answer)


class _Asker:
    """Who asks, as far as answers depend on it: a client, or one that a trusted resolver names."""

    def __init__(self, question: Question, table: Table, client: str) -> None:
        edns = question.edns
        told = edns.subnet if edns is not None else None
        self._subnet = told if told is not None and table.resolvers.trusts(client) else None
        self._question = question.name + question.text[-4:]
        self._client = client
        self._table = table
        self._scope = 0
        self.silent = False

    def entry(self) -> Entry | None:
        """The answer that was prepared for this client, where answers depend on that."""
        found = self._table.client_selectors.get(self._question)
        if found is None:
            return None
        chooser, prepared, counter = found
        if chooser.silent:
            self.silent = True
            return None
        address = self._client or "0.0.0.0"  # noqa: S104 - no client in particular
        subnet = self._subnet
        asker = client_from_subnet(subnet) if subnet else client_from_address(address)
        self._scope = self._subnet.bits if self._subnet else 0
        headers, body = prepared[chooser.choose(asker, self._table.regions)]
        return (headers, body, counter, None, None)

    @property
    def option(self) -> bytes:
        """What a trusted resolver hears of its client's subnet."""
        return self._subnet.wire(self._scope) if self._subnet is not None else b""


def max_udp_size(edns: Edns | None) -> int:
    """The largest answer that a client takes by UDP, and no more than passes unfragmented."""
    return SMALLEST_UDP if edns is None else min(max(edns.size, SMALLEST_UDP), OUR_UDP)


def _cut(packet: bytes, question: Question, body: bytes, most: int) -> bytes:
    """As much as fits, marked as cut: the client asks again by TCP."""
    around = HEADER + len(question.text) + (11 if question.edns is not None else 0)
    count, fits = fit_records(body, most - around)
    answer = reply(packet, Rcode.NOERROR, question.text, count, fits)
    if question.edns is not None:
        answer = with_edns(answer, question.edns, Rcode.NOERROR)
    return truncated(answer)


def truncated(answer: bytes) -> bytes:
    """The same answer with the mark that there is more."""
    return answer[:2] + bytes((answer[2] | _TRUNCATED,)) + answer[3:]


def rate_limited_response(packet: bytes) -> bytes | None:
    """The answer to a network that asks too much: nothing, and a hint to come by TCP."""
    if len(packet) < HEADER or packet[2] & (_RESPONSE | _OPCODE) or packet[4:6] != b"\0\1":
        return None
    try:
        question = parse_question(packet)
    except MalformedMessage:
        return None
    return truncated(reply(packet, Rcode.NOERROR, question.text, 0, b""))


def _counted(table: Table, zone: str, rtype: str, rcode: int, answer: bytes) -> bytes:
    table.counter(zone, rtype, rcode)[0] += 1
    return answer
