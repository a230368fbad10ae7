"""What one Service answers inside its own cluster, as Kubernetes specifies it."""

from collections.abc import Iterable, Iterator, Sequence

from hanse.model.dns.names import ROOT, InvalidName, child_name, wire_name
from hanse.model.dns.records import (
    RecordType,
    RRset,
    ZoneNode,
    address_rdata,
    cname_rrsets,
    full_rrset,
    srv_rdata,
)
from hanse.model.kinds.core import Service
from hanse.model.kinds.discovery import Endpoint, EndpointPort, EndpointSlice

SCHEMA_VERSION = "1.1.0"
"""Of Kubernetes' specification of these names, as `dns-version_node` tells it."""


def service_nodes(
    name: bytes, service: Service, slices: Iterable[EndpointSlice], ttl: int
) -> Iterator[ZoneNode]:
    """All names of a Service: its own, its ports', and without an address its endpoints'."""
    if service.spec.type == "ExternalName":
        yield from _elsewhere(name, service, ttl)
    elif service.headless:
        yield from _headless(name, service, slices, ttl)
    else:
        yield from _addressed(name, service, ttl)


def address_rrsets(rdatas: Sequence[bytes], ttl: int) -> tuple[RRset, ...]:
    """All of these addresses, by their family."""
    several = list(dict.fromkeys(rdatas))
    four = [rdata for rdata in several if len(rdata) == 4]
    sixteen = [rdata for rdata in several if len(rdata) == 16]
    told = ((RecordType.A, four), (RecordType.AAAA, sixteen))
    return tuple(full_rrset(rtype, some, ttl) for rtype, some in told if some)


def dashed_address(text: str) -> str:
    """An address as a label."""
    return text.replace(".", "-").replace(":", "-")


def _elsewhere(name: bytes, service: Service, ttl: int) -> Iterator[ZoneNode]:
    """An alias for what is written; a text that is no name is told by nobody."""
    try:
        target = wire_name(service.spec.external_name)
    except InvalidName:
        return
    if target != ROOT:
        yield ZoneNode(name, cname_rrsets(target, ttl))


def _addressed(name: bytes, service: Service, ttl: int) -> Iterator[ZoneNode]:
    several = service.spec.cluster_ips or (service.spec.cluster_ip,)
    rdatas = [rdata for text in several if (rdata := address_rdata(text)) is not None]
    ports = [(p.name, p.protocol, p.port) for p in service.spec.ports] if rdatas else []
    yield ZoneNode(
        name, (*address_rrsets(rdatas, ttl), *_srv([srv_rdata(p, name) for *_, p in ports], ttl))
    )
    for called, protocol, number in ports:
        own = _port_name(called, protocol, name) if called else None
        if own is not None:
            yield ZoneNode(own, _srv([srv_rdata(number, name)], ttl))


def _headless(
    name: bytes, service: Service, slices: Iterable[EndpointSlice], ttl: int
) -> Iterator[ZoneNode]:
    """Every ready endpoint, each also by a name of its own."""
    pods: dict[bytes, list[bytes]] = {}
    named: dict[tuple[str, str], list[bytes]] = {}
    for piece in slices:
        for endpoint in piece.endpoints or ():
            if endpoint.ready or service.spec.publish_not_ready_addresses:
                own = _endpoint(name, endpoint, pods)
                _count_ports(piece.ports or (), own, named)
    everybody = [rdata for several in pods.values() for rdata in several]
    every_port = [record for several in named.values() for record in several]
    yield ZoneNode(name, (*address_rrsets(everybody, ttl), *_srv(every_port, ttl)))
    for own, rdatas in pods.items():
        yield ZoneNode(own, address_rrsets(rdatas, ttl))
    for (called, protocol), records in named.items():
        title = _port_name(called, protocol, name) if called else None
        if title is not None:
            yield ZoneNode(title, _srv(records, ttl))


def _endpoint(name: bytes, endpoint: Endpoint, pods: dict[bytes, list[bytes]]) -> bytes | None:
    rdatas = [rdata for text in endpoint.addresses if (rdata := address_rdata(text)) is not None]
    if not rdatas:
        return None
    own = child_name(endpoint.hostname or dashed_address(endpoint.addresses[0]), name)
    if own is not None:
        pods.setdefault(own, []).extend(rdatas)
    return own


def _srv(records: Sequence[bytes], ttl: int) -> tuple[RRset, ...]:
    several = list(dict.fromkeys(records))
    return (full_rrset(RecordType.SRV, several, ttl),) if several else ()


def _count_ports(
    ports: Iterable[EndpointPort], own: bytes | None, named: dict[tuple[str, str], list[bytes]]
) -> None:
    for port in ports:
        if own is not None and port.port is not None:
            named.setdefault((port.name, port.protocol), []).append(srv_rdata(port.port, own))


def _port_name(port: str, protocol: str, name: bytes) -> bytes | None:
    parent = child_name(f"_{protocol}", name)
    return child_name(f"_{port}", parent) if parent is not None else None
