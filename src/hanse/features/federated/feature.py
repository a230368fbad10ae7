"""The feature: what it watches, what wakes which decision, and the two decisions."""

from collections.abc import Iterable, Iterator

from hanse.features.federated.backends import BACKEND_SLICES
from hanse.features.federated.federated_service import plan_service
from hanse.features.federated.join_requests import (
    JOINING_SERVICES,
    NATIVE_SERVICES,
    FederatedName,
    Joinable,
    join_request,
)
from hanse.features.federated.member_service import NATIVE_PREFIX, plan_record
from hanse.features.federated.members import is_led, led_members, members, service_key
from hanse.features.federated.names import (
    DOMAIN,
    RECORD,
    RECORD_NAMESPACE,
    RECORD_TOPIC,
    member_topic,
)
from hanse.features.federated.options import FederatedOptions
from hanse.features.federated.records import BY_NAMESPACE, BY_SERVICE, read_record
from hanse.features.federated.slices import GENERATED_SLICES
from hanse.model.facts import ClusterState, KindServed, Role, WriteOutcome
from hanse.model.kinds.antrea import ClusterGroup, Group
from hanse.model.kinds.core import ConfigMap, Namespace, Node, Service
from hanse.model.kinds.discovery import KUBE_SERVICE, MANAGED_BY, EndpointSlice
from hanse.model.kinds.externaldns import DNSEndpoint
from hanse.model.kinds.federation import SYSTEM, NativeService, NetworkInterface
from hanse.model.objects import ClusterId
from hanse.model.plan import Key, Plan
from hanse.model.snapshot import Change, FactChange, ObjectChange, Snapshot, Watch, Writes

_OPTIONAL = (ClusterGroup.kind, Group.kind, DNSEndpoint.kind)


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
        ),
        Watch(
            Role.LED, Service, indexes=(JOINING_SERVICES,), writes=Writes.OBJECTS | Writes.STATUS
        ),
        Watch(
            Role.LED,
            EndpointSlice,
            indexes=(BACKEND_SLICES, GENERATED_SLICES),
            writes=Writes.OBJECTS,
        ),
        Watch(Role.LED, Node),
        Watch(Role.LED, Namespace),
        Watch(Role.LED, NativeService, indexes=(NATIVE_SERVICES,), writes=Writes.STATUS),
        Watch(Role.LED, NetworkInterface),
        Watch(Role.LED, ClusterGroup, writes=Writes.OBJECTS),
        Watch(Role.LED, Group, writes=Writes.OBJECTS),
        Watch(Role.LED, DNSEndpoint, writes=Writes.OBJECTS),
    )

    def __init__(self, options: FederatedOptions = FederatedOptions()) -> None:  # noqa: B008 - frozen
        self._options = options

    def keys_for(self, change: Change, snapshot: Snapshot) -> Iterable[Key]:
        match change:
            case ObjectChange() if isinstance(change.object, ConfigMap):
                return _woken_by_record(change, snapshot)
            case ObjectChange(where) if is_led(where, snapshot):
                return _woken_in(where, change, snapshot)
            case ObjectChange():
                return ()
            case FactChange():
                return _woken_by_fact(change, snapshot)

    def plan(self, key: Key, snapshot: Snapshot) -> Plan:
        if key.topic.startswith(member_topic(RECORD_TOPIC, "")):
            return plan_record(key, snapshot)
        return plan_service(key, snapshot, self._options)


def _woken_in(where: ClusterId, change: ObjectChange, snapshot: Snapshot) -> Iterator[Key]:
    """What a change in a member that we lead concerns."""
    obj = change.object
    meta = obj.metadata
    match obj:
        case Service() | NativeService():
            yield from _of_sides(change, where)
        case EndpointSlice():
            yield from _of_slice(obj, where, snapshot)
        case Node() if _says_anew(change):
            yield from (
                _recording_key(s, where) for s in snapshot.by(where, JOINING_SERVICES, "NodePort")
            )
        case NetworkInterface():
            natives = snapshot.by(where, NATIVE_SERVICES, f"{meta.namespace}/{meta.name}")
            yield from (key for native in natives for key in _of_joinable(native, where))
        case Namespace():
            yield from (
                service_key(federated, where) for federated in _federated_in(meta.name, snapshot)
            )
        case _:
            return


def _of_sides(change: ObjectChange, where: ClusterId) -> Iterator[Key]:
    for side in (change.before, change.after):
        if isinstance(side, Service | NativeService):
            yield from _of_joinable(side, where)


