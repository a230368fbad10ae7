"""The names of multi-cluster services: what one service answers, in either profile."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
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
from hanse.features.services.names import SERVICE_NAME
from hanse.model.dns.names import MAX_NAME_LENGTH, child_name, wire_name
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
from hanse.model.dns.zones import View
from hanse.model.facts import KindServed, LeaseLiveness, Role
from hanse.model.kinds.discovery import EndpointPort, EndpointSlice
from hanse.model.kinds.hanse import ClusterSet
from hanse.model.kinds.multicluster import ImportedPort, ServiceImport
from hanse.model.objects import Object
from hanse.model.plan import Key
from hanse.model.snapshot import Change, FactChange, Snapshot, Watch

SERVICE = "service"
VERSION = Key("version")
SCHEMA_VERSION = "1.0.0"
"""Of the names themselves, as `dns-version_node` tells it."""

Port = EndpointPort | ImportedPort
T = TypeVar("T")


class ServiceZone:
    """The names of all services that one cluster imports."""

    name = "services"
    watches: tuple[Watch, ...] = (
        Watch(Role.LOCAL, ServiceImport),
        Watch(Role.LOCAL, EndpointSlice, labels=SERVICE_NAME, indexes=(BY_SERVICE, BY_CLUSTER)),
        Watch(Role.BROKER, ClusterSet),
    )

    def __init__(self, view: View) -> None:
        self.view = view
        self._apex = wire_name(view.zone)
        self._services = b"\x03svc" + self._apex
        self.zones: tuple[bytes, ...] = (self._apex,)

    def synced(self, snapshot: Snapshot) -> bool:
        return all(_is_known(kind, snapshot) for kind in (ServiceImport, EndpointSlice))

    def keys(self, snapshot: Snapshot) -> Iterator[Key]:
        yield VERSION
        for told in snapshot.all(snapshot.local, ServiceImport):
            yield _key(told.metadata.namespace, told.metadata.name)

    def keys_for(self, change: Change, snapshot: Snapshot) -> Iterable[Key]:
        if isinstance(change, FactChange):
            fact = change.fact
            return _keys_from(fact.lease, snapshot) if isinstance(fact, LeaseLiveness) else ()
        match change.object:
            case ClusterSet():
                return self.keys(snapshot)
            case ServiceImport(metadata=meta) if change.where == snapshot.local:
                return (_key(meta.namespace, meta.name),)
            case EndpointSlice() if change.where == snapshot.local:
                return {
                    _key(
                        endpoint_slice.metadata.namespace,
                        endpoint_slice.metadata.labels[SERVICE_NAME],
                    )
                    for endpoint_slice in (change.before, change.after)
                    if endpoint_slice is not None and SERVICE_NAME in endpoint_slice.metadata.labels
                }
            case _:
                return ()

    def records_for(self, snapshot: Snapshot) -> Callable[[Key], Sequence[ZoneNode]]:
        rules = clusterset_rules(self.view, snapshot)

        def build_nodes(key: Key) -> Sequence[ZoneNode]:
            if key == VERSION:
                return (version_node(self._apex, SCHEMA_VERSION, self.view.ttl),)
            told = snapshot.get(snapshot.local, ServiceImport, key.name, key.namespace)
            if told is None:
                return ()
            return self.service(key, told, rules, cluster_backends(key, told, rules, snapshot))

        return build_nodes

    def service(
        self,
        key: Key,
        told: ServiceImport,
        rules: ClusterSetRules,
        backends: Sequence[ClusterBackends],
    ) -> Sequence[ZoneNode]:
        """All names of one service."""
        name = self.name_of(key)
        if name is None:
            return ()
        if told.spec.type == "Headless":
            return list(_headless(name, told, rules, backends, self.view))
        return _addressed(name, told, rules, backends, self.view)

    def name_of(self, key: Key) -> bytes | None:
        """The name of a service; None where it cannot be written as one."""
        space = child_name(key.namespace, self._services)
        return None if space is None else child_name(key.name, space)


def has_cluster_names(view: View, rules: ClusterSetRules) -> bool:
    """Whether a service can be asked for by cluster."""
    if view.cluster_names is not None:
        return view.cluster_names
    return rules.profile == "lighthouse"


def select_backends(backends: Sequence[ClusterBackends], view: View) -> list[ClusterBackends]:
    """The clusters among which answers are shared out: the local one alone when it is ready.

    A weight of 0 drains a cluster: it is used only where nobody else is ready.
    """
    ready = [backend for backend in backends if backend.addresses]
    weighed = [backend for backend in ready if backend.share.weight] or ready
    if view.local and view.local_first:
        local = [backend for backend in weighed if backend.cluster == view.local]
        if local:
            return local
    highest = max((backend.share.priority for backend in weighed), default=0)
    return [backend for backend in weighed if backend.share.priority == highest]


def _addressed(
    name: bytes,
    told: ServiceImport,
    rules: ClusterSetRules,
    backends: Sequence[ClusterBackends],
    view: View,
) -> list[ZoneNode]:
    """A service with an address: the set's own, or one of a cluster's at a time."""
    if rules.profile == "kep-1645":
        rdatas = [
            endpoint for text in told.spec.ips if (endpoint := address_rdata(text)) is not None
        ]
        usable = bool(rdatas)
        answers = _all_of(rdatas, view.ttl)
    else:
        several = select_backends(backends, view)
        usable = bool(several)
        answers = _shares(several, view.ttl)
    known = _named_ports(told.spec.ports, backends)
    nodes = _with_ports(name, answers, told.spec.ports if usable else (), known, view.ttl)
    if has_cluster_names(view, rules):
        for backend in backends:
            own = child_name(backend.cluster, name)
            if own is not None:
                answers = _all_of([endpoint.rdata for endpoint in backend.addresses], view.ttl)
                ports = backend.ports if backend.addresses else ()
                nodes += _with_ports(own, answers, ports, backend.ports, view.ttl)
    return nodes


def _headless(
    name: bytes,
    told: ServiceImport,
    rules: ClusterSetRules,
    backends: Sequence[ClusterBackends],
    view: View,
) -> Iterator[ZoneNode]:
    """A service without an address: every ready pod of every cluster."""
    targets: list[tuple[bytes, EndpointAddress]] = []
    for backend in backends:
        broker_namespace = child_name(backend.cluster, name)
        if broker_namespace is None:
            continue
        pods = [
            (pod, endpoint)
            for endpoint in backend.addresses
            if (pod := child_name(endpoint.label, broker_namespace)) is not None
        ]
        targets += pods
        if has_cluster_names(view, rules):
            yield from _pods_together(
                broker_namespace, pods, backend.ports, backend.ports, view.ttl
            )
        yield from _pods_apart(pods, view.ttl)
    if targets or rules.profile == "lighthouse":
        known = _named_ports(told.spec.ports, backends)
        yield from _pods_together(name, targets, told.spec.ports, known, view.ttl)


def _pods_apart(pods: Sequence[tuple[bytes, EndpointAddress]], ttl: int) -> Iterator[ZoneNode]:
    by_name: dict[bytes, list[EndpointAddress]] = {}
    for pod, endpoint in pods:
        by_name.setdefault(pod, []).append(endpoint)
    for pod, addresses in by_name.items():
        numbers = [p.port for s in addresses for p in s.ports if p.port is not None]
        records = [srv_rdata(number, pod) for number in _distinct(numbers)]
        ported = [full_rrset(SRV, records, ttl)] if records else []
        yield ZoneNode(pod, (*_all_of([s.rdata for s in addresses], ttl), *ported))


def _pods_together(
    name: bytes,
    pods: Sequence[tuple[bytes, EndpointAddress]],
    ports: Sequence[Port],
    known: Iterable[Port],
    ttl: int,
) -> Iterator[ZoneNode]:
    answers = _all_of([endpoint.rdata for _, endpoint in pods], ttl)
    every: list[bytes] = []
    named: dict[tuple[str, str], list[bytes]] = {(p.name, p.protocol): [] for p in known if p.name}
    for port in ports:
        records = [
            srv_rdata(number, pod)
            for pod, endpoint in pods
            if (number := _number(port, endpoint.ports)) is not None
        ]
        every += records
        if port.name:
            named.setdefault((port.name, port.protocol), []).extend(records)
    if every:
        answers.append(full_rrset(SRV, _distinct(every), ttl))
    yield ZoneNode(name, tuple(answers))
    yield from _port_nodes(name, named, ttl)


def _with_ports(
    name: bytes, answers: Sequence[RRset], ports: Sequence[Port], known: Sequence[Port], ttl: int
) -> list[ZoneNode]:
    """A name with its SRV records, and the names of its ports below it."""
    if len(ports) == len(known) == 1 and ports[0] is known[0] and ports[0].port:
        return _with_port(name, answers, ports[0], srv_rdata(ports[0].port, name), ttl)
    numbers = [port.port for port in ports if port.port]
    every = _ported(numbers, name, ttl)
    nodes = [ZoneNode(name, (*answers, *every))]
    named: dict[tuple[str, str], list[int]] = {(p.name, p.protocol): [] for p in known}
    for port in ports:
        if port.port:
            named.setdefault((port.name, port.protocol), []).append(port.port)
    for (port_name, protocol), some in named.items():
        own = _port_name(port_name, protocol, name)
        if own is not None:
            nodes.append(ZoneNode(own, every if some == numbers else _ported(some, name, ttl)))
    return nodes


def _with_port(
    name: bytes, answers: Sequence[RRset], port: Port, rdata: bytes, ttl: int
) -> list[ZoneNode]:
    """The same for one port, as most services have: its answer is shared by both names."""
    only = full_rrset(SRV, (rdata,), ttl)
    own = _port_name(port.name, port.protocol, name)
    whole = ZoneNode(name, (*answers, only))
    return [whole] if own is None else [whole, ZoneNode(own, (only,))]


def _ported(numbers: Sequence[int], target: bytes, ttl: int) -> tuple[RRset, ...]:
    """The SRV answer with some ports of a target; none where there are none."""
    if not numbers:
        return ()
    return (full_rrset(SRV, [srv_rdata(number, target) for number in _distinct(numbers)], ttl),)


def _port_nodes(
    name: bytes, named: dict[tuple[str, str], list[bytes]], ttl: int
) -> Iterator[ZoneNode]:
    for (port, protocol), records in named.items():
        own = _port_name(port, protocol, name)
        if own is not None:
            yield ZoneNode(own, (full_rrset(SRV, _distinct(records), ttl),) if records else ())


def _port_name(port: str, protocol: str, name: bytes) -> bytes | None:
    """The name of a port; None where it has none, or one that cannot be written."""
    front = _port_labels(port, protocol)
    return front + name if front and len(front) + len(name) <= MAX_NAME_LENGTH else None


@lru_cache(maxsize=4096)
def _port_labels(port: str, protocol: str) -> bytes:
    """The two labels before a service's name, which all services have in common."""
    parent = child_name(f"_{protocol}", b"")
    return (child_name(f"_{port}", parent) if port and parent is not None else None) or b""


