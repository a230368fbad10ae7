"""The feature: its watches, the keys of changes, and the plan of each kind of key."""

from collections.abc import Iterable, Iterator

from hanse.features.statefulsets.broker_sync import plan_broker_sync
from hanse.features.statefulsets.carrying import all_config_keys, carried_keys_for, plan_config
from hanse.features.statefulsets.config_maps import FEDERATED_SETS_BY_CONFIG, SETS_BY_CONFIG
from hanse.features.statefulsets.evictions import is_drained
from hanse.features.statefulsets.fleet import PARTS_BY_SET
from hanse.features.statefulsets.headless_services import (
    FEDERATED_SETS_BY_SERVICE,
    SETS_BY_SERVICE,
    governing_service,
    list_governed_federated_sets,
    list_governed_sets,
)
from hanse.features.statefulsets.keys import (
    hosted_keys,
    load_balancer_keys,
    local_keys,
    pod_keys,
    sync_keys,
)
from hanse.features.statefulsets.load_balancers import PODS_BY_OWNER
from hanse.features.statefulsets.local import plan_local
from hanse.features.statefulsets.names import (
    CARRIED,
    ORPHANED,
    POD_NAME,
    SET,
    cluster_set_name,
)
from hanse.features.statefulsets.owned_objects import (
    BUDGETS_BY_SET,
    SERVICES_BY_SET,
    STATEFUL_SETS_BY_SET,
)
from hanse.features.statefulsets.share_basis import topics_unaffected
from hanse.features.statefulsets.shares import plan_shares, plan_status
from hanse.features.statefulsets.tombstones import TOMBSTONES_BY_CLUSTER, keys_of_surplus_tombstones
from hanse.model.clusterset import broker_cluster, is_broker_lost
from hanse.model.facts import ClusterState, LeaseLiveness, Role, WriteOutcome
from hanse.model.kinds.acceptance import DEFAULT_POLICY, AcceptancePolicy
from hanse.model.kinds.apps import StatefulSet
from hanse.model.kinds.coordination import Lease
from hanse.model.kinds.core import ConfigMap, Namespace, Node, Pod, Service
from hanse.model.kinds.hanse import ClusterMember, FederatedStatefulSet
from hanse.model.kinds.policy import PodDisruptionBudget
from hanse.model.kinds.stateful import StatefulSetPart, StatefulSetShares
from hanse.model.objects import Object
from hanse.model.plan import InOrder, Key, Plan
from hanse.model.snapshot import Change, FactChange, ObjectChange, Snapshot, Watch, Writes

OBJECTS, STATUS, FIELDS = Writes.OBJECTS, Writes.STATUS, Writes.FIELDS


