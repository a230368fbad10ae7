"""What a cluster says about itself, by ClusterClaim or by ClusterProperty (KEP-2149)."""

from msgspec import Struct

from hanse.model.kinds import about
from hanse.model.kinds.about import ClusterProperty
from hanse.model.kinds.federation import CLUSTER_ID, CLUSTER_SET, ClusterClaim, spelled
from hanse.model.objects import ClusterId
from hanse.model.snapshot import Snapshot

SUPERVISOR_MARK = "supervisor"
"""The claim of a supervisor, before its domain."""


class Claims(Struct, frozen=True):
    """A cluster's word about itself; what it does not say is empty."""

    cluster_id: str = ""
    cluster_set: str = ""
    supervisor: bool = False


def read_claims(snapshot: Snapshot, cluster: ClusterId) -> Claims | None:
    """What a cluster claims; None while its claims were never read."""
    if not snapshot.listed(cluster, ClusterClaim):
        return None
    said = claim_values(cluster, snapshot)
    told = {p.metadata.name: p.spec.value for p in snapshot.all(cluster, ClusterProperty)}
    supervisor = spelled(said, SUPERVISOR_MARK)
    return Claims(
        said.get(CLUSTER_ID) or told.get(about.CLUSTER_ID, ""),
        said.get(CLUSTER_SET) or told.get(about.CLUSTER_SET, ""),
        supervisor is not None and supervisor.strip().lower() != "false",
    )


def claim_values(cluster: ClusterId, snapshot: Snapshot) -> dict[str, str]:
    """What a cluster's claims say, by what they are about."""
    claims = sorted(snapshot.all(cluster, ClusterClaim), key=_rank)
    return {claim.about: claim.value for claim in claims}


def _rank(claim: ClusterClaim) -> tuple[bool, str]:
    """Of several claims about one thing the last counts: the one that has its name, if there is."""
    return (claim.metadata.name == claim.about, claim.metadata.name)


def possible_supervisors(
    snapshot: Snapshot, members: tuple[ClusterId, ...]
) -> tuple[ClusterId, ...]:
    """The members that claim to supervise, and those that may, since they were never read."""
    known = {member: read_claims(snapshot, member) for member in members}
    return tuple(sorted(m for m, claims in known.items() if claims is None or claims.supervisor))
