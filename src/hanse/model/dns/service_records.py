"""The records of one Service in its own cluster, after Kubernetes' DNS specification."""

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

from hanse.model.dns.names import MAX_NAME_LENGTH, ROOT, child_name, parse_name
from hanse.model.dns.records import (
    AAAA,
    A,
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
"""The version of Kubernetes' DNS specification, served as `dns-version`."""


def service_nodes(
    name: bytes, service: Service, slices: Iterable[EndpointSlice], ttl: int
) -> Iterator[ZoneNode]:
    """All nodes of a Service in its own cluster: name, named ports, and endpoints if headless.

    An ExternalName Service has only a CNAME, or no node if that is invalid. `slices` are used for
    headless ones; endpoints that are not ready count if the Service publishes them.
    """
    if service.spec.type == "ExternalName":
        yield from _external_name_nodes(name, service, ttl)
    elif service.headless:
        yield from _headless_nodes(name, service, slices, ttl)
    else:
        yield from _cluster_ip_nodes(name, service, ttl)


def address_rrsets(rdatas: Sequence[bytes], ttl: int) -> tuple[RRset, ...]:
    """The A and then the AAAA RRset of the distinct addresses; none for a family without any."""
    if len(rdatas) == 1:  # most services have one address
        return (full_rrset(A if len(rdatas[0]) == 4 else AAAA, rdatas, ttl),)
    distinct = list(dict.fromkeys(rdatas))
    ipv4 = [rdata for rdata in distinct if len(rdata) == 4]
    ipv6 = [rdata for rdata in distinct if len(rdata) == 16]
    return tuple([full_rrset(t, some, ttl) for t, some in ((A, ipv4), (AAAA, ipv6)) if some])


def target_rrsets(targets: Sequence[str], ttl: int) -> Iterator[RRset]:
    """The A and AAAA RRsets of the targets that are IP addresses.

    If none is: CNAME RRsets (`cname_rrsets`) for the first target, or nothing if that is no valid
    name.
    """
    rdatas = [rdata for text in targets if (rdata := address_rdata(text)) is not None]
    yield from address_rrsets(rdatas, ttl)
    if not rdatas and targets and (name := parse_name(targets[0])) is not None:
        yield from cname_rrsets(name, ttl)


def dashed_address(text: str) -> str:
    """An address as a label: dots and colons become dashes."""
    return text.replace(".", "-").replace(":", "-")


def _external_name_nodes(name: bytes, service: Service, ttl: int) -> Iterator[ZoneNode]:
    """A CNAME to the external name; nothing if that is not a domain name or is the root."""
    target = parse_name(service.spec.external_name)
    if target is not None and target != ROOT:
        yield ZoneNode(name, cname_rrsets(target, ttl))


def _cluster_ip_nodes(name: bytes, service: Service, ttl: int) -> Iterator[ZoneNode]:
    """The cluster IPs of a Service, SRV records of all its ports, and a node for each named port.

    Without a valid cluster IP only one empty node.
    """
    several = service.spec.cluster_ips or (service.spec.cluster_ip,)
    rdatas = [rdata for text in several if (rdata := address_rdata(text)) is not None]
    ports = [(p.name, p.protocol, p.port) for p in service.spec.ports] if rdatas else []
    yield ZoneNode(
        name,
        (*address_rrsets(rdatas, ttl), *_srv_rrset([srv_rdata(p, name) for *_, p in ports], ttl)),
    )
    for label, protocol, number in ports:
        own = port_name(label, protocol, name)
        if own is not None:
            yield ZoneNode(own, _srv_rrset([srv_rdata(number, name)], ttl))


def _headless_nodes(
    name: bytes, service: Service, slices: Iterable[EndpointSlice], ttl: int
) -> Iterator[ZoneNode]:
    """A node of the Service with all ready endpoints and SRV records of their ports, if any.

    Then a node for each name of endpoints, and one for each named port. Unready endpoints count if
    the Service publishes them.
    """
    pods: dict[bytes, list[bytes]] = {}
    ports: dict[tuple[str, str], list[bytes]] = {}
    for endpoint_slice in slices:
        for endpoint in endpoint_slice.endpoints or ():
            if endpoint.ready or service.spec.publish_not_ready_addresses:
                own = _add_endpoint(name, endpoint, pods)
                _add_ports(endpoint_slice.ports or (), own, ports)
    addresses = [rdata for several in pods.values() for rdata in several]
    every_port = [record for several in ports.values() for record in several]
    yield ZoneNode(name, (*address_rrsets(addresses, ttl), *_srv_rrset(every_port, ttl)))
    for own, rdatas in pods.items():
        yield ZoneNode(own, address_rrsets(rdatas, ttl))
    for (label, protocol), records in ports.items():
        port_domain = port_name(label, protocol, name)
        if port_domain is not None:
            yield ZoneNode(port_domain, _srv_rrset(records, ttl))


def _add_endpoint(name: bytes, endpoint: Endpoint, pods: dict[bytes, list[bytes]]) -> bytes | None:
    """Add an endpoint's addresses to `pods` under its domain name, and return that name.

    That is its hostname, else its first address with dashes, below `name`. None, and nothing is
    added, if it has no valid address or that name is invalid.
    """
    rdatas = [rdata for text in endpoint.addresses if (rdata := address_rdata(text)) is not None]
    if not rdatas:
        return None
    own = child_name(endpoint.hostname or dashed_address(endpoint.addresses[0]), name)
    if own is not None:
        pods.setdefault(own, []).extend(rdatas)
    return own


def _srv_rrset(records: Sequence[bytes], ttl: int) -> tuple[RRset, ...]:
    """The SRV RRset of the distinct records; none without records."""
    several = list(dict.fromkeys(records))
    return (full_rrset(RecordType.SRV, several, ttl),) if several else ()


def _add_ports(
    ports: Iterable[EndpointPort], pod: bytes | None, records: dict[tuple[str, str], list[bytes]]
) -> None:
    """Add an SRV record for each numbered port of a pod to `records`, by port name and protocol.

    Nothing is added if `pod` is None.
    """
    for port in ports:
        if pod is not None and port.port is not None:
            records.setdefault((port.name, port.protocol), []).append(srv_rdata(port.port, pod))


def port_name(port: str, protocol: str, name: bytes) -> bytes | None:
    """The domain name `_port._protocol.name`; None for an unnamed port, or if it is invalid."""
    front = _port_labels(port, protocol)
    return front + name if front and len(front) + len(name) <= MAX_NAME_LENGTH else None


@lru_cache(maxsize=4096)
def _port_labels(port: str, protocol: str) -> bytes:
    """The labels `_port._protocol` in wire format; empty for an unnamed port or if invalid."""
    parent = child_name(f"_{protocol}", b"")
    return (child_name(f"_{port}", parent) if port and parent is not None else None) or b""
