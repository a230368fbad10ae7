"""The zone of federated StatefulSets: names of replicas in their cluster and in the federation."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from hanse.features.statefulsets.fleet import PARTS_BY_SET
from hanse.features.statefulsets.names import cluster_set_name
from hanse.features.statefulsets.options import StatefulSetOptions
from hanse.model.clusterset import unanswered_clusters
from hanse.model.dns.names import InvalidName, child_name, wire_name
from hanse.model.dns.records import (
    RecordType,
    ZoneNode,
    address_rdata,
    full_rrset,
    srv_rdata,
)
from hanse.model.dns.service_records import target_rrsets
from hanse.model.dns.zones import View
from hanse.model.facts import ClusterState, LeaseLiveness, Phase, Role
from hanse.model.kinds.coordination import Lease
from hanse.model.kinds.discovery import KUBE_SERVICE, EndpointSlice
from hanse.model.kinds.hanse import ClusterMember
from hanse.model.kinds.stateful import (
    NamedPort,
    StatefulSetPart,
    StatefulSetPartSpec,
    StatefulSetShares,
)
from hanse.model.objects import ClusterId, Object
from hanse.model.plan import Key
from hanse.model.snapshot import Change, FactChange, Index, Snapshot, Watch

T = TypeVar("T")
SERVICE = "stateful"
NEAR_WEIGHT, FAR_WEIGHT = 50, 5
"""The weights of SRV records for replicas in the client's cluster, and in others."""

SHARES_BY_SERVICE = Index(
    StatefulSetShares,
    "dns-stateful-service",
    lambda s: [f"{s.metadata.namespace}/{s.spec.service}"] if s.spec.service else [],
)
SLICES_BY_SERVICE = Index(
    EndpointSlice,
    "dns-stateful-slices",
    lambda s: [f"{s.metadata.namespace}/{s.metadata.labels.get(KUBE_SERVICE, '')}"],
)


