"""Questions as they come in: read without trust, answered or refused as the RFCs say."""

from msgspec import Struct

from hanse.model.dns.names import MAX_LABEL_LENGTH, MAX_NAME_LENGTH

HEADER = 12
SMALLEST_UDP = 512
OUR_UDP = 1232
"""What passes everywhere unfragmented; more goes by TCP."""

OPT = 41
IN = 1
CLIENT_SUBNET = 8


class Rcode:
    """The codes that we answer with."""

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


class Subnet(Struct, frozen=True):
    """Where a resolver says its client is (RFC 7871)."""

    family: int
    bits: int
    address: bytes

    def wire(self, scope: int) -> bytes:
        """The option in reply: the same, and for how much of it the answer holds."""
        body = self.family.to_bytes(2) + bytes((self.bits, scope)) + self.address
        return CLIENT_SUBNET.to_bytes(2) + len(body).to_bytes(2) + body


class Edns(Struct, frozen=True):
    """What a client says of itself: how much it takes, and what it wants to hear."""

    size: int
    version: int
    wants_dnssec: bool
    subnet: Subnet | None = None


class Question(Struct, frozen=True):
    """One well-formed question; `text` is the question as it was written, its case included."""

    text: bytes
    name: bytes
    """In lower case."""
    type: int
    class_: int
    edns: Edns | None


class MalformedMessage(Exception):
    """A question that cannot be read: the client hears FORMERR."""


def parse_question(packet: bytes) -> Question:
    """The one question of a packet whose header has been looked at; raises `MalformedMessage`."""
    end = _end_of_name(packet, HEADER, pointers=False)
    if end + 4 > len(packet):
        raise MalformedMessage
    return Question(
        packet[HEADER : end + 4],
        packet[HEADER:end].lower(),
        int.from_bytes(packet[end : end + 2]),
        int.from_bytes(packet[end + 2 : end + 4]),
        _edns_in(packet, end + 4),
    )


def _edns_in(packet: bytes, at: int) -> Edns | None:
    """What the packet's OPT record says, if it has one."""
    counts = [int.from_bytes(packet[n : n + 2]) for n in (6, 8, 10)]
    found: Edns | None = None
    for number in range(sum(counts)):
        start, at = at, _end_of_name(packet, at, pointers=True)
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
        subnet = _subnet_in(packet[front + 10 : at])
        size = int.from_bytes(packet[front + 2 : front + 4])
        found = Edns(size, packet[front + 5], bool(packet[front + 6] & 0x80), subnet)
    return found


def _subnet_in(options: bytes) -> Subnet | None:
    """Options must fit; all but the client's subnet are ignored, as RFC 7873 lets a server do."""
    found: Subnet | None = None
    at = 0
    while at < len(options):
        if at + 4 > len(options):
            raise MalformedMessage
        code, front = int.from_bytes(options[at : at + 2]), at + 4
        at = front + int.from_bytes(options[at + 2 : at + 4])
        if code == CLIENT_SUBNET and at <= len(options):
            found = _subnet(options[front:at])
    if at != len(options):
        raise MalformedMessage
    return found


def _subnet(told: bytes) -> Subnet | None:
    """A client's subnet; None where it is not well formed, so that nobody goes by it."""
    family, bits = int.from_bytes(told[:2]), told[2] if len(told) > 2 else 0
    most = {1: 32, 2: 128}.get(family, -1)
    if len(told) < 4 or bits > most or len(told) != 4 + (bits + 7) // 8:
        return None
    return Subnet(family, bits, told[4:])


def _end_of_name(packet: bytes, at: int, *, pointers: bool) -> int:
    """Where a name ends; pointers are never followed, so that none can lead in a circle."""
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


def reply(
    packet: bytes, rcode: int, question: bytes, answers: int, body: bytes, authority: int = 0
) -> bytes:
    """An answer to a packet, without EDNS; `body` holds the answers and then the authority."""
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


def with_edns(answer: bytes, edns: Edns, rcode: int, options: bytes = b"") -> bytes:
    """The same answer as one that understands EDNS gives it."""
    flags = 0x8000 if edns.wants_dnssec else 0
    opt = (
        b"\0"
        + OPT.to_bytes(2)
        + OUR_UDP.to_bytes(2)
        + bytes((rcode >> 4, 0))
        + flags.to_bytes(2)
        + len(options).to_bytes(2)
        + options
    )
    return answer[:10] + b"\0\1" + answer[12:] + opt


def fit_records(body: bytes, room: int) -> tuple[int, bytes]:
    """As many whole records of an answer as there is room for; their owners are all pointers."""
    count = at = 0
    while at + 12 <= len(body):
        following = at + 12 + int.from_bytes(body[at + 10 : at + 12])
        if following > room:
            break
        count, at = count + 1, following
    return count, body[:at]
