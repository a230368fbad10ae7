"""The DNSEndpoint of a global service for ExternalDNS: a merged record, or one per member."""

from collections.abc import Iterable, Iterator

from hanse.features.gslb.health import list_serving_members, list_stand_ins
from hanse.features.gslb.leader_lease import Believes
from hanse.features.gslb.options import GslbOptions
from hanse.model.kinds.externaldns import (
    DNSEndpoint,
    DNSEndpointSpec,
    DNSRecord,
    ProviderProperty,
)
from hanse.model.kinds.globalservice import GlobalMember, GlobalService, GlobalServiceSpec
from hanse.model.kinds.gslb import NAMESPACE
from hanse.model.objects import Meta
from hanse.model.snapshot import Snapshot

TTL = 30
"""Seconds, if neither policy nor rule sets a TTL."""


def build_dns_endpoint(
    service: GlobalService, believes: Believes, snapshot: Snapshot, options: GslbOptions
) -> DNSEndpoint:
    """The DNSEndpoint of serving members for a host and its aliases, perhaps without records.

    If no member serves: by `when_down` if that is set, else of the stand-ins.
    """
    spec = service.spec
    members = list_serving_members(service, believes, snapshot)
    if not members and spec.when_down is None:
        members = list_stand_ins(service, snapshot)
    records = [
        record
        for name in (spec.host, *spec.aliases)
        for record in _records_of(name, members, spec, options)
    ]
    return DNSEndpoint(
        metadata=Meta(name=spec.host, namespace=NAMESPACE),
        spec=DNSEndpointSpec(endpoints=tuple(records)),
    )


def _records_of(
    name: str, members: list[GlobalMember], spec: GlobalServiceSpec, options: GslbOptions
) -> Iterator[DNSRecord]:
    """The records of one name: of its members, or if there are none, by `when_down`.

    That is the fallback IP, all members of the spec, or else nothing, as name servers answer.
    """
    ttl = TTL if spec.ttl is None else spec.ttl
    if members:
        yield from _records(name, members, ttl, weighted=options.weighted_records)
    elif spec.when_down == "GSLB_SERVICE_DOWN_RESPONSE_FALLBACK_IP":
        yield from _merged_records(name, [spec.fallback_ip], ttl)
    elif spec.when_down == "GSLB_SERVICE_DOWN_RESPONSE_ALL_RECORDS":
        yield from _merged_records(name, [m.advertised_address for m in spec.members], ttl)


def _records(
    host: str, members: list[GlobalMember], ttl: int, *, weighted: bool
) -> Iterator[DNSRecord]:
    """Records of members: one per address family, or with `weighted` one per member and weight."""
    if not weighted:
        yield from _merged_records(host, [m.advertised_address for m in members], ttl)
        return
    for member in members:
        yield DNSRecord(
            dns_name=host,
            record_type=_record_type(member.advertised_address),
            record_ttl=ttl,
            targets=(member.advertised_address,),
            set_identifier=f"{member.cluster}-{member.advertised_address}",
            provider_specific=(ProviderProperty(name="aws/weight", value=str(member.weight)),),
        )


def _merged_records(host: str, addresses: Iterable[str], ttl: int) -> Iterator[DNSRecord]:
    """One record per address family, A before AAAA, with all its addresses sorted and each once.

    None for a family without addresses.
    """
    unique = dict.fromkeys(addresses)
    for rtype in ("A", "AAAA"):
        targets = tuple(sorted(a for a in unique if _record_type(a) == rtype))
        if targets:
            yield DNSRecord(dns_name=host, record_type=rtype, record_ttl=ttl, targets=targets)


def _record_type(address: str) -> str:
    """`AAAA` for an IPv6 address, else `A`."""
    return "AAAA" if ":" in address else "A"
