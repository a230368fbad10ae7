"""The names of multi-cluster services: what one service answers, in either profile."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import TypeVar

from hanse.features.services.backends import (
    BY_CLUSTER,
    BY_SERVICE,
    Offer,
    Rules,
    Spot,
    offers_of,
    rules_of,
)
from hanse.features.services.names import SERVICE_NAME
from hanse.model.dns.names import LONGEST_NAME, below, wire_name
from hanse.model.dns.records import (
    AAAA,
    SRV,
    A,
    Answer,
    Node,
    address,
    in_turn,
    srv,
    together,
    version,
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
"""Of the names themselves, as `dns-version` tells it."""

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

    def telling(self, snapshot: Snapshot) -> Callable[[Key], Sequence[Node]]:
        rules = rules_of(self.view, snapshot)

        def tell(key: Key) -> Sequence[Node]:
            if key == VERSION:
                return (version(self._apex, SCHEMA_VERSION, self.view.ttl),)
            told = snapshot.get(snapshot.local, ServiceImport, key.name, key.namespace)
            if told is None:
                return ()
            return self.service(key, told, rules, offers_of(key, told, rules, snapshot))

        return tell

    def service(
        self, key: Key, told: ServiceImport, rules: Rules, offers: Sequence[Offer]
    ) -> Sequence[Node]:
        """All names of one service."""
        name = self.name_of(key)
        if name is None:
            return ()
        if told.spec.type == "Headless":
            return list(_headless(name, told, rules, offers, self.view))
        return _addressed(name, told, rules, offers, self.view)

    def name_of(self, key: Key) -> bytes | None:
        """The name of a service; None where it cannot be written as one."""
        space = below(key.namespace, self._services)
        return None if space is None else below(key.name, space)


def has_cluster_names(view: View, rules: Rules) -> bool:
    """Whether a service can be asked for by cluster."""
    if view.cluster_names is not None:
        return view.cluster_names
    return rules.profile == "lighthouse"


def chosen(offers: Sequence[Offer], view: View) -> list[Offer]:
    """The clusters among which answers are shared out: the local one alone when it is ready.

    A weight of 0 drains a cluster: it is used only where nobody else is ready.
    """
    ready = [offer for offer in offers if offer.spots]
    weighed = [offer for offer in ready if offer.share.weight] or ready
    if view.local and view.local_first:
        local = [offer for offer in weighed if offer.cluster == view.local]
        if local:
            return local
    highest = max((offer.share.priority for offer in weighed), default=0)
    return [offer for offer in weighed if offer.share.priority == highest]


def _addressed(
    name: bytes, told: ServiceImport, rules: Rules, offers: Sequence[Offer], view: View
) -> list[Node]:
    """A service with an address: the set's own, or one of a cluster's at a time."""
    if rules.profile == "kep-1645":
        rdatas = [spot for text in told.spec.ips if (spot := address(text)) is not None]
        usable = bool(rdatas)
        answers = _all_of(rdatas, view.ttl)
    else:
        several = chosen(offers, view)
        usable = bool(several)
        answers = _shares(several, view.ttl)
    known = _named_ports(told.spec.ports, offers)
    nodes = _with_ports(name, answers, told.spec.ports if usable else (), known, view.ttl)
    if has_cluster_names(view, rules):
        for offer in offers:
            own = below(offer.cluster, name)
            if own is not None:
                answers = _all_of([spot.rdata for spot in offer.spots], view.ttl)
                ports = offer.ports if offer.spots else ()
                nodes += _with_ports(own, answers, ports, offer.ports, view.ttl)
    return nodes


def _headless(
    name: bytes, told: ServiceImport, rules: Rules, offers: Sequence[Offer], view: View
) -> Iterator[Node]:
    """A service without an address: every ready pod of every cluster."""
    targets: list[tuple[bytes, Spot]] = []
    for offer in offers:
        broker_namespace = below(offer.cluster, name)
        if broker_namespace is None:
            continue
        pods = [
            (pod, spot)
            for spot in offer.spots
            if (pod := below(spot.label, broker_namespace)) is not None
        ]
        targets += pods
        if has_cluster_names(view, rules):
            yield from _pods_together(broker_namespace, pods, offer.ports, offer.ports, view.ttl)
        yield from _pods_apart(pods, view.ttl)
    if targets or rules.profile == "lighthouse":
        known = _named_ports(told.spec.ports, offers)
        yield from _pods_together(name, targets, told.spec.ports, known, view.ttl)


def _pods_apart(pods: Sequence[tuple[bytes, Spot]], ttl: int) -> Iterator[Node]:
    by_name: dict[bytes, list[Spot]] = {}
    for pod, spot in pods:
        by_name.setdefault(pod, []).append(spot)
    for pod, spots in by_name.items():
        numbers = [p.port for s in spots for p in s.ports if p.port is not None]
        records = [srv(number, pod) for number in _distinct(numbers)]
        ported = [together(SRV, records, ttl)] if records else []
        yield Node(pod, (*_all_of([s.rdata for s in spots], ttl), *ported))


def _pods_together(
    name: bytes,
    pods: Sequence[tuple[bytes, Spot]],
    ports: Sequence[Port],
    known: Iterable[Port],
    ttl: int,
) -> Iterator[Node]:
    answers = _all_of([spot.rdata for _, spot in pods], ttl)
    every: list[bytes] = []
    named: dict[tuple[str, str], list[bytes]] = {(p.name, p.protocol): [] for p in known if p.name}
    for port in ports:
        records = [
            srv(number, pod)
            for pod, spot in pods
            if (number := _number(port, spot.ports)) is not None
        ]
        every += records
        if port.name:
            named.setdefault((port.name, port.protocol), []).extend(records)
    if every:
        answers.append(together(SRV, _distinct(every), ttl))
    yield Node(name, tuple(answers))
    yield from _port_nodes(name, named, ttl)


def _with_ports(
    name: bytes, answers: Sequence[Answer], ports: Sequence[Port], known: Sequence[Port], ttl: int
) -> list[Node]:
    """A name with its SRV records, and the names of its ports below it."""
    if len(ports) == len(known) == 1 and ports[0] is known[0] and ports[0].port:
        return _with_port(name, answers, ports[0], srv(ports[0].port, name), ttl)
    numbers = [port.port for port in ports if port.port]
    every = _ported(numbers, name, ttl)
    nodes = [Node(name, (*answers, *every))]
    named: dict[tuple[str, str], list[int]] = {(p.name, p.protocol): [] for p in known}
    for port in ports:
        if port.port:
            named.setdefault((port.name, port.protocol), []).append(port.port)
    for (port_name, protocol), some in named.items():
        own = _port_name(port_name, protocol, name)
        if own is not None:
            nodes.append(Node(own, every if some == numbers else _ported(some, name, ttl)))
    return nodes


def _with_port(
    name: bytes, answers: Sequence[Answer], port: Port, rdata: bytes, ttl: int
) -> list[Node]:
    """The same for one port, as most services have: its answer is shared by both names."""
    only = together(SRV, (rdata,), ttl)
    own = _port_name(port.name, port.protocol, name)
    whole = Node(name, (*answers, only))
    return [whole] if own is None else [whole, Node(own, (only,))]


def _ported(numbers: Sequence[int], target: bytes, ttl: int) -> tuple[Answer, ...]:
    """The SRV answer with some ports of a target; none where there are none."""
    if not numbers:
        return ()
    return (together(SRV, [srv(number, target) for number in _distinct(numbers)], ttl),)


def _port_nodes(name: bytes, named: dict[tuple[str, str], list[bytes]], ttl: int) -> Iterator[Node]:
    for (port, protocol), records in named.items():
        own = _port_name(port, protocol, name)
        if own is not None:
            yield Node(own, (together(SRV, _distinct(records), ttl),) if records else ())


def _port_name(port: str, protocol: str, name: bytes) -> bytes | None:
    """The name of a port; None where it has none, or one that cannot be written."""
    front = _port_labels(port, protocol)
    return front + name if front and len(front) + len(name) <= LONGEST_NAME else None


@lru_cache(maxsize=4096)
def _port_labels(port: str, protocol: str) -> bytes:
    """The two labels before a service's name, which all services have in common."""
    parent = below(f"_{protocol}", b"")
    return (below(f"_{port}", parent) if port and parent is not None else None) or b""


