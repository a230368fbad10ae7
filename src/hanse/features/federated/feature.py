"""The feature `federated`: Services made of Services of several members.

Its watches, the keys that a change affects, and the plan of each.
"""

from collections.abc import Iterable, Iterator, Sequence

from hanse.features.federated.backends import BACKEND_SLICES
from hanse.features.federated.federated_service import plan_service
from hanse.features.federated.groups import (
    CLUSTER_POLICIES,
    NAMESPACE_POLICIES,
    named_services,
)
from hanse.features.federated.health import member_probes
from hanse.features.federated.join_requests import (
    BY_NODES,
    JOINING_SERVICES,
    NATIVE_SERVICES,
    FederatedName,
    Joinable,
    join_request,
)
from hanse.features.federated.member_service import NATIVE_PREFIX, plan_record
from hanse.features.federated.members import (
    active_members,
    is_led,
    led_members,
    list_records,
    service_key,
)
from hanse.features.federated.names import (
    DOMAIN,
    JOIN,
    RECORD,
    RECORD_NAMESPACE,
    RECORD_TOPIC,
    member_topic,
)
from hanse.features.federated.options import FederatedOptions
from hanse.features.federated.ranges import changes_member_ranges
from hanse.features.federated.records import BY_NAMESPACE, BY_SERVICE, read_record
from hanse.features.federated.settings import probes_members
from hanse.features.federated.slices import GENERATED_SLICES
from hanse.model.facts import ClusterState, KindServed, Role, WriteOutcome
from hanse.model.kinds.acceptance import DEFAULT_POLICY, AcceptancePolicy
from hanse.model.kinds.antrea import (
    AntreaClusterNetworkPolicy,
    AntreaNetworkPolicy,
    ClusterGroup,
    Group,
)
from hanse.model.kinds.core import ConfigMap, Namespace, Node, Service
from hanse.model.kinds.discovery import KUBE_SERVICE, MANAGED_BY, EndpointSlice
from hanse.model.kinds.externaldns import DNSEndpoint
from hanse.model.kinds.federation import SYSTEM, Federation, NativeService, NetworkInterface
from hanse.model.objects import ClusterId
from hanse.model.plan import Key, Plan
from hanse.model.probes import Probe, TargetHealth, api_server_addresses
from hanse.model.snapshot import Change, FactChange, ObjectChange, Snapshot, Watch, Writes

_OPTIONAL = (ClusterGroup.kind, Group.kind, DNSEndpoint.kind)


_GROUP_USERS = "which groups of federated Services policies name, and where"
_GROUPS = "backends in other members, as peers of policies"


