"""The zone of federated StatefulSets: names of replicas in their cluster and in the federation."""

from collections.abc import Callable, Iterable, Iterator, Sequence

from msgspec import Struct

from hanse.features.statefulsets.fleet import PARTS_BY_SET
from hanse.features.statefulsets.names import cluster_set_name
from hanse.features.statefulsets.options import StatefulSetOptions
from hanse.features.statefulsets.zone_nodes import (
    ReplicaAddress,
    distinct,
    replica_nodes,
    set_nodes,
)
from hanse.model.clusterset import unanswered_clusters
from hanse.model.dns.names import InvalidName, child_name, wire_name
from hanse.model.dns.records import ZoneNode
from hanse.model.dns.zones import View
from hanse.model.facts import ClusterState, LeaseLiveness, Phase, Role
from hanse.model.kinds.coordination import Lease
from hanse.model.kinds.discovery import KUBE_SERVICE, EndpointSlice
from hanse.model.kinds.hanse import ClusterMember
from hanse.model.kinds.stateful import (
    NamedPort,
    ReplicaNames,
    StatefulSetPart,
    StatefulSetPartSpec,
    StatefulSetShares,
)
from hanse.model.objects import ClusterId, Object
from hanse.model.plan import Key
from hanse.model.snapshot import Change, FactChange, Index, Snapshot, Watch

SERVICE = "stateful"
SHARES_BY_SERVICE = Index(
    StatefulSetShares,
    "dns-stateful-service",
    lambda s: [f"{s.metadata.namespace}/{s.spec.service}"] if s.spec.service else [],
)
PARTS_BY_SERVICE = Index(
    StatefulSetPart,
    "dns-stateful-parts",
    lambda p: [f"{p.spec.namespace}/{p.spec.names.service}"] if p.spec.names is not None else [],
)
SLICES_BY_SERVICE = Index(
    EndpointSlice,
    "dns-stateful-slices",
    lambda s: [f"{s.metadata.namespace}/{s.metadata.labels.get(KUBE_SERVICE, '')}"],
)


class _NamedPart(Struct, frozen=True):
    """The report of one cluster, and how its replicas are found by name."""

    spec: StatefulSetPartSpec
    names: ReplicaNames


