"""Builds EndpointSlices: those that an exporting cluster publishes, and importers' copies."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from ipaddress import ip_address

from msgspec import Struct
from msgspec.structs import replace

from hanse.features.services.merge import MergedImport
from hanse.features.services.names import (
    AGENT,
    DOMAIN,
    EXPORTED_AT,
    PRIORITY,
    RECORD,
    SERVICE_NAME,
    SERVICE_NAMESPACE,
    SOURCE_CLUSTER,
    WEIGHT,
)
from hanse.features.services.records import ExportRecord, decode_record, encode_record
from hanse.model.affinity import with_zone_hint
from hanse.model.kinds.discovery import (
    KUBE_SERVICE,
    MANAGED_BY,
    AddressType,
    Endpoint,
    EndpointConditions,
    EndpointPort,
    EndpointSlice,
)
from hanse.model.kinds.hanse import MemberSettings
from hanse.model.naming import unique_name
from hanse.model.objects import Meta

MOST_ENDPOINTS = 100
_HASH_BITS = 256
READY = EndpointConditions(ready=True)
NOT_READY = EndpointConditions(ready=False)


class ExportBackends(Struct, frozen=True):
    """The backends of an exported Service."""

    addresses: tuple[str, ...] = ()
    """Of the Service itself, as other clusters reach it."""
    pods: tuple[EndpointSlice, ...] = ()
    """The slices of the Service in its own cluster."""


def build_published_slices(
    record: ExportRecord,
    backends: ExportBackends,
    broker_namespace: str,
    *,
    as_pods: bool,
    refused: bool = False,
    published: Sequence[EndpointSlice] = (),
) -> tuple[EndpointSlice, ...]:
    """The slices of one export on the broker, at least one; one of them carries the record.

    They have the pods' addresses with `as_pods`, else the Service's; no endpoints if `refused`. The
    oldest of the `published` slices with a record stays its carrier, without endpoints if it is not
    built any more, as its age is that of the export. The times that `published` slices state stay.
    """
    if as_pods:
        slices = list(_pod_slices(record, () if refused else backends.pods, broker_namespace))
    else:
        slices = list(_service_ip_slices(record, backends, broker_namespace, refused=refused))
    slices = slices or [_empty_slice(record, broker_namespace)]
    carriers = [s for s in published if decode_record(s) is not None]
    carrier = min(carriers, key=_creation_order, default=slices[0])
    name = carrier.metadata.name
    if name not in {s.metadata.name for s in slices}:
        meta = replace(slices[0].metadata, name=name)
        slices.append(replace(carrier, metadata=meta, endpoints=(), ports=_service_ports(record)))
    stated = {s.metadata.name: s.metadata.annotations.get(EXPORTED_AT) for s in published}
    return tuple(_with_record(s, record, stated, carries=s.metadata.name == name) for s in slices)


def _creation_order(endpoint_slice: EndpointSlice) -> tuple[bool, str, str]:
    """Sort key: the oldest first, then by name; slices that are not stored yet last."""
    created = endpoint_slice.metadata.creation_timestamp
    return (created is None, created.isoformat() if created else "", endpoint_slice.metadata.name)


def _with_record(
    endpoint_slice: EndpointSlice,
    record: ExportRecord,
    stated: Mapping[str, str | None],
    *,
    carries: bool,
) -> EndpointSlice:
    """The slice with only these annotations: the time of the export, and the record if `carries`.

    A slice in `stated`, which are the published ones by name, keeps its time there, or has none if
    that is None.
    """
    name = endpoint_slice.metadata.name
    time = stated.get(name, record.exported_at.isoformat())
    annotations = {EXPORTED_AT: time} if time is not None else {}
    if carries:
        annotations[RECORD] = encode_record(record)
    meta = replace(endpoint_slice.metadata, annotations=annotations)
    return replace(endpoint_slice, metadata=meta)


def build_own_slices(
    record: ExportRecord, pods: Sequence[EndpointSlice], broker_namespace: str
) -> tuple[EndpointSlice, ...]:
    """The slices of this cluster's own pods in its import, at least one.

    Endpoints have node names; without pods it is one slice without endpoints.
    """
    slices = tuple(_pod_slices(record, pods, broker_namespace, with_nodes=True))
    return slices or (_empty_slice(record, broker_namespace),)


def _empty_slice(record: ExportRecord, broker_namespace: str) -> EndpointSlice:
    """The only slice of an export without backends: IPv4, the Service's ports, and no endpoints."""
    return _build_slice(record, broker_namespace, "IPv4", (), _service_ports(record), "none")


