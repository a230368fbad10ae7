"""The cluster set as agents share it on the broker: its rules, and which clusters are alive."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from enum import StrEnum

from hanse.model.facts import ClusterState, HolderState, LeaseLiveness, Phase, Role
from hanse.model.kinds.coordination import Lease
from hanse.model.kinds.core import Namespace
from hanse.model.kinds.hanse import ClusterMember, ClusterSet, ClusterSetSpec
from hanse.model.naming import IDENTITY_NAMESPACE
from hanse.model.objects import ClusterId, K, Object
from hanse.model.snapshot import Change, ObjectChange, Snapshot

CLUSTER_UID = "hanse.dev/cluster-uid"
"""Annotation of a member's Lease: the kube-system uid of the cluster that joined with this id."""

_LATEST = datetime.max.replace(tzinfo=UTC)


def broker_cluster(snapshot: Snapshot) -> ClusterId | None:
    """The first cluster, by name, of role broker.

    None where there is none, or this agent is leaving it.
    """
    return next(iter(snapshot.clusters(Role.BROKER)), None)


def is_listed_or_unreachable(kind: type[Object], broker: ClusterId, snapshot: Snapshot) -> bool:
    """Whether a kind is listed or not served at a broker, or the broker is unreachable."""
    state = snapshot.fact(ClusterState, broker)
    unreachable = state is not None and state.phase is Phase.UNREACHABLE
    return unreachable or snapshot.listed_or_unserved(broker, kind)


def are_leases_read(snapshot: Snapshot) -> bool:
    """Whether the Leases of all brokers are read, where they are watched: who is alive is known.

    True without brokers.
    """
    brokers = snapshot.clusters(Role.BROKER)
    return all(
        is_listed_or_unreachable(Lease, one, snapshot)
        for one in brokers
        if snapshot.watches(one, Lease)
    )


def clusterset_spec(snapshot: Snapshot, broker: ClusterId | None) -> ClusterSetSpec:
    """The spec of the broker's ClusterSet, the oldest.

    Where there is none, the rules that this cluster has kept in its record, or else those that most
    records have; the defaults if there are no such rules. Without a broker the defaults.
    """
    if broker is None:
        return ClusterSetSpec()
    found = oldest_clusterset(snapshot.all(broker, ClusterSet))
    return found.spec if found is not None else _kept_rules(snapshot, broker)


def oldest_clusterset(sets: Iterable[ClusterSet]) -> ClusterSet | None:
    """The one with the earliest creationTimestamp, then name, which counts; None without any."""
    return min(sets, key=lambda s: (s.metadata.creation_timestamp or _LATEST, s.name), default=None)


def _kept_rules(snapshot: Snapshot, broker: ClusterId) -> ClusterSetSpec:
    """The rules in the local cluster's record, or else `agreed_rules`, or else the defaults.

    A record that says that the local cluster has left does not count.
    """
    records = list(snapshot.all(broker, ClusterMember))
    own = next((r for r in records if r.metadata.name == snapshot.local and not r.has_left), None)
    if own is not None and own.status.rules is not None:
        return own.status.rules
    return agreed_rules(records) or ClusterSetSpec()


def agreed_rules(records: Iterable[ClusterMember]) -> ClusterSetSpec | None:
    """The rules that more than half of the members with rules have kept; None without such.

    Members that have left do not count. Each writes its own record: no single one decides.
    """
    kept = [r.status.rules for r in records if r.status.rules is not None and not r.has_left]
    return next((rules for rules in kept if 2 * kept.count(rules) > len(kept)), None)


