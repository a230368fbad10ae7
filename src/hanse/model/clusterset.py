"""The cluster set as agents share it on the broker: its rules, and which clusters are alive."""

from enum import StrEnum

from hanse.model.facts import HolderState, LeaseLiveness, Role
from hanse.model.kinds.coordination import Lease
from hanse.model.kinds.hanse import ClusterMember, ClusterSet, ClusterSetSpec
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


class MemberState(StrEnum):
    """What others make of a member: an unknown one keeps what it has, and gets nothing new."""

    READY = "Ready"
    SILENT = "Silent"
    """Its Lease was seen to expire."""
    UNKNOWN = "Unknown"
    """Its Lease is missing, was old when we first saw it, or went back to an earlier renewal."""
    GONE = "Gone"
    """It has left, or another cluster has its id now: nothing of it counts, now or later."""


def member_state(
    cluster: ClusterId, snapshot: Snapshot, broker: ClusterId, namespace: str
) -> MemberState:
    """The state of a cluster as `common_state` has it, but the local one is always ready."""
    if cluster == snapshot.local:
        return MemberState.READY
    return common_state(cluster, snapshot, broker, namespace)


def common_state(
    cluster: ClusterId, snapshot: Snapshot, broker: ClusterId, namespace: str
) -> MemberState:
    """The state of a cluster by its record and its Lease on the broker, the same for every agent.

    A cluster that is leaving is judged by its Lease until it has left: it withdraws its objects
    itself. One without a record is an agent's of an earlier version, and judged by its Lease, too.
    """
    record = snapshot.get(broker, ClusterMember, cluster, namespace)
    if record is not None and record.has_left:
        return MemberState.GONE
    return MemberState(lease_state(cluster, snapshot, broker, namespace))


def lease_state(
    cluster: ClusterId, snapshot: Snapshot, broker: ClusterId, namespace: str
) -> HolderState:
    """The state of a cluster by its Lease alone.

    While the broker's Leases are not listed, every cluster counts as ready: what is known of it
    stays. A cluster without a Lease is unknown.
    """
    liveness = snapshot.fact(LeaseLiveness, (broker, namespace, cluster))
    if liveness is not None:
        return liveness.state
    return HolderState.UNKNOWN if snapshot.listed(broker, Lease) else HolderState.READY


def unanswered_clusters(snapshot: Snapshot, namespace: str = "") -> frozenset[ClusterId]:
    """The clusters that no DNS answer names: silent ones, those whose Lease we found too old, and
    those that have left.

    The local cluster is never one of them. With a namespace, only Leases and records in it count.
    """
    brokers = snapshot.clusters(Role.BROKER)
    left = frozenset(
        record.metadata.name
        for broker in brokers
        for record in snapshot.all(broker, ClusterMember)
        if record.has_left and record.metadata.namespace == (namespace or record.metadata.namespace)
    )
    return (left - {snapshot.local}) | frozenset(
        liveness.lease
        for liveness in snapshot.facts(LeaseLiveness)
        if liveness.where in brokers
        and liveness.namespace == (namespace or liveness.namespace)
        and liveness.lease != snapshot.local
        and (
            liveness.state is HolderState.SILENT
            or (liveness.state is HolderState.UNKNOWN and not liveness.observed)
        )
    )
