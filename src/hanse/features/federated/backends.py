"""The addresses at which a member Service is reached, by its type."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta

from msgspec import Struct
from msgspec.structs import replace

from hanse.features.federated.join_requests import is_reached_outside
from hanse.features.federated.merge import Number, name_ports
from hanse.features.federated.names import DOMAIN
from hanse.features.federated.records import Backends, MemberPort
from hanse.model.affinity import ZONE_DISTRIBUTIONS
from hanse.model.internal_addresses import (
    INTERNAL_FROM,
    PreferredAddress,
    address_by_internal,
    decode_addresses,
    internal_addresses,
    internal_by_address,
    parse_clusters,
    preferred_addresses,
)
from hanse.model.kinds.core import LoadBalancerIngress, Node, Service
from hanse.model.kinds.discovery import (
    KUBE_SERVICE,
    MANAGED_BY,
    AddressType,
    Endpoint,
    EndpointPort,
    EndpointSlice,
    address_family,
)
from hanse.model.kinds.federation import NativeService, NetworkInterface
from hanse.model.objects import ClusterId, Meta
from hanse.model.plan import Question
from hanse.model.questions import host_lookup
from hanse.model.snapshot import Index, Snapshot


def _backed_service(endpoint_slice: EndpointSlice) -> Iterator[str]:
    """Index value: the Service of a slice; none for those that we generate (label managed-by)."""
    labels = endpoint_slice.metadata.labels
    if KUBE_SERVICE in labels and labels.get(MANAGED_BY) != DOMAIN:
        yield f"{endpoint_slice.metadata.namespace}/{labels[KUBE_SERVICE]}"


BACKEND_SLICES = Index(EndpointSlice, "federated-behind", _backed_service)
"""The slices of Services other than federated ones, by Service."""


class ResolvedBackends(Struct, frozen=True):
    """The backends of a member Service, and the host names to look up for them."""

    backends: tuple[Backends, ...] = ()
    sources: tuple[str, ...] = ()
    """The addresses that they send from, if these are not the addresses they are reached at."""
    questions: tuple[Question, ...] = ()
    requeue_after: timedelta | None = None


def service_ports(service: Service) -> tuple[MemberPort, ...]:
    """The ports of a member Service, in the form in which a record lists them."""
    return tuple(
        MemberPort(port=p.port, name=p.name, protocol=p.protocol, app_protocol=p.app_protocol)
        for p in service.spec.ports
    )


def resolve_backends(
    service: Service, where: ClusterId, snapshot: Snapshot, before: Sequence[Backends] = ()
) -> ResolvedBackends:
    """The backends at which other clusters reach a Service, by its type, with host lookups.

    They are the pods, or the nodes, load balancer or external IPs of a Service that is reached
    outside, which alone has source addresses. `before` are those of its current record, kept for
    host names that do not resolve now.
    """
    spec = service.spec
    if not is_reached_outside(service):
        return ResolvedBackends(
            tuple(map(_with_published_addresses, pod_backends(service, where, snapshot)))
        )
    if spec.type == "LoadBalancer":
        resolved = _load_balancer_backends(service, snapshot, before)
    elif spec.type == "NodePort":
        resolved = ResolvedBackends(tuple(_node_backends(service, where, snapshot)))
    else:
        external = _plain(spec.external_ips)
        resolved = ResolvedBackends(
            tuple(_address_backends("external", external, _endpoint_ports(service)))
        )
    return replace(resolved, sources=tuple(sorted(_source_addresses(service, where, snapshot))))


def _source_addresses(service: Service, where: ClusterId, snapshot: Snapshot) -> set[str]:
    """The addresses that a Service's packets come from: its pods', and those of their nodes.

    Where pods are not routed, packets have the address of a node.
    """
    meta = service.metadata
    slices = list(snapshot.by(where, BACKEND_SLICES, f"{meta.namespace}/{meta.name}"))
    endpoints = [e for s in slices if s.address_type != "FQDN" for e in s.endpoints or ()]
    nodes = {e.node_name for e in endpoints if e.node_name}
    return {address for e in endpoints for address in e.addresses} | {
        a.address
        for node in snapshot.all(where, Node)
        if node.metadata.name in nodes
        for a in node.status.addresses
        if address_family(a.address) is not None
    }


def pod_backends(service: Service, where: ClusterId, snapshot: Snapshot) -> tuple[Backends, ...]:
    """The Service's own endpoints, one entry per slice, by slice name.

    Slices that we generate, without endpoints, or of FQDNs are skipped.
    """
    meta = service.metadata
    slices = snapshot.by(where, BACKEND_SLICES, f"{meta.namespace}/{meta.name}")
    return tuple(
        _slice_backends(endpoint_slice, with_zones=prefers_zones(service))
        for endpoint_slice in sorted(slices, key=lambda s: s.metadata.name)
        if endpoint_slice.address_type != "FQDN" and endpoint_slice.endpoints
    )


def resolve_native_backends(
    native: NativeService, where: ClusterId, snapshot: Snapshot
) -> ResolvedBackends:
    """The address of a native service's NetworkInterface; nothing where that does not exist.

    Source addresses are both addresses of the interface.
    """
    meta, spec = native.metadata, native.spec
    interface = snapshot.get(where, NetworkInterface, spec.network_interface, meta.namespace)
    if interface is None:
        return ResolvedBackends()
    ports = tuple(
        EndpointPort(port=p.port, name=p.name, protocol=p.protocol) for p in native_ports(native)
    )
    address = PreferredAddress(interface.address, interface.spec.internal_ip)
    backends = tuple(_address_backends("interface", (address,), ports, _sharing(meta)))
    own = {interface.spec.internal_ip, interface.spec.external_ip}
    return ResolvedBackends(backends, tuple(sorted(a for a in own if address_family(a))))


def native_ports(native: NativeService) -> tuple[MemberPort, ...]:
    """The ports of a native service by number, each protocol and number once, with unique names."""
    ports: dict[Number, MemberPort] = {}
    for p in native.spec.ports:
        port = MemberPort(port=p.port, name=p.name, protocol=p.protocol)
        ports.setdefault((p.protocol, p.port), port)
    return tuple(
        MemberPort(port=p.port, name=p.name, protocol=p.protocol)
        for p in name_ports(ports.values())
    )


def unreachable_reason(native: NativeService, where: ClusterId, snapshot: Snapshot) -> str:
    """Why a native service has no usable address.

    Empty where it has one, or NetworkInterfaces are not listed.
    """
    if not snapshot.listed(where, NetworkInterface):
        return ""
    name, namespace = native.spec.network_interface, native.metadata.namespace
    called = f"NetworkInterface {namespace}/{name}"
    interface = snapshot.get(where, NetworkInterface, name, namespace)
    if interface is None:
        return f"spec.networkInterface: there is no {called}; make it, or name another"
    if not interface.address:
        return f"{called} has no address: give it an internalIP or externalIP"
    if address_family(interface.address) is None:
        return f"{called}: {interface.address!r} is none that an endpoint may have; choose another"
    return ""


def prefers_zones(service: Service) -> bool:
    """Whether trafficDistribution prefers endpoints of the client's zone, or its node."""
    return service.spec.traffic_distribution in ZONE_DISTRIBUTIONS


