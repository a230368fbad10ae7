"""`hanse leave --federation --force`: a dead cluster is given up without being asked."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from hanse.cli.apply import apply, apply_definitions
from hanse.cli.clusters import ClusterAccess
from hanse.cli.errors import CommandFailed
from hanse.cli.join import participants
from hanse.cli.join.federation import MembershipRequest
from hanse.cli.join.leaving import abandon_member
from hanse.features.federation import manifests
from hanse.kube.client import Client
from hanse.kube.client_config import ClientConfig, ServerEndpoint, StaticCredentials
from hanse.kube.clock import WallClock
from hanse.local.in_process import InProcessTransport
from hanse.model.kinds.federation import Federation
from hanse.model.manifests import crd_manifests
from tinykube.apiserver import ApiServer

pytestmark = pytest.mark.anyio


def access(context: str, cluster: str) -> ClusterAccess:
    return ClusterAccess(
        context, StaticCredentials(ClientConfig(ServerEndpoint(f"https://{cluster}")))
    )


ROME = access("rome", "rome")


@pytest.fixture
async def rome(monkeypatch: pytest.MonkeyPatch) -> Client:
    """The supervisor of rome and oslo; no other cluster answers."""
    client = Client(InProcessTransport(ApiServer("rome", clock=WallClock())))
    await apply_definitions(client, crd_manifests())
    entries = tuple(manifests.member_entry(one, f"https://{one}") for one in ("rome", "oslo"))
    league = manifests.federation_with_members("league", "league", entries)
    await apply(client, [*manifests.claim_manifests("rome", "league", supervisor=True), league])

    @asynccontextmanager
    async def connect(cluster: ClusterAccess) -> AsyncIterator[Client]:
        if cluster != ROME:
            raise CommandFailed(f"{cluster.name} does not answer")
        yield client

    monkeypatch.setattr(participants, "connect", connect)
    return client


def request(*contexts: ClusterAccess) -> MembershipRequest:
    return MembershipRequest("league", "oslo", ROME, (ROME,), contexts=(ROME, *contexts))


async def members(client: Client) -> list[str]:
    return [one.cluster_id for one in (await client.read(Federation, "league")).spec.members]


@pytest.mark.parametrize("context", ["oslo", "admin@oslo"])
async def test_a_dead_cluster_is_not_asked_whatever_its_context_is_called(
    rome: Client, context: str, capsys: pytest.CaptureFixture[str]
) -> None:
    await abandon_member(request(access(context, "oslo")), dry_run=False)

    assert await members(rome) == ["rome"]
    assert "oslo is given up" in capsys.readouterr().out


async def test_a_dry_run_gives_up_nothing_and_does_not_say_so(
    rome: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    await abandon_member(request(), dry_run=True)

    assert await members(rome) == ["rome", "oslo"]
    shown = capsys.readouterr().out
    assert "rome: would change Federation league" in shown
    assert "given up" not in shown