def _named_ports(ports: Sequence[Port], backends: Sequence[ClusterBackends]) -> Sequence[Port]:
    """Ports that are known by name, also where clusters do not agree on them: those are empty."""
    known = {(port.name, port.protocol): port for port in ports}
    for backend in backends:
        for port in backend.ports:
            known.setdefault((port.name, port.protocol), port)
    return [port for port in known.values() if port.name]


def _number(port: Port, served: Sequence[EndpointPort]) -> int | None:
    """Where a pod serves a port: by its own number, which need not be the service's."""
    for own in served:
        if own.name == port.name and own.protocol == port.protocol:
            return own.port
    return port.port


def _shares(backends: Sequence[ClusterBackends], ttl: int) -> list[RRset]:
    """One address of each cluster and family, in turn by weight."""
    four: list[tuple[bytes, int]] = []
    sixteen: list[tuple[bytes, int]] = []
    for backend in backends:
        first = {len(endpoint.rdata): endpoint.rdata for endpoint in reversed(backend.addresses)}
        weight = backend.share.weight or 1
        for size, rdata in first.items():
            (four if size == 4 else sixteen).append((rdata, weight))
    answers = [weighted_rrset(A, four, ttl)] if four else []
    return [*answers, weighted_rrset(AAAA, sixteen, ttl)] if sixteen else answers


