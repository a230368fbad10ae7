"""Records in wire format: built once when an object changes, and only looked up per query."""

from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address

from msgspec import Struct

TTL = 5
"""Default TTL in seconds: how long clients keep using a cluster that has gone away."""

_IN = b"\0\1"
_OWNER = b"\xc0\x0c"
"""A compression pointer to the question's name, which keeps the case that the client wrote."""


class RecordType(IntEnum):
    """The record types that the server answers or refuses by name."""

    A = 1
    NS = 2
    CNAME = 5
    SOA = 6
    PTR = 12
    TXT = 16
    AAAA = 28
    SRV = 33
    OPT = 41
    IXFR = 251
    AXFR = 252
    ANY = 255


_TYPE_NAMES = {int(known): known.name for known in RecordType} | {15: "MX", 65: "HTTPS"}


def type_mnemonic(rtype: int) -> str:
    """The mnemonic of a RecordType, MX or HTTPS; `TYPE<number>` (RFC 3597) for any other type."""
    return _TYPE_NAMES.get(rtype) or f"TYPE{rtype}"


A, AAAA, SRV = int(RecordType.A), int(RecordType.AAAA), int(RecordType.SRV)
"""As plain numbers, because enum members are slow to look up where many thousand are built."""


class RRsetVariant(Struct, frozen=True, array_like=True, gc=False):
    """One possible answer section: `count` whole records."""

    count: int
    body: bytes
    weight: int = 1


class ClientSelection(Struct, frozen=True, array_like=True, gc=False):
    """How the variant is selected by client address instead of by weighted rotation."""

    labels: tuple[str, ...] = ()
    """The cluster of each variant."""
    near: bool = False
    """Whether a client prefers the cluster of its region."""
    mask: int = 0
    """Prefix length of the client address for consistent hashing; 0: weighted rotation."""
    silent: bool = False
    """Whether queries are dropped without a response."""


class RRset(Struct, frozen=True, array_like=True, gc=False):
    """The records of one name and type; each response carries one variant, rotated by weight.

    `stride` is the length of one record if all have the same length: the server then rotates
    their order from response to response.
    """

    type: int
    variants: tuple[RRsetVariant, ...]
    stride: int = 0
    selection: ClientSelection | None = None
    """Set if the variant depends on the client."""


class ZoneNode(Struct, frozen=True, array_like=True, gc=False):
    """A name that exists in a zone; for types without an RRset the response is NODATA."""

    name: bytes
    rrsets: tuple[RRset, ...] = ()


@lru_cache(maxsize=64)
def _record_header(rtype: int, length: int, ttl: int) -> bytes:
    """The fixed fields of a record, its owner name a pointer to the question."""
    return _OWNER + rtype.to_bytes(2) + _IN + ttl.to_bytes(4) + length.to_bytes(2)


def full_rrset(rtype: int, rdatas: Sequence[bytes], ttl: int = TTL) -> RRset:
    """An RRset whose responses carry all records, in rotating order if they have one length."""
    if len(rdatas) == 1:
        return RRset(
            rtype, (RRsetVariant(1, _record_header(rtype, len(rdatas[0]), ttl) + rdatas[0]),)
        )
    body = b"".join([_record_header(rtype, len(rdata), ttl) + rdata for rdata in rdatas])
    alike = len({len(rdata) for rdata in rdatas}) == 1
    return RRset(
        rtype, (RRsetVariant(len(rdatas), body),), len(body) // len(rdatas) if alike else 0
    )


def weighted_rrset(rtype: int, weighted: Iterable[tuple[bytes, int]], ttl: int = TTL) -> RRset:
    """An RRset whose responses carry one record each, rotated by weight."""
    return RRset(
        rtype,
        tuple(
            [
                RRsetVariant(1, _record_header(rtype, len(r), ttl) + r, weight)
                for r, weight in weighted
            ]
        ),
    )


def grouped_rrset(
    rtype: int, groups: Iterable[tuple[Sequence[bytes], int]], ttl: int = TTL
) -> RRset:
    """An RRset whose responses carry all records of one group each, rotated by weight."""

    def body(rdatas: Sequence[bytes]) -> bytes:
        """The records of one group in wire format."""
        return b"".join([_record_header(rtype, len(r), ttl) + r for r in rdatas])

    return RRset(rtype, tuple([RRsetVariant(len(some), body(some), w) for some, w in groups]))


