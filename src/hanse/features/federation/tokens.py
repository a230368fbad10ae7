"""Renews the tokens with which a supervisor reaches members, before they expire.

Members cannot reach their supervisors, so each supervisor renews the tokens that it has.
"""

from base64 import b64encode
from collections.abc import Iterator

from hanse.features.federation.claims import read_claims
from hanse.features.federation.members import TOKEN, current_federation, token_of
from hanse.model.facts import ClusterState, Phase
from hanse.model.kinds.core import Secret
from hanse.model.kinds.federation import SYSTEM, Member
from hanse.model.objects import ClusterId, ClusterObjectRef, object_ref
from hanse.model.plan import Patch, Plan
from hanse.model.snapshot import Snapshot
from hanse.model.tokens import renew_token, token_digest


def clusters_with_tokens(snapshot: Snapshot) -> Iterator[ClusterId]:
    """The members of the current Federation whose tokens this cluster renews: all but itself.

    None at all if the local cluster does not claim to supervise, its claims are not listed, or it
    has no Federation.
    """
    federation, claims = current_federation(snapshot), read_claims(snapshot, snapshot.local)
    if federation is not None and claims is not None and claims.supervisor:
        for member in federation.spec.members:
            if member.cluster_id != snapshot.local:
                yield member.cluster_id


def plan_token(cluster: ClusterId, snapshot: Snapshot) -> Plan:
    """Asks for a new token once half of the lifetime is over, and patches it into the Secret.

    Before that it only requeues the key. Empty for clusters whose token is not renewed here,
    without the Secret, while the member is not synced, and for a token that does not expire.
    """
    member = _member_entry(cluster, snapshot)
    secret = (
        snapshot.get(snapshot.local, Secret, member.secret, SYSTEM) if member is not None else None
    )
    state = snapshot.fact(ClusterState, cluster)
    if secret is None or state is None or state.phase is not Phase.SYNCED:
        return Plan()
    token = token_of(secret)
    renewal = renew_token(token, ("cluster", cluster), snapshot)
    plan = Plan(questions=renewal.questions, requeue_after=renewal.requeue_after)
    if not renewal.issued:
        return plan
    change = {"data": {TOKEN: b64encode(renewal.issued.encode()).decode()}}
    place = ClusterObjectRef(snapshot.local, object_ref(secret))
    return Plan(patches=(Patch(place, change),), requeue_after=renewal.requeue_after)


def stored_token_digest(secret: str, snapshot: Snapshot) -> str:
    """A digest of the token in a member's Secret, which its connection uses; empty without one."""
    found = snapshot.get(snapshot.local, Secret, secret, SYSTEM) if secret else None
    token = token_of(found) if found is not None else ""
    return token_digest(token) if token else ""


def _member_entry(cluster: ClusterId, snapshot: Snapshot) -> Member | None:
    """The entry of a member whose token this supervisor renews; None for all other clusters."""
    federation = current_federation(snapshot)
    if federation is None or cluster not in clusters_with_tokens(snapshot):
        return None
    return next((m for m in federation.spec.members if m.cluster_id == cluster), None)