class StatefulSets:
    """Distributes StatefulSets over the clusters of a fleet, coordinated through the broker."""

    name = "statefulsets"

    def __init__(self, broker_namespace: str) -> None:
        """Declare the watches, those of reports and members in this namespace of the broker."""
        self._broker_namespace = broker_namespace
        self.watches: tuple[Watch, ...] = (
            Watch(
                Role.LOCAL,
                StatefulSet,
                indexes=(STATEFUL_SETS_BY_SET, SETS_BY_CONFIG),
                writes=OBJECTS,
                reason="this cluster's part of each set",
            ),
            Watch(
                Role.LOCAL,
                Service,
                indexes=(SERVICES_BY_SET,),
                writes=OBJECTS | STATUS,
                reason="the headless Service of a set, and a load balancer for each replica",
            ),
            Watch(
                Role.LOCAL,
                Pod,
                labels=POD_NAME,
                indexes=(PODS_BY_OWNER,),
                writes=Writes.REMOVAL,
                reason="whether the replicas of a set are ready; one that never was is replaced",
            ),
            Watch(
                Role.LOCAL,
                Namespace,
                writes=Writes.MISSING,
                reason="the namespace of a set, where it is missing",
            ),
            Watch(
                Role.LOCAL,
                AcceptancePolicy,
                name=DEFAULT_POLICY,
                reason="what this cluster takes from others",
            ),
            Watch(
                Role.LOCAL,
                FederatedStatefulSet,
                indexes=(FEDERATED_SETS_BY_SERVICE,),
                writes=STATUS,
                reason="sets that are hosted here, and their status",
            ),
            Watch(
                Role.LOCAL,
                StatefulSetShares,
                writes=OBJECTS,
                reason="how many replicas each cluster runs of a set that is hosted here",
            ),
            Watch(
                Role.LOCAL,
                ConfigMap,
                labels=CARRIED,
                writes=OBJECTS,
                reason="ConfigMaps that pods of a set refer to, which come along with it",
            ),
            Watch(
                Role.BROKER,
                StatefulSet,
                indexes=(SETS_BY_SERVICE, SETS_BY_CONFIG),
                writes=STATUS,
            ),
            Watch(
                Role.LOCAL,
                PodDisruptionBudget,
                labels=SET,
                indexes=(BUDGETS_BY_SET,),
                writes=OBJECTS,
                reason="no eviction of a replica without a permit, where users want a budget",
            ),
            Watch(Role.LOCAL, Node, reason="replicas on nodes that are drained may be evicted"),
            Watch(Role.BROKER, PodDisruptionBudget),
            Watch(Role.BROKER, ConfigMap),
            Watch(
                Role.BROKER,
                FederatedStatefulSet,
                indexes=(FEDERATED_SETS_BY_SERVICE, FEDERATED_SETS_BY_CONFIG),
                writes=OBJECTS | STATUS,
            ),
            Watch(
                Role.BROKER, Service, indexes=(SERVICES_BY_SET,), writes=OBJECTS | STATUS | FIELDS
            ),
            Watch(Role.BROKER, StatefulSetShares, writes=OBJECTS),
            Watch(
                Role.BROKER,
                StatefulSetPart,
                namespace=broker_namespace,
                indexes=(PARTS_BY_SET, TOMBSTONES_BY_CLUSTER),
                writes=OBJECTS,
            ),
            Watch(Role.BROKER, Lease, namespace=broker_namespace),
            Watch(Role.BROKER, ClusterMember, namespace=broker_namespace),
            Watch(Role.BROKER, Node),
            Watch(Role.BROKER, Namespace),
        )

    def keys_for(self, change: Change, snapshot: Snapshot) -> Iterable[Key]:
        """The keys that a change affects, of sets and of ConfigMaps; those of shares come first."""
        keys = {*carried_keys_for(change, snapshot), *self._set_keys_for(change, snapshot)}
        return InOrder(sorted(keys, key=lambda key: (key.topic != "shares", key)))

    def _set_keys_for(self, change: Change, snapshot: Snapshot) -> Iterator[Key]:
        """The keys of sets (shares, local, status, mirror) that a change affects."""
        match change:
            case ObjectChange(where) if where == snapshot.local:
                yield from self._keys_for_local_change(change, snapshot)
            case ObjectChange():
                yield from self._keys_for_broker_change(change, snapshot)
            case FactChange():
                yield from self._keys_for_fact(change, snapshot)

    def plan(self, key: Key, snapshot: Snapshot) -> Plan:
        """The plan of a key by its topic: shares, status, config, mirror (hosts), or else local.

        Everything is kept while the broker is lost.
        """
        broker = broker_cluster(snapshot)
        if is_broker_lost(snapshot, broker, self._broker_namespace):
            return Plan(keep_all=True)
        match key.topic:
            case "shares":
                return plan_shares(key, snapshot, self._broker_namespace)
            case "status":
                return plan_status(key, snapshot, self._broker_namespace)
            case "config":
                return plan_config(key, snapshot, self._broker_namespace)
            case "mirror":
                return plan_broker_sync(key, snapshot, self._broker_namespace)
            case _:
                return plan_local(key, snapshot, self._broker_namespace)

    def _keys_for_local_change(self, change: ObjectChange, snapshot: Snapshot) -> Iterator[Key]:
        """The keys for a change in this cluster: of a set's objects, or of a hosted set.

        The local keys of all sets with shares for the AcceptancePolicy, and for a Node that is
        drained or no longer is; for a Namespace those of its sets.
        """
        obj = change.object
        meta = obj.metadata
        match obj:
            case Pod():
                yield from pod_keys(obj, snapshot)
            case Namespace() | AcceptancePolicy() | Node():
                if isinstance(obj, Node) and is_drained(change.before) == is_drained(change.after):
                    return
                namespace = meta.name if isinstance(obj, Namespace) else ""
                yield from _keys_of_recorded_sets(namespace, snapshot)
            case FederatedStatefulSet() | StatefulSetShares():
                yield Key("mirror", meta.name, meta.namespace)
                yield Key("local", meta.name, meta.namespace)
                if _changes_liveness(change):
                    for name in list_governed_federated_sets(
                        governing_service(obj), meta.namespace, snapshot, snapshot.local
                    ):
                        yield Key("mirror", name, meta.namespace)
            case Service():
                ref = f"{meta.namespace}/{meta.name}"
                for hosted in snapshot.by(snapshot.local, FEDERATED_SETS_BY_SERVICE, ref):
                    yield Key("mirror", hosted.metadata.name, meta.namespace)
                for version in (change.before, change.after):  # another set may have adopted it
                    yield from local_keys(version) if version is not None else ()
            case _:
                yield from local_keys(obj)

    def _keys_for_broker_change(self, change: ObjectChange, snapshot: Snapshot) -> Iterator[Key]:
        """The keys for a change at the broker: of sets, shares, reports, Services and namespaces.

        All keys for a Node that appears or goes, a Lease that changes its holder, and a
        ClusterMember that changes its labels or phase.
        """
        obj = change.object
        meta = obj.metadata
        match obj:
            case StatefulSet() | FederatedStatefulSet() | StatefulSetShares():
                yield from _set_keys(meta.name, meta.namespace)
                yield from sync_keys(meta.name, meta.namespace, snapshot)
                yield from _keys_if_service_owner_may_change(change, snapshot)
                yield from _keys_of_replica_list(change, snapshot)
            case StatefulSetPart():
                is_own = obj.spec.cluster == snapshot.local
                unaffected = topics_unaffected(change.before, change.after, is_own=is_own)
                keys = _set_keys(obj.spec.name, obj.spec.namespace)
                yield from (key for key in keys if key.topic not in unaffected)
                yield from sync_keys(obj.spec.name, obj.spec.namespace, snapshot)
                if obj.spec.ended is not None and obj.spec.cluster == snapshot.local:
                    yield from keys_of_surplus_tombstones(snapshot, change.where)
            case Namespace():
                yield from hosted_keys(meta.name, snapshot)
                yield from self._keys_of_lost_broker(meta.name, snapshot)
            case Service():
                yield from load_balancer_keys(change, snapshot)
                ref = f"{meta.namespace}/{meta.name}"
                stateful_sets = snapshot.by(change.where, SETS_BY_SERVICE, ref)
                for governed in (
                    *stateful_sets,
                    *snapshot.by(change.where, FEDERATED_SETS_BY_SERVICE, ref),
                ):
                    yield from _set_keys(governed.metadata.name, governed.metadata.namespace)
            case Lease() | ClusterMember() if _placement_fields(change.before) != _placement_fields(
                change.after
            ):
                yield from self._keys_of_all_sets(snapshot)
            case Node() if change.before is None or change.after is None:
                yield from self._keys_of_all_sets(snapshot)

    def _keys_of_lost_broker(self, namespace: str, snapshot: Snapshot) -> Iterator[Key]:
        """All keys, also of ConfigMaps, if the namespace is the broker's own; else none.

        Without that namespace everything is kept, whatever the key.
        """
        if namespace == self._broker_namespace:
            yield from self._keys_of_all_sets(snapshot)
            yield from all_config_keys(snapshot)

    def _keys_for_fact(self, change: FactChange, snapshot: Snapshot) -> Iterator[Key]:
        """The keys that a changed fact affects: all for a cluster's state.

        All but `mirror` keys for a Lease's liveness; for a write here, or of a Service, the local
        keys of sets that may have an object of its name; for one of a FederatedStatefulSet its
        `mirror` key; none for other facts.
        """
        match change.fact:
            case ClusterState():
                yield from self._keys_of_all_sets(snapshot)
                yield from _keys_of_own_reports(snapshot)
            case LeaseLiveness(where) if where == broker_cluster(snapshot):
                yield from self._keys_without_mirror(snapshot)
            case WriteOutcome(target) if (
                target.where == snapshot.local or target.ref.kind == Service.kind
            ):
                yield from self._keys_for_object_name(
                    target.ref.name, target.ref.namespace, snapshot
                )
            case WriteOutcome(target) if target.ref.kind == FederatedStatefulSet.kind:
                yield from sync_keys(target.ref.name, target.ref.namespace, snapshot)
            case _:
                return

    def _keys_for_object_name(self, name: str, namespace: str, snapshot: Snapshot) -> Iterator[Key]:
        """Local keys of the sets whose Service, StatefulSet or replica here may have that name.

        Only of sets with shares at the broker.
        """
        broker = broker_cluster(snapshot)
        for record in snapshot.in_namespace(broker, StatefulSetShares, namespace) if broker else ():
            own = cluster_set_name(record.metadata.name, snapshot.local)
            if name == record.spec.service or name == own or name.startswith(f"{own}-"):
                yield Key("local", record.metadata.name, namespace)

    def _keys_without_mirror(self, snapshot: Snapshot) -> Iterator[Key]:
        """All keys but `mirror` ones: those that depend on which clusters are alive."""
        return (key for key in self._keys_of_all_sets(snapshot) if key.topic != "mirror")

    def _keys_of_all_sets(self, snapshot: Snapshot) -> Iterator[Key]:
        """Every key of all sets, but none of ConfigMaps; keys may repeat.

        The mirror key of each set that this cluster hosts or has shares of, shares, local and
        status of each set or record at the broker, and the local key of each set that a StatefulSet
        or Service here has as label.
        """
        hosted_kinds: tuple[type[Object], ...] = (FederatedStatefulSet, StatefulSetShares)
        for kind in hosted_kinds:  # also shares of a set that was orphaned here
            for obj in snapshot.all(snapshot.local, kind):
                yield Key("mirror", obj.metadata.name, obj.metadata.namespace)
        broker = broker_cluster(snapshot)
        kinds: tuple[type[Object], ...] = (StatefulSet, FederatedStatefulSet, StatefulSetShares)
        for kind in kinds if broker is not None else ():
            for obj in snapshot.all(broker or "", kind):
                yield from _set_keys(obj.metadata.name, obj.metadata.namespace)
        owned_kinds: tuple[type[Object], ...] = (StatefulSet, Service)
        for kind in owned_kinds:  # also of sets that the broker does not have any more
            for obj in snapshot.all(snapshot.local, kind):
                yield from local_keys(obj)


