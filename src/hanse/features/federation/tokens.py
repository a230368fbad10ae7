"""Tokens for members that end are replaced before they do, by the supervisor that uses them.

A child cannot reach its supervisors, so nobody but they can renew what they hold.
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
from hanse.model.tokens import claims_of as token_says

PROVIDER = "token"
"""Asks a member for a token of an account: gives `token`."""

ANSWER_MAX_AGE = timedelta(minutes=1)
"""How long a new token may take to be written."""

RETRY_AFTER = timedelta(minutes=10)
"""When to try again where no token was to be had."""

_ACCOUNT = "system:serviceaccount:"


class TokenLifetime(Struct, frozen=True):
    """A token of a ServiceAccount that ends."""

    namespace: str
    account: str
    whole: timedelta
    left: timedelta


def clusters_with_tokens(snapshot: Snapshot) -> Iterator[ClusterId]:
    """The members that this cluster holds tokens for, and uses them."""
    federation, claims = current_federation(snapshot), read_claims(snapshot, snapshot.local)
    if federation is not None and claims is not None and claims.supervisor:
        for member in federation.spec.members:
            if member.cluster_id != snapshot.local:
                yield member.cluster_id


def plan_token(cluster: ClusterId, snapshot: Snapshot) -> Plan:
    """Another token for a member once the one there is past half its life."""
    member = _entry(cluster, snapshot)
    secret = (
        snapshot.get(snapshot.local, Secret, member.secret, SYSTEM) if member is not None else None
    )
    life = _life(secret, snapshot)
    state = snapshot.fact(ClusterState, cluster)
    if secret is None or life is None or state is None or state.phase is not Phase.SYNCED:
        return Plan()
    if life.left > life.whole / 2:
        return Plan(requeue_after=life.left - life.whole / 2 + timedelta(seconds=1))
    former = blake2b(secret.data[TOKEN], digest_size=8).hexdigest()
    call = Call(
        PROVIDER,
        (
            ("cluster", cluster),
            ("namespace", life.namespace),
            ("account", life.account),
            ("seconds", int(life.whole.total_seconds())),
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


def _entry(cluster: ClusterId, snapshot: Snapshot) -> Member | None:
    federation = current_federation(snapshot)
    if federation is None or cluster not in clusters_with_tokens(snapshot):
        return None
    return next((m for m in federation.spec.members if m.cluster_id == cluster), None)


def _life(secret: Secret | None, snapshot: Snapshot) -> TokenLifetime | None:
    """How long a token holds; None where it never ends, or tells nothing of itself."""
    if secret is None:
        return None
    said = token_says(secret.data.get(TOKEN, b"").decode("ascii", "replace").strip())
    if said is None or said.issued is None or said.expires is None:
        return None
    namespace, _, account = said.subject.removeprefix(_ACCOUNT).partition(":")
    if not said.subject.startswith(_ACCOUNT) or not account:
        return None
    return TokenLifetime(
        namespace, account, said.expires - said.issued, said.expires - snapshot.now
    )
