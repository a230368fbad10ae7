"""Findings about the tokens that agents hold for other clusters, and should have renewed."""

from collections.abc import Iterator
from datetime import datetime

from hanse.cli.doctor.clusters import Finding
from hanse.cli.doctor.lists import SECRETS, SITE_SECRET
from hanse.cli.fleet import ClusterRead
from hanse.features.gslb.names import SECRET_KEY
from hanse.features.gslb.tokens import site_tokens
from hanse.model.findings import Ref
from hanse.model.kinds.core import Secret
from hanse.model.tokens import token_lifetime


def check_tokens(read: ClusterRead, now: datetime) -> Iterator[Finding]:
    """TokenExpiring: three quarters of a token's time are over; agents renew it after half.

    These are the tokens in all Secrets beside Federations, and in that of GSLB sites; what is no
    token is skipped.
    """
    for secret in read.listed(SECRETS):
        token = secret.data.get("token", b"").decode("ascii", "replace").strip()
        again = "see why in the log of the agent of this supervisor, or join the member once more"
        yield from _overdue_finding(read, secret, token, again, now)
    for secret in read.listed(SITE_SECRET):
        again = "apply once more what `hanse gslb rights` prints in that cluster"
        for token in site_tokens(secret.data.get(SECRET_KEY, b"")):
            yield from _overdue_finding(read, secret, token, again, now)


def _overdue_finding(
    read: ClusterRead, secret: Secret, token: str, remedy: str, now: datetime
) -> Iterator[Finding]:
    """TokenExpiring, if three quarters of a token's time are over; nothing for what is no token.

    A token is a ServiceAccount's JWT that says when it was issued and when it expires.
    """
    lifetime = token_lifetime(token, now)
    if lifetime is not None and lifetime.is_overdue:
        hours = max(int(lifetime.remaining.total_seconds() // 3600), 0)
        yield Finding(
            read.context,
            f"the token of {lifetime.account} in Secret {secret.namespace}/{secret.name} ends in "
            f"{hours} hours, and no agent has renewed it",
            remedy,
            "TokenExpiring",
            Ref("Secret", secret.name, secret.namespace),
        )