class StatefulSetZone:
    """The cluster and federation names of all sets, as clients of one cluster see them."""

    name = "statefulsets"

    def __init__(
        self,
        view: View,
        broker_namespace: str,
        options: StatefulSetOptions = StatefulSetOptions(),  # noqa: B008 - a frozen value
    ) -> None:
        """Choose zones and watches; raises InvalidName if the federation's name is no label."""
        self.view = view
        self._broker_namespace = broker_namespace
        apex = wire_name(options.zone)
        self._cluster_services = b"\x03svc" + apex
        federation = child_name(options.federation, self._cluster_services)
        if federation is None:
            raise InvalidName(
                f"federation name {options.federation!r} is no label of a domain name"
            )
        self._federation_services = federation
        self.zones: tuple[bytes, ...] = (apex,)
        self.watches: tuple[Watch, ...] = (
            Watch(Role.LOCAL, EndpointSlice, labels=KUBE_SERVICE, indexes=(SLICES_BY_SERVICE,)),
            Watch(Role.BROKER, StatefulSetShares, indexes=(SHARES_BY_SERVICE,)),
            Watch(
                Role.BROKER,
                StatefulSetPart,
                namespace=broker_namespace,
                indexes=(PARTS_BY_SET, PARTS_BY_SERVICE),
            ),
            Watch(Role.BROKER, Lease, namespace=broker_namespace),
            Watch(Role.BROKER, ClusterMember, namespace=broker_namespace),
        )

    def synced(self, snapshot: Snapshot) -> bool:
        """Whether the broker was listed; an unreachable broker does not delay other names."""
        return all(
            _is_synced(kind, broker, snapshot)
            for broker in snapshot.clusters(Role.BROKER)
            for kind in (StatefulSetShares, StatefulSetPart)
        )

    def keys(self, snapshot: Snapshot) -> Iterator[Key]:
        """A key for each governing Service, and for each set that has one."""
        for broker in snapshot.clusters(Role.BROKER):
            for record in snapshot.all(broker, StatefulSetShares):
                yield from _keys(record.metadata.namespace, record.metadata.name, record.spec.names)
            for part in snapshot.all(broker, StatefulSetPart):
                yield from _keys(part.spec.namespace, part.spec.name, part.spec.names)

    def keys_for(self, change: Change, snapshot: Snapshot) -> Iterable[Key]:
        """The names that a change affects; all of them for a Lease's liveness or a record."""
        if isinstance(change, FactChange):
            return set(self.keys(snapshot)) if isinstance(change.fact, LeaseLiveness) else ()
        match change.object:
            case ClusterMember():
                return set(self.keys(snapshot))
            case StatefulSetShares() | StatefulSetPart() if change.where != snapshot.local:
                sides = (side for side in (change.before, change.after) if side is not None)
                return {key for side in sides for key in _keys_of(side, snapshot, change.where)}
            case EndpointSlice() if change.where == snapshot.local:
                sides = (side for side in (change.before, change.after) if side is not None)
                return {
                    Key(SERVICE, name, side.metadata.namespace)
                    for side in sides
                    if (service := side.metadata.labels.get(KUBE_SERVICE))
                    for broker in snapshot.clusters(Role.BROKER)
                    for one in _set_names(side.metadata.namespace, service, snapshot, broker)
                    for name in (service, one)
                }
            case _:
                return ()

    def records_for(self, snapshot: Snapshot) -> Callable[[Key], Sequence[ZoneNode] | None]:
        """A function from a key to its nodes: empty without sets, None for newer schemas."""
        brokers = snapshot.clusters(Role.BROKER)
        expired = self._expired_clusters(snapshot, brokers)

        def build_nodes(key: Key) -> Sequence[ZoneNode] | None:
            """The nodes of a Service or set; None (keep them) if a schema is too new."""
            parts: list[_NamedPart] = []
            records: list[StatefulSetShares] = []
            for broker in brokers:
                names = _set_names(key.namespace, key.name, snapshot, broker) | {key.name}
                for name in sorted(names):
                    record = snapshot.get(broker, StatefulSetShares, name, key.namespace)
                    parts += _named_parts(key, name, record, snapshot, broker)
                    records += [record] if record is not None else []
            if any(record.spec.has_newer_schema for record in records):
                return None
            named = [p.names for p in parts] + [record.spec.names for record in records]
            if not any(names.service for names in named):
                return ()
            return list(self._nodes(key, named, parts, expired, snapshot))

        return build_nodes

    def _expired_clusters(
        self, snapshot: Snapshot, brokers: tuple[ClusterId, ...]
    ) -> frozenset[ClusterId]:
        """Clusters whose Lease has expired, but this one, or is missing though they report."""
        dead = set(unanswered_clusters(snapshot, self._broker_namespace))
        for broker in brokers:
            if snapshot.listed(broker, Lease):
                reporting = {part.spec.cluster for part in snapshot.all(broker, StatefulSetPart)}
                dead |= {
                    c
                    for c in reporting
                    if snapshot.get(broker, Lease, c, self._broker_namespace) is None
                }
        return frozenset(dead)

    def _nodes(
        self,
        key: Key,
        named: Sequence[ReplicaNames],
        parts: Sequence[_NamedPart],
        expired: frozenset[ClusterId],
        snapshot: Snapshot,
    ) -> Iterator[ZoneNode]:
        """All nodes of a governing Service, or of a set; none if a name is invalid."""
        federation_name = _name_in_namespace(key.name, key.namespace, self._federation_services)
        namespace_domain = child_name(key.namespace, self._federation_services)
        if federation_name is None or namespace_domain is None:
            return
        if self.view.local and any(names.service == key.name for names in named):
            yield from self._local_nodes(key, parts, snapshot)
        found = [(part, r) for part in parts for r in self._replicas(part, expired, snapshot)]
        owners = _owners_of_labels(found)
        found = [(part, r) for part, r in found if owners[r.label] == part.spec.cluster]
        found.sort(key=lambda each: not each[1].is_near)
        governed = [r for part, r in found if part.names.service == key.name]
        yield from replica_nodes(governed, federation_name, self.view.ttl)
        balanced = [
            r for part, r in found if part.names.load_balanced and part.spec.name == key.name
        ]
        yield from replica_nodes(balanced, namespace_domain, self.view.ttl)
        ports = distinct(port for part in parts for port in part.names.ports)
        yield from set_nodes(federation_name, [r for _, r in found], ports, self.view.ttl)

    def _local_nodes(
        self, key: Key, parts: Sequence[_NamedPart], snapshot: Snapshot
    ) -> Iterator[ZoneNode]:
        """The cluster names of a governing Service: of the ready pods here, if a set runs here."""
        local = _name_in_namespace(key.name, key.namespace, self._cluster_services)
        if local is None:
            return
        own = [part for part in parts if self._is_own(part) and part.names.service == key.name]
        ports = distinct(port for part in own for port in part.names.ports)
        replicas = [*self._pods(key.namespace, key.name, ports, snapshot)] if own else []
        yield from set_nodes(local, replicas, ports, self.view.ttl)
        yield from replica_nodes(replicas, local, self.view.ttl)

    def _replicas(
        self, part: _NamedPart, expired: frozenset[ClusterId], snapshot: Snapshot
    ) -> Iterator[ReplicaAddress]:
        """The replicas of one cluster, as clients find them by federation names.

        Each report counts for its own cluster: for the number of replicas that it says it runs,
        since any member writes the record of shares, and for names of its own replicas alone.
        Those that are not ready have names only if their Service publishes such addresses.
        Without load balancers, clients find the pods of their own cluster.
        """
        spec, names = part.spec, part.names
        if not names.load_balanced:
            if self._is_own(part):
                pods = self._pods(spec.namespace, names.service, names.ports, snapshot)
                yield from (p for p in pods if _is_replica_of(p.label, spec.name, spec.cluster))
            return
        domain = _name_in_namespace(names.service, spec.namespace, self._federation_services)
        if domain is None or spec.cluster in expired:
            return
        is_near = not self.view.local or self._is_own(part)
        for replica in spec.replicas[: spec.share]:
            target = child_name(replica.name, domain)
            is_own = _is_replica_of(replica.name, spec.name, spec.cluster)
            if is_own and target is not None and (replica.ready or names.unready):
                addresses = replica.addresses
                yield ReplicaAddress(replica.name, target, addresses, names.ports, is_near)

    def _is_own(self, part: _NamedPart) -> bool:
        """Whether a report is that of the client's cluster."""
        return bool(self.view.local) and part.spec.cluster == self.view.local

    def _pods(
        self, namespace: str, service: str, ports: Sequence[NamedPort], snapshot: Snapshot
    ) -> Iterator[ReplicaAddress]:
        """The ready pods of a Service in this cluster, by host name."""
        local = _name_in_namespace(service, namespace, self._cluster_services)
        if local is None:
            return
        found: dict[str, list[str]] = {}
        key = f"{namespace}/{service}"
        for endpoint_slice in snapshot.by(snapshot.local, SLICES_BY_SERVICE, key):
            for endpoint in endpoint_slice.endpoints or ():
                if endpoint.ready and endpoint.hostname:
                    found.setdefault(endpoint.hostname, []).extend(endpoint.addresses)
        for hostname, addresses in sorted(found.items()):
            target = child_name(hostname, local)
            if target is not None:
                yield ReplicaAddress(hostname, target, tuple(addresses), tuple(ports))


