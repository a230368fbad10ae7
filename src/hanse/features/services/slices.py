"""Endpoint slices: what an exporting cluster publishes, and how importers copy it."""

from collections.abc import Iterable, Iterator, Sequence
from ipaddress import ip_address

from hanse.features.services.merge import Merged
from hanse.features.services.names import (
    KUBE_SERVICE,
    MANAGED_BY,
    RECORD,
    SERVICE_NAME,
    SERVICE_NAMESPACE,
    SOURCE_CLUSTER,
    US,
    WEIGHT,
    unique,
)
from hanse.features.services.records import Record, written
from hanse.model.kinds.core import Service
from hanse.model.kinds.discovery import (
    AddressType,
    Endpoint,
    EndpointConditions,
    EndpointPort,
    EndpointSlice,
)
from hanse.model.objects import Meta

MOST_ENDPOINTS = 100
READY = EndpointConditions(ready=True)
NOT_READY = EndpointConditions(ready=False)


def published(
    record: Record,
    service: Service,
    backends: Sequence[EndpointSlice],
    home: str,
    *,
    refused: bool = False,
) -> tuple[EndpointSlice, ...]:
    """The slices that stand on the broker for one export; the first carries the record.

    A refused export keeps its record, so that it is admitted as soon as the conflict is gone, and
    has no endpoints.
    """
    if record.type == "Headless":
        pieces = list(_pods(record, () if refused else backends, home))
    else:
        pieces = list(_addresses(record, service, backends, home, refused=refused))
    if not pieces:
        pieces = [_piece(record, home, "IPv4", (), _service_ports(record), "none")]
    first, *rest = pieces
    annotations = {RECORD: written(record)}
    with_record = EndpointSlice(
        metadata=Meta(
            name=first.metadata.name,
            namespace=home,
            labels=first.metadata.labels,
            annotations=annotations,
        ),
        address_type=first.address_type,
        endpoints=first.endpoints,
        ports=first.ports,
    )
    return (with_record, *rest)


def copied(
    piece: EndpointSlice, record: Record, merged: Merged, derived: str = ""
) -> EndpointSlice:
    """A cluster's slice as it stands in an importing cluster, beside the import."""
    labels = {
        SERVICE_NAME: record.name,
        SOURCE_CLUSTER: record.cluster,
        MANAGED_BY: US,
    }
    if derived:
        labels[KUBE_SERVICE] = derived
    weight = {WEIGHT: str(record.weight)} if record.weight is not None else {}
    ports = tuple(_renamed(port, merged) for port in piece.ports or ())
    return EndpointSlice(
        metadata=Meta(
            name=piece.metadata.name,
            namespace=record.namespace,
            labels=labels,
            annotations=weight,
        ),
        address_type=piece.address_type,
        endpoints=piece.endpoints or (),
        ports=ports if derived else piece.ports or (),
    )


def _addresses(
    record: Record,
    service: Service,
    backends: Sequence[EndpointSlice],
    home: str,
    *,
    refused: bool,
) -> Iterator[EndpointSlice]:
    """One slice per family with the Service's own address: ready when any backend is."""
    known = [e for piece in backends for e in piece.endpoints or ()]
    ready = any(e.ready for e in known)
    for address in service.spec.cluster_ips or (service.spec.cluster_ip,):
        if not address:
            continue
        endpoints: tuple[Endpoint, ...] = ()
        if known and not refused:
            conditions = READY if ready else NOT_READY
            endpoints = (Endpoint(addresses=(address,), conditions=conditions),)
        family = family_of(address)
        yield _piece(record, home, family, endpoints, _service_ports(record), family)


def _pods(record: Record, backends: Iterable[EndpointSlice], home: str) -> Iterator[EndpointSlice]:
    """Slice by slice as the cluster has them, so that a change of one pod changes one slice."""
    for piece in sorted(backends, key=lambda s: s.metadata.name):
        if piece.address_type == "FQDN":
            continue
        pods = [_pod(e) for e in piece.endpoints or ()]
        for start in range(0, max(len(pods), 1), MOST_ENDPOINTS):
            part = tuple(pods[start : start + MOST_ENDPOINTS])
            slot = f"{piece.metadata.name}/{start}"
            yield _piece(record, home, piece.address_type, part, piece.ports or (), slot)


def _pod(endpoint: Endpoint) -> Endpoint:
    """A pod as other clusters need it: where it is, how it is called, how it is."""
    return Endpoint(
        addresses=endpoint.addresses,
        conditions=endpoint.conditions,
        hostname=endpoint.hostname,
        zone=endpoint.zone,
    )


def _piece(
    record: Record,
    home: str,
    family: AddressType,
    endpoints: tuple[Endpoint, ...],
    ports: Sequence[EndpointPort],
    slot: str,
) -> EndpointSlice:
    name = unique(record.name, record.cluster, record.namespace, slot)
    return EndpointSlice(
        metadata=Meta(
            name=name,
            namespace=home,
            labels={
                SERVICE_NAME: record.name,
                SERVICE_NAMESPACE: record.namespace,
                SOURCE_CLUSTER: record.cluster,
                MANAGED_BY: US,
            },
        ),
        address_type=family,
        endpoints=endpoints,
        ports=tuple(ports),
    )


def _service_ports(record: Record) -> tuple[EndpointPort, ...]:
    return tuple(
        EndpointPort(port=p.port, name=p.name, protocol=p.protocol, app_protocol=p.app_protocol)
        for p in record.ports
    )


def _renamed(port: EndpointPort, merged: Merged) -> EndpointPort:
    """The port by the import's name for it, since kube-proxy joins by name."""
    names = {p.name for p in merged.ports}
    if port.name in names:
        return port
    for known in merged.ports:
        if (known.protocol, known.port) == (port.protocol, port.port):
            return EndpointPort(
                port=port.port,
                name=known.name,
                protocol=port.protocol,
                app_protocol=port.app_protocol,
            )
    return port


def family_of(address: str) -> AddressType:
    """The family of an address."""
    return "IPv6" if ip_address(address).version == 6 else "IPv4"