class FederatedServices:
    """Federated Services in every member that this supervisor leads."""

    name = "federated"
    watches: tuple[Watch, ...] = (
        Watch(
            Role.MEMBER,
            ConfigMap,
            namespace=SYSTEM,
            labels=RECORD,
            indexes=(BY_SERVICE, BY_NAMESPACE),
            writes=Writes.OBJECTS,
            reason="records of what each member offers",
        ),
        Watch(Role.MEMBER, Federation, reason="the address ranges that a member states"),
        Watch(
            Role.LED,
            Service,
            indexes=(JOINING_SERVICES,),
            writes=Writes.OBJECTS | Writes.STATUS,
            reason="Services that join, and the federated Service in each member",
        ),
        Watch(
            Role.LED,
            EndpointSlice,
            indexes=(BACKEND_SLICES, GENERATED_SLICES),
            writes=Writes.OBJECTS,
            reason="backends of a federated Service, own and of other members",
        ),
        Watch(
            Role.LED,
            AcceptancePolicy,
            name=DEFAULT_POLICY,
            reason="in which namespaces a member takes federated Services",
        ),
        Watch(Role.LED, Node, reason="addresses of node ports, and zones of backends"),
        Watch(Role.LED, Namespace, reason="federated Services are where their namespace is"),
        Watch(
            Role.LED,
            NativeService,
            indexes=(NATIVE_SERVICES,),
            writes=Writes.STATUS,
            reason="which Services join, where they are not annotated",
        ),
        Watch(Role.LED, NetworkInterface, reason="addresses of backends that are no pods"),
        Watch(
            Role.LED, AntreaClusterNetworkPolicy, indexes=(CLUSTER_POLICIES,), reason=_GROUP_USERS
        ),
        Watch(Role.LED, AntreaNetworkPolicy, indexes=(NAMESPACE_POLICIES,), reason=_GROUP_USERS),
        Watch(Role.LED, ClusterGroup, writes=Writes.OBJECTS, reason=_GROUPS, only_with="Antrea"),
        Watch(Role.LED, Group, writes=Writes.OBJECTS, reason=_GROUPS, only_with="Antrea"),
        Watch(
            Role.LED, DNSEndpoint, writes=Writes.OBJECTS, reason="names outside, for ExternalDNS"
        ),
    )

    def __init__(self, options: FederatedOptions = FederatedOptions()) -> None:  # noqa: B008 - frozen
        self._options = options

    def keys_for(self, change: Change, snapshot: Snapshot) -> Iterable[Key]:
        """The keys of records and federated Services in led members that a change affects.

        A record counts in any cluster, other objects only in led members.
        """
        match change:
            case ObjectChange() if isinstance(change.object, ConfigMap):
                return _keys_for_record(change, snapshot)
            case ObjectChange(where) if is_led(where, snapshot):
                return _keys_for_led_object(where, change, snapshot)
            case ObjectChange():
                return ()
            case FactChange():
                return _keys_for_fact(change, snapshot)

    def plan(self, key: Key, snapshot: Snapshot) -> Plan:
        """The plan of a member Service's record, or of a federated Service, by the key's topic."""
        if key.topic.startswith(member_topic(RECORD_TOPIC, "")):
            return plan_record(key, snapshot)
        return plan_service(key, snapshot, self._options)

    def probe_keys(self, snapshot: Snapshot) -> Iterable[Key]:
        """The keys of federated Services with addresses to probe; none if we lead no member."""
        return [
            key for f in _all_federated(snapshot) if self.probes(key := _probe_key(f), snapshot)
        ]

    def probe_keys_for(self, change: Change, snapshot: Snapshot) -> Iterable[Key]:
        """The federated Service of a changed record, before and after; none for other objects.

        All for a ClusterState whose roles, phase, listed, recovering or silent changed; none for
        other facts.
        """
        if isinstance(change, FactChange):
            is_state = isinstance(change.fact, ClusterState) and _is_state_change(change)
            return map(_probe_key, _all_federated(snapshot)) if is_state else ()
        if not isinstance(change.object, ConfigMap):
            return ()
        sides = (change.before, change.after)
        names = {_federated_name(side) for side in sides if isinstance(side, ConfigMap)}
        return [_probe_key(name) for name in names if name is not None]

    def probes(self, key: Key, snapshot: Snapshot) -> Sequence[Probe]:
        """TCP probes of the ready addresses, in all members, of a Service with health `probe`.

        Empty for other Services, and where we lead no member. Addresses without a TCP port, and
        those of type FQDN, have none. The `Prober` calls this for keys of `probe_keys_for`.
        """
        return tuple(_probes(FederatedName(key.namespace, key.name), snapshot))

    def forbidden(self, snapshot: Snapshot) -> frozenset[str]:
        """The addresses of API servers of led members, which are never probed."""
        return api_server_addresses(snapshot.clusters(Role.LED), BACKEND_SLICES, snapshot)


def _probe_key(federated: FederatedName) -> Key:
    """The key under which the probes of a federated Service are planned."""
    return Key("probes", federated.name, federated.namespace)


def _probes(federated: FederatedName, snapshot: Snapshot) -> Iterator[Probe]:
    """The probes of a federated Service, if its health setting is `probe` and we lead a member."""
    records = list_records(federated, snapshot) if led_members(snapshot) else []
    if probes_members(sorted((r.origin for r in records), key=lambda origin: origin.age)):
        for stored in records:
            yield from member_probes(stored.record)


