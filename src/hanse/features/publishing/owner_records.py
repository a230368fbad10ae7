"""Whose a name is, written beside it in the zone itself: there is no other memory; pure."""

from collections.abc import Iterable, Iterator, Mapping

import dns.rdataclass
import dns.rdataset
import dns.rdatatype
import dns.rdtypes.ANY.TXT
import msgspec
from msgspec import Struct

from hanse.features.publishing.records import PUBLISHED_TYPES
from hanse.model.kinds.names import PublishedName, PublishedNameSpec, RecordSet
from hanse.model.objects import Meta

OWNER_LABEL = "_hanse"
"""The label below a name where its mark stands."""

_STRING = 255
_SIGNATURES = {
    dns.rdatatype.RRSIG,
    dns.rdatatype.NSEC,
    dns.rdatatype.NSEC3,
    dns.rdatatype.TYPE0,
}
"""What the server itself puts beside records."""


class _Mark(Struct, frozen=True, omit_defaults=True):
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


def is_owner_record(name: str) -> bool:
    """Whether a name is where a mark of ours stands."""
    return name.startswith(f"{OWNER_LABEL}.")


def owner_record(meta: Meta) -> dns.rdataset.Rdataset:
    """The TXT record that says whose a name is."""
    told = msgspec.json.encode(_Mark(meta.labels, meta.annotations), order="sorted")
    strings = [told[at : at + _STRING] for at in range(0, len(told), _STRING)]
    rdata = dns.rdtypes.ANY.TXT.TXT(dns.rdataclass.IN, dns.rdatatype.TXT, strings)
    return dns.rdataset.from_rdata(0, rdata)


def parse_published_names(
    content: Iterable[tuple[str, dns.rdataset.Rdataset]],
) -> Iterator[PublishedName]:
    """Every name of a zone as an object; those without a mark are somebody else's."""
    records: dict[str, list[RecordSet]] = {}
    marks: dict[str, Meta] = {}
    for name, rdataset in content:
        if is_owner_record(name):
            marks |= _marked(name.removeprefix(f"{OWNER_LABEL}."), rdataset)
        elif rdataset.rdtype not in _SIGNATURES:
            here = records.setdefault(name, [])
            rtype = dns.rdatatype.to_text(rdataset.rdtype)
            if rtype in PUBLISHED_TYPES:
                values = tuple(sorted(rdata.to_text() for rdata in rdataset))
                here.append(RecordSet(type=rtype, ttl=rdataset.ttl, values=values))
    for name in sorted(records.keys() | marks.keys()):
        sets = tuple(sorted(records.get(name, ()), key=lambda told: told.type))
        meta = marks.get(name) or Meta(name=name)
        yield PublishedName(metadata=meta, spec=PublishedNameSpec(records=sets))


def _marked(name: str, rdataset: dns.rdataset.Rdataset) -> Mapping[str, Meta]:
    if rdataset.rdtype != dns.rdatatype.TXT or len(rdataset) != 1:
        return {}
    try:
        mark = msgspec.json.decode(b"".join(rdataset[0].strings), type=_Mark)
    except msgspec.DecodeError:
        return {}  # not written by us: the name is not ours
    return {name: Meta(name=name, labels=mark.labels, annotations=mark.annotations)}