def _slice_backends(endpoint_slice: EndpointSlice, *, with_zones: bool) -> Backends:
    """The addresses of a slice, each in its best state; of each endpoint only the first address.

    Zones of endpoints are recorded only with `with_zones`.
    """
    by_state: dict[str, set[str]] = {}
    for endpoint in endpoint_slice.endpoints or ():
        by_state.setdefault(_endpoint_state(endpoint), set()).update(endpoint.addresses[:1])
    ready, draining = by_state.get("ready", set()), by_state.get("draining", set())
    return Backends(
        slot=endpoint_slice.metadata.name,
        family=endpoint_slice.address_type,
        ports=endpoint_slice.ports or (),
        ready=tuple(sorted(ready)),
        unready=tuple(sorted(by_state.get("unready", set()) - ready - draining)),
        draining=tuple(sorted(draining - ready)),
        zones={
            address: endpoint.zone
            for endpoint in (endpoint_slice.endpoints or () if with_zones else ())
            for address in endpoint.addresses[:1]
            if endpoint.zone
        },
        internal=decode_addresses(endpoint_slice.metadata.annotations),
    )


def _endpoint_state(endpoint: Endpoint) -> str:
    """`ready`, `draining` (it terminates and still serves) or `unready`."""
    if endpoint.ready:
        return "ready"
    return "draining" if endpoint.serving and endpoint.terminating else "unready"


def _endpoint_ports(service: Service) -> tuple[EndpointPort, ...]:
    """The ports of a Service as endpoint ports: with `port`, not `targetPort`."""
    return tuple(
        EndpointPort(port=p.port, name=p.name, protocol=p.protocol, app_protocol=p.app_protocol)
        for p in service.spec.ports
    )


def _address_backends(
    slot: str,
    addresses: Iterable[PreferredAddress],
    ports: tuple[EndpointPort, ...],
    sharing: tuple[ClusterId, ...] = (),
) -> Iterator[Backends]:
    """Ready backends, one entry per address family; texts that no endpoint may have are skipped.

    The entry's slot is `<slot> <family>`. `sharing` are the clusters on the addresses' network,
    which use internal addresses of the same family.
    """
    families: dict[AddressType, set[PreferredAddress]] = {}
    for one in addresses:
        family = address_family(one.address)
        if family is not None:
            internal = one.internal if address_family(one.internal) == family else ""
            families.setdefault(family, set()).add(PreferredAddress(one.address, internal))
    for family, found in sorted(families.items()):
        inside = sorted(internal_addresses(found, sharing), key=lambda i: i.address)
        ready = tuple(sorted({one.address for one in found}))
        yield Backends(f"{slot} {family}", family, ports, ready=ready, internal=tuple(inside))