class _ReplicaAddress(Struct, frozen=True):
    """One replica: its label, the target of its SRV records, and its addresses."""

    label: str
    target: bytes
    addresses: tuple[str, ...]
    is_near: bool = True
    """Whether it runs in the cluster of the client."""

    def srv_rdata(self, port: int) -> bytes:
        """Its SRV record: clients choose by weight, so that most stay in their cluster."""
        return srv_rdata(port, self.target, weight=NEAR_WEIGHT if self.is_near else FAR_WEIGHT)


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
                Role.BROKER, StatefulSetPart, namespace=broker_namespace, indexes=(PARTS_BY_SET,)
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
        """A key for each governing Service in the brokers' shares."""
        for broker in snapshot.clusters(Role.BROKER):
            for record in snapshot.all(broker, StatefulSetShares):
                if record.spec.service:
                    yield Key(SERVICE, record.spec.service, record.metadata.namespace)

    def keys_for(self, change: Change, snapshot: Snapshot) -> Iterable[Key]:
        """The Services that a change affects; all of them for a Lease's liveness or a record."""
        if isinstance(change, FactChange):
            return set(self.keys(snapshot)) if isinstance(change.fact, LeaseLiveness) else ()
        match change.object:
            case ClusterMember():
                return set(self.keys(snapshot))
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
            case EndpointSlice() if change.where == snapshot.local:
                sides = (side for side in (change.before, change.after) if side is not None)
                keys = {
                    Key(SERVICE, service, side.metadata.namespace)
                    for side in sides
                    if (service := side.metadata.labels.get(KUBE_SERVICE))
                }
                return {key for key in keys if _governs_sets(key, snapshot)}
            case _:
                return ()

    def records_for(self, snapshot: Snapshot) -> Callable[[Key], Sequence[ZoneNode] | None]:
        """A function from a key to its nodes: empty without sets, None for newer schemas."""
        brokers = snapshot.clusters(Role.BROKER)
        expired = self._expired_clusters(snapshot, brokers)

        def build_nodes(key: Key) -> Sequence[ZoneNode] | None:
            """The nodes of all sets of a Service; None (keep them) if a schema is too new."""
            service_key = f"{key.namespace}/{key.name}"
            sets = [
                record for b in brokers for record in snapshot.by(b, SHARES_BY_SERVICE, service_key)
            ]
            if not sets:
                return ()
            if any(record.spec.has_newer_schema for record in sets):
                return None
            several = sorted(sets, key=lambda s: s.metadata.name)
            return list(self._service_nodes(key, several, expired, snapshot, brokers))

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

    def _service_nodes(
        self,
        key: Key,
        sets: Sequence[StatefulSetShares],
        expired: frozenset[ClusterId],
        snapshot: Snapshot,
        brokers: tuple[ClusterId, ...],
    ) -> Iterator[ZoneNode]:
        """All nodes of a governing Service and its sets; none if a name is invalid."""
        local = _name_in_namespace(key.name, key.namespace, self._cluster_services)
        federation_name = _name_in_namespace(key.name, key.namespace, self._federation_services)
        namespace_domain = child_name(key.namespace, self._federation_services)
        if local is None or federation_name is None or namespace_domain is None:
            return
        ports = _distinct(port for record in sets for port in record.spec.ports)
        local_replicas = list(_local_replicas(key, local, snapshot)) if self.view.local else []
        if self.view.local:
            yield from _set_nodes(local, local_replicas, ports, self.view.ttl)
            yield from _replica_nodes(local_replicas, local, self.view.ttl)
        all_replicas: list[_ReplicaAddress] = []
        for record in sets:
            name = record.metadata.name
            set_replicas = [
                replica
                for replica in local_replicas
                if _is_replica_of(replica.label, name, self.view.local)
            ]
            if record.spec.load_balanced:
                set_replicas = [
                    replace(replica, is_near=self._is_near(replica.label, name))
                    for replica in _load_balanced_replicas(
                        record, federation_name, expired, snapshot, brokers
                    )
                ]
                set_replicas.sort(key=lambda replica: not replica.is_near)
                yield from _replica_nodes(set_replicas, namespace_domain, self.view.ttl)
            yield from _replica_nodes(set_replicas, federation_name, self.view.ttl)
            set_name = child_name(record.metadata.name, namespace_domain)
            if set_name is not None and set_name != federation_name:
                yield from _set_nodes(set_name, set_replicas, record.spec.ports, self.view.ttl)
            all_replicas += set_replicas
        yield from _set_nodes(federation_name, all_replicas, ports, self.view.ttl)

    def _is_near(self, label: str, name: str) -> bool:
        """Whether a replica is in the cluster of the client; all are if that is unknown."""
        return not self.view.local or _is_replica_of(label, name, self.view.local)


def _local_replicas(key: Key, local: bytes, snapshot: Snapshot) -> Iterator[_ReplicaAddress]:
    """The ready pods of the local cluster, by host name."""
    found: dict[str, list[str]] = {}
    for endpoint_slice in snapshot.by(
        snapshot.local, SLICES_BY_SERVICE, f"{key.namespace}/{key.name}"
    ):
        for endpoint in endpoint_slice.endpoints or ():
            if endpoint.ready and endpoint.hostname:
                found.setdefault(endpoint.hostname, []).extend(endpoint.addresses)
    for hostname, addresses in sorted(found.items()):
        target = child_name(hostname, local)
        if target is not None:
            yield _ReplicaAddress(hostname, target, tuple(addresses))


