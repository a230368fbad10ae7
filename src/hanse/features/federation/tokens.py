"""Renews the tokens with which a supervisor reaches members, before they expire.

Members cannot reach their supervisors, so each supervisor renews the tokens that it has.
"""

from base64 import b64encode
from collections.abc import Iterator
from datetime import timedelta
from hashlib import blake2b

from msgspec import Struct

from hanse.features.federation.claims import read_claims
from hanse.features.federation.members import TOKEN, current_federation
from hanse.model.facts import Answer, ClusterState, Phase, age
from hanse.model.kinds.core import Secret
from hanse.model.kinds.federation import SYSTEM, Member
from hanse.model.objects import ClusterId, ClusterObjectRef, object_ref
from hanse.model.plan import Call, Patch, Plan, Question
from hanse.model.snapshot import Snapshot
from hanse.model.tokens import parse_claims as token_claims
from hanse.model.write_rules import MAX_TOKEN_SECONDS

PROVIDER = "token"
"""The provider that requests a token of an account in a member: answers `token`."""

ANSWER_MAX_AGE = timedelta(minutes=1)
"""How long an issued token may take to be written to the Secret."""

RETRY_AFTER = timedelta(minutes=10)
"""When to try again after no token was issued."""

_ACCOUNT = "system:serviceaccount:"


class TokenLifetime(Struct, frozen=True):
    """Whose token it is, and how long it is valid."""

    namespace: str
    account: str
    total: timedelta
    remaining: timedelta


def clusters_with_tokens(snapshot: Snapshot) -> Iterator[ClusterId]:
    """The members other than the local cluster; none if this cluster is no supervisor."""
    federation, claims = current_federation(snapshot), read_claims(snapshot, snapshot.local)
    if federation is not None and claims is not None and claims.supervisor:
        for member in federation.spec.members:
            if member.cluster_id != snapshot.local:
                yield member.cluster_id


def plan_token(cluster: ClusterId, snapshot: Snapshot) -> Plan:
    """Ask for a new token once half of the lifetime is over, and patch it into the Secret.

    Nothing happens while the member is not synced or its token does not expire.
    """
    member = _member_entry(cluster, snapshot)
    secret = (
        snapshot.get(snapshot.local, Secret, member.secret, SYSTEM) if member is not None else None
    )
    lifetime = _token_lifetime(secret, snapshot)
    state = snapshot.fact(ClusterState, cluster)
    if secret is None or lifetime is None or state is None or state.phase is not Phase.SYNCED:
        return Plan()
    if lifetime.remaining > lifetime.total / 2:
        return Plan(requeue_after=lifetime.remaining - lifetime.total / 2 + timedelta(seconds=1))
    former = blake2b(secret.data[TOKEN], digest_size=8).hexdigest()
    call = Call(
        PROVIDER,
        (
            ("cluster", cluster),
            ("namespace", lifetime.namespace),
            ("account", lifetime.account),
            ("seconds", min(int(lifetime.total.total_seconds()), MAX_TOKEN_SECONDS)),
            ("replaces", former),
        ),
    )
    question = Question(call, max_age=RETRY_AFTER)
    answer = snapshot.fact(Answer, call.id)
    token = str((answer.value or {}).get("token", "")) if answer is not None else ""
    if answer is None or not token or age(answer.at, snapshot.now) >= ANSWER_MAX_AGE:
        return Plan(questions=(question,), requeue_after=RETRY_AFTER)
    change = {"data": {TOKEN: b64encode(token.encode()).decode()}}
    place = ClusterObjectRef(snapshot.local, object_ref(secret))
    return Plan(patches=(Patch(place, change),), requeue_after=RETRY_AFTER)


def _member_entry(cluster: ClusterId, snapshot: Snapshot) -> Member | None:
    """The entry of a member whose token this supervisor renews; None for all others."""
    federation = current_federation(snapshot)
    if federation is None or cluster not in clusters_with_tokens(snapshot):
        return None
    return next((m for m in federation.spec.members if m.cluster_id == cluster), None)


def _token_lifetime(secret: Secret | None, snapshot: Snapshot) -> TokenLifetime | None:
    """The lifetime of a Secret's token; None if it never expires or is no ServiceAccount's JWT."""
    if secret is None:
        return None
    claims = token_claims(secret.data.get(TOKEN, b"").decode("ascii", "replace").strip())
    if claims is None or claims.issued is None or claims.expires is None:
        return None
    namespace, _, account = claims.subject.removeprefix(_ACCOUNT).partition(":")
    if not claims.subject.startswith(_ACCOUNT) or not account:
        return None
    return TokenLifetime(
        namespace, account, claims.expires - claims.issued, claims.expires - snapshot.now
    )
