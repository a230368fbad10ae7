"""Zone nodes as whole record sets, for servers and providers that do not rotate answers."""

from collections.abc import Callable, Iterable, Iterator
from hashlib import blake2b

from msgspec.structs import replace

from hanse.model.dns.names import name_text
from hanse.model.dns.presentation import rdata_text
from hanse.model.dns.records import (
    RecordType,
    RRset,
    ZoneNode,
    all_resource_records,
    parse_records,
    type_mnemonic,
)
from hanse.model.kinds.externaldns import (
    DNSEndpoint,
    DNSEndpointSpec,
    DNSRecord,
    ProviderProperty,
)
from hanse.model.kinds.names import PublishedName, PublishedNameSpec, RecordSet
from hanse.model.objects import Meta
from hanse.model.plan import Key

PUBLISHED_TYPES = ("A", "AAAA", "CNAME", "SRV", "TXT")
"""The record types that are managed at a published name; other types are left alone."""

_MAX_READABLE = 200
_MAX_WEIGHT = 255


def record_sets(node: ZoneNode) -> tuple[RecordSet, ...]:
    """A node's record sets of PUBLISHED_TYPES, sorted by type; a CNAME is only in the set CNAME.

    The zone answers other types by the CNAME, too: those answers are left out. The sets have no
    weights: each holds the records of all variants. Empty if none of the types has records.
    """
    sets: dict[str, RecordSet] = {}
    for rrset in node.rrsets:
        records = [r for r in all_resource_records(rrset) if r.type == rrset.type]  # no CNAME
        values = tuple(sorted(rdata_text(record.type, record.rdata) for record in records))
        name = type_mnemonic(rrset.type)
        if name in PUBLISHED_TYPES and records:
            sets[name] = RecordSet(type=name, ttl=records[0].ttl, values=values)
    return tuple(sets[name] for name in sorted(sets))


def published_names(nodes: Iterable[ZoneNode]) -> tuple[PublishedName, ...]:
    """A PublishedName for each node that has record sets of published types; others are left out.

    Its name is the node's without the final dot.
    """
    return tuple(
        PublishedName(
            metadata=Meta(name=name_text(node.name).removesuffix(".")),
            spec=PublishedNameSpec(records=sets),
        )
        for node in nodes
        if (sets := record_sets(node))
    )


def dns_endpoint(
    key: Key,
    namespace: str,
    nodes: Iterable[ZoneNode],
    render: Callable[[ZoneNode], Iterable[DNSRecord]],
) -> DNSEndpoint | None:
    """One DNSEndpoint with the records of all nodes of a key, by `render`; None if there are none.

    Its name is unique for the key.
    """
    records = tuple(record for node in nodes for record in render(node))
    if not records:
        return None
    meta = Meta(name=_object_name(key), namespace=namespace)
    return DNSEndpoint(metadata=meta, spec=DNSEndpointSpec(endpoints=records))


def endpoint_records(node: ZoneNode) -> Iterator[DNSRecord]:
    """The record sets of a node as DNSEndpoint records without weights, for all providers."""
    for record_set in record_sets(node):
        yield DNSRecord(
            dns_name=name_text(node.name).removesuffix("."),
            record_type=record_set.type,
            record_ttl=record_set.ttl,
            targets=_targets(record_set),
        )


def weighted_records(node: ZoneNode) -> Iterator[DNSRecord]:
    """As `endpoint_records`, but with one weighted record set for each variant of an address type.

    Providers reject a name that has sets with and without a weight, so address types with a single
    variant get a weight, too. A set's identifier is its target if it has one, else `all`.
    """
    address_rrsets = {
        type_mnemonic(a.type): a for a in node.rrsets if a.type in (RecordType.A, RecordType.AAAA)
    }
    for record_set in endpoint_records(node):
        rrset = address_rrsets.get(record_set.record_type)
        if rrset is None:
            yield record_set
            continue
        weights = _weighted_targets(rrset)
        for targets, weight in sorted(weights.items()):
            yield replace(
                record_set,
                targets=targets,
                set_identifier=targets[0] if len(targets) == 1 else "all",
                provider_specific=(ProviderProperty(name="aws/weight", value=str(weight)),),
            )


def _weighted_targets(rrset: RRset) -> dict[tuple[str, ...], int]:
    """The targets of each variant with its weight; variants with equal targets add up.

    All are scaled down if the highest is above 255, the maximum of Route 53, to 1 at least.
    """
    weights: dict[tuple[str, ...], int] = {}
    for variant in rrset.variants:
        records = parse_records(variant.body)
        targets = tuple(sorted(rdata_text(record.type, record.rdata) for record in records))
        weights[targets] = weights.get(targets, 0) + variant.weight
    highest = max(weights.values())
    if highest <= _MAX_WEIGHT:
        return weights
    return {t: max(1, weight * _MAX_WEIGHT // highest) for t, weight in weights.items()}


def _targets(record_set: RecordSet) -> tuple[str, ...]:
    """Targets as ExternalDNS writes them: TXT without quotes, CNAME without a final dot."""
    match record_set.type:
        case "TXT":
            return tuple(value.strip('"') for value in record_set.values)
        case "CNAME":
            return tuple(value.removesuffix(".") for value in record_set.values)
        case _:
            return record_set.values


def _object_name(key: Key) -> str:
    """A readable object name that is unique for a key: its parts, cut to a length, and a digest.

    In lower case, with dashes for underscores.
    """
    digest = blake2b(str(key).encode(), digest_size=5).hexdigest()
    parts = [part for part in (key.name, key.namespace, key.topic) if part]
    readable = "-".join(parts).lower().replace("_", "-")[:_MAX_READABLE]
    return f"{readable}-{digest}"
