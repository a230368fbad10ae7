"""The end of a rotation, also where whoever stole the token says what the agent uses."""

from datetime import timedelta

import pytest

from hanse.cli.errors import CommandFailed
from hanse.cli.join import rotation
from hanse.cli.join.rotation import finish_rotation
from hanse.features.services.manifests import member_account
from hanse.kube.bound_tokens import issue_token
from hanse.kube.client import Client
from hanse.kube.clock import WallClock
from hanse.local.in_process import InProcessTransport
from hanse.model.kinds.core import Namespace, ServiceAccount
from hanse.model.objects import Meta
from hanse.model.tokens import token_digest
from tinykube.apiserver import ApiServer

ACCOUNT = member_account("broker", "league", "rome")

pytestmark = pytest.mark.anyio


async def _account_with_tokens() -> tuple[ApiServer, Client, tuple[str, str]]:
    """A server with an account, and two of its tokens: the old and the new one."""
    server = ApiServer("broker", clock=WallClock())
    broker = Client(InProcessTransport(server))
    await broker.create(Namespace(metadata=Meta(name=ACCOUNT.namespace)))
    await broker.create(ServiceAccount(metadata=Meta(name="rome", namespace=ACCOUNT.namespace)))
    week = timedelta(days=7)
    old = await issue_token(broker, ACCOUNT, week, separate=True)
    return server, broker, (old, await issue_token(broker, ACCOUNT, week, separate=True))


async def test_a_rotation_ends_at_once_when_another_one_replaced_its_token() -> None:
    _, broker, (replaced, newer) = await _account_with_tokens()

    async def used() -> str:
        return token_digest(newer)

    await finish_rotation(broker, ACCOUNT, newer, used, "rome", "broker")
    with pytest.raises(CommandFailed, match="another rotation replaced the new token of rome"):
        await finish_rotation(broker, ACCOUNT, replaced, used, "rome", "broker")


async def test_who_keeps_saying_that_the_old_token_is_used_is_ended_by_the_command_that_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rotation, "USE_TIMEOUT", timedelta(milliseconds=1))
    server, broker, (old, new) = await _account_with_tokens()

    async def used() -> str:
        return token_digest(old)

    with pytest.raises(CommandFailed) as told:
        await finish_rotation(broker, ACCOUNT, new, used, "rome", "broker")

    assert server.authenticate(old) is not None
    assert "kubectl --context broker -n league-accounts delete serviceaccount rome" in str(
        told.value
    )
    await broker.delete(ServiceAccount, "rome", ACCOUNT.namespace)
    assert server.authenticate(old) is server.authenticate(new) is None
