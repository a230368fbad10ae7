"""The zone of federated StatefulSets: names of replicas in their cluster and in the federation."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import timedelta

from hanse.features.statefulsets.fleet import PARTS_BY_SET
from hanse.features.statefulsets.named_sets import (
    PARTS_BY_SERVICE,
    SHARES_BY_SERVICE,
    NamedPart,
    NamedSet,
    is_replica_name,
    is_service_name,
    named_set,
    set_names,
)
from hanse.features.statefulsets.options import StatefulSetOptions
from hanse.features.statefulsets.zone_nodes import (
    ReplicaAddress,
    distinct,
    is_replica_of,
    name_in_namespace,
    replica_nodes,
    set_nodes,
)
from hanse.model.clusterset import (
    are_leases_read,
    is_broker_lost,
    is_listed_or_unreachable,
    lease_state,
    unanswered_clusters,
)
from hanse.model.dns.names import InvalidName, child_name, wire_name
from hanse.model.dns.records import ZoneNode
from hanse.model.dns.zones import View
from hanse.model.facts import HolderState, LeaseLiveness, Role, is_recent
from hanse.model.kinds.coordination import Lease
from hanse.model.kinds.core import Namespace
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

SERVICE = "stateful"
REPORTED_WITHIN = timedelta(minutes=2)
"""Within which clusters that live report again after the broker's namespace was made anew."""
SLICES_BY_SERVICE = Index(
    EndpointSlice,
    "dns-stateful-slices",
    lambda s: [f"{s.metadata.namespace}/{s.metadata.labels.get(KUBE_SERVICE, '')}"],
)