def _keys_for_led_object(
    where: ClusterId, change: ObjectChange, snapshot: Snapshot
) -> Iterator[Key]:
    """The federated Services, and records of member Services, that a change in a member affects.

    Of a Service, slice or interface the records and what they join; of a node, but for its
    heartbeat, the records of Services reached outside; of an Antrea policy what it names; of a
    Namespace those in it; all federated ones for an AcceptancePolicy or a Federation's ranges.
    """
    obj = change.object
    meta = obj.metadata
    match obj:
        case Service() | NativeService():
            yield from _joined_keys(change, where)
        case EndpointSlice():
            for side in (change.before, change.after):
                if isinstance(side, EndpointSlice):
                    yield from _slice_keys(side, where, snapshot)
        case Node() if _is_node_change(change):
            yield from _node_keys(where, snapshot)
        case NetworkInterface():
            natives = snapshot.by(where, NATIVE_SERVICES, f"{meta.namespace}/{meta.name}")
            yield from (key for native in natives for key in _joinable_keys(native, where))
        case AntreaClusterNetworkPolicy() | AntreaNetworkPolicy():
            yield from _group_keys(change, where)
        case AcceptancePolicy() | Federation() if _is_rule_change(change):
            yield from (service_key(federated, where) for federated in _all_federated(snapshot))
        case Namespace():
            yield from (
                service_key(federated, where) for federated in _federated_in(meta.name, snapshot)
            )
        case _:
            return


def _is_rule_change(change: ObjectChange) -> bool:
    """Whether an AcceptancePolicy changed, or the address ranges that a Federation states."""
    return isinstance(change.object, AcceptancePolicy) or changes_member_ranges(change)


def _joined_keys(change: ObjectChange, where: ClusterId) -> Iterator[Key]:
    """Keys of the record of a Service or native service and of what it joins, before and after.

    With annotation `JOIN` also of the federated Service that has its own name.
    """
    for side in (change.before, change.after):
        if isinstance(side, Service | NativeService):
            yield from _joinable_keys(side, where)
            if JOIN in side.metadata.annotations:
                meta = side.metadata
                yield service_key(FederatedName(meta.namespace, meta.name), where)


def _group_keys(change: ObjectChange, where: ClusterId) -> Iterator[Key]:
    """Keys of the federated Services whose groups a policy names, before or after a change."""
    for side in (change.before, change.after):
        if isinstance(side, AntreaClusterNetworkPolicy | AntreaNetworkPolicy):
            yield from (service_key(name, where) for name in named_services(side))


def _node_keys(where: ClusterId, snapshot: Snapshot) -> Iterator[Key]:
    """Record keys of member Services that are reached by nodes, load balancer or external IPs."""
    for service in snapshot.by(where, JOINING_SERVICES, BY_NODES):
        yield _record_key(service, where)


def _is_node_change(change: ObjectChange) -> bool:
    """Whether a node came, went, or has other addresses, readiness or deletion time than before."""
    sides = [
        (side.ready, side.status.addresses, side.metadata.deletion_timestamp)
        if isinstance(side, Node)
        else None
        for side in (change.before, change.after)
    ]
    return sides[0] != sides[1]


def _joinable_keys(obj: Joinable, where: ClusterId) -> Iterator[Key]:
    """The object's record and the federated Services it joins; nothing without join annotations."""
    request = join_request(obj)
    if request.any:
        yield _record_key(obj, where)
        for federated in request.joins:
            yield service_key(federated, where)


def _slice_keys(
    endpoint_slice: EndpointSlice, where: ClusterId, snapshot: Snapshot
) -> Iterator[Key]:
    """The keys of the Service that a slice belongs to, if it joins; none for slices of ours."""
    labels = endpoint_slice.metadata.labels
    if labels.get(MANAGED_BY) == DOMAIN or KUBE_SERVICE not in labels:
        return
    service = snapshot.get(where, Service, labels[KUBE_SERVICE], endpoint_slice.metadata.namespace)
    if service is not None:
        yield from _joinable_keys(service, where)


def _keys_for_record(change: ObjectChange, snapshot: Snapshot) -> Iterator[Key]:
    """The keys of the record's federated Service and of all its records, in each led member."""
    for side in (change.before, change.after):
        federated = _federated_name(side) if isinstance(side, ConfigMap) else None
        if federated is not None:
            for member in led_members(snapshot):
                yield service_key(federated, member)
                yield from _record_keys(federated, member, snapshot)


