"""Names for the world outside: annotations that ExternalDNS reads, and a DNSEndpoint."""

from collections.abc import Iterable, Sequence
from itertools import chain, zip_longest

from msgspec import Struct

from hanse.features.federated.join_requests import FederatedName
from hanse.features.federated.names import EXTERNAL_DNS, MANAGED_HOSTNAME
from hanse.features.federated.options import FederatedOptions
from hanse.features.federated.records import MemberRecord
from hanse.model.kinds.core import Service
from hanse.model.kinds.discovery import family_of
from hanse.model.kinds.externaldns import DNSEndpoint, DNSEndpointSpec, DNSRecord
from hanse.model.naming import unique
from hanse.model.objects import Meta

MOST_TARGETS = 32
"""Addresses of one outside name: more do not fit an answer that everybody takes."""
TTL = 30


class ExternalHostname(Struct, frozen=True):
    """The name outside, and the annotations that say it."""

    hostname: str = ""
    marks: dict[str, str] = {}


def external_hostname(
    federated: FederatedName,
    records: Iterable[MemberRecord],
    standing: Service | None,
    options: FederatedOptions,
) -> ExternalHostname:
    """A person's name as it stands, else a member's, else one by the template."""
    theirs = _of_a_person(standing.metadata.annotations if standing is not None else {})
    if theirs:
        return ExternalHostname(next(iter(theirs.values())), theirs)
    copied = next((r.hostname for r in records if r.hostname), "")
    template = options.hostname.replace("{name}", federated.name).replace(
        "{namespace}", federated.namespace
    )
    hostname = copied or template
    if not hostname:
        return ExternalHostname()
    marks = {f"{prefix}/hostname": hostname for prefix in EXTERNAL_DNS}
    return ExternalHostname(hostname, {**marks, MANAGED_HOSTNAME: hostname})


def _of_a_person(marks: dict[str, str]) -> dict[str, str]:
    """The annotations with names that we did not set; the newer prefix first."""
    names = [f"{prefix}/hostname" for prefix in reversed(EXTERNAL_DNS)]
    ours = marks.get(MANAGED_HOSTNAME, "")
    return {n: marks[n] for n in names if marks.get(n, "") not in ("", ours)}


def target_annotations(outside: ExternalHostname, targets: Sequence[str]) -> dict[str, str]:
    """What lets ExternalDNS publish a ClusterIP Service at its members' real addresses."""
    if not outside.hostname or not targets:
        return {}
    return {f"{prefix}/target": ",".join(targets) for prefix in EXTERNAL_DNS}


def external_targets(records: Sequence[MemberRecord]) -> tuple[str, ...]:
    """Where members are reached from outside, each member in turn; a name only where no address is.

    An address cannot stand beside a name, which would be a CNAME.
    """
    ready = [
        [a for b in r.backends if b.family != "FQDN" for a in b.ready if family_of(a)]
        for r in records
    ]
    turns = chain.from_iterable(zip_longest(*ready))
    addresses = list(dict.fromkeys(a for a in turns if a is not None))[:MOST_TARGETS]
    if addresses:
        return tuple(sorted(addresses))
    names = sorted({a for r in records for b in r.backends if b.family == "FQDN" for a in b.ready})
    return tuple(names[:1])


def dns_endpoint(federated: FederatedName, hostname: str, targets: Sequence[str]) -> DNSEndpoint:
    """The same as records of their own, for those who let ExternalDNS read these."""
    by_type: dict[str, list[str]] = {}
    for target in targets:
        family = family_of(target)
        by_type.setdefault({"IPv4": "A", "IPv6": "AAAA"}.get(family or "", "CNAME"), []).append(
            target
        )
    names = [name.strip() for name in hostname.split(",") if name.strip()]
    return DNSEndpoint(
        metadata=Meta(name=unique("fed", federated.name), namespace=federated.namespace),
        spec=DNSEndpointSpec(
            endpoints=tuple(
                DNSRecord(dns_name=name, record_type=type_, record_ttl=TTL, targets=tuple(several))
                for name in names
                for type_, several in sorted(by_type.items())
            )
        ),
    )