def _says_anew(change: ObjectChange) -> bool:
    """Whether a node's addresses or readiness changed: its heartbeats are no news."""
    sides = [
        (side.ready, side.status.addresses, side.metadata.deletion_timestamp)
        if isinstance(side, Node)
        else None
        for side in (change.before, change.after)
    ]
    return sides[0] != sides[1]


def _of_joinable(obj: Joinable, where: ClusterId) -> Iterator[Key]:
    wish = join_request(obj)
    if wish.any:
        yield _recording_key(obj, where)
        for federated in wish.joins:
            yield service_key(federated, where)


def _of_slice(endpoint_slice: EndpointSlice, where: ClusterId, snapshot: Snapshot) -> Iterator[Key]:
    labels = endpoint_slice.metadata.labels
    if labels.get(MANAGED_BY) == DOMAIN or KUBE_SERVICE not in labels:
        return
    service = snapshot.get(where, Service, labels[KUBE_SERVICE], endpoint_slice.metadata.namespace)
    if service is not None:
        yield from _of_joinable(service, where)


def _woken_by_record(change: ObjectChange, snapshot: Snapshot) -> Iterator[Key]:
    """A record concerns its federated Service wherever we lead, and members that share it."""
    for told in (change.before, change.after):
        federated = _federated_by(told) if isinstance(told, ConfigMap) else None
        if federated is not None:
            for member in led_members(snapshot):
                yield service_key(federated, member)
                yield from _members_of(federated, member, snapshot)


def _members_of(federated: FederatedName, member: ClusterId, snapshot: Snapshot) -> Iterator[Key]:
    """The records of a member that have a say in a federated Service."""
    for told in snapshot.by(member, BY_SERVICE, str(federated)):
        found = read_record(told, member)
        if found is not None:
            record = found.record
            prefix = NATIVE_PREFIX if record.kind == "NativeService" else ""
            yield Key(
                member_topic(RECORD_TOPIC, member), f"{prefix}{record.name}", record.namespace
            )


def _woken_by_fact(change: FactChange, snapshot: Snapshot) -> Iterator[Key]:
    match change.fact:
        case ClusterState(cluster) if _stands_otherwise(change):
            yield from _of_cluster(cluster, snapshot)
        case KindServed(where, kind) if kind in _OPTIONAL and is_led(where, snapshot):
            yield from _all_in(where, snapshot)
        case WriteOutcome(place) if place.ref.kind == Service.kind and is_led(
            place.where, snapshot
        ):
            yield service_key(FederatedName(place.ref.namespace, place.ref.name), place.where)
        case _:
            return


def _stands_otherwise(change: FactChange) -> bool:
    sides = [
        (side.roles, side.phase, side.listed, side.recovering)
        if isinstance(side, ClusterState)
        else None
        for side in (change.before, change.after)
    ]
    return sides[0] != sides[1]


def _of_cluster(cluster: ClusterId, snapshot: Snapshot) -> Iterator[Key]:
    """All that rests on a cluster: what it gives to others, and what it is given."""
    ours = led_members(snapshot)
    given = {_federated_by(told) for told in snapshot.all(cluster, ConfigMap)} - {None}
    yield from (
        service_key(federated, m) for federated in given if federated is not None for m in ours
    )
    if cluster in ours:
        yield from _all_in(cluster, snapshot)


def _all_in(member: ClusterId, snapshot: Snapshot) -> Iterator[Key]:
    """Every decision about a member that we lead."""
    for service in snapshot.by(member, JOINING_SERVICES, ""):
        yield _recording_key(service, member)
    for native in snapshot.all(member, NativeService):
        yield from _of_joinable(native, member)
    for federated in _all_federated(snapshot):
        yield service_key(federated, member)


def _all_federated(snapshot: Snapshot) -> set[FederatedName]:
    return {
        federated
        for member in members(snapshot)
        for told in snapshot.all(member, ConfigMap)
        if (federated := _federated_by(told)) is not None
    }


def _federated_in(namespace: str, snapshot: Snapshot) -> set[FederatedName]:
    return {
        federated
        for member in members(snapshot)
        for told in snapshot.by(member, BY_NAMESPACE, namespace)
        if (federated := _federated_by(told)) is not None
    }


def _federated_by(told: ConfigMap) -> FederatedName | None:
    labels = told.metadata.labels
    if RECORD not in labels or RECORD_NAMESPACE not in labels:
        return None
    return FederatedName(labels[RECORD_NAMESPACE], labels[RECORD])


def _recording_key(obj: Joinable, member: ClusterId) -> Key:
    prefix = NATIVE_PREFIX if isinstance(obj, NativeService) else ""
    meta = obj.metadata
    return Key(member_topic(RECORD_TOPIC, member), f"{prefix}{meta.name}", meta.namespace)