def _keys_of_own_reports(snapshot: Snapshot) -> Iterator[Key]:
    """The local keys of sets that this cluster reports: of one that is gone it may be all there is.

    Reports that have ended do not count.
    """
    broker = broker_cluster(snapshot)
    for part in snapshot.all(broker, StatefulSetPart) if broker is not None else ():
        if part.spec.cluster == snapshot.local and part.spec.ended is None:
            yield Key("local", part.spec.name, part.spec.namespace)


def _keys_of_recorded_sets(namespace: str, snapshot: Snapshot) -> Iterator[Key]:
    """The local keys of all sets with shares at the broker, in one namespace or (empty) in all."""
    broker = broker_cluster(snapshot)
    if broker is None:
        return
    for record in (
        snapshot.in_namespace(broker, StatefulSetShares, namespace)
        if namespace
        else snapshot.all(broker, StatefulSetShares)
    ):
        yield Key("local", record.metadata.name, record.metadata.namespace)


def _set_keys(name: str, namespace: str) -> Iterator[Key]:
    """The keys shares, local and status of a set."""
    yield Key("shares", name, namespace)
    yield Key("local", name, namespace)
    yield Key("status", name, namespace)


def _keys_if_service_owner_may_change(change: ObjectChange, snapshot: Snapshot) -> Iterator[Key]:
    """If a set appears, goes or is orphaned: local keys of all sets with its governing Service.

    Only one of them writes the Service, and that may be another one now.
    """
    obj = change.object
    namespace = obj.metadata.namespace
    if _changes_liveness(change):
        for name in list_governed_sets(governing_service(obj), namespace, snapshot, change.where):
            yield Key("local", name, namespace)


