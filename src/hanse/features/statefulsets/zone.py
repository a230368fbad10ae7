"""The names of federated StatefulSets: each replica's own, in its cluster and in the federation."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from msgspec import Struct

from hanse.features.statefulsets.fleet import PARTS_BY_SET
from hanse.features.statefulsets.options import StatefulSetOptions
from hanse.model.dns.names import InvalidName, child_name, wire_name
from hanse.model.dns.records import (
    RecordType,
    RRset,
    ZoneNode,
    address_rdata,
    cname_rrsets,
    full_rrset,
    srv_rdata,
)
from hanse.model.dns.zones import View
from hanse.model.facts import ClusterState, KindServed, LeaseLiveness, Phase, Role
from hanse.model.kinds.coordination import Lease
from hanse.model.kinds.discovery import KUBE_SERVICE, EndpointSlice
from hanse.model.kinds.stateful import NamedPort, StatefulSetPart, StatefulSetShares
from hanse.model.objects import ClusterId, Object
from hanse.model.plan import Key
from hanse.model.snapshot import Change, FactChange, Index, Snapshot, Watch

T = TypeVar("T")
SERVICE = "stateful"

BY_SERVICE = Index(
    StatefulSetShares,
    "dns-stateful-service",
    lambda s: [f"{s.metadata.namespace}/{s.spec.service}"] if s.spec.service else [],
)
SLICES = Index(
    EndpointSlice,
    "dns-stateful-slices",
    lambda s: [f"{s.metadata.namespace}/{s.metadata.labels.get(KUBE_SERVICE, '')}"],
)


class _Spot(Struct, frozen=True):
    """One replica to be found: its label, its records, and the name that SRV records lead to."""

    label: str
    target: bytes
    addresses: tuple[str, ...]


class StatefulSetZone:
    """Local and federation names of all sets, as one cluster's clients see them."""

    name = "statefulsets"

    def __init__(
        self,
        view: View,
        home: str,
        options: StatefulSetOptions = StatefulSetOptions(),  # noqa: B008 - a frozen value
    ) -> None:
        self.view = view
        self._home = home
        apex = wire_name(options.zone)
        self._local = b"\x03svc" + apex
        federation = child_name(options.federation, self._local)
        if federation is None:
            raise InvalidName(
                f"federation name {options.federation!r} is no label of a domain name"
            )
        self._federation = federation
        self.zones: tuple[bytes, ...] = (apex,)
        self.watches: tuple[Watch, ...] = (
            Watch(Role.LOCAL, EndpointSlice, labels=KUBE_SERVICE, indexes=(SLICES,)),
            Watch(Role.BROKER, StatefulSetShares, indexes=(BY_SERVICE,)),
            Watch(Role.BROKER, StatefulSetPart, namespace=home, indexes=(PARTS_BY_SET,)),
            Watch(Role.BROKER, Lease, namespace=home),
        )

    def synced(self, snapshot: Snapshot) -> bool:
        """Whether shares are known; a broker that is away holds up no other names."""
        return all(
            _is_known(kind, broker, snapshot)
            for broker in snapshot.clusters(Role.BROKER)
            for kind in (StatefulSetShares, StatefulSetPart)
        )

    def keys(self, snapshot: Snapshot) -> Iterator[Key]:
        for broker in snapshot.clusters(Role.BROKER):
            for record in snapshot.all(broker, StatefulSetShares):
                if record.spec.service:
                    yield Key(SERVICE, record.spec.service, record.metadata.namespace)

    def keys_for(self, change: Change, snapshot: Snapshot) -> Iterable[Key]:
        if isinstance(change, FactChange):
            return set(self.keys(snapshot)) if isinstance(change.fact, LeaseLiveness) else ()
        match change.object:
            case StatefulSetShares() if change.where != snapshot.local:
                return {
                    Key(SERVICE, side.spec.service, side.metadata.namespace)
                    for side in (change.before, change.after)
                    if isinstance(side, StatefulSetShares) and side.spec.service
                }
            case StatefulSetPart(spec=spec):
                record = snapshot.get(change.where, StatefulSetShares, spec.name, spec.namespace)
                known = record is not None and record.spec.service
                return [Key(SERVICE, known, spec.namespace)] if known else ()
            case EndpointSlice(metadata=meta) if change.where == snapshot.local:
                service = meta.labels.get(KUBE_SERVICE, "")
                place = f"{meta.namespace}/{service}"
                governs = any(
                    True
                    for broker in snapshot.clusters(Role.BROKER)
                    for _ in snapshot.by(broker, BY_SERVICE, place)
                )
                return [Key(SERVICE, service, meta.namespace)] if governs else ()
            case _:
                return ()

    def records_for(self, snapshot: Snapshot) -> Callable[[Key], Sequence[ZoneNode] | None]:
        brokers = snapshot.clusters(Role.BROKER)
        silent = self._silent(snapshot, brokers)

        def build_nodes(key: Key) -> Sequence[ZoneNode] | None:
            place = f"{key.namespace}/{key.name}"
            sets = [record for b in brokers for record in snapshot.by(b, BY_SERVICE, place)]
            if not sets:
                return ()
            if any(record.spec.newer for record in sets):
                return None
            several = sorted(sets, key=lambda s: s.metadata.name)
            return list(self._service(key, several, silent, snapshot, brokers))

        return build_nodes

    def _silent(self, snapshot: Snapshot, brokers: tuple[ClusterId, ...]) -> frozenset[ClusterId]:
        """Clusters that are dead, or have left and are not heard of any more."""
        dead = {
            pulse.lease
            for pulse in snapshot.facts(LeaseLiveness)
            if not pulse.alive and pulse.namespace == self._home and pulse.lease != snapshot.local
        }
        for broker in brokers:
            if snapshot.listed(broker, Lease):
                reporting = {part.spec.cluster for part in snapshot.all(broker, StatefulSetPart)}
                dead |= {c for c in reporting if snapshot.get(broker, Lease, c, self._home) is None}
        return frozenset(dead)

    def _service(
        self,
        key: Key,
        sets: Sequence[StatefulSetShares],
        silent: frozenset[ClusterId],
        snapshot: Snapshot,
        brokers: tuple[ClusterId, ...],
    ) -> Iterator[ZoneNode]:
        """All names below one headless Service, and of the sets that it governs."""
        local = _two_below(key.name, key.namespace, self._local)
        wide = _two_below(key.name, key.namespace, self._federation)
        space = child_name(key.namespace, self._federation)
        if local is None or wide is None or space is None:
            return
        ports = _distinct(port for record in sets for port in record.spec.ports)
        here = list(_here(key, local, snapshot)) if self.view.local else []
        if self.view.local:
            yield from _together(local, here, ports, self.view.ttl)
            yield from _apart(here, local, self.view.ttl)
        everywhere: list[_Spot] = []
        for record in sets:
            mine = [spot for spot in here if spot.label.startswith(f"{record.metadata.name}-")]
            if record.spec.load_balanced:
                mine = list(_balanced(record, wide, silent, snapshot, brokers))
                yield from _apart(mine, space, self.view.ttl)
            yield from _apart(mine, wide, self.view.ttl)
            own = child_name(record.metadata.name, space)
            if own is not None and own != wide:
                yield from _together(own, mine, record.spec.ports, self.view.ttl)
            everywhere += mine
        yield from _together(wide, everywhere, ports, self.view.ttl)


