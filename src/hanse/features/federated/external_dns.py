"""External DNS names of federated Services: ExternalDNS annotations, and a DNSEndpoint."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, zip_longest
from typing import Annotated

import msgspec
from msgspec import Struct

from hanse.features.federated.join_requests import FederatedName
from hanse.features.federated.merge import Number
from hanse.features.federated.names import (
    EXTERNAL_DNS,
    MANAGED_HOSTNAME,
    MIRRORED_HOSTNAME,
    SHARES,
    TARGETS,
)
from hanse.features.federated.options import FederatedOptions
from hanse.features.federated.records import MemberRecord
from hanse.features.federated.slices import rename_ports
from hanse.model.kinds.core import Service
from hanse.model.kinds.discovery import address_family
from hanse.model.kinds.externaldns import DNSEndpoint, DNSEndpointSpec, DNSRecord
from hanse.model.naming import unique_name
from hanse.model.objects import ClusterId, Meta
from hanse.model.weights import MOST_WEIGHT, select_parts

MOST_TARGETS = 32
"""Addresses of one external name: more would not fit a DNS answer over UDP."""
TTL = 30
_HOSTNAMES = tuple(f"{prefix}/hostname" for prefix in reversed(EXTERNAL_DNS))


Targets = dict[str, dict[str, int]]
"""Addresses by which members are reached, each with the numbers of its ports, as `http/TCP`."""


class MemberShare(Struct, frozen=True, array_like=True):
    """The weight of a member Service, and its addresses: answers have those of one member."""

    cluster: ClusterId
    weight: Annotated[int, msgspec.Meta(ge=0, le=MOST_WEIGHT)]
    addresses: tuple[str, ...]


class ExternalHostname(Struct, frozen=True):
    """The external host name, and the annotations with which ExternalDNS reads it."""

    hostname: str = ""
    annotations: dict[str, str] = {}


def external_hostname(
    federated: FederatedName,
    records: Iterable[MemberRecord],
    current: Service | None,
    options: FederatedOptions,
) -> ExternalHostname:
    """The host name that a user set on the Service, else a member's, else one by the template.

    With the annotations to write for it; both empty if there is none. A user's name is copied to
    the annotation of the other prefix.
    """
    by_user = _user_hostnames(current.metadata.annotations if current is not None else {})
    if by_user:
        hostname = next(iter(by_user.values()))
        annotations = dict(by_user)
        for other in _HOSTNAMES:
            if other not in by_user:
                annotations |= {other: hostname, MIRRORED_HOSTNAME: f"{other}={hostname}"}
        return ExternalHostname(hostname, annotations)
    copied = next((r.hostname for r in records if r.hostname), "")
    template = options.hostname.replace("{name}", federated.name).replace(
        "{namespace}", federated.namespace
    )
    hostname = copied or template
    if not hostname:
        return ExternalHostname()
    annotations = {f"{prefix}/hostname": hostname for prefix in EXTERNAL_DNS}
    return ExternalHostname(hostname, {**annotations, MANAGED_HOSTNAME: hostname})


def _user_hostnames(annotations: dict[str, str]) -> dict[str, str]:
    """The host name annotations that we did not set; the newer prefix first."""
    ours = annotations.get(MANAGED_HOSTNAME, "")
    mirrored = annotations.get(MIRRORED_HOSTNAME, "")
    found = {n: annotations[n] for n in _HOSTNAMES if annotations.get(n, "") not in ("", ours)}
    return {n: value for n, value in found.items() if f"{n}={value}" != mirrored}


def annotated_hostname(annotations: Mapping[str, str]) -> str:
    """The host name that ExternalDNS would read, the newer prefix first; empty if there is none."""
    names = (annotations.get(name, "").strip() for name in _HOSTNAMES)
    return next((name for name in names if name), "")


def target_annotations(
    external: ExternalHostname, targets: Targets, shares: Sequence[MemberShare]
) -> dict[str, str]:
    """The annotations with the targets for ExternalDNS; with ports and shares for our DNS server.

    Empty without a host name or without targets.
    """
    if not external.hostname or not targets:
        return {}
    annotations = {f"{prefix}/target": ",".join(targets) for prefix in EXTERNAL_DNS}
    annotations[TARGETS] = msgspec.json.encode(targets, order="sorted").decode()
    if shares:
        annotations[SHARES] = msgspec.json.encode(shares).decode()
    return annotations


def published_records(records: Sequence[MemberRecord]) -> list[MemberRecord]:
    """The records of ready members that external names resolve to, chosen by priority and weight.

    No affinity applies, as a client outside is local to no cluster.
    """
    return select_parts([r for r in records if r.is_ready], lambda r: r.weighting)


def external_shares(records: Sequence[MemberRecord], targets: Targets) -> tuple[MemberShare, ...]:
    """The weight and target addresses of each member that has targets.

    Empty if all weights are equal.
    """
    shares = [
        MemberShare(
            record.cluster,
            record.weighting.weight,
            tuple(sorted({a for b in record.backends for a in b.ready if a in targets})),
        )
        for record in records
    ]
    found = tuple(share for share in shares if share.addresses)
    return found if len({share.weight for share in found}) > 1 else ()


def external_targets(records: Sequence[MemberRecord], names: Mapping[Number, str]) -> Targets:
    """The target addresses of an external name, each with its ports by `name/protocol`.

    The addresses are ready ones of members, the names those of the federated Service's ports.
    """
    found: Targets = {address: {} for address in _target_addresses(records)}
    for record in records:
        for backends in record.backends:
            ports, _ = rename_ports(backends.ports, record.ports, names)
            numbers = {f"{p.name}/{p.protocol}": p.port for p in ports if p.name and p.port}
            for address in backends.ready:
                if address in found:
                    found[address] |= numbers
    return found


def _target_addresses(records: Sequence[MemberRecord]) -> tuple[str, ...]:
    """The ready addresses of members, sorted, up to MOST_TARGETS; else the first host name by name.

    Beyond the limit addresses are taken from each member in turn. Addresses and a host name cannot
    be combined: the name becomes a CNAME record.
    """
    ready = [
        [a for b in r.backends if b.family != "FQDN" for a in b.ready if address_family(a)]
        for r in records
    ]
    turns = chain.from_iterable(zip_longest(*ready))
    addresses = list(dict.fromkeys(a for a in turns if a is not None))[:MOST_TARGETS]
    if addresses:
        return tuple(sorted(addresses))
    names = sorted({a for r in records for b in r.backends if b.family == "FQDN" for a in b.ready})
    return tuple(names[:1])


def dns_endpoint(federated: FederatedName, hostname: str, targets: Iterable[str]) -> DNSEndpoint:
    """A DNSEndpoint with the targets for each comma-separated host name, by record type."""
    by_type: dict[str, list[str]] = {}
    for target in targets:
        family = address_family(target)
        by_type.setdefault({"IPv4": "A", "IPv6": "AAAA"}.get(family or "", "CNAME"), []).append(
            target
        )
    names = [name.strip() for name in hostname.split(",") if name.strip()]
    return DNSEndpoint(
        metadata=Meta(name=unique_name("fed", federated.name), namespace=federated.namespace),
        spec=DNSEndpointSpec(
            endpoints=tuple(
                DNSRecord(dns_name=name, record_type=type_, record_ttl=TTL, targets=tuple(values))
                for name in names
                for type_, values in sorted(by_type.items())
            )
        ),
    )
