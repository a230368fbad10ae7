"""The fleet that `hanse plan` asks: who is a member, and who is the broker."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from hanse.app.preview import AppliedObject, PreviewedFleet
from hanse.cli.clusters import ClusterAccess
from hanse.cli.inventory import AgentLease, ClusterInventory
from hanse.cli.plan import changes
from hanse.cli.plan.documents import read_documents
from hanse.kube.client import Client
from hanse.kube.client_config import ClientConfig, ServerEndpoint, StaticCredentials
from hanse.kube.clock import WallClock
from hanse.local.in_process import InProcessTransport
from hanse.model.kinds.core import Namespace
from hanse.model.objects import Meta
from tests.support.toy import HOME, Toy
from tinykube.apiserver import ApiServer

pytestmark = pytest.mark.anyio

MAPS = "".join(
    f"---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: bread, namespace: {one}}}\n"
    for one in ("shop", HOME)
)


def access(name: str) -> ClusterAccess:
    return ClusterAccess(name, StaticCredentials(ClientConfig(ServerEndpoint(f"https://{name}"))))


def inventory(name: str, *, agent: bool = True, is_broker: bool = False) -> ClusterInventory:
    running = AgentLease(f"{name}-id_pod", timedelta(0), timedelta(seconds=30)) if agent else None
    return ClusterInventory(
        name, "https://x", "v1.34.1", timedelta(0), agent=running, is_broker=is_broker
    )


class Asked:
    """What agents are previewed with."""

    fleet: PreviewedFleet
    applied: Sequence[AppliedObject]


async def plan_in_lubeck(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *inventories: ClusterInventory
) -> Asked:
    """Plan two ConfigMaps in lubeck, of a fleet that is as the inventories say."""
    client = Client(InProcessTransport(ApiServer("lubeck", clock=WallClock())))
    for name in ("shop", HOME):
        await client.create(Namespace(metadata=Meta(name=name)))
    asked = Asked()

    async def read(*_: Any) -> list[ClusterInventory]:
        return list(inventories)

    @asynccontextmanager
    async def opened(_: Any) -> AsyncIterator[Client]:
        yield client

    @asynccontextmanager
    async def previewing(fleet: PreviewedFleet, _: Any) -> AsyncIterator[dict[str, Any]]:
        asked.fleet = fleet
        yield {}

    def writes(_: Any, applied: Sequence[AppliedObject]) -> list[Any]:
        asked.applied = applied
        return []

    monkeypatch.setattr("hanse.app.composition.features", lambda: (Toy(),))
    for name, stub in (
        ("read_inventories", read),
        ("open_client", opened),
        ("previewing", previewing),
        ("preview_agent_writes", writes),
    ):
        monkeypatch.setattr(changes, name, stub)
    file = tmp_path / "maps.yaml"
    file.write_text(MAPS)
    clusters = [access(one.name) for one in inventories]
    await changes.plan_changes(read_documents(str(file)), clusters, "lubeck")
    return asked


def places(asked: Asked) -> list[tuple[str, str]]:
    return [(where, obj.metadata.namespace) for where, obj in asked.applied]


async def test_a_member_that_is_the_broker_is_both(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    both, other = inventory("lubeck", is_broker=True), inventory("bergen")

    asked = await plan_in_lubeck(monkeypatch, tmp_path, both, other)

    assert asked.fleet.members.keys() == {"lubeck-id", "bergen-id"}
    assert asked.fleet.broker is asked.fleet.members["lubeck-id"]
    assert places(asked) == [("lubeck-id", "shop"), ("lubeck-id", HOME), ("broker", HOME)]


@pytest.mark.parametrize("first", [True, False])
async def test_a_cluster_without_an_agent_is_the_broker_before_members(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, first: bool
) -> None:
    hub = inventory("hub", agent=False, is_broker=True)
    former = inventory("lubeck", is_broker=True)

    fleet = [hub, former] if first else [former, hub]
    asked = await plan_in_lubeck(monkeypatch, tmp_path, *fleet)

    assert asked.fleet.members.keys() == {"lubeck-id"}
    assert asked.fleet.broker not in (None, asked.fleet.members["lubeck-id"])
    assert places(asked) == [("lubeck-id", "shop"), ("lubeck-id", HOME)]