def _here(key: Key, local: bytes, snapshot: Snapshot) -> Iterator[_Spot]:
    """The ready pods of this cluster, by their host names."""
    found: dict[str, list[str]] = {}
    for piece in snapshot.by(snapshot.local, SLICES, f"{key.namespace}/{key.name}"):
        for endpoint in piece.endpoints or ():
            if endpoint.ready and endpoint.hostname:
                found.setdefault(endpoint.hostname, []).extend(endpoint.addresses)
    for hostname, addresses in sorted(found.items()):
        target = child_name(hostname, local)
        if target is not None:
            yield _Spot(hostname, target, tuple(addresses))


def _balanced(
    record: StatefulSetShares,
    wide: bytes,
    silent: frozenset[ClusterId],
    snapshot: Snapshot,
    brokers: tuple[ClusterId, ...],
) -> Iterator[_Spot]:
    """Every replica that exists and has a share, in clusters that are alive and can be read."""
    meta = record.metadata
    place = f"{meta.namespace}/{meta.name}"
    told = (part.spec for b in brokers for part in snapshot.by(b, PARTS_BY_SET, place))
    parts = [part for part in told if not part.newer]
    for part in sorted(parts, key=lambda p: p.cluster):
        share = record.spec.of(part.cluster)
        for replica in () if part.cluster in silent else part.replicas[:share]:
            target = child_name(replica.name, wide)
            if target is not None:
                yield _Spot(replica.name, target, replica.addresses)


def _apart(spots: Iterable[_Spot], parent: bytes, ttl: int) -> Iterator[ZoneNode]:
    """Each replica by itself, below a name."""
    for spot in spots:
        name = child_name(spot.label, parent)
        if name is not None:
            yield ZoneNode(name, tuple(_answers(spot.addresses, ttl)))


def _together(
    name: bytes, spots: Sequence[_Spot], ports: Sequence[NamedPort], ttl: int
) -> Iterator[ZoneNode]:
    """All replicas behind one name: their addresses, and where each serves each port."""
    known = [a for spot in spots for a in spot.addresses if address_rdata(a) is not None]
    answers = [*_answers(known, ttl)]
    every = [srv_rdata(port.port, spot.target) for port in ports for spot in spots]
    if every:
        answers.append(full_rrset(RecordType.SRV, _distinct(every), ttl))
    yield ZoneNode(name, tuple(answers))
    for port in ports:
        protocol = child_name(f"_{port.protocol}", name)
        own = child_name(f"_{port.name}", protocol) if port.name and protocol is not None else None
        if own is not None:
            records = [srv_rdata(port.port, spot.target) for spot in spots]
            yield ZoneNode(own, (full_rrset(RecordType.SRV, records, ttl),) if records else ())


def _answers(addresses: Sequence[str], ttl: int) -> Iterator[RRset]:
    """Addresses as records; a host name is an alias, which stands alone."""
    rdatas = _distinct(rdata for text in addresses if (rdata := address_rdata(text)) is not None)
    for rtype, size in ((RecordType.A, 4), (RecordType.AAAA, 16)):
        if mine := [rdata for rdata in rdatas if len(rdata) == size]:
            yield full_rrset(rtype, mine, ttl)
    if not rdatas and addresses:
        try:
            yield from cname_rrsets(wire_name(addresses[0]), ttl)
        except InvalidName:
            return


def _distinct(values: Iterable[T]) -> list[T]:
    return list(dict.fromkeys(values))


def _two_below(name: str, namespace: str, parent: bytes) -> bytes | None:
    space = child_name(namespace, parent)
    return child_name(name, space) if space is not None else None


def _is_known(kind: type[Object], broker: ClusterId, snapshot: Snapshot) -> bool:
    served = snapshot.fact(KindServed, (broker, kind.kind))
    state = snapshot.fact(ClusterState, broker)
    away = state is not None and state.phase is Phase.UNREACHABLE
    return snapshot.listed(broker, kind) or away or (served is not None and not served.served)