def build_imported_slice(
    endpoint_slice: EndpointSlice,
    record: ExportRecord,
    merged: MergedImport,
    derived: str = "",
    annotations: Mapping[str, str] | None = None,
) -> EndpointSlice:
    """The copy of a published slice in an importing cluster, in the namespace of the import.

    It has only these `annotations`. For a derived Service it has that Service's label, the import's
    port names, and zone hints if the import prefers zones.
    """
    labels = {
        SERVICE_NAME: record.name,
        SOURCE_CLUSTER: record.cluster,
        MANAGED_BY: DOMAIN,
    }
    if derived:
        labels[KUBE_SERVICE] = derived
    ports, endpoints = endpoint_slice.ports or (), endpoint_slice.endpoints or ()
    if derived and merged.prefers_zones:
        endpoints = tuple(with_zone_hint(e) for e in endpoints)
    return EndpointSlice(
        metadata=Meta(
            name=endpoint_slice.metadata.name,
            namespace=record.namespace,
            labels=labels,
            annotations=dict(annotations or {}),
        ),
        address_type=endpoint_slice.address_type,
        endpoints=endpoints,
        ports=_imported_ports(ports, record, merged) if derived else ports,
    )


def _service_ip_slices(
    record: ExportRecord, backends: ExportBackends, broker_namespace: str, *, refused: bool
) -> Iterator[EndpointSlice]:
    """One slice per address of the Service, ready while any pod of its family is.

    It has no endpoint if there are no such pods or the export is refused.
    """
    for address in backends.addresses:
        family = address_family(address)
        pods = [e for p in backends.pods if p.address_type == family for e in p.endpoints or ()]
        endpoints: tuple[Endpoint, ...] = ()
        if pods and not refused:
            conditions = READY if any(e.ready for e in pods) else NOT_READY
            endpoints = (Endpoint(addresses=(address,), conditions=conditions),)
        yield _build_slice(
            record, broker_namespace, family, endpoints, _service_ports(record), family
        )


def _pod_slices(
    record: ExportRecord,
    backends: Iterable[EndpointSlice],
    broker_namespace: str,
    *,
    with_nodes: bool = False,
) -> Iterator[EndpointSlice]:
    """Slices of at most MOST_ENDPOINTS for each slice of the Service; FQDN slices are skipped.

    A changed slice of the Service changes its own only: ports and places of all others are kept.
    Nodes of pods are published only with `with_nodes`.
    """
    for endpoint_slice in sorted(backends, key=lambda s: s.metadata.name):
        if endpoint_slice.address_type == "FQDN":
            continue
        for part in _split_endpoints(endpoint_slice.endpoints or ()):
            yield _build_slice(
                record,
                broker_namespace,
                endpoint_slice.address_type,
                tuple(_published_endpoint(e, with_node=with_nodes) for e in part.endpoints),
                endpoint_slice.ports or (),
                f"{endpoint_slice.metadata.name}/{part.prefix or 0}",
            )


class _Part(Struct, frozen=True):
    """The endpoints whose hashed addresses begin with the same bits."""

    prefix: str
    endpoints: tuple[Endpoint, ...]


