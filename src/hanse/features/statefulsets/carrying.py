"""What comes along with sets: ConfigMaps of those that this cluster has a share of and takes."""

from collections.abc import Iterator

from hanse.features.statefulsets.acceptance import ReceivedSet, takes_set
from hanse.features.statefulsets.collisions import read_submitted_set
from hanse.features.statefulsets.config_maps import (
    TOPIC,
    config_keys,
    list_sets_with_config,
    plan_config_map,
    submitted_config,
)
from hanse.features.statefulsets.deletion import read_report
from hanse.features.statefulsets.fleet import is_broker_listed
from hanse.features.statefulsets.identity import belongs_to
from hanse.features.statefulsets.owned_objects import running_stateful_set
from hanse.features.statefulsets.submitted import find_submitted_set
from hanse.model.clusterset import broker_cluster
from hanse.model.facts import ClusterState, WriteOutcome
from hanse.model.kinds.acceptance import AcceptancePolicy
from hanse.model.kinds.apps import StatefulSet
from hanse.model.kinds.core import ConfigMap, Namespace, Service
from hanse.model.kinds.hanse import FederatedStatefulSet
from hanse.model.kinds.policy import PodDisruptionBudget
from hanse.model.kinds.stateful import StatefulSetPart, StatefulSetShares
from hanse.model.objects import ClusterId, Object
from hanse.model.ownership import OWNER
from hanse.model.plan import Key, Plan
from hanse.model.snapshot import Change, ObjectChange, Snapshot


def carried_keys_for(change: Change, snapshot: Snapshot) -> Iterator[Key]:
    """Keys of ConfigMaps that a change affects, and of sets here that refer to a changed one.

    All ConfigMaps for a cluster's state; only the sets for a write of a ConfigMap; no other facts.
    """
    if isinstance(change, ObjectChange):
        yield from _keys_for_object(change, snapshot)
        return
    match change.fact:
        case WriteOutcome(target) if target.ref.kind == ConfigMap.kind:
            yield from _keys_of_sets_with_config(
                Key(TOPIC, target.ref.name, target.ref.namespace), snapshot
            )
        case ClusterState():
            yield from all_config_keys(snapshot)
        case _:
            return


def _keys_for_object(change: ObjectChange, snapshot: Snapshot) -> Iterator[Key]:
    """The keys of ConfigMaps, and of sets, which a changed object affects.

    ConfigMaps: itself, those of its set for a set (a StatefulSet here only if its owner label
    changes), shares or our report, all for an AcceptancePolicy here, those in a Namespace here.
    Sets: those that refer to a ConfigMap, or have shares in the namespace of a budget at the
    broker.
    """
    obj, is_local = change.object, change.where == snapshot.local
    meta = obj.metadata
    match obj:
        case ConfigMap():
            yield (key := Key(TOPIC, meta.name, meta.namespace))
            yield from _keys_of_sets_with_config(key, snapshot)
        case StatefulSet() if is_local and _owner(change.before) == _owner(change.after):
            return
        case StatefulSet() | FederatedStatefulSet():
            yield from config_keys(change.before, change.after)
        case StatefulSetShares():
            yield from _keys_of_set(Key("local", meta.name, meta.namespace), snapshot)
        case StatefulSetPart(spec=spec) if spec.cluster == snapshot.local:
            yield from _keys_of_set(Key("local", spec.name, spec.namespace), snapshot)
        case PodDisruptionBudget() if not is_local:
            for record in snapshot.in_namespace(change.where, StatefulSetShares, meta.namespace):
                yield Key("local", record.metadata.name, meta.namespace)
        case AcceptancePolicy() if is_local:
            yield from all_config_keys(snapshot)
        case Namespace() if is_local:
            yield from all_config_keys(snapshot, meta.name)


def _owner(obj: Object | None) -> str | None:
    """The value of an object's owner label; None if it has none, or is gone."""
    return obj.metadata.labels.get(OWNER) if obj is not None else None


def all_config_keys(snapshot: Snapshot, namespace: str = "") -> Iterator[Key]:
    """The keys of ConfigMaps that are copied here, or that sets with shares at the broker refer to.

    Of one namespace, or of all if it is empty.
    """
    broker = broker_cluster(snapshot)
    for copy in snapshot.all(snapshot.local, ConfigMap):
        if namespace in ("", copy.metadata.namespace):
            yield Key(TOPIC, copy.metadata.name, copy.metadata.namespace)
    for record in snapshot.all(broker, StatefulSetShares) if broker is not None else ():
        meta = record.metadata
        if namespace in ("", meta.namespace):
            yield from _keys_of_set(Key("local", meta.name, meta.namespace), snapshot)


def _keys_of_set(key: Key, snapshot: Snapshot) -> Iterator[Key]:
    """The keys of the ConfigMaps that a set at the broker refers to; none if it is not there."""
    broker = broker_cluster(snapshot)
    found = find_submitted_set(key, snapshot, broker) if broker is not None else None
    return config_keys(found.object if found is not None else None)


def _keys_of_sets_with_config(config: Key, snapshot: Snapshot) -> Iterator[Key]:
    """The local keys of the sets at the broker that refer to a ConfigMap."""
    broker = broker_cluster(snapshot)
    if broker is not None:
        for name in list_sets_with_config(config.name, config.namespace, snapshot, broker):
            yield Key("local", name, config.namespace)


def plan_config(key: Key, snapshot: Snapshot, broker_namespace: str) -> Plan:
    """The copy of a ConfigMap here while wanted by a set that is taken; without a broker none is.

    An unwanted copy is kept while our StatefulSets use it, released if only others do, and else
    deleted. Everything is kept until the broker is listed.
    """
    broker = broker_cluster(snapshot)
    if broker is None:
        return plan_config_map(key, None, snapshot)
    if not is_broker_listed(broker, snapshot):
        return Plan(keep_all=True)
    is_wanted = any(
        _is_taken(Key("local", name, key.namespace), snapshot, broker, broker_namespace)
        for name in list_sets_with_config(key.name, key.namespace, snapshot, broker)
    )
    source = submitted_config(key.name, key.namespace, snapshot, broker) if is_wanted else None
    return plan_config_map(key, source, snapshot)


def _is_taken(key: Key, snapshot: Snapshot, broker: ClusterId, broker_namespace: str) -> bool:
    """Whether this cluster has a share of a set, or runs it, and its AcceptancePolicy takes it.

    Also without a share while it reports that it refuses the set: ConfigMaps that came later end
    that. False if the set is missing, invalid, terminating or orphaned, or has no shares.
    """
    submitted = read_submitted_set(key, snapshot, broker, broker_namespace)
    record = snapshot.get(broker, StatefulSetShares, key.name, key.namespace)
    if submitted is None or submitted.terminating or submitted.orphaned or submitted.errors:
        return False
    if record is None or not belongs_to(record, submitted):
        return False
    runs = running_stateful_set(key, snapshot) is not None
    report = read_report(key, snapshot, broker, broker_namespace)
    refuses = report is not None and report.spec.refused is not None
    service = snapshot.get(broker, Service, submitted.spec.service_name, key.namespace)
    here = submitted.in_cluster(snapshot.local)
    received = ReceivedSet(here, service, broker, broker_namespace)
    is_wanted = runs or refuses or record.spec.share_of(snapshot.local) > 0
    return is_wanted and takes_set(received, snapshot)