def is_broker_lost(snapshot: Snapshot, broker: ClusterId | None, namespace: str) -> bool:
    """Whether a broker's namespace is terminating or gone; False until Namespaces are listed.

    False without a broker, too.
    """
    if broker is None or not snapshot.listed(broker, Namespace):
        return False
    found = snapshot.get(broker, Namespace, namespace)
    return found is None or found.terminating


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

    Gone if its record says that it has left; a cluster that is leaving is judged by its Lease until
    then. One that moves to another broker is Unknown instead of Silent, and also as long as its
    phase is Joining: until it has published everything. One without a record, an agent's of an
    earlier version, is judged by its Lease.
    """
    record = snapshot.get(broker, ClusterMember, cluster, namespace)
    if record is not None and record.has_left:
        return MemberState.GONE
    state = MemberState(lease_state(cluster, snapshot, broker, namespace))
    if record is None or not record.status.moving:
        return state
    has_published = record.status.phase != "Joining" and state is not MemberState.SILENT
    return state if has_published else MemberState.UNKNOWN


def watch_lags_lease(
    cluster: ClusterId, kind: type[Object], snapshot: Snapshot, broker: ClusterId, namespace: str
) -> bool:
    """Whether a cluster got its Lease just now, and a kind's watch has not reported so far yet.

    An agent writes what it publishes before it acquires its Lease, and the watch of that kind may
    be slower than that of Leases. False where the acquisition was not seen, or the Lease was
    renewed twice since.
    """
    liveness = snapshot.fact(LeaseLiveness, (broker, namespace, cluster))
    acquired = liveness.acquired_version if liveness is not None else 0
    return acquired > 0 and snapshot.seen_version(broker, kind) < acquired


def is_rejoining(cluster: ClusterId, snapshot: Snapshot, broker: ClusterId, namespace: str) -> bool:
    """Whether a cluster joins again (phase Joining, epoch above 1), and nobody holds its Lease yet.

    Until its agent does, nothing of it is to return. False without a record, while it moves or
    Leases are unlisted, and while we judge its holder READY: the broker may have been restored.
    """
    record = snapshot.get(broker, ClusterMember, cluster, namespace)
    if record is None or record.status.moving or not snapshot.listed(broker, Lease):
        return False
    lease = snapshot.get(broker, Lease, cluster, namespace)
    is_held = lease is not None and bool(lease.spec.holder_identity)
    liveness = snapshot.fact(LeaseLiveness, (broker, namespace, cluster))
    was_ready = liveness is not None and liveness.state is HolderState.READY
    joins_again = record.status.phase == "Joining" and record.status.epoch > 1
    return joins_again and not is_held and not was_ready


def joined_clusters(snapshot: Snapshot, broker: ClusterId, namespace: str) -> frozenset[ClusterId]:
    """The members of a broker: those with a record that has not ended, whether they have a Lease
    or not, and those of earlier versions, which have a Lease of their own and no record."""
    records = list(snapshot.in_namespace(broker, ClusterMember, namespace))
    leases = snapshot.in_namespace(broker, Lease, namespace)
    held = {one.metadata.name for one in leases if is_held_by_its_cluster(one)}
    recorded = {record.metadata.name for record in records}
    return frozenset({r.metadata.name for r in records if not r.has_left} | (held - recorded))


def is_held_by_its_cluster(lease: Lease) -> bool:
    """Whether the agent of the cluster that a Lease is named after holds it."""
    return lease.spec.holder_identity == lease.metadata.name


def departed_clusters(
    snapshot: Snapshot, broker: ClusterId, namespace: str
) -> frozenset[ClusterId]:
    """The clusters that have left a broker for good: their records say so, and nothing else does.

    A cluster without a Lease is unknown, and so is one that lost its record, too: a broker that
    was restored or lost its namespace has neither for a while.
    """
    records = snapshot.in_namespace(broker, ClusterMember, namespace)
    return frozenset(record.metadata.name for record in records if record.has_left)


def lease_state(
    cluster: ClusterId, snapshot: Snapshot, broker: ClusterId, namespace: str
) -> HolderState:
    """The state of a cluster by our observation of its Lease; unknown if ready but not confirmed.

    Without an observation it is unknown if the broker's Leases are listed; else it counts as ready:
    what is known of it stays.
    """
    liveness = snapshot.fact(LeaseLiveness, (broker, namespace, cluster))
    if liveness is not None:
        is_doubtful = liveness.state is HolderState.READY and not liveness.confirmed
        return HolderState.UNKNOWN if is_doubtful else liveness.state
    return HolderState.UNKNOWN if snapshot.listed(broker, Lease) else HolderState.READY


def identity_error(snapshot: Snapshot) -> str:
    """The error if kube-system here has another uid than our record, or else Lease, on the broker.

    Empty if it is the same, without a broker, while the local namespace is not known, and if the
    broker has neither record nor uid.
    """
    own = snapshot.get(snapshot.local, Namespace, IDENTITY_NAMESPACE)
    broker = broker_cluster(snapshot)
    if own is None or broker is None:
        return ""
    joined = [record.spec.uid for record in _named(snapshot.all(broker, ClusterMember), snapshot)]
    joined += [
        lease.metadata.annotations[CLUSTER_UID]
        for lease in _named(snapshot.all(broker, Lease), snapshot)
        if CLUSTER_UID in lease.metadata.annotations
    ]
    known = next(iter(joined), own.metadata.uid)
    if known == own.metadata.uid:
        return ""
    return (
        f"cluster id {snapshot.local!r} is that of another cluster on the broker (kube-system uid "
        f"{known}, here it is {own.metadata.uid}): name the id or the context of this cluster; if "
        f"this is {snapshot.local} built anew: `hanse join --replace --cluster-id {snapshot.local}`"
    )


def may_tell_identity(change: Change, local: ClusterId) -> bool:
    """Whether a change may alter what `identity_error` says.

    That is any change of the local cluster's record, of the uid in its Lease, or of a namespace
    kube-system; never a fact.
    """
    if not isinstance(change, ObjectChange):
        return False
    name = change.object.metadata.name
    match change.object:
        case Lease():
            return name == local and _named_uid(change.before) != _named_uid(change.after)
        case ClusterMember():
            return name == local
        case Namespace():
            return name == IDENTITY_NAMESPACE
        case _:
            return False


def _named_uid(lease: Object | None) -> str | None:
    """The uid of kube-system that a Lease names; empty if it names none, None without a Lease."""
    return lease.metadata.annotations.get(CLUSTER_UID, "") if lease is not None else None


def _named(objects: Iterable[K], snapshot: Snapshot) -> Iterator[K]:
    """The objects that are named like the local cluster."""
    return (obj for obj in objects if obj.metadata.name == snapshot.local)


def unanswered_clusters(snapshot: Snapshot, namespace: str = "") -> frozenset[ClusterId]:
    """The clusters that no DNS answer names: with an expired Lease, or whose record says they left.

    A Lease also counts as expired if we found it too old. Never the local cluster, nor by its Lease
    one that moves to another broker. With a namespace, only Leases and records in it count.
    """
    brokers = snapshot.clusters(Role.BROKER)
    records = [
        record
        for broker in brokers
        for record in snapshot.all(broker, ClusterMember)
        if record.metadata.namespace == (namespace or record.metadata.namespace)
    ]
    left = frozenset(record.metadata.name for record in records if record.has_left)
    moving = frozenset(record.metadata.name for record in records if record.status.moving)
    return (left - {snapshot.local}) | frozenset(
        liveness.lease
        for liveness in snapshot.facts(LeaseLiveness)
        if liveness.where in brokers
        and liveness.namespace == (namespace or liveness.namespace)
        and liveness.lease != snapshot.local
        and liveness.lease not in moving
        and (
            liveness.state is HolderState.SILENT
            or (liveness.state is HolderState.UNKNOWN and liveness.outdated)
        )
    )