def _plain(addresses: Iterable[str]) -> Iterator[PreferredAddress]:
    """The addresses without an internal alternative, so that all clusters use the same one."""
    return (PreferredAddress(address, "") for address in addresses)


def _sharing(meta: Meta) -> tuple[ClusterId, ...]:
    """The clusters in the annotation `INTERNAL_FROM`; none if it is missing or invalid.

    They are on the network of the Service's nodes or interface.
    """
    return parse_clusters(meta.annotations.get(INTERNAL_FROM, "")) or ()


def backends_from(cluster: ClusterId, backends: Backends) -> Backends:
    """The backends as a cluster reaches them: by internal address where it shares their network."""
    return _with_addresses(backends, internal_by_address(cluster, backends.internal))


def _with_published_addresses(backends: Backends) -> Backends:
    """The backends with each internal address replaced by the one that other clusters reach."""
    return _with_addresses(backends, address_by_internal(backends.internal))


def _with_addresses(backends: Backends, instead: Mapping[str, str]) -> Backends:
    """The backends with addresses replaced as in `instead`, in every state and in the zones."""
    if not instead:
        return backends
    ready, unready, draining = (
        tuple(sorted(instead.get(address, address) for address in addresses))
        for addresses in (backends.ready, backends.unready, backends.draining)
    )
    zones = {instead.get(address, address): zone for address, zone in backends.zones.items()}
    return replace(backends, ready=ready, unready=unready, draining=draining, zones=zones)


def _node_backends(service: Service, where: ClusterId, snapshot: Snapshot) -> Iterator[Backends]:
    """The ready nodes at the node ports; under policy Local only those with ready endpoints.

    Nodes that are being deleted and ports without a node port are left out.
    """
    ports = tuple(
        EndpointPort(port=p.node_port, name=p.name, protocol=p.protocol)
        for p in service.spec.ports
        if p.node_port
    )
    nodes = [n for n in snapshot.all(where, Node) if n.ready and not n.metadata.deletion_timestamp]
    if service.spec.external_traffic_policy == "Local":
        used = _nodes_with_endpoints(service, where, snapshot)
        nodes = [n for n in nodes if n.metadata.name in used]
    addresses = (a for n in nodes for a in _node_addresses(n))
    yield from _address_backends("nodes", addresses, ports, _sharing(service.metadata))


def _nodes_with_endpoints(service: Service, where: ClusterId, snapshot: Snapshot) -> set[str]:
    """The names of the nodes on which the Service has a ready endpoint."""
    meta = service.metadata
    return {
        endpoint.node_name
        for endpoint_slice in snapshot.by(where, BACKEND_SLICES, f"{meta.namespace}/{meta.name}")
        for endpoint in endpoint_slice.endpoints or ()
        if endpoint.ready and endpoint.node_name
    }


def _node_addresses(node: Node) -> Iterator[PreferredAddress]:
    """One address of each family, the ExternalIP if there is one, with the InternalIP beside it."""
    return preferred_addresses([(a.address, a.type) for a in node.status.addresses])


def _load_balancer_backends(
    service: Service, snapshot: Snapshot, before: Sequence[Backends]
) -> ResolvedBackends:
    """The addresses and host names in the load balancer's status, and questions that resolve names.

    A host name gives its resolved addresses and, if it has a dot, itself as FQDN backends. While it
    is not resolved, those in `before` at the same place in the status are kept.
    """
    backends: list[Backends] = []
    questions: list[Question] = []
    again: list[timedelta] = []
    for number, ingress in enumerate(service.status.load_balancer.ingress):
        ports = _ingress_ports(service, ingress)
        slot = f"ingress {number}"
        if ingress.ip:
            backends += _address_backends(slot, _plain((ingress.ip,)), ports)
        elif ingress.hostname:
            found = host_lookup(ingress.hostname, snapshot)
            questions.append(found.question)
            again.append(found.requeue_after)
            host = ingress.hostname.rstrip(".").lower()
            if "." in host:  # an FQDN slice needs a name with a dot
                backends.append(Backends(f"{slot} FQDN", "FQDN", ports, ready=(host,)))
            if found.addresses is not None:
                backends += _address_backends(slot, _plain(found.addresses), ports)
            else:  # not resolved now: keep the recorded addresses
                backends += [b for b in before if b.slot in (f"{slot} IPv4", f"{slot} IPv6")]
    return ResolvedBackends(
        tuple(backends), questions=tuple(questions), requeue_after=min(again, default=None)
    )


def _ingress_ports(service: Service, ingress: LoadBalancerIngress) -> tuple[EndpointPort, ...]:
    """The Service's ports that the load balancer reports without error; all if it reports none."""
    own = _endpoint_ports(service)
    if not ingress.ports:
        return own
    served = {(p.protocol, p.port) for p in ingress.ports if not p.error}
    return tuple(p for p in own if (p.protocol, p.port) in served)
