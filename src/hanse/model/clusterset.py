"""The cluster set as agents share it on the broker: its rules, and which clusters are alive."""

from hanse.model.facts import LeaseLiveness, Role
from hanse.model.kinds.hanse import ClusterSet, ClusterSetSpec
from hanse.model.objects import ClusterId
from hanse.model.snapshot import Snapshot


def broker_cluster(snapshot: Snapshot) -> ClusterId | None:
    """The broker; None where there is none, or this agent is leaving it."""
    return next(iter(snapshot.clusters(Role.BROKER)), None)


def clusterset_spec(snapshot: Snapshot, broker: ClusterId | None) -> ClusterSetSpec:
    """The spec of the broker's ClusterSet, the first by name; the defaults where there is none."""
    found = () if broker is None else snapshot.all(broker, ClusterSet)
    first = min(found, key=lambda cluster_set: cluster_set.metadata.name, default=None)
    return first.spec if first is not None else ClusterSetSpec()


def is_alive(cluster: ClusterId, snapshot: Snapshot, broker: ClusterId, namespace: str) -> bool:
    """Whether a cluster counts as alive: unless its Lease on the broker was seen to expire."""
    liveness = snapshot.fact(LeaseLiveness, (broker, namespace, cluster))
    return liveness is None or liveness.alive


def is_local_or_alive(
    cluster: ClusterId, snapshot: Snapshot, broker: ClusterId, namespace: str
) -> bool:
    """Like `is_alive`, but the local cluster always is: this agent runs in it."""
    return cluster == snapshot.local or is_alive(cluster, snapshot, broker, namespace)
