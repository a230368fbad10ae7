"""Objects for other tools: ClusterProperties (KEP-2149), and a ClusterProfile of each cluster."""

from hanse.features.federation.claims import claim_values, read_claims
from hanse.features.federation.members import current_federation
from hanse.features.federation.status import is_reachable
from hanse.model.conditions import Condition, condition, merge_conditions
from hanse.model.facts import ClusterState
from hanse.model.kinds import about
from hanse.model.kinds.about import ClusterProperty, ClusterPropertySpec
from hanse.model.kinds.clusterprofile import (
    ClusterManager,
    ClusterProfile,
    ClusterProfileSpec,
    ClusterProfileStatus,
    ProfileProperty,
)
from hanse.model.kinds.federation import CLUSTER_ID, CLUSTER_SET, SYSTEM
from hanse.model.objects import ClusterId, Meta
from hanse.model.plan import Desired, Plan
from hanse.model.snapshot import Snapshot

MANAGER = "hanse"
MANAGER_LABEL = "x-k8s.io/cluster-manager"
HEALTHY = "ControlPlaneHealthy"

_PROPERTIES = {CLUSTER_ID: about.CLUSTER_ID, CLUSTER_SET: about.CLUSTER_SET}


def plan_properties(snapshot: Snapshot) -> Plan:
    """A ClusterProperty for each of the local cluster's id and set that a ClusterClaim states.

    An empty plan where the kind is not served, or that is not known.
    """
    if not snapshot.serves(snapshot.local, ClusterProperty):
        return Plan()
    claims = claim_values(snapshot.local, snapshot)
    return Plan(
        tuple(
            Desired(
                ClusterProperty(
                    metadata=Meta(name=name), spec=ClusterPropertySpec(value=claims[claim])
                ),
                snapshot.local,
            )
            for claim, name in _PROPERTIES.items()
            if claims.get(claim)
        )
    )


def known_clusters(snapshot: Snapshot) -> tuple[ClusterId, ...]:
    """The members of the current Federation and the local cluster, sorted.

    None, not even the local one, without a Federation.
    """
    federation = current_federation(snapshot)
    if federation is None:
        return ()
    return tuple(sorted({snapshot.local, *(m.cluster_id for m in federation.spec.members)}))


def plan_profile(cluster: ClusterId, snapshot: Snapshot) -> Plan:
    """The ClusterProfile of one cluster with its status, while it is in the federation.

    An empty plan for another cluster, and where the kind is not known to be served.
    """
    if not snapshot.serves(snapshot.local, ClusterProfile) or cluster not in known_clusters(
        snapshot
    ):
        return Plan()
    meta = Meta(name=cluster, namespace=SYSTEM, labels={MANAGER_LABEL: MANAGER})
    current = snapshot.get(snapshot.local, ClusterProfile, cluster, SYSTEM)
    before = current.status if current is not None else ClusterProfileStatus()
    spec = ClusterProfileSpec(cluster_manager=ClusterManager(name=MANAGER), display_name=cluster)
    status = ClusterProfileStatus(
        version=before.version,
        properties=_properties(cluster, before, snapshot),
        conditions=merge_conditions(
            before.conditions, _health_conditions(cluster, snapshot), snapshot.now
        ),
    )
    profile = ClusterProfile(metadata=meta, spec=spec, status=status)
    return Plan((Desired(profile, snapshot.local),))


def _properties(
    cluster: ClusterId, before: ClusterProfileStatus, snapshot: Snapshot
) -> tuple[ProfileProperty, ...]:
    """A profile's properties: those of id and set that the cluster claims.

    Those `before` while its claims are not listed.
    """
    claims = read_claims(snapshot, cluster)
    if claims is None:
        return before.properties
    values = {about.CLUSTER_ID: claims.cluster_id, about.CLUSTER_SET: claims.cluster_set}
    return tuple(ProfileProperty(name=n, value=v) for n, v in values.items() if v)


def _health_conditions(cluster: ClusterId, snapshot: Snapshot) -> tuple[Condition, ...]:
    """ControlPlaneHealthy: whether the cluster is reached; nothing while that is unknown."""
    reachable = is_reachable(cluster, snapshot)
    if reachable is None:
        return ()
    state = snapshot.fact(ClusterState, cluster)
    reason = state.reason if state is not None else ""
    if reachable:
        return (condition(HEALTHY, True, "Healthy"),)
    return (condition(HEALTHY, False, "Unreachable", reason or "it does not answer"),)
