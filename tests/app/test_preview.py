"""The writes that agents would make after objects are applied, and after each other's."""

from contextlib import AsyncExitStack

import pytest

from hanse.app.preview import AgentWrite, preview_agent_writes, wait_until_listed
from hanse.model.kinds.core import ConfigMap, Namespace
from hanse.model.objects import Meta, Object
from hanse.runtime.reconciler import Reconciler
from tests.support.toy import OFFER, Toy
from tests.support.world import BROKER, World
from tinykube.virtual_time import ON_VIRTUAL_TIME

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> object:
    return ON_VIRTUAL_TIME


def _summary(found: list[AgentWrite]) -> set[tuple[str, str, str, str]]:
    return {(one.target.where, one.verb, one.target.ref.name, one.by) for one in found}


async def _world() -> World:
    world = World(["lubeck", "hamburg"], lambda: [Toy()])
    for cluster in ("lubeck", "hamburg"):
        await world.client(cluster).create(Namespace(metadata=Meta(name="shop")))
    await world.client(BROKER).create(Namespace(metadata=Meta(name="toy")))
    return world


async def _looking(world: World, stack: AsyncExitStack) -> dict[str, Reconciler]:
    reconcilers = {name: world.reconciler(name) for name in world.names}
    for reconciler in reconcilers.values():
        await stack.enter_async_context(reconciler.running(active=False))
    await wait_until_listed(reconcilers)
    return reconcilers


def _offer() -> Object:
    return ConfigMap(
        metadata=Meta(name="bread", namespace="shop", labels={OFFER: "yes"}), data={"price": "3"}
    )


async def test_other_agents_answer_what_the_first_would_write() -> None:
    world = await _world()

    async with AsyncExitStack() as stack:
        reconcilers = await _looking(world, stack)
        found = preview_agent_writes(reconcilers, [("lubeck", _offer())])

    assert _summary(found) == {
        ("broker", "create", "shop.bread.lubeck", "lubeck"),
        ("broker", "create", "sum.shop.bread", "lubeck"),
        ("lubeck", "update", "bread", "lubeck"),
        ("lubeck", "create", "copy-of-bread", "lubeck"),
        ("lubeck", "create", "receipt-of-bread", "lubeck"),
        ("hamburg", "create", "copy-of-bread", "hamburg"),
        ("hamburg", "create", "receipt-of-bread", "hamburg"),
    }


async def test_nothing_is_written() -> None:
    world = await _world()

    async with AsyncExitStack() as stack:
        reconcilers = await _looking(world, stack)
        preview_agent_writes(reconcilers, [("lubeck", _offer())])

    assert world.network.writes == []


async def test_nothing_follows_from_what_no_agent_looks_at() -> None:
    world = await _world()
    plain = ConfigMap(metadata=Meta(name="plain", namespace="shop"))

    async with AsyncExitStack() as stack:
        reconcilers = await _looking(world, stack)

        assert preview_agent_writes(reconcilers, [("lubeck", plain)]) == []