_Found = tuple[NamedPart, ReplicaAddress]


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
            Watch(Role.BROKER, Namespace, name=broker_namespace, optional=True),
        )

    def synced(self, snapshot: Snapshot) -> bool:
        """Whether shares, reports and Leases of each broker are read, or it is unreachable."""
        return are_leases_read(snapshot) and all(
            is_listed_or_unreachable(kind, broker, snapshot)
            for broker in snapshot.clusters(Role.BROKER)
            for kind in (StatefulSetShares, StatefulSetPart)
        )

    def keys(self, snapshot: Snapshot) -> Iterator[Key]:
        """A key for each governing Service, in reports and the brokers' shares; keys may repeat."""
        for broker in snapshot.clusters(Role.BROKER):
            for record in snapshot.all(broker, StatefulSetShares):
                if record.spec.service:
                    yield Key(SERVICE, record.spec.service, record.metadata.namespace)
            for part in snapshot.all(broker, StatefulSetPart):
                if part.spec.names is not None and part.spec.names.service:
                    yield Key(SERVICE, part.spec.names.service, part.spec.namespace)

    def keys_for(self, change: Change, snapshot: Snapshot) -> Iterable[Key]:
        """The Services whose names a record, a report, or an EndpointSlice here affects.

        All for a ClusterMember, a Lease's liveness, or the broker's namespace; else none.
        """
        if isinstance(change, FactChange):
            return set(self.keys(snapshot)) if isinstance(change.fact, LeaseLiveness) else ()
        sides = [side for side in (change.before, change.after) if side is not None]
        match change.object:
            case Namespace(metadata=meta) if meta.name != self._broker_namespace:
                return ()
            case ClusterMember() | Namespace():
                return set(self.keys(snapshot))
            case StatefulSetShares() | StatefulSetPart() if change.where != snapshot.local:
                return {key for side in sides for key in _keys_of(side, snapshot, change.where)}
            case EndpointSlice() if change.where == snapshot.local:
                return {
                    key
                    for side in sides
                    if (service := side.metadata.labels.get(KUBE_SERVICE))
                    for broker in snapshot.clusters(Role.BROKER)
                    for name in set_names(side.metadata.namespace, service, snapshot, broker)
                    for key in (
                        Key(SERVICE, service, side.metadata.namespace),
                        *_keys_of_name(name, side.metadata.namespace, snapshot, broker),
                    )
                }
            case _:
                return ()

    def records_for(self, snapshot: Snapshot) -> Callable[[Key], Sequence[ZoneNode] | None]:
        """A function from a key to the nodes of a Service and its sets.

        It returns () for a Service without sets, and None, so that the present nodes stay, if a
        set's record has a newer schema, or reports are gone with the broker's namespace.
        """
        brokers = snapshot.clusters(Role.BROKER)
        expired = self.expired_clusters(snapshot, brokers)

        def build_nodes(key: Key) -> Sequence[ZoneNode] | None:
            """The nodes of a governing Service and its sets; empty if it governs none.

            Only those of the sets if a replica has the Service's name. None (keep the present
            nodes) if their records or reports cannot be read now.
            """
            sets = [
                named_set(name, key.namespace, snapshot, broker, self.view.local)
                for broker in brokers
                for name in sorted(
                    set_names(key.namespace, key.name, snapshot, broker) | {key.name}
                )
            ]
            governed = [one for one in sets if key.name in one.services]
            if any(s.record is not None and s.record.spec.has_newer_schema for s in governed):
                return None
            if not governed:
                return ()
            if any(self._lacks_reports(one, expired, snapshot) for one in governed):
                return None
            nodes = list(self._set_nodes(key, sets, expired, snapshot))
            if not any(is_replica_name(key, snapshot, broker) for broker in brokers):
                nodes += self._service_nodes(key, sets, expired, snapshot)
            return nodes

        return build_nodes

    def _lacks_reports(
        self, one: NamedSet, expired: frozenset[ClusterId], snapshot: Snapshot
    ) -> bool:
        """Whether reports are gone with the broker's namespace, and are not written again yet.

        That is while the namespace is lost, and then for REPORTED_WITHIN while a cluster with a
        share that was seen to be ready has no report, and no Lease that it has renewed again.
        """
        reported = {part.spec.cluster for part in one.parts}
        shares = one.record.spec.shares if one.record is not None else ()
        return any(
            is_broker_lost(snapshot, broker, self._broker_namespace)
            or (
                self._is_new_namespace(broker, snapshot)
                and any(
                    snapshot.fact(LeaseLiveness, (broker, self._broker_namespace, share.name))
                    and lease_state(share.name, snapshot, broker, self._broker_namespace)
                    is HolderState.UNKNOWN
                    for share in shares
                    if share.replicas and share.name not in reported | expired
                )
            )
            for broker in snapshot.clusters(Role.BROKER)
        )

    def _is_new_namespace(self, broker: ClusterId, snapshot: Snapshot) -> bool:
        """Whether the broker's namespace was made less than REPORTED_WITHIN ago."""
        found = snapshot.get(broker, Namespace, self._broker_namespace)
        made = found.metadata.creation_timestamp if found is not None else None
        return made is not None and is_recent(made, snapshot.now, REPORTED_WITHIN)

    def expired_clusters(
        self, snapshot: Snapshot, brokers: tuple[ClusterId, ...]
    ) -> frozenset[ClusterId]:
        """Clusters that left, whose Lease on a broker expired, or that report without a Lease.

        Not the local cluster, nor of the latter one whose Lease was observed before it was deleted.
        """
        dead = set(unanswered_clusters(snapshot, self._broker_namespace))
        for broker in brokers:
            if snapshot.listed(broker, Lease):
                reporting = {part.spec.cluster for part in snapshot.all(broker, StatefulSetPart)}
                dead |= {
                    c
                    for c in reporting
                    if snapshot.get(broker, Lease, c, self._broker_namespace) is None
                    and snapshot.fact(LeaseLiveness, (broker, self._broker_namespace, c)) is None
                }
        return frozenset(dead - {snapshot.local})

    def _service_nodes(
        self,
        key: Key,
        sets: Sequence[NamedSet],
        expired: frozenset[ClusterId],
        snapshot: Snapshot,
    ) -> Iterator[ZoneNode]:
        """The nodes of a governing Service: cluster names, replicas below it, and its own name.

        Nothing if its name is invalid. It has the replicas of its sets, and of a set of the same
        name.
        """
        name = name_in_namespace(key.name, key.namespace, self._federation_services)
        if name is None:
            return
        parts = [p for s in sets for p in s.parts if key.name in (s.name, p.names.service)]
        yield from self._local_nodes(key, parts, snapshot)
        found = self._replicas_of(parts, expired, snapshot)
        governed = [r for part, r in found if part.names.service == key.name]
        yield from replica_nodes(governed, name, self.view.ttl)
        yield from self._set_node(name, parts, found)

    def _set_nodes(
        self,
        key: Key,
        sets: Sequence[NamedSet],
        expired: frozenset[ClusterId],
        snapshot: Snapshot,
    ) -> Iterator[ZoneNode]:
        """The node of each set with all its replicas, and nodes of load-balanced replicas.

        Only of sets whose first Service by name is the key's, so that each is built once; without
        the set's node if a replica or a Service has that name.
        """
        for one in sets:
            name = name_in_namespace(one.name, key.namespace, self._federation_services)
            domain = child_name(key.namespace, self._federation_services)
            if name is None or domain is None or min(one.services, default="") != key.name:
                continue
            found = self._replicas_of(one.parts, expired, snapshot)
            balanced = [r for part, r in found if part.names.load_balanced]
            yield from replica_nodes(balanced, domain, self.view.ttl)
            if not self._is_of_others(one.name, key.namespace, snapshot):
                yield from self._set_node(name, one.parts, found)

    def _is_of_others(self, name: str, namespace: str, snapshot: Snapshot) -> bool:
        """Whether a replica or a Service has the name of a set, and so takes precedence over it."""
        return any(
            is_replica_name(Key(SERVICE, name, namespace), snapshot, broker)
            or is_service_name(name, namespace, snapshot, broker, self.view.local)
            for broker in snapshot.clusters(Role.BROKER)
        )

    def _set_node(
        self, name: bytes, parts: Sequence[NamedPart], found: Sequence[_Found]
    ) -> Iterator[ZoneNode]:
        """The node of a name with the addresses of all replicas found, and nodes of its ports."""
        ports = distinct(port for part in parts for port in part.names.ports)
        return set_nodes(name, [replica for _, replica in found], ports, self.view.ttl)

    def _replicas_of(
        self, parts: Sequence[NamedPart], expired: frozenset[ClusterId], snapshot: Snapshot
    ) -> list[_Found]:
        """(report, replica) of each replica that clients find, the client's cluster first."""
        found = [(part, r) for part in parts for r in self._replicas(part, expired, snapshot)]
        return sorted(found, key=lambda each: not each[1].is_near)

    def _local_nodes(
        self, key: Key, parts: Sequence[NamedPart], snapshot: Snapshot
    ) -> Iterator[ZoneNode]:
        """The cluster names of a governing Service and its ready pods; without pods an empty node.

        Nothing in a view without a local cluster, or if the name is invalid.
        """
        local = name_in_namespace(key.name, key.namespace, self._cluster_services)
        if local is None or not self.view.local:
            return
        own = [part for part in parts if self._is_own(part) and part.names.service == key.name]
        ports = distinct(port for part in own for port in part.names.ports)
        replicas = [*self._pods(key.namespace, key.name, ports, snapshot)] if own else []
        yield from set_nodes(local, replicas, ports, self.view.ttl)
        yield from replica_nodes(replicas, local, self.view.ttl)

    def _replicas(
        self, part: NamedPart, expired: frozenset[ClusterId], snapshot: Snapshot
    ) -> Iterator[ReplicaAddress]:
        """The replicas of one cluster, as clients find them by federation names.

        With load balancers those in the cluster's own report, up to the share in it and only by
        names of its own replicas; ready ones, or all if their Service publishes such addresses;
        none of an expired cluster. Without load balancers the ready pods, if it is the client's
        cluster.
        """
        spec, names = part.spec, part.names
        if not names.load_balanced:
            if self._is_own(part):
                pods = self._pods(spec.namespace, names.service, names.ports, snapshot)
                yield from (p for p in pods if is_replica_of(p.label, spec.name, spec.cluster))
            return
        domain = name_in_namespace(names.service, spec.namespace, self._federation_services)
        if domain is None or spec.cluster in expired:
            return
        is_near = not self.view.local or self._is_own(part)
        for replica in spec.replicas[: spec.share]:
            target = child_name(replica.name, domain)
            is_own = is_replica_of(replica.name, spec.name, spec.cluster)
            if is_own and target is not None and (replica.ready or names.unready):
                addresses = replica.addresses
                yield ReplicaAddress(replica.name, target, addresses, names.ports, is_near)

    def _is_own(self, part: NamedPart) -> bool:
        """Whether a report is that of the client's cluster."""
        return bool(self.view.local) and part.spec.cluster == self.view.local

    def _pods(
        self, namespace: str, service: str, ports: Sequence[NamedPort], snapshot: Snapshot
    ) -> Iterator[ReplicaAddress]:
        """Addresses of a Service's ready endpoints with a host name, from EndpointSlices here."""
        local = name_in_namespace(service, namespace, self._cluster_services)
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


