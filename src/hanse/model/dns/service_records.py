"""What one Service answers inside its own cluster, as Kubernetes specifies it."""

from collections.abc import Iterable, Iterator, Sequence

from hanse.model.dns.names import ROOT, BadName, below, wire_name
from hanse.model.dns.records import Answer, Node, Type, address, alias, srv, together
from hanse.model.kinds.core import Service
from hanse.model.kinds.discovery import Endpoint, EndpointPort, EndpointSlice

SCHEMA_VERSION = "1.1.0"
"""Of Kubernetes' specification of these names, as `dns-version` tells it."""


def nodes_of(
    name: bytes, service: Service, slices: Iterable[EndpointSlice], ttl: int
) -> Iterator[Node]:
    """All names of a Service: its own, its ports', and without an address its endpoints'."""
    if service.spec.type == "ExternalName":
        yield from _elsewhere(name, service, ttl)
    elif service.headless:
        yield from _headless(name, service, slices, ttl)
    else:
        yield from _addressed(name, service, ttl)


def addresses(rdatas: Sequence[bytes], ttl: int) -> tuple[Answer, ...]:
    """All of these addresses, by their family."""
    several = list(dict.fromkeys(rdatas))
    four = [rdata for rdata in several if len(rdata) == 4]
    sixteen = [rdata for rdata in several if len(rdata) == 16]
    told = ((Type.A, four), (Type.AAAA, sixteen))
    return tuple(together(rtype, some, ttl) for rtype, some in told if some)


def dashed(text: str) -> str:
    """An address as a label."""
    return text.replace(".", "-").replace(":", "-")


def _elsewhere(name: bytes, service: Service, ttl: int) -> Iterator[Node]:
    """An alias for what is written; a text that is no name is told by nobody."""
    try:
        target = wire_name(service.spec.external_name)
    except BadName:
        return
    if target != ROOT:
        yield Node(name, alias(target, ttl))


def _addressed(name: bytes, service: Service, ttl: int) -> Iterator[Node]:
    several = service.spec.cluster_ips or (service.spec.cluster_ip,)
    rdatas = [rdata for text in several if (rdata := address(text)) is not None]
    ports = [(p.name, p.protocol, p.port) for p in service.spec.ports] if rdatas else []
    yield Node(name, (*addresses(rdatas, ttl), *_srv([srv(p, name) for *_, p in ports], ttl)))
    for called, protocol, number in ports:
        own = _port_name(called, protocol, name) if called else None
        if own is not None:
            yield Node(own, _srv([srv(number, name)], ttl))


def _headless(
    name: bytes, service: Service, slices: Iterable[EndpointSlice], ttl: int
) -> Iterator[Node]:
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
    yield Node(name, (*addresses(everybody, ttl), *_srv(every_port, ttl)))
    for own, rdatas in pods.items():
        yield Node(own, addresses(rdatas, ttl))
    for (called, protocol), records in named.items():
        title = _port_name(called, protocol, name) if called else None
        if title is not None:
            yield Node(title, _srv(records, ttl))


def _endpoint(name: bytes, endpoint: Endpoint, pods: dict[bytes, list[bytes]]) -> bytes | None:
    rdatas = [rdata for text in endpoint.addresses if (rdata := address(text)) is not None]
    if not rdatas:
        return None
    own = below(endpoint.hostname or dashed(endpoint.addresses[0]), name)
    if own is not None:
        pods.setdefault(own, []).extend(rdatas)
    return own


def _srv(records: Sequence[bytes], ttl: int) -> tuple[Answer, ...]:
    several = list(dict.fromkeys(records))
    return (together(Type.SRV, several, ttl),) if several else ()


def _count_ports(
    ports: Iterable[EndpointPort], own: bytes | None, named: dict[tuple[str, str], list[bytes]]
) -> None:
    for port in ports:
        if own is not None and port.port is not None:
            named.setdefault((port.name, port.protocol), []).append(srv(port.port, own))


def _port_name(port: str, protocol: str, name: bytes) -> bytes | None:
    parent = below(f"_{protocol}", name)
    return below(f"_{port}", parent) if parent is not None else None