def _all_of(rdatas: Sequence[bytes], ttl: int) -> list[RRset]:
    if len(rdatas) == 1:
        return [full_rrset(A if len(rdatas[0]) == 4 else AAAA, rdatas, ttl)]
    several = _distinct(rdatas)
    four = [rdata for rdata in several if len(rdata) == 4]
    sixteen = [rdata for rdata in several if len(rdata) == 16]
    answers = [full_rrset(A, four, ttl)] if four else []
    return [*answers, full_rrset(AAAA, sixteen, ttl)] if sixteen else answers


def _distinct(values: Sequence[T]) -> Sequence[T]:
    return values if len(values) == 1 else list(dict.fromkeys(values))


def _key(namespace: str, name: str) -> Key:
    return Key(SERVICE, name, namespace)


def _keys_from(cluster: str, snapshot: Snapshot) -> set[Key]:
    """The services that a cluster exports."""
    return {
        _key(endpoint_slice.metadata.namespace, endpoint_slice.metadata.labels[SERVICE_NAME])
        for endpoint_slice in snapshot.by(snapshot.local, BY_CLUSTER, cluster)
    }


def _is_known(kind: type[Object], snapshot: Snapshot) -> bool:
    """Whether it is known what there is of a kind; where it is not served there is nothing."""
    served = snapshot.fact(KindServed, (snapshot.local, kind.kind))
    return snapshot.listed(snapshot.local, kind) or (served is not None and not served.served)
