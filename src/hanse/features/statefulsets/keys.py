"""The keys of sets that an object of this cluster belongs to."""

from collections.abc import Iterator

from hanse.features.statefulsets.names import CLUSTER, SET
from hanse.model.kinds.apps import StatefulSet
from hanse.model.kinds.core import Pod
from hanse.model.kinds.hanse import FederatedStatefulSet
from hanse.model.kinds.stateful import StatefulSetShares
from hanse.model.objects import Object
from hanse.model.plan import Key
from hanse.model.snapshot import ObjectChange, Snapshot


def sync_keys(name: str, namespace: str, snapshot: Snapshot) -> Iterator[Key]:
    """The mirror key of a set if this cluster has the FederatedStatefulSet or its shares."""
    kinds: tuple[type[Object], ...] = (FederatedStatefulSet, StatefulSetShares)
    if any(snapshot.get(snapshot.local, kind, name, namespace) is not None for kind in kinds):
        yield Key("mirror", name, namespace)


def load_balancer_keys(change: ObjectChange, snapshot: Snapshot) -> Iterator[Key]:
    """The mirror keys of the sets whose load balancer a Service at the broker is or was.

    Only of sets of which this cluster has the FederatedStatefulSet or its shares.
    """
    for version in (change.before, change.after):
        if version is not None and CLUSTER in version.metadata.annotations:
            meta = version.metadata
            yield from sync_keys(meta.labels.get(SET, ""), meta.namespace, snapshot)


def hosted_keys(namespace: str, snapshot: Snapshot) -> Iterator[Key]:
    """The mirror keys of the FederatedStatefulSets of this cluster in a namespace."""
    for hosted in snapshot.in_namespace(snapshot.local, FederatedStatefulSet, namespace):
        yield Key("mirror", hosted.metadata.name, namespace)


def local_keys(obj: Object) -> Iterator[Key]:
    """The local key of the set that an object's set label names; none without that label."""
    meta = obj.metadata
    if SET in meta.labels:
        yield Key("local", meta.labels[SET], meta.namespace)


def pod_keys(pod: Pod, snapshot: Snapshot) -> Iterator[Key]:
    """The local key of the set whose StatefulSet here owns a pod; none for pods of others."""
    meta = pod.metadata
    for owner in meta.owner_references:
        own = snapshot.get(snapshot.local, StatefulSet, owner.name, meta.namespace)
        if own is not None and SET in own.metadata.labels:
            yield Key("local", own.metadata.labels[SET], meta.namespace)
