"""Bearer tokens (JWT): their claims, and when an agent has to renew one that it holds."""

import base64
import binascii
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from hashlib import blake2b

import msgspec
from msgspec import Struct, field

from hanse.model.facts import Answer, age
from hanse.model.json_input import decode_json
from hanse.model.plan import Call, Question
from hanse.model.snapshot import Snapshot
from hanse.model.write_rules import MAX_TOKEN_SECONDS

PROVIDER = "token"
"""The provider that requests a new token of an account: answers `token`."""

ANSWER_MAX_AGE = timedelta(minutes=1)
"""How long an issued token may take to be written to the Secret."""

RETRY_AFTER = timedelta(minutes=10)
"""When to try again after no token was issued."""

_ACCOUNT = "system:serviceaccount:"


BOUND = "hanse.dev/bound-token"
"""Label of the Secrets that tokens are bound to; they hold nothing."""


class TokenAccount(Struct, frozen=True):
    """A ServiceAccount whose tokens are issued, and the labels of what is made for its owner."""

    cluster: str
    """The cluster that has the account, for messages."""
    namespace: str
    name: str
    labels: Mapping[str, str]

    @property
    def selector(self) -> str:
        """The label selector of the Secrets to which its tokens are bound: its labels and BOUND."""
        return ",".join(f"{key}={value}" for key, value in {**self.labels, BOUND: "true"}.items())


class BoundSecret(Struct, frozen=True):
    """The Secret to which a token is bound: deleting it revokes the token."""

    name: str
    uid: str


class TokenClaims(Struct, frozen=True):
    """The claims of a JWT that we use; the signature is not verified."""

    subject: str
    issued: datetime | None
    expires: datetime | None
    bound: BoundSecret | None = None


class _Binding(Struct, frozen=True):
    secret: BoundSecret | None = None


class _Payload(Struct, frozen=True):
    sub: str = ""
    iat: float | None = None
    exp: float | None = None
    binding: _Binding = field(name="kubernetes.io", default=_Binding())


def parse_claims(token: str) -> TokenClaims | None:
    """The claims of a token, whose signature is not verified; None if it is not a valid JWT."""
    match token.split("."):
        case [_, payload, _]:
            try:
                padded = payload + "=" * (-len(payload) % 4)
                claims = decode_json(base64.urlsafe_b64decode(padded), type=_Payload)
                issued, expires = _timestamp(claims.iat), _timestamp(claims.exp)
                return TokenClaims(claims.sub, issued, expires, claims.binding.secret)
            except (binascii.Error, msgspec.DecodeError, ValueError, OverflowError, OSError):
                return None
        case _:
            return None


def _timestamp(seconds: float | None) -> datetime | None:
    """A Unix time as a UTC datetime, None for None.

    Raises ValueError, OverflowError or OSError if it is out of range.
    """
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)


class TokenLifetime(Struct, frozen=True):
    """Whose token it is, and how long it is valid."""

    namespace: str
    account: str
    total: timedelta
    remaining: timedelta
    bound: BoundSecret | None = None

    @property
    def is_overdue(self) -> bool:
        """Whether it should have been renewed long ago: three quarters of its time are over."""
        return self.remaining < self.total / 4


def token_lifetime(token: str, now: datetime) -> TokenLifetime | None:
    """Whose token it is, and how long it was valid when issued and is yet (negative if expired).

    None if it does not say when it was issued or expires, or is no ServiceAccount's JWT.
    """
    claims = parse_claims(token)
    if claims is None or claims.issued is None or claims.expires is None:
        return None
    namespace, _, account = claims.subject.removeprefix(_ACCOUNT).partition(":")
    if not claims.subject.startswith(_ACCOUNT) or not account:
        return None
    total, remaining = claims.expires - claims.issued, claims.expires - now
    return TokenLifetime(namespace, account, total, remaining, claims.bound)


def token_digest(token: str) -> str:
    """A hash of a token, 16 hexadecimal digits: it tells tokens apart and does not reveal them."""
    return blake2b(token.encode(), digest_size=8).hexdigest()


class TokenRenewal(Struct, frozen=True):
    """What is to be done about a token: wait, ask for a new one, or use the one that was issued."""

    requeue_after: timedelta | None = None
    questions: tuple[Question, ...] = ()
    issued: str = ""


def renew_token(token: str, place: tuple[str, str], snapshot: Snapshot) -> TokenRenewal:
    """What to do about a ServiceAccount's token: wait until half of its lifetime is over, then ask.

    After that it asks for a new token every 10 minutes, or returns the one that was issued less
    than a minute ago. Nothing to do for a token without `token_lifetime`, such as one that never
    expires. `place` is the argument by which the provider finds the API server.
    """
    lifetime = token_lifetime(token, snapshot.now)
    if lifetime is None:
        return TokenRenewal()
    if lifetime.remaining > lifetime.total / 2:
        wait = lifetime.remaining - lifetime.total / 2 + timedelta(seconds=1)
        return TokenRenewal(requeue_after=wait)
    call = Call(
        PROVIDER,
        (
            place,
            ("namespace", lifetime.namespace),
            ("account", lifetime.account),
            ("seconds", min(int(lifetime.total.total_seconds()), MAX_TOKEN_SECONDS)),
            ("replaces", token_digest(token)),
            *((("bound", (bound.name, bound.uid)),) if (bound := lifetime.bound) else ()),
        ),
    )
    answer = snapshot.fact(Answer, call.id)
    issued = str((answer.value or {}).get("token", "")) if answer is not None else ""
    if answer is None or not issued or age(answer.at, snapshot.now) >= ANSWER_MAX_AGE:
        return TokenRenewal(RETRY_AFTER, (Question(call, max_age=RETRY_AFTER),))
    return TokenRenewal(RETRY_AFTER, issued=issued)