def _named_ports(ports: Sequence[Port], offers: Sequence[Offer]) -> Sequence[Port]:
    """Ports that are known by name, also where clusters do not agree on them: those are empty."""
    known = {(port.name, port.protocol): port for port in ports}
    for offer in offers:
        for port in offer.ports:
            known.setdefault((port.name, port.protocol), port)
    return [port for port in known.values() if port.name]


def _number(port: Port, served: Sequence[EndpointPort]) -> int | None:
    """Where a pod serves a port: by its own number, which need not be the service's."""
    for own in served:
        if own.name == port.name and own.protocol == port.protocol:
            return own.port
    return port.port


def _shares(offers: Sequence[Offer], ttl: int) -> list[Answer]:
    """One address of each cluster and family, in turn by weight."""
    four: list[tuple[bytes, int]] = []
    sixteen: list[tuple[bytes, int]] = []
    for offer in offers:
        first = {len(spot.rdata): spot.rdata for spot in reversed(offer.spots)}
        weight = offer.share.weight or 1
        for size, rdata in first.items():
            (four if size == 4 else sixteen).append((rdata, weight))
    answers = [in_turn(A, four, ttl)] if four else []
    return [*answers, in_turn(AAAA, sixteen, ttl)] if sixteen else answers


def _all_of(rdatas: Sequence[bytes], ttl: int) -> list[Answer]:
    if len(rdatas) == 1:
        return [together(A if len(rdatas[0]) == 4 else AAAA, rdatas, ttl)]
    several = _distinct(rdatas)
    four = [rdata for rdata in several if len(rdata) == 4]
    sixteen = [rdata for rdata in several if len(rdata) == 16]
    answers = [together(A, four, ttl)] if four else []
    return [*answers, together(AAAA, sixteen, ttl)] if sixteen else answers


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
