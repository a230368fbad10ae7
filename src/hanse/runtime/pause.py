"""Reads what people say with annotations and ClusterSets: pause writes, allow mass deletion."""

from hanse.model.clusterset import clusterset_spec
from hanse.model.facts import ClusterState, Phase, Role
from hanse.model.kinds.core import Namespace
from hanse.model.kinds.hanse import ClusterMember, ClusterSet
from hanse.model.objects import ClusterId, Object
from hanse.model.ownership import ALLOW_MASS_DELETION, is_paused
from hanse.model.snapshot import Snapshot, Watch

PAUSE_WATCHES = (
    Watch(
        Role.LOCAL,
        Namespace,
        reason="annotations that pause the agent, and namespaces that are being deleted",
    ),
    Watch(Role.BROKER, ClusterSet, reason="the rules of the fleet, and whether it is paused"),
)


def pause_reason(snapshot: Snapshot, system_namespace: str) -> str:
    """Why writes are paused; empty when they are not.

    By the annotation of the system namespace; by `spec.paused` of any ClusterSet on a broker, or of
    the rules that a lost one left; or because a broker is unreachable whose ClusterSets or member
    records were never listed.
    """
    system = snapshot.get(snapshot.local, Namespace, system_namespace)
    if system is not None and is_paused(system):
        return f"namespace {system_namespace} of {snapshot.local} is annotated as paused"
    brokers = sorted(s.cluster for s in snapshot.facts(ClusterState) if Role.BROKER in s.roles)
    for broker in brokers:  # also one that we are leaving
        for cluster_set in snapshot.all(broker, ClusterSet):
            if cluster_set.spec.paused:
                return f"ClusterSet {cluster_set.metadata.name} says paused"
        if clusterset_spec(snapshot, broker).paused:
            return f"{broker} has lost its ClusterSet, which said paused"
    for broker in _unread_brokers(snapshot, Phase.UNREACHABLE):
        return f"{broker} cannot be reached to say whether writes are paused"
    return ""


def brokers_to_read(snapshot: Snapshot) -> tuple[ClusterId, ...]:
    """The brokers in phase Connecting whose ClusterSets or member records were never listed.

    No key is planned until they are: an agent that starts in a paused fleet, or as another cluster
    than the one that joined under its id, must not write before.
    """
    return _unread_brokers(snapshot, Phase.CONNECTING)


def _unread_brokers(snapshot: Snapshot, phase: Phase) -> tuple[ClusterId, ...]:
    """The brokers in a phase whose ClusterSets, or records of members, were never listed.

    A kind that the broker does not serve, and records that are not watched, do not count.
    """
    return tuple(
        state.cluster
        for state in snapshot.facts(ClusterState)
        if state.phase is phase
        and Role.BROKER in state.roles
        and (_is_unread(state.cluster, ClusterSet, snapshot) or _has_unread_record(state, snapshot))
    )


def _is_unread(cluster: ClusterId, kind: type[Object], snapshot: Snapshot) -> bool:
    """Whether a kind was never listed, and it is not known yet whether the cluster serves it."""
    return not snapshot.listed(cluster, kind) and snapshot.serves(cluster, kind) is None


def _has_unread_record(state: ClusterState, snapshot: Snapshot) -> bool:
    """Whether ClusterMembers are watched on a broker, may be served, and were never listed."""
    is_watched = snapshot.watches(state.cluster, ClusterMember)
    return is_watched and not snapshot.listed_or_unserved(state.cluster, ClusterMember)


def allowed_mass_deletions(snapshot: Snapshot, system_namespace: str) -> frozenset[str]:
    """The features, or `*`, in the system namespace's annotation hanse.dev/allow-mass-deletion.

    They are separated by commas; empty without the annotation.
    """
    system = snapshot.get(snapshot.local, Namespace, system_namespace)
    value = system.metadata.annotations.get(ALLOW_MASS_DELETION, "") if system is not None else ""
    return frozenset(name.strip() for name in value.split(",") if name.strip())
