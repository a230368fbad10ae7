"""Owner records: TXT records in the zone that say which key owns a published name."""

from collections.abc import Iterable, Iterator, Mapping

import dns.rdataclass
import dns.rdataset
import dns.rdatatype
import dns.rdtypes.ANY.TXT
import msgspec
from msgspec import Struct

from hanse.features.publishing.records import PUBLISHED_TYPES
from hanse.model.json_input import decode_json
from hanse.model.kinds.names import PublishedName, PublishedNameSpec, RecordSet
from hanse.model.objects import Meta

OWNER_LABEL = "_hanse"
"""The label of the owner record below a published name."""

_MAX_STRING = 255
_DNSSEC_TYPES = {
    dns.rdatatype.RRSIG,
    dns.rdatatype.NSEC,
    dns.rdatatype.NSEC3,
    dns.rdatatype.TYPE0,
}
"""DNSSEC types, which the server itself writes."""


class _OwnerContent(Struct, frozen=True, omit_defaults=True):
    """The content of an owner record, as JSON."""

    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


def is_owner_record(name: str) -> bool:
    """Whether a name is that of an owner record: it begins with the label `_hanse`."""
    return name.startswith(f"{OWNER_LABEL}.")


def owner_record(meta: Meta) -> dns.rdataset.Rdataset:
    """The owner record (TXT, TTL 0) with an object's labels and annotations as JSON."""
    content = msgspec.json.encode(_OwnerContent(meta.labels, meta.annotations), order="sorted")
    strings = [content[at : at + _MAX_STRING] for at in range(0, len(content), _MAX_STRING)]
    rdata = dns.rdtypes.ANY.TXT.TXT(dns.rdataclass.IN, dns.rdatatype.TXT, strings)
    return dns.rdataset.from_rdata(0, rdata)


def parse_published_names(
    content: Iterable[tuple[str, dns.rdataset.Rdataset]],
) -> Iterator[PublishedName]:
    """Each name in a zone as a PublishedName, sorted by name.

    It has the labels and annotations of its owner record; without a valid one no owner claim. Only
    record sets of published types are kept, so that it may have none. Names with DNSSEC records
    alone are left out, but those with an owner record alone are not.
    """
    records: dict[str, list[RecordSet]] = {}
    owners: dict[str, Meta] = {}
    for name, rdataset in content:
        if is_owner_record(name):
            owners |= _parse_owner(name.removeprefix(f"{OWNER_LABEL}."), rdataset)
        elif rdataset.rdtype not in _DNSSEC_TYPES:
            sets_here = records.setdefault(name, [])
            rtype = dns.rdatatype.to_text(rdataset.rdtype)
            if rtype in PUBLISHED_TYPES:
                values = tuple(sorted(rdata.to_text() for rdata in rdataset))
                sets_here.append(RecordSet(type=rtype, ttl=rdataset.ttl, values=values))
    for name in sorted(records.keys() | owners.keys()):
        sets = tuple(sorted(records.get(name, ()), key=lambda s: s.type))
        meta = owners.get(name) or Meta(name=name)
        yield PublishedName(metadata=meta, spec=PublishedNameSpec(records=sets))


def _parse_owner(name: str, rdataset: dns.rdataset.Rdataset) -> Mapping[str, Meta]:
    """The metadata in an owner record, under the name that it owns; empty if it is malformed."""
    if rdataset.rdtype != dns.rdatatype.TXT or len(rdataset) != 1:
        return {}
    try:
        content = decode_json(b"".join(rdataset[0].strings), type=_OwnerContent)
    except msgspec.DecodeError:
        return {}  # not written by Hanse: the name is foreign
    return {name: Meta(name=name, labels=content.labels, annotations=content.annotations)}
