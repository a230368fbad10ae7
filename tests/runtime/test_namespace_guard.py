"""A namespace that clusters share on a broker is read before anything follows from what is gone."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest
from msgspec.structs import replace

from hanse.kube import requests
from hanse.model.clusterset import is_broker_lost
from hanse.model.facts import Role
from hanse.model.kinds.core import ConfigMap, Namespace
from hanse.model.plan import Key, Plan
from hanse.model.snapshot import Snapshot, Watch
from hanse.runtime.namespace_guard import DOUBT
from tests.runtime.toy_world import SHOP, find_configmap, offer, toy_world
from tests.support.builders import namespace
from tests.support.faults import LinkFaults
from tests.support.toy import HOME, Toy
from tests.support.world import BROKER, World
from tinykube.controllers.controller_manager import ControllerManager
from tinykube.virtual_time import ON_VIRTUAL_TIME

LATE = LinkFaults(lag=timedelta(seconds=10), lags="namespaces")
PATH = requests.resource_path(Namespace.kind, name=HOME)


@pytest.fixture
def anyio_backend() -> object:
    return ON_VIRTUAL_TIME


class KeepingToy(Toy):
    """Shares ConfigMaps, and keeps all copies while the broker's namespace is lost."""

    watches: tuple[Watch, ...] = (
        *Toy.watches,
        Watch(Role.BROKER, Namespace, name=HOME, optional=True),
    )

    def plan(self, key: Key, snapshot: Snapshot) -> Plan:
        if key.topic != "offer" and is_broker_lost(snapshot, BROKER, HOME):
            return Plan(keep_all=True)
        return super().plan(key, snapshot)


@asynccontextmanager
async def sharing(*names: str, offers: int = 1) -> AsyncIterator[World]:
    """Lubeck offers some bread, which every cluster has copies of; the broker ends namespaces."""
    async with (
        toy_world(*names, features=(KeepingToy(),)) as world,
        asyncio.TaskGroup() as group,
    ):
        manager = ControllerManager(world.clusters[BROKER], enabled=frozenset({"namespace"}))
        controllers = group.create_task(manager.run(), name="controllers")
        for number in range(offers):
            await world.client("lubeck").create(offer(f"bread-{number}", price="3"))
        await world.settle()
        assert await copies(world, "hamburg") == offers
        yield world
        controllers.cancel()


async def copies(world: World, where: str) -> int:
    found = await world.client(where).list(ConfigMap, namespace=SHOP)
    return sum(o.metadata.name.startswith("copy-of-") for o in found.objects)


def reads(world: World) -> list[str]:
    """Who has read the namespace."""
    return [s.source for s in world.network.sent if s.request.path == PATH]


async def test_what_rests_on_a_namespace_stands_whose_end_is_seen_last() -> None:
    async with sharing("lubeck", "hamburg", offers=3) as world:
        world.network.link("hamburg", BROKER).faults = LATE

        await world.client(BROKER).delete(Namespace, HOME, "")
        for _ in range(60):
            await asyncio.sleep(1)
            assert await copies(world, "hamburg") == 3

        assert reads(world).count("hamburg") <= 2


async def test_it_stands_where_the_namespace_was_made_anew_meanwhile() -> None:
    async with sharing("lubeck", "hamburg") as world:
        await world.kill_agent("lubeck")
        slow = replace(LATE, delay=timedelta(seconds=2))
        world.network.link("hamburg", BROKER).faults = slow

        broker = world.client(BROKER)
        await broker.delete(Namespace, HOME, "")
        await asyncio.sleep(1)
        await broker.create(namespace(HOME))
        await asyncio.sleep(5)
        assert "hamburg" in reads(world)
        assert await copies(world, "hamburg") == 1

        reconciler = world.agents["hamburg"].reconciler
        assert is_broker_lost(reconciler.snapshot(), BROKER, HOME)

        await asyncio.sleep(30)
        assert not is_broker_lost(reconciler.snapshot(), BROKER, HOME)


async def test_an_agent_that_starts_while_a_namespace_ends_takes_no_list_for_the_truth() -> None:
    async with sharing("lubeck", "hamburg") as world:
        await world.kill_agent("hamburg")
        late = LinkFaults(lag=timedelta(seconds=10), lags="namespaces", late="configmaps")
        world.network.link("hamburg", BROKER).faults = late
        world.start_agent("hamburg")
        await asyncio.sleep(2)

        await world.client(BROKER).delete(Namespace, HOME, "")
        for _ in range(30):
            await asyncio.sleep(1)
            assert await copies(world, "hamburg") == 1


async def test_many_withdrawals_at_once_cost_few_reads_and_are_not_held_as_a_mass() -> None:
    async with sharing("lubeck", "hamburg", offers=40) as world:
        world.network.latency = timedelta(milliseconds=20)
        before = len(reads(world))

        for number in range(40):
            await world.client("lubeck").delete(ConfigMap, f"bread-{number}", SHOP)
        await asyncio.sleep(10)

        assert await copies(world, "hamburg") == 0
        again = reads(world)[before:]
        assert 1 <= again.count("hamburg") <= 4


async def test_a_key_that_loses_nothing_reads_nothing() -> None:
    async with sharing("lubeck", "hamburg") as world:
        before = len(reads(world))

        change = {"data": {"price": "4"}}
        await world.client("lubeck").patch(ConfigMap, "bread-0", SHOP, change)
        await world.settle()

        assert reads(world)[before:] == []


async def test_a_read_that_fails_is_repeated_and_what_is_gone_goes_with_the_answer() -> None:
    async with sharing("lubeck", "hamburg") as world:
        await world.kill_agent("lubeck")
        link = world.network.link("hamburg", BROKER)
        link.faults = LinkFaults(refused=1.0)

        await world.client(BROKER).delete(ConfigMap, f"{SHOP}.bread-0.lubeck", HOME)
        await asyncio.sleep(10)
        assert await copies(world, "hamburg") == 1
        link.faults = LinkFaults()
        await asyncio.sleep(5)

        assert await copies(world, "hamburg") == 0


async def test_nothing_is_doubted_for_ever() -> None:
    async with sharing("lubeck", "hamburg") as world:
        await world.kill_agent("lubeck")
        world.network.link("hamburg", BROKER).faults = LinkFaults(refused=1.0)

        await world.client(BROKER).delete(ConfigMap, f"{SHOP}.bread-0.lubeck", HOME)
        await asyncio.sleep(DOUBT.total_seconds() + 5)

        assert await copies(world, "hamburg") == 0
        assert await find_configmap(world, "hamburg", "receipt-of-bread-0") is None