def _keys(namespace: str, name: str, names: ReplicaNames | None) -> Iterator[Key]:
    """The keys of a set that is found by names: its governing Service and itself."""
    if names is not None and names.service:
        yield Key(SERVICE, names.service, namespace)
        yield Key(SERVICE, name, namespace)


def _keys_of(obj: Object, snapshot: Snapshot, broker: ClusterId) -> Iterator[Key]:
    """The keys of a record of shares or of a report; a record concerns all reports of its set."""
    match obj:
        case StatefulSetShares(metadata=meta, spec=shares):
            yield from _keys(meta.namespace, meta.name, shares.names)
            for part in snapshot.by(broker, PARTS_BY_SET, f"{meta.namespace}/{meta.name}"):
                yield from _keys(part.spec.namespace, part.spec.name, part.spec.names)
        case StatefulSetPart(spec=spec):
            known = _names_of(spec, broker, snapshot)
            yield from _keys(spec.namespace, spec.name, known)


def _names_of(
    part: StatefulSetPartSpec, broker: ClusterId, snapshot: Snapshot
) -> ReplicaNames | None:
    """How replicas of a report are found: as it says, or (of older agents) its record of shares."""
    if part.names is not None:
        return part.names
    record = snapshot.get(broker, StatefulSetShares, part.name, part.namespace)
    return record.spec.names if record is not None else None