class ResourceRecord(Struct, frozen=True, gc=False):
    """One resource record without its owner name."""

    type: int
    ttl: int
    rdata: bytes


def parse_records(body: bytes) -> Iterator[ResourceRecord]:
    """Parse the records of a variant; their owner names are all pointers to the question."""
    at = 0
    while at < len(body):
        end = at + 12 + int.from_bytes(body[at + 10 : at + 12])
        rtype, ttl = int.from_bytes(body[at + 2 : at + 4]), int.from_bytes(body[at + 6 : at + 10])
        yield ResourceRecord(rtype, ttl, body[at + 12 : end])
        at = end


def all_resource_records(rrset: RRset) -> list[ResourceRecord]:
    """The distinct records of all variants, for consumers that store whole RRsets."""
    records = [record for variant in rrset.variants for record in parse_records(variant.body)]
    return list(dict.fromkeys(records))


def cname_rrsets(target: bytes, ttl: int = TTL) -> tuple[RRset, ...]:
    """Five RRsets of the same CNAME record, for types A, AAAA, SRV, CNAME and TXT."""
    variants = (RRsetVariant(1, _record_header(RecordType.CNAME, len(target), ttl) + target),)
    return tuple(
        RRset(t, variants) for t in (A, AAAA, SRV, int(RecordType.CNAME), int(RecordType.TXT))
    )


def find_cname(node: ZoneNode) -> tuple[int, bytes] | None:
    """TTL and target of the node's CNAME.

    None if it has none, or one with several variants or that depends on the client.
    """
    for rrset in node.rrsets:
        if rrset.type == RecordType.CNAME and len(rrset.variants) == 1 and rrset.selection is None:
            record = next(parse_records(rrset.variants[0].body))
            return record.ttl, record.rdata
    return None


def address_rdata(text: str) -> bytes | None:
    """The rdata of an IP address; None if the text is not an address, or has a zone id."""
    try:
        if ":" not in text:
            return IPv4Address(text).packed
        return None if "%" in text else IPv6Address(text).packed
    except ValueError:
        return None


def srv_rdata(port: int, target: bytes, priority: int = 0, weight: int = 50) -> bytes:
    """The rdata of an SRV record; the target is never compressed (RFC 2782)."""
    return priority.to_bytes(2) + weight.to_bytes(2) + port.to_bytes(2) + target


def txt_rdata(text: str) -> bytes:
    """The rdata of a TXT record with one string; raises ValueError for more than 255 bytes."""
    data = text.encode()
    return bytes((len(data),)) + data


def soa_record(zone: bytes, serial: int, ttl: int = TTL) -> bytes:
    """The SOA record; its owner name is uncompressed, so that any response can end with it.

    The serial is taken modulo 2^32; refresh is 60, retry 15, expire 86400 seconds, and the minimum
    is `ttl`.
    """
    times = b"".join(n.to_bytes(4) for n in (serial & 0xFFFFFFFF, 60, 15, 86400, ttl))
    rdata = ns_name(zone) + b"\x0ahostmaster" + zone + times
    front = RecordType.SOA.to_bytes(2) + _IN + ttl.to_bytes(4) + len(rdata).to_bytes(2)
    return zone + front + rdata


def ns_name(zone: bytes) -> bytes:
    """`ns.dns.<zone>`, the name server in a zone's NS and SOA records."""
    return b"\x02ns\x03dns" + zone


def version_name(zone: bytes) -> bytes:
    """`dns-version.<zone>`, whose TXT record holds the version of the zone's DNS schema."""
    return b"\x0bdns-version" + zone


def version_node(zone: bytes, text: str, ttl: int = TTL) -> ZoneNode:
    """The node `dns-version.<zone>` with a TXT record of this text, the zone's schema version."""
    return ZoneNode(version_name(zone), (full_rrset(RecordType.TXT, [txt_rdata(text)], ttl),))
