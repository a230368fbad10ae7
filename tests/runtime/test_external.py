"""An external system behind the API of a cluster: versions, and lists that writes overtake."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta

import pytest

from hanse.model.facts import Role
from hanse.model.kinds.core import ConfigMap
from hanse.model.objects import K, Meta
from hanse.runtime.external import ExternalApi
from tests.runtime.toy_world import SHOP, ExternalFeature, InMemorySystem, toy_world
from tests.support.builders import configmap
from tinykube.virtual_time import ON_VIRTUAL_TIME


@pytest.fixture
def anyio_backend() -> object:
    return ON_VIRTUAL_TIME


async def test_a_row_that_is_created_again_as_it_was_is_observed_at_once() -> None:
    async with toy_world("lubeck", features=(ExternalFeature(),), agents=False) as world:
        system = InMemorySystem()
        reconciler = world.reconciler("lubeck")
        external = ExternalApi(system, poll_interval=lambda: timedelta(hours=1))
        reconciler.informers.join("ledger", {Role.MEMBER}, external)
        client = world.client("lubeck")
        async with reconciler.running():
            for _ in range(3):
                await client.create(configmap("row", SHOP, sum="1"))
                await asyncio.sleep(60)
                assert reconciler.snapshot().get("ledger", ConfigMap, "row") is not None
                await client.delete(ConfigMap, "row", SHOP)
                await asyncio.sleep(60)

        assert system.rows == {}
        assert external._versions == {}, "what is gone is remembered for ever"


async def test_a_list_that_a_write_overtook_is_read_again() -> None:
    class Slow(InMemorySystem):
        async def list(self, kind: type[K]) -> Sequence[K]:
            rows = await super().list(kind)
            await asyncio.sleep(1)
            return rows

    system = Slow()
    external = ExternalApi(system)
    listing = asyncio.create_task(external.list(ConfigMap))
    await asyncio.sleep(0.5)
    made = external._count_write(await system.create(ConfigMap(metadata=Meta(name="row"))))

    listed = await listing

    assert [o.metadata.name for o in listed.objects] == ["row"]
    assert int(listed.resource_version) >= int(made.metadata.resource_version)
