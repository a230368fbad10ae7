"""What a name tells, as others keep it: whole record sets, without turns; pure."""

from collections.abc import Iterable
from hashlib import blake2b

from hanse.dns.answers import Node, everything
from hanse.dns.names import text_of
from hanse.dns.table import type_text
from hanse.dns.zonefile import written
from hanse.model.keys import Key
from hanse.model.kinds.externaldns import DNSEndpoint, DNSEndpointSpec, DNSRecord
from hanse.model.kinds.names import PublishedName, PublishedNameSpec, RecordSet
from hanse.model.objects import Meta

PUBLISHED = ("A", "AAAA", "CNAME", "SRV", "TXT")
"""The types that are ours on a name of ours; others there are left alone."""

_LONGEST_NAME = 200


def record_sets(node: Node) -> tuple[RecordSet, ...]:
    """Everything that a name may tell, in one order for everybody.

    Who keeps records cannot take turns by weight: each set holds all that have a turn.
    """
    sets: dict[str, RecordSet] = {}
    for answer in node.answers:
        told = [r for r in everything(answer) if r.type == answer.type]  # or it is an alias
        values = tuple(sorted(written(record.type, record.rdata) for record in told))
        name = type_text(answer.type)
        if name in PUBLISHED and told:
            sets[name] = RecordSet(type=name, ttl=told[0].ttl, values=values)
    return tuple(sets[name] for name in sorted(sets))


def published_names(nodes: Iterable[Node]) -> tuple[PublishedName, ...]:
    """The names of a key, each as an object of its own; names without records are left out."""
    return tuple(
        PublishedName(
            metadata=Meta(name=text_of(node.name).removesuffix(".")),
            spec=PublishedNameSpec(records=sets),
        )
        for node in nodes
        if (sets := record_sets(node))
    )


def endpoint(key: Key, namespace: str, nodes: Iterable[Node]) -> DNSEndpoint | None:
    """The names of a key as one DNSEndpoint; None where there are none."""
    records = tuple(
        DNSRecord(
            dns_name=text_of(node.name).removesuffix("."),
            record_type=told.type,
            record_ttl=told.ttl,
            targets=_targets(told),
        )
        for node in nodes
        for told in record_sets(node)
    )
    if not records:
        return None
    meta = Meta(name=_object_name(key), namespace=namespace)
    return DNSEndpoint(metadata=meta, spec=DNSEndpointSpec(endpoints=records))


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