def _set_names(namespace: str, service: str, snapshot: Snapshot, broker: ClusterId) -> set[str]:
    """The names of the sets that a Service governs, by reports and records of shares."""
    key = f"{namespace}/{service}"
    return {p.spec.name for p in snapshot.by(broker, PARTS_BY_SERVICE, key)} | {
        record.metadata.name for record in snapshot.by(broker, SHARES_BY_SERVICE, key)
    }


def _named_parts(
    key: Key, name: str, record: StatefulSetShares | None, snapshot: Snapshot, broker: ClusterId
) -> Iterator[_NamedPart]:
    """The reports about a set that count for a key, by cluster; not those of newer schemas.

    Each says by which names its own replicas are found. So no other member can take them away.
    """
    owners = {o.uid for o in record.metadata.owner_references} if record is not None else set()
    found = [part.spec for part in snapshot.by(broker, PARTS_BY_SET, f"{key.namespace}/{name}")]
    for spec in sorted(found, key=lambda p: p.cluster):
        names = _names_of(spec, broker, snapshot)
        if names is None or spec.has_newer_schema or spec.ended or not _is_of(spec, owners):
            continue
        if names.service and key.name in (name, names.service):
            yield _NamedPart(spec, names)


def _owners_of_labels(
    found: Iterable[tuple[_NamedPart, ReplicaAddress]],
) -> dict[str, ClusterId]:
    """The cluster of each replica's name: of several that claim one, that with the longest id.

    `store-eu-lubeck-0` is of eu-lubeck, though lubeck could report a set `store-eu`.
    """
    owners: dict[str, ClusterId] = {}
    for part, replica in found:
        claimant = part.spec.cluster
        owners[replica.label] = max(owners.get(replica.label, ""), claimant, key=len)
    return owners


def _is_of(part: StatefulSetPartSpec, owners: set[str]) -> bool:
    """Whether a report is about the very set that owns the shares, and no earlier one."""
    return not part.set_uid or not owners or part.set_uid in owners


def _is_replica_of(label: str, name: str, cluster: ClusterId) -> bool:
    """Whether a host name is that of a replica of a set in one cluster."""
    stateful_set, _, ordinal = label.rpartition("-")
    return stateful_set == cluster_set_name(name, cluster) and ordinal.isdecimal()


def _name_in_namespace(name: str, namespace: str, parent: bytes) -> bytes | None:
    """`<name>.<namespace>` below a name; None if that would be invalid."""
    namespace_domain = child_name(namespace, parent)
    return child_name(name, namespace_domain) if namespace_domain is not None else None


def _is_synced(kind: type[Object], broker: ClusterId, snapshot: Snapshot) -> bool:
    """Whether a kind was listed or is not served, or the broker is unreachable."""
    state = snapshot.fact(ClusterState, broker)
    unreachable = state is not None and state.phase is Phase.UNREACHABLE
    return unreachable or snapshot.listed_or_unserved(broker, kind)