def _load_balanced_replicas(
    record: StatefulSetShares,
    federation_name: bytes,
    expired: frozenset[ClusterId],
    snapshot: Snapshot,
    brokers: tuple[ClusterId, ...],
) -> Iterator[_ReplicaAddress]:
    """The load-balanced replicas that clusters report; not of expired ones, nor newer schemas.

    Each report counts for its own cluster: for the number of replicas that it says it runs, since
    any member writes the record of shares, and for names of its own replicas alone. Those that are
    not ready have names only if their Service publishes such addresses.
    """
    meta = record.metadata
    service_key = f"{meta.namespace}/{meta.name}"
    owners = {owner.uid for owner in meta.owner_references}
    specs = (part.spec for b in brokers for part in snapshot.by(b, PARTS_BY_SET, service_key))
    parts = [part for part in specs if not part.has_newer_schema and _is_of(part, owners)]
    for part in sorted(parts, key=lambda p: p.cluster):
        for replica in () if part.cluster in expired else part.replicas[: part.share]:
            target = child_name(replica.name, federation_name)
            is_own = _is_replica_of(replica.name, meta.name, part.cluster)
            if is_own and target is not None and (replica.ready or record.spec.unready_names):
                yield _ReplicaAddress(replica.name, target, replica.addresses)


def _is_of(part: StatefulSetPartSpec, owners: set[str]) -> bool:
    """Whether a report is about the very set that owns the shares, and no earlier one."""
    return not part.set_uid or not owners or part.set_uid in owners


def _is_replica_of(label: str, name: str, cluster: ClusterId) -> bool:
    """Whether a host name is that of a replica of a set in one cluster."""
    stateful_set, _, ordinal = label.rpartition("-")
    return stateful_set == cluster_set_name(name, cluster) and ordinal.isdecimal()


def _replica_nodes(
    replicas: Iterable[_ReplicaAddress], parent: bytes, ttl: int
) -> Iterator[ZoneNode]:
    """A node for each replica below a name."""
    for replica in replicas:
        name = child_name(replica.label, parent)
        if name is not None:
            yield ZoneNode(name, tuple(target_rrsets(replica.addresses, ttl)))


def _set_nodes(
    name: bytes, replicas: Sequence[_ReplicaAddress], ports: Sequence[NamedPort], ttl: int
) -> Iterator[ZoneNode]:
    """The node with the addresses and SRV records of all replicas, and its named ports."""
    known = [a for replica in replicas for a in replica.addresses if address_rdata(a) is not None]
    rrsets = [*target_rrsets(known, ttl)]
    every = [replica.srv_rdata(port.port) for port in ports for replica in replicas]
    if every:
        rrsets.append(full_rrset(RecordType.SRV, _distinct(every), ttl))
    yield ZoneNode(name, tuple(rrsets))
    for port in ports:
        protocol = child_name(f"_{port.protocol}", name)
        port_name = (
            child_name(f"_{port.name}", protocol) if port.name and protocol is not None else None
        )
        if port_name is not None:
            records = [replica.srv_rdata(port.port) for replica in replicas]
            yield ZoneNode(
                port_name, (full_rrset(RecordType.SRV, records, ttl),) if records else ()
            )


def _distinct(values: Iterable[T]) -> list[T]:
    return list(dict.fromkeys(values))


def _name_in_namespace(name: str, namespace: str, parent: bytes) -> bytes | None:
    """`<name>.<namespace>` below a name; None if that would be invalid."""
    namespace_domain = child_name(namespace, parent)
    return child_name(name, namespace_domain) if namespace_domain is not None else None


def _governs_sets(key: Key, snapshot: Snapshot) -> bool:
    """Whether sets on a broker have a Service as their governing one."""
    service = f"{key.namespace}/{key.name}"
    return any(
        True
        for broker in snapshot.clusters(Role.BROKER)
        for _ in snapshot.by(broker, SHARES_BY_SERVICE, service)
    )


def _is_synced(kind: type[Object], broker: ClusterId, snapshot: Snapshot) -> bool:
    """Whether a kind was listed or is not served, or the broker is unreachable."""
    state = snapshot.fact(ClusterState, broker)
    unreachable = state is not None and state.phase is Phase.UNREACHABLE
    return unreachable or snapshot.listed_or_unserved(broker, kind)
