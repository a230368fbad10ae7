"""Parses query messages from untrusted clients, and assembles response messages."""

from msgspec import Struct

from hanse.model.dns.names import MAX_LABEL_LENGTH, MAX_NAME_LENGTH

HEADER = 12
MIN_UDP_SIZE = 512
MAX_UDP_SIZE = 1232
"""Largest UDP response: it passes everywhere unfragmented, and clients retry by TCP."""

OPT = 41
IN = 1
CLIENT_SUBNET = 8


class Rcode:
    """The response codes in use."""

    NOERROR = 0
    FORMERR = 1
    SERVFAIL = 2
    NXDOMAIN = 3
    NOTIMP = 4
    REFUSED = 5
    BADVERS = 16


RCODES = {
    code: name for name, code in vars(Rcode).items() if isinstance(code, int) and name.isupper()
}


class ClientSubnet(Struct, frozen=True):
    """The EDNS client subnet that a resolver sent (RFC 7871)."""

    family: int
    bits: int
    address: bytes

    def wire(self, scope: int) -> bytes:
        """The option in the response, with its code and length.

        `scope` is the prefix length that the answer is valid for.
        """
        body = self.family.to_bytes(2) + bytes((self.bits, scope)) + self.address
        return CLIENT_SUBNET.to_bytes(2) + len(body).to_bytes(2) + body


class Edns(Struct, frozen=True):
    """The EDNS parameters of a query."""

    size: int
    version: int
    wants_dnssec: bool
    subnet: ClientSubnet | None = None


class DnsQuestion(Struct, frozen=True):
    """One well-formed question; `text` is the question section as sent, case included."""

    text: bytes
    name: bytes
    """In lower case."""
    type: int
    class_: int
    edns: Edns | None


class MalformedMessage(Exception):
    """A message that cannot be parsed: the response is FORMERR."""


def parse_question(packet: bytes) -> DnsQuestion:
    """Parse the question of a packet whose header was checked; raises `MalformedMessage`.

    All records behind the question must be whole, and an OPT record well-formed.
    """
    end = _skip_name(packet, HEADER, pointers=False)
    if end + 4 > len(packet):
        raise MalformedMessage
    return DnsQuestion(
        packet[HEADER : end + 4],
        packet[HEADER:end].lower(),
        int.from_bytes(packet[end : end + 2]),
        int.from_bytes(packet[end + 2 : end + 4]),
        _parse_edns(packet, end + 4),
    )


def _parse_edns(packet: bytes, at: int) -> Edns | None:
    """The EDNS parameters of the packet's OPT record, or None without one.

    Raises `MalformedMessage` for several or misplaced OPT records, and if any record is cut.
    """
    counts = [int.from_bytes(packet[n : n + 2]) for n in (6, 8, 10)]
    found: Edns | None = None
    for number in range(sum(counts)):
        start, at = at, _skip_name(packet, at, pointers=True)
        if at + 10 > len(packet):
            raise MalformedMessage
        rtype, length = packet[at : at + 2], int.from_bytes(packet[at + 8 : at + 10])
        front, at = at, at + 10 + length
        if at > len(packet):
            raise MalformedMessage
        if rtype != OPT.to_bytes(2):
            continue
        misplaced = number < counts[0] + counts[1] or front != start + 1
        if misplaced or found is not None:
            raise MalformedMessage
        subnet = _parse_options(packet[front + 10 : at])
        size = int.from_bytes(packet[front + 2 : front + 4])
        found = Edns(size, packet[front + 5], bool(packet[front + 6] & 0x80), subnet)
    return found


def _parse_options(options: bytes) -> ClientSubnet | None:
    """The client subnet in EDNS options, or None without a valid one; of several the last counts.

    Raises `MalformedMessage` if the options are cut.
    """
    found: ClientSubnet | None = None
    at = 0
    while at < len(options):
        if at + 4 > len(options):
            raise MalformedMessage
        code, front = int.from_bytes(options[at : at + 2]), at + 4
        at = front + int.from_bytes(options[at + 2 : at + 4])
        if code == CLIENT_SUBNET and at <= len(options):
            found = _parse_subnet(options[front:at])
    if at != len(options):
        raise MalformedMessage
    return found


def _parse_subnet(option: bytes) -> ClientSubnet | None:
    """Parse a client subnet option; None if it is malformed, so that it is ignored."""
    family, bits = int.from_bytes(option[:2]), option[2] if len(option) > 2 else 0
    most = {1: 32, 2: 128}.get(family, -1)
    if len(option) < 4 or bits > most or len(option) != 4 + (bits + 7) // 8:
        return None
    return ClientSubnet(family, bits, option[4:])


def _skip_name(packet: bytes, at: int, *, pointers: bool) -> int:
    """The offset after a name; pointers are not followed.

    Raises `MalformedMessage`, also for pointers where they are not allowed.
    """
    start = at
    while True:
        if at >= len(packet):
            raise MalformedMessage
        length = packet[at]
        if length == 0:
            if at + 1 - start > MAX_NAME_LENGTH:
                raise MalformedMessage
            return at + 1
        if length <= MAX_LABEL_LENGTH:
            at += length + 1
        elif pointers and length >= 0xC0 and at + 2 <= len(packet):
            return at + 2
        else:
            raise MalformedMessage


def build_response(
    packet: bytes, rcode: int, question: bytes, answers: int, body: bytes, authority: int = 0
) -> bytes:
    """A response without EDNS; `body` holds the answer and the authority section.

    Id, opcode and RD are those of the query `packet`; AA is set for NOERROR and NXDOMAIN.
    """
    flags = (0x80 | (packet[2] & 0x79)) << 8 | (rcode & 0xF)
    if rcode in (Rcode.NOERROR, Rcode.NXDOMAIN):
        flags |= 0x0400  # authoritative
    counts = (1 if question else 0, answers, authority, 0)
    return (
        packet[:2]
        + flags.to_bytes(2)
        + b"".join(count.to_bytes(2) for count in counts)
        + question
        + body
    )


def with_opt(answer: bytes, edns: Edns, rcode: int, options: bytes = b"") -> bytes:
    """The response with an OPT record at its end.

    It has these options, the query's DO flag and the upper bits of the rcode.
    """
    flags = 0x8000 if edns.wants_dnssec else 0
    opt = (
        b"\0"
        + OPT.to_bytes(2)
        + MAX_UDP_SIZE.to_bytes(2)
        + bytes((rcode >> 4, 0))
        + flags.to_bytes(2)
        + len(options).to_bytes(2)
        + options
    )
    return with_additional(answer, 1, opt)


def with_additional(answer: bytes, count: int, records: bytes) -> bytes:
    """The response with `count` more records at the end of its additional section."""
    return answer[:10] + (int.from_bytes(answer[10:12]) + count).to_bytes(2) + answer[12:] + records


def fit_records(body: bytes, room: int) -> tuple[int, bytes]:
    """The number and bytes of the leading records that fit into `room` bytes.

    The owner name of each record must be a compression pointer of two bytes.
    """
    count = at = 0
    while at + 12 <= len(body):
        following = at + 12 + int.from_bytes(body[at + 10 : at + 12])
        if following > room:
            break
        count, at = count + 1, following
    return count, body[:at]