def _split_endpoints(endpoints: tuple[Endpoint, ...], prefix: str = "") -> Iterator[_Part]:
    """Parts of at most MOST_ENDPOINTS by hash of addresses, so that a change moves few endpoints.

    What does not fit into a part that cannot be halved any more is left out.
    """
    if len(endpoints) <= MOST_ENDPOINTS or len(prefix) >= _HASH_BITS:
        yield _Part(prefix, endpoints[:MOST_ENDPOINTS])
        return
    for bit in "01":
        half = tuple(e for e in endpoints if _hash_bits(e)[len(prefix)] == bit)
        yield from _split_endpoints(half, prefix + bit)


def _hash_bits(endpoint: Endpoint) -> str:
    """The hash of an endpoint's addresses as text of `0` and `1`."""
    digest = sha256(" ".join(endpoint.addresses).encode()).digest()
    return f"{int.from_bytes(digest):0{_HASH_BITS}b}"


def _published_endpoint(endpoint: Endpoint, *, with_node: bool) -> Endpoint:
    """The endpoint without target reference, hints, and, unless `with_node`, node name.

    Addresses, conditions, host name and zone stay.
    """
    return Endpoint(
        addresses=endpoint.addresses,
        conditions=endpoint.conditions,
        hostname=endpoint.hostname,
        node_name=endpoint.node_name if with_node else "",
        zone=endpoint.zone,
    )


def _build_slice(
    record: ExportRecord,
    broker_namespace: str,
    family: AddressType,
    endpoints: tuple[Endpoint, ...],
    ports: Sequence[EndpointPort],
    slot: str,
) -> EndpointSlice:
    """A slice on the broker; `slot` makes its name unique among those of the export.

    Its name begins with the cluster and a dot: the broker lets no other cluster take such a name.
    """
    unique = unique_name(record.name, record.cluster, record.namespace, slot)
    name = f"{record.cluster}.{unique}"
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
    """The ports of the exported Service, as slices have them."""
    return tuple(
        EndpointPort(port=p.port, name=p.name, protocol=p.protocol, app_protocol=p.app_protocol)
        for p in record.ports
    )


def _imported_ports(
    ports: Sequence[EndpointPort], record: ExportRecord, merged: MergedImport
) -> tuple[EndpointPort, ...]:
    """The ports under the names that the import gives to their numbers, each name once.

    The number of a port is that of the exported port of its name, else its own. A port whose number
    the import does not have is left out.
    """
    numbers = {p.name: (p.protocol, p.port) for p in record.ports}
    names = {(p.protocol, p.port): p.name for p in merged.ports}
    imported: dict[str, EndpointPort] = {}
    for port in ports:
        name = names.get(numbers.get(port.name, (port.protocol, port.port or 0)))
        if name is not None:
            imported.setdefault(name, port if name == port.name else replace(port, name=name))
    return tuple(imported.values())


def address_family(address: str) -> AddressType:
    """The address family of an IP address; raises ValueError for other texts."""
    return "IPv6" if ip_address(address).version == 6 else "IPv4"


def share_annotations(record: ExportRecord, settings: MemberSettings) -> dict[str, str]:
    """The annotations of a cluster's weight and priority in DNS answers, as text.

    The export's own value, if it has one, else the ClusterSet's unless that is the default.
    """
    defaults = MemberSettings(id=record.cluster)
    annotations: dict[str, str] = {}
    for name, own, clusterset, default in (
        (WEIGHT, record.weight, settings.weight, defaults.weight),
        (PRIORITY, record.priority, settings.priority, defaults.priority),
    ):
        if own is not None or clusterset != default:
            annotations[name] = str(clusterset if own is None else own)
    return annotations


def agent_annotation(endpoint_slice: EndpointSlice) -> dict[str, str]:
    """The annotation `AGENT` of a slice, to be copied; empty if our agent published it."""
    agent = endpoint_slice.metadata.annotations.get(AGENT)
    return {AGENT: agent} if agent else {}
