"""Global services as records that ExternalDNS publishes: one merged record, or one per member."""

from collections.abc import Iterable, Iterator

from hanse.features.gslb.health import current_health
from hanse.features.gslb.options import GslbOptions
from hanse.model.kinds.externaldns import (
    DNSEndpoint,
    DNSEndpointSpec,
    DNSRecord,
    ProviderProperty,
)
from hanse.model.kinds.globalservice import GlobalMember, GlobalService
from hanse.model.kinds.gslb import NAMESPACE
from hanse.model.objects import Meta
from hanse.model.snapshot import Snapshot

TTL = 30
"""What is kept for as long as this where nobody said how long: publishing takes its time anyway."""


def build_dns_endpoint(
    service: GlobalService, snapshot: Snapshot, options: GslbOptions
) -> DNSEndpoint:
    """The records of a service: of the members that serve now, or what is told when none does."""
    spec = service.spec
    serving = list_serving_members(service, snapshot)
    ttl = TTL if spec.ttl is None else spec.ttl
    if serving:
        records = tuple(_records(spec.host, serving, ttl, weighted=options.weighted_records))
    elif spec.when_down == "GSLB_SERVICE_DOWN_RESPONSE_FALLBACK_IP":
        records = tuple(_merged(spec.host, [spec.fallback_ip], ttl))
    elif spec.when_down == "GSLB_SERVICE_DOWN_RESPONSE_EMPTY":
        records = ()
    else:
        records = tuple(_merged(spec.host, [m.told for m in spec.members], ttl))
    return DNSEndpoint(
        metadata=Meta(name=spec.host, namespace=NAMESPACE),
        spec=DNSEndpointSpec(endpoints=records),
    )


def list_serving_members(service: GlobalService, snapshot: Snapshot) -> list[GlobalMember]:
    """The members that are up, of the highest priority that has any."""
    up = [member for member, verdict in current_health(service, snapshot) if verdict.up]
    highest = max((m.priority for m in up), default=0)
    return [m for m in up if m.priority == highest]


def _records(
    host: str, members: list[GlobalMember], ttl: int, *, weighted: bool
) -> Iterator[DNSRecord]:
    if not weighted:
        yield from _merged(host, [m.told for m in members], ttl)
        return
    for member in members:
        yield DNSRecord(
            dns_name=host,
            record_type=_type(member.told),
            record_ttl=ttl,
            targets=(member.told,),
            set_identifier=f"{member.cluster}-{member.told}",
            provider_specific=(ProviderProperty(name="aws/weight", value=str(member.weight)),),
        )


def _merged(host: str, addresses: Iterable[str], ttl: int) -> Iterator[DNSRecord]:
    several = dict.fromkeys(addresses)
    for rtype in ("A", "AAAA"):
        targets = tuple(sorted(a for a in several if _type(a) == rtype))
        if targets:
            yield DNSRecord(dns_name=host, record_type=rtype, record_ttl=ttl, targets=targets)


def _type(address: str) -> str:
    return "AAAA" if ":" in address else "A"
