"""What a name tells, as others keep it: whole record sets, without turns; pure."""

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
"""The types that are ours on a name of ours; others there are left alone."""

_LONGEST_NAME = 200
_MOST_WEIGHT = 255


def record_sets(node: ZoneNode) -> tuple[RecordSet, ...]:
    """Everything that a name may tell, in one order for everybody.

    Who keeps records cannot take turns by weight: each set holds all that have a turn.
    """
    sets: dict[str, RecordSet] = {}
    for answer in node.rrsets:
        told = [
            r for r in all_resource_records(answer) if r.type == answer.type
        ]  # or it is an alias
        values = tuple(sorted(rdata_text(record.type, record.rdata) for record in told))
        name = type_mnemonic(answer.type)
        if name in PUBLISHED_TYPES and told:
            sets[name] = RecordSet(type=name, ttl=told[0].ttl, values=values)
    return tuple(sets[name] for name in sorted(sets))


def published_names(nodes: Iterable[ZoneNode]) -> tuple[PublishedName, ...]:
    """The names of a key, each as an object of its own; names without records are left out."""
    return tuple(
        PublishedName(
            metadata=Meta(name=name_text(node.name).removesuffix(".")),
            spec=PublishedNameSpec(records=sets),
        )
        for node in nodes
        if (sets := record_sets(node))
    )


def endpoint(
    key: Key,
    namespace: str,
    nodes: Iterable[ZoneNode],
    tell: Callable[[ZoneNode], Iterable[DNSRecord]],
) -> DNSEndpoint | None:
    """The names of a key as one DNSEndpoint; None where there are none."""
    records = tuple(record for node in nodes for record in tell(node))
    if not records:
        return None
    meta = Meta(name=_object_name(key), namespace=namespace)
    return DNSEndpoint(metadata=meta, spec=DNSEndpointSpec(endpoints=records))


def endpoint_records(node: ZoneNode) -> Iterator[DNSRecord]:
    """A name's record sets as every provider takes them."""
    for told in record_sets(node):
        yield DNSRecord(
            dns_name=name_text(node.name).removesuffix("."),
            record_type=told.type,
            record_ttl=told.ttl,
            targets=_targets(told),
        )


def weighted_records(node: ZoneNode) -> Iterator[DNSRecord]:
    """The same, but each turn of an address has a set of its own, with its weight.

    A provider that knows weights lets no name have sets with one beside a set without; so what
    has no turns, pods or a single cluster, is told as a set with a weight too.
    """
    turns = {
        type_mnemonic(a.type): a for a in node.rrsets if a.type in (RecordType.A, RecordType.AAAA)
    }
    for whole in endpoint_records(node):
        answer = turns.get(whole.record_type)
        if answer is None:
            yield whole
            continue
        shares = _shares(answer)
        for targets, weight in sorted(shares.items()):
            yield replace(
                whole,
                targets=targets,
                set_identifier=targets[0] if len(targets) == 1 else "all",
                provider_specific=(ProviderProperty(name="aws/weight", value=str(weight)),),
            )


def _shares(answer: RRset) -> dict[tuple[str, ...], int]:
    """What is told in each turn, and its weight among all, at most as much as Route 53 takes."""
    shares: dict[tuple[str, ...], int] = {}
    for variant in answer.variants:
        told = parse_records(variant.body)
        targets = tuple(sorted(rdata_text(record.type, record.rdata) for record in told))
        shares[targets] = shares.get(targets, 0) + variant.weight
    most = max(shares.values())
    if most <= _MOST_WEIGHT:
        return shares
    return {t: max(1, weight * _MOST_WEIGHT // most) for t, weight in shares.items()}


def _targets(told: RecordSet) -> tuple[str, ...]:
    """As ExternalDNS writes them: text without quotes, names without a final dot but in SRV."""
    match told.type:
        case "TXT":
            return tuple(value.strip('"') for value in told.values)
        case "CNAME":
            return tuple(value.removesuffix(".") for value in told.values)
        case _:
            return told.values


def _object_name(key: Key) -> str:
    """A name that two keys never share and that people can read."""
    digest = blake2b(str(key).encode(), digest_size=5).hexdigest()
    parts = [part for part in (key.name, key.namespace, key.topic) if part]
    readable = "-".join(parts).lower().replace("_", "-")[:_LONGEST_NAME]
    return f"{readable}-{digest}"
