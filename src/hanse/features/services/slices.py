"""Endpoint slices: what an exporting cluster publishes, and how importers copy it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from ipaddress import ip_address

from msgspec import Struct
from msgspec.structs import replace

from hanse.features.services.merge import MergedImport
from hanse.features.services.names import (
    DOMAIN,
    RECORD,
    SERVICE_NAME,
    SERVICE_NAMESPACE,
    SOURCE_CLUSTER,
)
from hanse.features.services.records import ExportRecord, written
from hanse.model.kinds.discovery import (
    KUBE_SERVICE,
    MANAGED_BY,
    AddressType,
    Endpoint,
    EndpointConditions,
    EndpointPort,
    EndpointSlice,
)
from hanse.model.naming import unique
from hanse.model.objects import Meta

MOST_ENDPOINTS = 100
READY = EndpointConditions(ready=True)
NOT_READY = EndpointConditions(ready=False)


class ExportBackends(Struct, frozen=True):
    """What stands behind an export in its own cluster."""

    addresses: tuple[str, ...] = ()
    """The Service's own, by which others reach it."""
    pods: tuple[EndpointSlice, ...] = ()


def published(
    record: ExportRecord,
    backing: ExportBackends,
    broker_namespace: str,
    *,
    as_pods: bool,
    refused: bool = False,
) -> tuple[EndpointSlice, ...]:
    """The slices that stand on the broker for one export; the first carries the record.

    A refused export keeps its record, so that it is admitted as soon as the conflict is gone, and
    has no endpoints.
    """
    if as_pods:
        pieces = list(_pods(record, () if refused else backing.pods, broker_namespace))
    else:
        pieces = list(_addresses(record, backing, broker_namespace, refused=refused))
    if not pieces:
        pieces = [_piece(record, broker_namespace, "IPv4", (), _service_ports(record), "none")]
    first, *rest = pieces
    meta = replace(first.metadata, annotations={RECORD: written(record)})
    return (replace(first, metadata=meta), *rest)


def build_imported_slice(
    endpoint_slice: EndpointSlice,
    record: ExportRecord,
    merged: MergedImport,
    derived: str = "",
    marks: Mapping[str, str] | None = None,
) -> EndpointSlice:
    """A cluster's slice as it stands in an importing cluster, beside the import."""
    labels = {
        SERVICE_NAME: record.name,
        SOURCE_CLUSTER: record.cluster,
        MANAGED_BY: DOMAIN,
    }
    if derived:
        labels[KUBE_SERVICE] = derived
    ports = endpoint_slice.ports or ()
    return EndpointSlice(
        metadata=Meta(
            name=endpoint_slice.metadata.name,
            namespace=record.namespace,
            labels=labels,
            annotations=dict(marks or {}),
        ),
        address_type=endpoint_slice.address_type,
        endpoints=endpoint_slice.endpoints or (),
        ports=_as_imported(ports, record, merged) if derived else ports,
    )


def _addresses(
    record: ExportRecord, backing: ExportBackends, broker_namespace: str, *, refused: bool
) -> Iterator[EndpointSlice]:
    """One slice per family with the Service's own address: ready when any backend is."""
    for address in backing.addresses:
        family = family_of(address)
        behind = [e for p in backing.pods if p.address_type == family for e in p.endpoints or ()]
        endpoints: tuple[Endpoint, ...] = ()
        if behind and not refused:
            conditions = READY if any(e.ready for e in behind) else NOT_READY
            endpoints = (Endpoint(addresses=(address,), conditions=conditions),)
        yield _piece(record, broker_namespace, family, endpoints, _service_ports(record), family)


def _pods(
    record: ExportRecord, backends: Iterable[EndpointSlice], broker_namespace: str
) -> Iterator[EndpointSlice]:
    """Slice by slice as the cluster has them, so that a change of one pod changes one slice."""
    for endpoint_slice in sorted(backends, key=lambda s: s.metadata.name):
        if endpoint_slice.address_type == "FQDN":
            continue
        pods = [_pod(e) for e in endpoint_slice.endpoints or ()]
        for start in range(0, max(len(pods), 1), MOST_ENDPOINTS):
            part = tuple(pods[start : start + MOST_ENDPOINTS])
            slot = f"{endpoint_slice.metadata.name}/{start}"
            yield _piece(
                record,
                broker_namespace,
                endpoint_slice.address_type,
                part,
                endpoint_slice.ports or (),
                slot,
            )


def _pod(endpoint: Endpoint) -> Endpoint:
    """A pod as other clusters need it: where it is, how it is called, how it is."""
    return Endpoint(
        addresses=endpoint.addresses,
        conditions=endpoint.conditions,
        hostname=endpoint.hostname,
        zone=endpoint.zone,
    )


def _piece(
    record: ExportRecord,
    broker_namespace: str,
    family: AddressType,
    endpoints: tuple[Endpoint, ...],
    ports: Sequence[EndpointPort],
    slot: str,
) -> EndpointSlice:
    name = unique(record.name, record.cluster, record.namespace, slot)
    return EndpointSlice(
        metadata=Meta(
            name=name,
            namespace=broker_namespace,
            labels={
                SERVICE_NAME: record.name,
                SERVICE_NAMESPACE: record.namespace,
                SOURCE_CLUSTER: record.cluster,
                MANAGED_BY: DOMAIN,
            },
        ),
        address_type=family,
        endpoints=endpoints,
        ports=tuple(ports),
    )


def _service_ports(record: ExportRecord) -> tuple[EndpointPort, ...]:
    return tuple(
        EndpointPort(port=p.port, name=p.name, protocol=p.protocol, app_protocol=p.app_protocol)
        for p in record.ports
    )


def _as_imported(
    ports: Sequence[EndpointPort], record: ExportRecord, merged: MergedImport
) -> tuple[EndpointPort, ...]:
    """The ports by the import's names, since kube-proxy joins by name; no name stands twice.

    A port keeps a name that the import has; another is known by the number that its cluster's
    Service gives it.
    """
    known = {p.name for p in merged.ports}
    numbers = {p.name: (p.protocol, p.port) for p in record.ports}
    by_number = {(p.protocol, p.port): p.name for p in merged.ports}
    taken = {p.name for p in ports if p.name in known}
    told: list[EndpointPort] = []
    for port in ports:
        name = port.name
        if name not in known:
            imported = by_number.get(numbers.get(name, (port.protocol, port.port or 0)), name)
            name = name if imported in taken else imported
            taken.add(name)
        told.append(port if name == port.name else replace(port, name=name))
    return tuple(told)


def family_of(address: str) -> AddressType:
    """The family of an address."""
    return "IPv6" if ip_address(address).version == 6 else "IPv4"


def is_address(text: str) -> bool:
    """Whether a text is an address at all."""
    try:
        ip_address(text)
    except ValueError:
        return False
    return True
