"""The zone of multi-cluster services: the records of one service in either profile."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from hanse.features.services.backends import (
    BY_CLUSTER,
    BY_SERVICE,
    ClusterBackends,
    ClusterSetRules,
    EndpointAddress,
    cluster_backends,
    clusterset_rules,
)
from hanse.features.services.names import AFFINITY, SERVICE_NAME
from hanse.model.affinity import AffinityMode, parse_affinity
from hanse.model.clusterset import are_leases_read
from hanse.model.dns.names import child_name, wire_name
from hanse.model.dns.records import (
    AAAA,
    SRV,
    A,
    RRset,
    ZoneNode,
    address_rdata,
    full_rrset,
    srv_rdata,
    version_node,
    weighted_rrset,
)
from hanse.model.dns.service_records import address_rrsets, port_name
from hanse.model.dns.zones import View
from hanse.model.facts import LeaseLiveness, Role
from hanse.model.kinds.discovery import EndpointPort, EndpointSlice
from hanse.model.kinds.hanse import ClusterMember, ClusterSet
from hanse.model.kinds.multicluster import ImportedPort, ServiceImport
from hanse.model.plan import Key
from hanse.model.snapshot import Change, FactChange, Snapshot, Watch
from hanse.model.weights import select_parts

SERVICE = "service"
VERSION = Key("version")
SCHEMA_VERSION = "1.0.0"
"""The version of the multi-cluster DNS schema, served as `dns-version`."""

Port = EndpointPort | ImportedPort
T = TypeVar("T")


class ServiceZone:
    """The names of all services that a cluster imports."""

    name = "services"
    watches: tuple[Watch, ...] = (
        Watch(Role.LOCAL, ServiceImport),
        Watch(Role.LOCAL, EndpointSlice, labels=SERVICE_NAME, indexes=(BY_SERVICE, BY_CLUSTER)),
        Watch(Role.BROKER, ClusterSet),
    )

    def __init__(self, view: View) -> None:
        """The names of multi-cluster services in the view's zone; nothing is read yet.

        Raises InvalidName if that is no domain name.
        """
        self.view = view
        self._apex = wire_name(view.zone)
        self._services = b"\x03svc" + self._apex
        self.zones: tuple[bytes, ...] = (self._apex,)

    def synced(self, snapshot: Snapshot) -> bool:
        """Whether ServiceImports and EndpointSlices are listed, or are not served.

        Also whether brokers' Leases are read: before that a dead cluster would be answered.
        """
        return are_leases_read(snapshot) and all(
            snapshot.listed_or_unserved(snapshot.local, kind)
            for kind in (ServiceImport, EndpointSlice)
        )

    def keys(self, snapshot: Snapshot) -> Iterator[Key]:
        """The key of the schema version, and one for each ServiceImport of this cluster."""
        yield VERSION
        for service_import in snapshot.all(snapshot.local, ServiceImport):
            yield _service_key(service_import.metadata.namespace, service_import.metadata.name)

    def keys_in(self, namespaces: Iterable[str], snapshot: Snapshot) -> Iterator[Key]:
        """The key of the schema version, and one for each ServiceImport of some namespaces."""
        yield VERSION
        for namespace in namespaces:
            for found in snapshot.in_namespace(snapshot.local, ServiceImport, namespace):
                yield _service_key(namespace, found.metadata.name)

    def keys_for(self, change: Change, snapshot: Snapshot) -> Iterable[Key]:
        """Keys of services that a change affects: of a local import or slice.

        All keys, that of the schema version too, for a ClusterSet.
        For a Lease's liveness or a ClusterMember those of which slices of its cluster are imported
        here; none for other changes.
        """
        if isinstance(change, FactChange):
            fact = change.fact
            return (
                _keys_exported_by(fact.lease, snapshot) if isinstance(fact, LeaseLiveness) else ()
            )
        match change.object:
            case ClusterSet():
                return self.keys(snapshot)
            case ClusterMember(metadata=meta):
                return _keys_exported_by(meta.name, snapshot)
            case ServiceImport(metadata=meta) if change.where == snapshot.local:
                return (_service_key(meta.namespace, meta.name),)
            case EndpointSlice() if change.where == snapshot.local:
                return {
                    _service_key(
                        endpoint_slice.metadata.namespace,
                        endpoint_slice.metadata.labels[SERVICE_NAME],
                    )
                    for endpoint_slice in (change.before, change.after)
                    if endpoint_slice is not None and SERVICE_NAME in endpoint_slice.metadata.labels
                }
            case _:
                return ()

    def records_for(self, snapshot: Snapshot) -> Callable[[Key], Sequence[ZoneNode]]:
        """A function that builds all nodes of a service, or the node of the schema version.

        The rules of the ClusterSet are read once; a missing import has no nodes.
        """
        rules = clusterset_rules(self.view, snapshot)

        def build_nodes(key: Key) -> Sequence[ZoneNode]:
            """The nodes of an import, or of the version record; none if it does not exist."""
            if key == VERSION:
                return (version_node(self._apex, SCHEMA_VERSION, self.view.ttl),)
            service_import = snapshot.get(snapshot.local, ServiceImport, key.name, key.namespace)
            if service_import is None:
                return ()
            own = rules.for_import(service_import)
            backends = cluster_backends(key, service_import, own, snapshot)
            return self.service_nodes(key, service_import, own, backends)

        return build_nodes

    def service_nodes(
        self,
        key: Key,
        service_import: ServiceImport,
        rules: ClusterSetRules,
        backends: Sequence[ClusterBackends],
    ) -> Sequence[ZoneNode]:
        """All nodes of one service, headless or not; none if its name would be invalid."""
        name = self.service_name(key)
        if name is None:
            return ()
        if service_import.spec.type == "Headless":
            return list(_headless_nodes(name, service_import, rules, backends, self.view))
        return _clusterset_ip_nodes(name, service_import, rules, backends, self.view)

    def service_name(self, key: Key) -> bytes | None:
        """`<service>.<namespace>.svc.<zone>` in wire format; None if that would be invalid."""
        namespace_domain = child_name(key.namespace, self._services)
        return None if namespace_domain is None else child_name(key.name, namespace_domain)


def has_cluster_names(view: View, rules: ClusterSetRules) -> bool:
    """Whether names `<cluster>.<service>` exist: as the view says, else in `lighthouse` only."""
    if view.cluster_names is not None:
        return view.cluster_names
    return rules.profile == "lighthouse"


def affinity_mode(service_import: ServiceImport, view: View) -> AffinityMode:
    """`local`, `remote` or `none`: by the import's annotation, else by the view's `local_first`.

    An invalid annotation is ignored; the view gives `local` or `none`. Always `none` in a view
    without a local cluster.
    """
    rule = parse_affinity(service_import.metadata.annotations.get(AFFINITY, ""))
    if not view.local:
        return "none"
    return rule.mode if rule is not None else "local" if view.local_first else "none"


def select_backends(
    backends: Sequence[ClusterBackends], view: View, affinity: AffinityMode
) -> list[ClusterBackends]:
    """The clusters with ready addresses that answers rotate over, by affinity, priority, weight.

    Clusters of weight 0 are used only if no other is ready. A preferred local cluster is the only
    one, whatever its priority; else those of the highest priority.
    """
    return select_parts(
        [backend for backend in backends if backend.addresses],
        lambda backend: backend.weighting,
        affinity,
        lambda backend: backend.cluster == view.local,
    )


def _clusterset_ip_nodes(
    name: bytes,
    service_import: ServiceImport,
    rules: ClusterSetRules,
    backends: Sequence[ClusterBackends],
    view: View,
) -> list[ZoneNode]:
    """The nodes of a service that is not headless, with its ports.

    In `kep-1645` it has the import's addresses alone, in `lighthouse` those of one cluster at a
    time; without any, nodes without records. Where clusters have names, each has its own.
    """
    if rules.profile == "kep-1645":
        rdatas = [
            rdata for text in service_import.spec.ips if (rdata := address_rdata(text)) is not None
        ]
        usable = bool(rdatas)
        rrsets: Sequence[RRset] = address_rrsets(rdatas, view.ttl)
    else:
        several = select_backends(backends, view, affinity_mode(service_import, view))
        usable = bool(several)
        rrsets = _weighted_addresses(several, view.ttl)
    known = _list_named_ports(service_import.spec.ports, backends)
    nodes = _nodes_with_ports(
        name, rrsets, service_import.spec.ports if usable else (), known, view.ttl
    )
    if has_cluster_names(view, rules):
        for backend in backends:
            own = child_name(backend.cluster, name)
            if own is not None:
                rrsets = address_rrsets(
                    [endpoint.rdata for endpoint in backend.addresses], view.ttl
                )
                ports = backend.ports if backend.addresses else ()
                nodes += _nodes_with_ports(own, rrsets, ports, backend.ports, view.ttl)
    return nodes


def _headless_nodes(
    name: bytes,
    service_import: ServiceImport,
    rules: ClusterSetRules,
    backends: Sequence[ClusterBackends],
    view: View,
) -> Iterator[ZoneNode]:
    """The nodes of a headless service: all ready pods of all clusters, and a name for each pod.

    Also for each cluster, where clusters have names. Without pods its own name exists under
    `lighthouse` only.
    """
    targets: list[tuple[bytes, EndpointAddress]] = []
    for backend in backends:
        cluster_name = child_name(backend.cluster, name)
        if cluster_name is None:
            continue
        pods = [
            (pod, endpoint)
            for endpoint in backend.addresses
            if (pod := child_name(endpoint.label, cluster_name)) is not None
        ]
        targets += pods
        if has_cluster_names(view, rules):
            yield from _service_and_port_nodes(
                cluster_name, pods, backend.ports, backend.ports, view.ttl
            )
        yield from _pod_nodes(pods, view.ttl)
    if targets or rules.profile == "lighthouse":
        known = _list_named_ports(service_import.spec.ports, backends)
        yield from _service_and_port_nodes(
            name, targets, service_import.spec.ports, known, view.ttl
        )


def _pod_nodes(pods: Sequence[tuple[bytes, EndpointAddress]], ttl: int) -> Iterator[ZoneNode]:
    """A node for each pod name, with its addresses and an SRV record for each port number.

    Ports without a number have no record.
    """
    by_name: dict[bytes, list[EndpointAddress]] = {}
    for pod, endpoint in pods:
        by_name.setdefault(pod, []).append(endpoint)
    for pod, addresses in by_name.items():
        numbers = [p.port for s in addresses for p in s.ports if p.port is not None]
        records = [srv_rdata(number, pod) for number in _distinct(numbers)]
        srv_rrsets = [full_rrset(SRV, records, ttl)] if records else []
        yield ZoneNode(pod, (*address_rrsets([s.rdata for s in addresses], ttl), *srv_rrsets))


def _service_and_port_nodes(
    name: bytes,
    pods: Sequence[tuple[bytes, EndpointAddress]],
    ports: Sequence[Port],
    known: Iterable[Port],
    ttl: int,
) -> Iterator[ZoneNode]:
    """The node with the addresses of all pods and SRV records of `ports`, and one per named port.

    A port that is only `known` has a node without records. A record has the number that the pod
    serves.
    """
    rrsets = [*address_rrsets([endpoint.rdata for _, endpoint in pods], ttl)]
    every: list[bytes] = []
    named: dict[tuple[str, str], list[bytes]] = {(p.name, p.protocol): [] for p in known if p.name}
    for port in ports:
        records = [
            srv_rdata(number, pod)
            for pod, endpoint in pods
            if (number := _port_number(port, endpoint.ports)) is not None
        ]
        every += records
        if port.name:
            named.setdefault((port.name, port.protocol), []).extend(records)
    if every:
        rrsets.append(full_rrset(SRV, _distinct(every), ttl))
    yield ZoneNode(name, tuple(rrsets))
    yield from _port_nodes(name, named, ttl)


def _nodes_with_ports(
    name: bytes, rrsets: Sequence[RRset], ports: Sequence[Port], known: Sequence[Port], ttl: int
) -> list[ZoneNode]:
    """A node with the RRsets and SRV records of `ports`, and a node for each named port.

    A port that is only `known`, or has no number, has a node without records; an invalid port name
    has no node.
    """
    if len(ports) == len(known) == 1 and ports[0] is known[0] and ports[0].port:
        return _nodes_with_port(name, rrsets, ports[0], srv_rdata(ports[0].port, name), ttl)
    numbers = [port.port for port in ports if port.port]
    every = _srv_rrset(numbers, name, ttl)
    nodes = [ZoneNode(name, (*rrsets, *every))]
    named: dict[tuple[str, str], list[int]] = {(p.name, p.protocol): [] for p in known}
    for port in ports:
        if port.port:
            named.setdefault((port.name, port.protocol), []).append(port.port)
    for (label, protocol), some in named.items():
        own = port_name(label, protocol, name)
        if own is not None:
            nodes.append(ZoneNode(own, every if some == numbers else _srv_rrset(some, name, ttl)))
    return nodes


def _nodes_with_port(
    name: bytes, rrsets: Sequence[RRset], port: Port, rdata: bytes, ttl: int
) -> list[ZoneNode]:
    """As `_nodes_with_ports` for a single port, which most services have: both share the RRset.

    Both are the node of `name` and that of the port, which is left out if its name is invalid.
    """
    only = full_rrset(SRV, (rdata,), ttl)
    own = port_name(port.name, port.protocol, name)
    node = ZoneNode(name, (*rrsets, only))
    return [node] if own is None else [node, ZoneNode(own, (only,))]


def _srv_rrset(numbers: Sequence[int], target: bytes, ttl: int) -> tuple[RRset, ...]:
    """The SRV RRset with some ports of a target; none without ports."""
    if not numbers:
        return ()
    return (full_rrset(SRV, [srv_rdata(number, target) for number in _distinct(numbers)], ttl),)


def _port_nodes(
    name: bytes, named: dict[tuple[str, str], list[bytes]], ttl: int
) -> Iterator[ZoneNode]:
    """The nodes of named ports with their SRV records; ports without records get an empty node.

    A port whose name would be invalid gets none.
    """
    for (port, protocol), records in named.items():
        own = port_name(port, protocol, name)
        if own is not None:
            yield ZoneNode(own, (full_rrset(SRV, _distinct(records), ttl),) if records else ())


def _list_named_ports(ports: Sequence[Port], backends: Sequence[ClusterBackends]) -> Sequence[Port]:
    """All named ports of the import and of any cluster, each name and protocol once.

    Those of the import come first, and are not replaced by those of clusters.
    """
    known = {(port.name, port.protocol): port for port in ports}
    for backend in backends:
        for port in backend.ports:
            known.setdefault((port.name, port.protocol), port)
    return [port for port in known.values() if port.name]


def _port_number(port: Port, served: Sequence[EndpointPort]) -> int | None:
    """The number that a pod serves for a port of this name and protocol; else the port's own.

    None if the port that the pod serves has no number, even if the other has one.
    """
    for own in served:
        if own.name == port.name and own.protocol == port.protocol:
            return own.port
    return port.port


def _weighted_addresses(backends: Sequence[ClusterBackends], ttl: int) -> list[RRset]:
    """RRsets that rotate by weight (0 as 1) over the first address of each cluster and family.

    No RRset for a family without addresses.
    """
    ipv4: list[tuple[bytes, int]] = []
    ipv6: list[tuple[bytes, int]] = []
    for backend in backends:
        first = {len(endpoint.rdata): endpoint.rdata for endpoint in reversed(backend.addresses)}
        weight = backend.weighting.weight or 1
        for size, rdata in first.items():
            (ipv4 if size == 4 else ipv6).append((rdata, weight))
    rrsets = [weighted_rrset(A, ipv4, ttl)] if ipv4 else []
    return [*rrsets, weighted_rrset(AAAA, ipv6, ttl)] if ipv6 else rrsets


def _distinct(values: Sequence[T]) -> Sequence[T]:
    """The values without repeats, in order; a single value is returned as given."""
    return values if len(values) == 1 else list(dict.fromkeys(values))


def _service_key(namespace: str, name: str) -> Key:
    """The key of a service in this zone."""
    return Key(SERVICE, name, namespace)


def _keys_exported_by(cluster: str, snapshot: Snapshot) -> set[Key]:
    """The keys of the services of which this cluster has slices from the given cluster."""
    return {
        _service_key(
            endpoint_slice.metadata.namespace, endpoint_slice.metadata.labels[SERVICE_NAME]
        )
        for endpoint_slice in snapshot.by(snapshot.local, BY_CLUSTER, cluster)
    }
