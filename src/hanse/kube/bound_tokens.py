"""Tokens of agents in other clusters: each can be revoked alone, after its successor is used.

A token is bound to a Secret beside its account, and ends with that. Agents renew it with the same
binding, and admission policies (`BOUND_TOKEN`) let accounts request no others, so that a token that
a thief requested ends, too. The account owns the Secret, so that it is deleted with it.
"""

import secrets
from contextlib import suppress
from datetime import UTC, datetime, timedelta

from hanse.kube.client import Client
from hanse.kube.errors import KubeError, NotFound
from hanse.kube.token_requests import issued_token, token_request
from hanse.model.kinds.core import Secret, ServiceAccount
from hanse.model.objects import Meta, OwnerReference
from hanse.model.tokens import BOUND, BoundSecret, TokenAccount, parse_claims


async def issue_token(
    server: Client, account: TokenAccount, lifetime: timedelta, *, separate: bool
) -> str:
    """Request a new token of an account, bound to a Secret; it ends when that is deleted.

    With `separate`, or if the account has no such Secret yet, one is created, else the newest is
    used. Raises `KubeError` if no token is issued.
    """
    owner = await server.read(ServiceAccount, account.name, account.namespace)
    known = [one for one in await _bound_secrets(server, account) if _is_owned(one, owner)]
    reused = max(known, key=_created) if known and not separate else None
    secret = reused or await _new_secret(server, account, owner)
    bound = BoundSecret(secret.name, secret.metadata.uid)
    seconds = int(lifetime.total_seconds())
    request = token_request(account.namespace, account.name, seconds, bound)
    token = issued_token(await server.send(request))
    if not token:
        raise KubeError(f"{account.cluster} issued no token for {account.name}")
    return token


async def is_revoked(server: Client, account: TokenAccount, token: str) -> bool:
    """Whether the Secret to which a token was bound is gone; False for one bound to none.

    Also False for a text that is no JWT. Raises `KubeError` if the Secrets cannot be listed.
    """
    claims = parse_claims(token)
    bound = claims.bound if claims is not None else None
    known = {one.name for one in await _bound_secrets(server, account)}
    return bound is not None and bound.name not in known


async def revoke_others(server: Client, account: TokenAccount, token: str) -> int:
    """Delete the account's Secrets, so that their tokens end, but the one `token` is bound to.

    Returns how many; 0, and nothing is deleted, if `token` is no JWT or names no Secret, as its own
    would go, too; all are deleted if the Secret that it names is not among them.
    """
    claims = parse_claims(token)
    if claims is None or claims.bound is None:
        return 0  # its own would go, too
    kept = claims.bound.name
    others = [one for one in await _bound_secrets(server, account) if one.name != kept]
    for one in others:
        with suppress(NotFound):
            await server.delete(Secret, one.name, one.namespace)
    return len(others)


async def _bound_secrets(server: Client, account: TokenAccount) -> tuple[Secret, ...]:
    """List the Secrets to which tokens of an account are bound, by the account's labels."""
    listed = await server.list(Secret, namespace=account.namespace, labels=account.selector)
    return listed.objects


async def _new_secret(server: Client, account: TokenAccount, owner: ServiceAccount) -> Secret:
    """Create a Secret, with a random name, to which tokens of an account are bound.

    Its owner is the account, so that it is deleted with it.
    """
    reference = OwnerReference(
        api_version="v1", kind="ServiceAccount", name=owner.name, uid=owner.metadata.uid
    )
    meta = Meta(
        name=f"{account.name}-{secrets.token_hex(4)}",
        owner_references=(reference,),
        namespace=account.namespace,
        labels={**account.labels, BOUND: "true"},
    )
    return await server.create(Secret(metadata=meta))


def _is_owned(secret: Secret, owner: ServiceAccount) -> bool:
    """Whether a Secret is owned by this account, by its uid, not by an earlier one of its name."""
    return any(one.uid == owner.metadata.uid for one in secret.metadata.owner_references)


def _created(secret: Secret) -> datetime:
    """When a Secret was created; the earliest datetime if it does not say."""
    return secret.metadata.creation_timestamp or datetime.min.replace(tzinfo=UTC)