def _keys_of(obj: Object, snapshot: Snapshot, broker: ClusterId) -> Iterator[Key]:
    """The keys of Services whose names depend on a record of shares or a report.

    Also those of sets that are named like a replica, or whose replicas may be named like it.
    """
    match obj:
        case StatefulSetShares(metadata=meta, spec=shares):
            yield from _keys_of_name(shares.service, meta.namespace, snapshot, broker)
            yield from _keys_of_name(meta.name, meta.namespace, snapshot, broker)
            for part in snapshot.by(broker, PARTS_BY_SET, f"{meta.namespace}/{meta.name}"):
                yield from _keys_of_like_sets(part.spec, snapshot, broker)
        case StatefulSetPart(spec=spec):
            if spec.names is not None:
                yield from _keys_of_name(spec.names.service, spec.namespace, snapshot, broker)
            for replica in spec.replicas:
                if set_names(spec.namespace, replica.name, snapshot, broker):
                    yield Key(SERVICE, replica.name, spec.namespace)
                yield from _services_of_set(replica.name, spec.namespace, snapshot, broker)
            yield from _keys_of_like_sets(spec, snapshot, broker)
            yield from _keys_of_name(spec.name, spec.namespace, snapshot, broker)


def _keys_of_like_sets(
    part: StatefulSetPartSpec, snapshot: Snapshot, broker: ClusterId
) -> Iterator[Key]:
    """The keys of sets that could have replicas of the same names.

    `store-eu` in `west` for a report of `store` in `eu-west`.
    """
    for i, letter in enumerate(part.cluster):
        if letter == "-":
            other = f"{part.name}-{part.cluster[:i]}"
            yield from _services_of_set(other, part.namespace, snapshot, broker)


def _keys_of_name(
    name: str, namespace: str, snapshot: Snapshot, broker: ClusterId
) -> Iterator[Key]:
    """The keys of a Service of that name, and of all Services of a set of that name."""
    yield Key(SERVICE, name, namespace)
    yield from _services_of_set(name, namespace, snapshot, broker)


def _services_of_set(
    name: str, namespace: str, snapshot: Snapshot, broker: ClusterId
) -> Iterator[Key]:
    """The keys of a set's Services, by all reports and the record."""
    record = snapshot.get(broker, StatefulSetShares, name, namespace)
    if record is not None:
        yield Key(SERVICE, record.spec.service, namespace)
    for part in snapshot.by(broker, PARTS_BY_SET, f"{namespace}/{name}"):
        if part.spec.names is not None:
            yield Key(SERVICE, part.spec.names.service, namespace)
