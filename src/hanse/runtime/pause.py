"""The brake: a person's word that stops our writes, and the one that lifts a hold."""

from hanse.model.facts import ClusterState, KindServed, Phase, Role
from hanse.model.kinds.core import Namespace
from hanse.model.kinds.hanse import ClusterSet
from hanse.model.objects import ClusterId
from hanse.model.ownership import ALLOW_MASS_DELETION
from hanse.model.snapshot import Snapshot, Watch
from hanse.runtime.ownership import is_paused

PAUSE_WATCHES = (Watch(Role.LOCAL, Namespace), Watch(Role.BROKER, ClusterSet))


def pause_reason(snapshot: Snapshot, system_namespace: str) -> str:
    """Why writes are paused; empty when they are not."""
    home = snapshot.get(snapshot.local, Namespace, system_namespace)
    if home is not None and is_paused(home):
        return f"namespace {system_namespace} of {snapshot.local} is annotated as paused"
    brokers = sorted(s.cluster for s in snapshot.facts(ClusterState) if Role.BROKER in s.roles)
    for broker in brokers:  # one that we are leaving, too
        for informers in snapshot.all(broker, ClusterSet):
            if informers.spec.paused:
                return f"ClusterSet {informers.metadata.name} says paused"
    for broker in _unread(snapshot, Phase.UNREACHABLE):
        return f"{broker} cannot be reached to say whether writes are paused"
    return ""


def brokers_to_read(snapshot: Snapshot) -> tuple[ClusterId, ...]:
    """The brokers that are about to tell whether writes are paused.

    Without this an agent that starts in a paused fleet would write until it has read the broker.
    One that cannot be reached when an agent starts counts as paused: only status is told.
    """
    return _unread(snapshot, Phase.CONNECTING)


def _unread(snapshot: Snapshot, phase: Phase) -> tuple[ClusterId, ...]:
    return tuple(
        state.cluster
        for state in snapshot.facts(ClusterState)
        if state.phase is phase
        and Role.BROKER in state.roles
        and not snapshot.listed(state.cluster, ClusterSet)
        and snapshot.fact(KindServed, (state.cluster, ClusterSet.kind)) is None
    )


def allowed_mass_deletions(snapshot: Snapshot, system_namespace: str) -> frozenset[str]:
    """The features for which a person allows mass deletion."""
    home = snapshot.get(snapshot.local, Namespace, system_namespace)
    told = home.metadata.annotations.get(ALLOW_MASS_DELETION, "") if home is not None else ""
    return frozenset(name.strip() for name in told.split(",") if name.strip())
