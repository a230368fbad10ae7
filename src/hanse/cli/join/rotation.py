"""The end of a rotation: wait until an agent uses its new token, and revoke the earlier ones."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta

import click

from hanse.cli.errors import CommandFailed
from hanse.kube.bound_tokens import is_revoked, revoke_others
from hanse.kube.client import Client
from hanse.model.objects import ClusterId
from hanse.model.tokens import TokenAccount, token_digest

USE_TIMEOUT = timedelta(minutes=3)
"""How long an agent may take to use a new token; it looks for one every ten seconds."""

_POLL_INTERVAL = timedelta(seconds=1)


async def finish_rotation(
    server: Client,
    account: TokenAccount,
    token: str,
    used: Callable[[], Awaitable[str]],
    agent: ClusterId,
    target: str,
) -> None:
    """Wait until an agent uses its new token for another cluster, and revoke the earlier ones.

    `used` returns the digest of the token that the agent uses now. Raises `CommandFailed` after
    `USE_TIMEOUT`, or if another rotation revokes the new token; nothing is revoked then. Prints how
    many were revoked.
    """
    await _await_use(server, token, used, agent, account)
    count = await revoke_others(server, account, token)
    click.echo(
        f"{agent} uses a new token for {target}; "
        f"{count} earlier {'one is' if count == 1 else 'ones are'} revoked"
    )


async def _await_use(
    server: Client, token: str, used: Callable[[], Awaitable[str]], who: str, account: TokenAccount
) -> None:
    """Wait until `used` returns the digest of `token`; raises `CommandFailed` after `USE_TIMEOUT`.

    Also if `token` is revoked meanwhile, by a rotation that began at the same time. The text after
    the time-out says how to end all tokens of the account at once, if one was stolen.
    """
    digest = token_digest(token)
    try:
        async with asyncio.timeout(USE_TIMEOUT.total_seconds()):
            while await used() != digest:
                if await is_revoked(server, account, token):
                    raise CommandFailed(
                        f"another rotation replaced the new token of {who} and revoked all others; "
                        "nothing is left to do, unless it failed: run this again then"
                    )
                await asyncio.sleep(_POLL_INTERVAL.total_seconds())
    except TimeoutError:
        raise CommandFailed(
            f"{who} does not use its new token yet, so that the earlier ones were not revoked; "
            "see whether its agent runs, in this version, and run this again; if a token was "
            f"stolen, end all of them: kubectl --context {account.cluster} -n {account.namespace} "
            f"delete serviceaccount {account.name}, and run `hanse join` without --rotate"
        ) from None
