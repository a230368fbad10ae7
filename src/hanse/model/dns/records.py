"""Answers as they travel: prepared once when something changes, and never computed when asked."""

from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address

from msgspec import Struct

TTL = 5
"""Seconds an answer may be kept: how long a client is wrong about a cluster that went away."""

_IN = b"\0\1"
_OWNER = b"\xc0\x0c"
"""The name of the question, whose case is thereby kept."""


class RecordType(IntEnum):
    """The record types that we answer or refuse by name."""

    A = 1
    NS = 2
    CNAME = 5
    SOA = 6
    TXT = 16
    AAAA = 28
    SRV = 33
    OPT = 41
    IXFR = 251
    AXFR = 252
    ANY = 255


_TYPE_NAMES = {int(known): known.name for known in RecordType} | {12: "PTR", 15: "MX", 65: "HTTPS"}


def type_mnemonic(rtype: int) -> str:
    """The mnemonic of a record type; `TYPE<number>` (RFC 3597) if it is not a common one."""
    return _TYPE_NAMES.get(rtype) or f"TYPE{rtype}"


A, AAAA, SRV = int(RecordType.A), int(RecordType.AAAA), int(RecordType.SRV)
"""As numbers, where names are made by the ten thousand: an enum's members are slow to look up."""


class RRsetVariant(Struct, frozen=True, array_like=True, gc=False):
    """One way to answer: whole records, of which there are `count`."""

    count: int
    body: bytes
    weight: int = 1


class ClientSelection(Struct, frozen=True, array_like=True, gc=False):
    """How one of several variants is chosen for a client, where it is not whose turn it is."""

    labels: tuple[str, ...] = ()
    """The cluster of each variant."""
    near: bool = False
    """Whether a client gets the cluster of its region."""
    mask: int = 0
    """Bits of the client's address by which it always gets the same; 0: in turn."""
    silent: bool = False
    """Whether nothing at all is answered."""


class RRset(Struct, frozen=True, array_like=True, gc=False):
    """What a name has of one type: one variant is chosen each time, by weight and in turn.

    `stride` is the length of each record where all are of one length: their order then changes
    from answer to answer.
    """

    type: int
    variants: tuple[RRsetVariant, ...]
    stride: int = 0
    selection: ClientSelection | None = None
    """Where the answer depends on the client."""


class ZoneNode(Struct, frozen=True, array_like=True, gc=False):
    """A name that exists. Types that it has no answer for are empty; the name is not unknown."""

    name: bytes
    rrsets: tuple[RRset, ...] = ()


@lru_cache(maxsize=64)
def _front(rtype: int, length: int, ttl: int) -> bytes:
    return _OWNER + rtype.to_bytes(2) + _IN + ttl.to_bytes(4) + length.to_bytes(2)


def full_rrset(rtype: int, rdatas: Sequence[bytes], ttl: int = TTL) -> RRset:
    """All of these in each answer, in changing order where their lengths allow."""
    if len(rdatas) == 1:
        return RRset(rtype, (RRsetVariant(1, _front(rtype, len(rdatas[0]), ttl) + rdatas[0]),))
    body = b"".join([_front(rtype, len(rdata), ttl) + rdata for rdata in rdatas])
    alike = len({len(rdata) for rdata in rdatas}) == 1
    return RRset(
        rtype, (RRsetVariant(len(rdatas), body),), len(body) // len(rdatas) if alike else 0
    )


def weighted_rrset(rtype: int, weighted: Iterable[tuple[bytes, int]], ttl: int = TTL) -> RRset:
    """One of these in each answer, by weight."""
    return RRset(
        rtype,
        tuple([RRsetVariant(1, _front(rtype, len(r), ttl) + r, weight) for r, weight in weighted]),
    )


class ResourceRecord(Struct, frozen=True, gc=False):
    """One record without its owner."""

    type: int
    ttl: int
    rdata: bytes


def parse_records(body: bytes) -> Iterator[ResourceRecord]:
    """The records of a prepared answer; their owners are all pointers to the question."""
    at = 0
    while at < len(body):
        end = at + 12 + int.from_bytes(body[at + 10 : at + 12])
        rtype, ttl = int.from_bytes(body[at + 2 : at + 4]), int.from_bytes(body[at + 6 : at + 10])
        yield ResourceRecord(rtype, ttl, body[at + 12 : end])
        at = end


def all_resource_records(answer: RRset) -> list[ResourceRecord]:
    """All that may be told of a type, whoever's turn it is; for those who keep what they hear."""
    told = [record for variant in answer.variants for record in parse_records(variant.body)]
    return list(dict.fromkeys(told))


def cname_rrsets(target: bytes, ttl: int = TTL) -> tuple[RRset, ...]:
    """Another name for what stands there: told whatever is asked for."""
    told = (RRsetVariant(1, _front(RecordType.CNAME, len(target), ttl) + target),)
    return tuple(RRset(t, told) for t in (A, AAAA, SRV, int(RecordType.CNAME), int(RecordType.TXT)))


def find_cname(node: ZoneNode) -> tuple[int, bytes] | None:
    """How long an alias may be kept, and what it stands for; None where a name is none."""
    for answer in node.rrsets:
        if (
            answer.type == RecordType.CNAME
            and len(answer.variants) == 1
            and answer.selection is None
        ):
            record = next(parse_records(answer.variants[0].body))
            return record.ttl, record.rdata
    return None


def address_rdata(text: str) -> bytes | None:
    """The rdata of an IP address, 4 or 16 bytes; None if the text is not an address."""
    try:
        if ":" not in text:
            return IPv4Address(text).packed
        return None if "%" in text else IPv6Address(text).packed
    except ValueError:
        return None


def srv_rdata(port: int, target: bytes, priority: int = 0, weight: int = 50) -> bytes:
    """The content of an SRV record; targets are never compressed (RFC 2782)."""
    return priority.to_bytes(2) + weight.to_bytes(2) + port.to_bytes(2) + target


def txt_rdata(text: str) -> bytes:
    """The content of a TXT record of one string, of 255 bytes at most."""
    told = text.encode()
    return bytes((len(told),)) + told


def soa_record(zone: bytes, serial: int, ttl: int = TTL) -> bytes:
    """A zone's whole SOA record; its owner is written out, so that any answer can end with it."""
    times = b"".join(n.to_bytes(4) for n in (serial & 0xFFFFFFFF, 60, 15, 86400, ttl))
    rdata = ns_name(zone) + b"\x0ahostmaster" + zone + times
    front = RecordType.SOA.to_bytes(2) + _IN + ttl.to_bytes(4) + len(rdata).to_bytes(2)
    return zone + front + rdata


def ns_name(zone: bytes) -> bytes:
    """The name that a zone says it is served by."""
    return b"\x02ns\x03dns" + zone


def version_name(zone: bytes) -> bytes:
    """The name at which a zone tells by which rules its names are made."""
    return b"\x0bdns-version" + zone


def version_node(zone: bytes, text: str, ttl: int = TTL) -> ZoneNode:
    """What a zone tells there."""
    return ZoneNode(version_name(zone), (full_rrset(RecordType.TXT, [txt_rdata(text)], ttl),))
