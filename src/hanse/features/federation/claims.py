"""A cluster's claims about itself, by ClusterClaim or by ClusterProperty (KEP-2149)."""

from msgspec import Struct

from hanse.model.kinds import about
from hanse.model.kinds.about import ClusterProperty
from hanse.model.kinds.federation import CLUSTER_ID, CLUSTER_SET, ClusterClaim, spelled_value
from hanse.model.objects import ClusterId
from hanse.model.snapshot import Snapshot

SUPERVISOR_MARK = "supervisor"
"""The name of the supervisor's claim, before the domain."""


class Claims(Struct, frozen=True):
    """The claims of one cluster; an empty string is no claim."""

    cluster_id: str = ""
    cluster_set: str = ""
    supervisor: bool = False


def read_claims(snapshot: Snapshot, cluster: ClusterId) -> Claims | None:
    """The cluster id, set and supervisor claim of a cluster.

    None until its ClusterClaims are listed. A ClusterProperty counts for id or set where no claim
    has a value; the supervisor claim is true with any value but `false`.
    """
    if not snapshot.listed(cluster, ClusterClaim):
        return None
    claims = claim_values(cluster, snapshot)
    properties = {p.metadata.name: p.spec.value for p in snapshot.all(cluster, ClusterProperty)}
    supervisor = spelled_value(claims, SUPERVISOR_MARK)
    return Claims(
        claims.get(CLUSTER_ID) or properties.get(about.CLUSTER_ID, ""),
        claims.get(CLUSTER_SET) or properties.get(about.CLUSTER_SET, ""),
        supervisor is not None and supervisor.strip().lower() != "false",
    )


def claim_values(cluster: ClusterId, snapshot: Snapshot) -> dict[str, str]:
    """The values of a cluster's ClusterClaims, by the property that each is about (`id.k8s.io`).

    Of several about one property, the claim with that name counts, else the last by name.
    """
    claims = sorted(snapshot.all(cluster, ClusterClaim), key=_precedence)
    return {claim.about: claim.value for claim in claims}


def _precedence(claim: ClusterClaim) -> tuple[bool, str]:
    """Sort key of claims about one property: by name, but one named like the property is last."""
    return (claim.metadata.name == claim.about, claim.metadata.name)


def possible_supervisors(
    snapshot: Snapshot, members: tuple[ClusterId, ...]
) -> tuple[ClusterId, ...]:
    """Those of the members that claim to supervise, or have no claims listed yet, sorted."""
    known = {member: read_claims(snapshot, member) for member in members}
    return tuple(sorted(m for m, claims in known.items() if claims is None or claims.supervisor))
