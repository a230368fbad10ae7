"""What a person has paused, as the cause of what agents therefore do not write."""

from hanse.model.facts import Role
from hanse.model.findings import Ref, subject_of
from hanse.model.fleet import MultiClusterSnapshot
from hanse.model.kinds.hanse import ClusterSet


def fleet_pauses(snapshot: MultiClusterSnapshot) -> tuple[Ref, ...]:
    """References to the ClusterSets on brokers with `spec.paused`: the subjects of FleetPaused."""
    return tuple(
        subject_of(one, broker)
        for broker in snapshot.clusters_with_role(Role.BROKER)
        for one in snapshot.all(broker, ClusterSet)
        if one.spec.paused
    )