def _record_keys(federated: FederatedName, member: ClusterId, snapshot: Snapshot) -> Iterator[Key]:
    """The keys of a member's valid records of a federated Service."""
    for configmap in snapshot.by(member, BY_SERVICE, str(federated)):
        stored = read_record(configmap, member)
        if stored is not None:
            record = stored.record
            prefix = NATIVE_PREFIX if record.kind == "NativeService" else ""
            yield Key(
                member_topic(RECORD_TOPIC, member), f"{prefix}{record.name}", record.namespace
            )


def _keys_for_fact(change: FactChange, snapshot: Snapshot) -> Iterator[Key]:
    """The keys that a changed fact affects, all in led members.

    Of a cluster's state, if roles, phase, listed, recovering or silent changed, its federated
    Services; of an optional kind all keys of that member; of the write of a Service that Service;
    of a probed address the federated Services that have it. Else none.
    """
    match change.fact:
        case ClusterState(cluster) if _is_state_change(change):
            yield from _cluster_keys(cluster, snapshot)
        case KindServed(where, kind) if kind in _OPTIONAL and is_led(where, snapshot):
            yield from _member_keys(where, snapshot)
        case WriteOutcome(place) if place.ref.kind == Service.kind and is_led(
            place.where, snapshot
        ):
            yield service_key(FederatedName(place.ref.namespace, place.ref.name), place.where)
        case TargetHealth(target):
            for federated in _all_federated(snapshot):
                if any(probe.target == target for probe in _probes(federated, snapshot)):
                    yield from (service_key(federated, m) for m in led_members(snapshot))
        case _:
            return


def _is_state_change(change: FactChange) -> bool:
    """Whether roles, phase, listed, recovering or silent of a cluster's state changed."""
    sides = [
        (side.roles, side.phase, side.listed, side.recovering, side.silent)
        if isinstance(side, ClusterState)
        else None
        for side in (change.before, change.after)
    ]
    return sides[0] != sides[1]


def _cluster_keys(cluster: ClusterId, snapshot: Snapshot) -> Iterator[Key]:
    """Keys of federated Services with a record in a cluster, or with a generated slice anywhere.

    In every led member; if the cluster is led, all of its own keys, too.
    """
    led = led_members(snapshot)
    joined = {_federated_name(c) for c in snapshot.all(cluster, ConfigMap)} - {None}
    slices = (s for m in led for s in snapshot.all(m, EndpointSlice))
    standing = {FederatedName(*v.split("/")) for s in slices for v in GENERATED_SLICES.values(s)}
    for federated in joined | standing:
        if federated is not None:
            yield from (service_key(federated, member) for member in led)
    if cluster in led:
        yield from _member_keys(cluster, snapshot)


def _member_keys(member: ClusterId, snapshot: Snapshot) -> Iterator[Key]:
    """The keys of a led member: records of what joins there, and every federated Service."""
    for service in snapshot.by(member, JOINING_SERVICES, ""):
        yield _record_key(service, member)
    for native in snapshot.all(member, NativeService):
        yield from _joinable_keys(native, member)
    for federated in _all_federated(snapshot):
        yield service_key(federated, member)


def _all_federated(snapshot: Snapshot) -> set[FederatedName]:
    """The federated Services that have a record in any member that is not leaving."""
    return {
        federated
        for member in active_members(snapshot)
        for configmap in snapshot.all(member, ConfigMap)
        if (federated := _federated_name(configmap)) is not None
    }


def _federated_in(namespace: str, snapshot: Snapshot) -> set[FederatedName]:
    """The federated Services in a namespace that have a record in a member that is not leaving."""
    return {
        federated
        for member in active_members(snapshot)
        for configmap in snapshot.by(member, BY_NAMESPACE, namespace)
        if (federated := _federated_name(configmap)) is not None
    }


def _federated_name(configmap: ConfigMap) -> FederatedName | None:
    """The federated Service that a record belongs to, by its labels; None without both labels."""
    labels = configmap.metadata.labels
    if RECORD not in labels or RECORD_NAMESPACE not in labels:
        return None
    return FederatedName(labels[RECORD_NAMESPACE], labels[RECORD])


def _record_key(obj: Joinable, member: ClusterId) -> Key:
    """The key of the record of a Service or native service."""
    prefix = NATIVE_PREFIX if isinstance(obj, NativeService) else ""
    meta = obj.metadata
    return Key(member_topic(RECORD_TOPIC, member), f"{prefix}{meta.name}", meta.namespace)