def _keys_of_replica_list(change: ObjectChange, snapshot: Snapshot) -> Iterator[Key]:
    """Status keys of all sets of one Service, for a record that is new, gone or changed.

    Only changes of its shares and load balancing count; none for other objects.
    """
    obj, before = change.object, change.before
    if not isinstance(obj, StatefulSetShares):
        return
    if isinstance(before, StatefulSetShares) and change.after is not None:
        same = (before.spec.shares, before.spec.load_balanced)
        if same == (obj.spec.shares, obj.spec.load_balanced):
            return
    namespace = obj.metadata.namespace
    for name in list_governed_sets(obj.spec.service, namespace, snapshot, change.where):
        yield Key("status", name, namespace)


def _changes_liveness(change: ObjectChange) -> bool:
    """Whether a set appears, goes or is orphaned with a change."""
    return _liveness(change.before) != _liveness(change.after)


def _liveness(obj: Object | None) -> tuple[bool, bool]:
    """(exists and is not terminating, is not orphaned either) of an object or None."""
    if obj is None or obj.metadata.deletion_timestamp is not None:
        return False, False
    return True, ORPHANED not in obj.metadata.annotations


def _placement_fields(obj: Object | None) -> object:
    """A Lease's holder, or a member's labels and phase, which placement depends on; else None."""
    match obj:
        case Lease():
            return obj.spec.holder_identity
        case ClusterMember():
            return obj.metadata.labels, obj.status.phase
        case _:
            return None
