"""A stream and its store against an embedded cluster that fails in the ways clusters do."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from random import Random
from typing import Any

import msgspec
import pytest

from hanse.kube.client import Client
from hanse.kube.store import Store
from hanse.kube.transport import Request
from hanse.kube.watch_events import Interrupted, Listed, NotServed, Progress, WatchEvent
from hanse.kube.watcher import list_and_watch
from hanse.local.in_process import InProcessTransport
from hanse.model.kinds.core import ConfigMap
from hanse.model.kinds.multicluster import ServiceExport
from hanse.model.objects import Meta, Object
from tests.kube.test_discovery import CRDS, EXPORTS, define
from tests.support.faults import LinkFaults, Network
from tinykube.apiserver import ApiServer
from tinykube.virtual_time import ON_VIRTUAL_TIME, LoopClock

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> object:
    return ON_VIRTUAL_TIME


class Watched:
    """A cluster, somebody who changes it, and a store that follows it over a link."""

    def __init__(self, kind: type[Object]) -> None:
        self.server = ApiServer("lubeck", clock=LoopClock())
        self.network = Network(Random(1))
        self.direct = Client(InProcessTransport(self.server))
        self.store: Store[Any] = Store()
        self.events: list[WatchEvent[Any]] = []
        self._kind = kind

    async def run(self) -> None:
        client = Client(self.network.transport("us", "lubeck", InProcessTransport(self.server)))
        stream = list_and_watch(client, self._kind, namespace="default", random=Random(1))
        async with aclosing(stream) as events:
            async for event in events:
                self.events.append(event)
                self.store.apply_event(event)

    async def put(self, name: str, **content: str) -> ConfigMap:
        made = ConfigMap(metadata=Meta(name=name, namespace="default"), data=content)
        return await self.direct.create(made)

    async def change(self, name: str, **content: str) -> None:
        await self.direct.patch(ConfigMap, name, "default", {"data": content})

    async def remove(self, name: str) -> None:
        await self.direct.delete(ConfigMap, name, "default")

    async def truth(self) -> dict[str, Object]:
        listed = await self.direct.list(self._kind, namespace="default")
        return {obj.name: obj for obj in listed.objects}

    @property
    def known(self) -> dict[str, Object]:
        return {obj.name: obj for obj in self.store.all()}

    def count(self, kind: type[Any]) -> int:
        return sum(isinstance(event, kind) for event in self.events)


@asynccontextmanager
async def watched(kind: type[Object] = ConfigMap) -> AsyncIterator[Watched]:
    world = Watched(kind)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(world.run(), name="follow")
        await asyncio.sleep(1)
        yield world
        task.cancel()


async def test_changes_are_followed() -> None:
    async with watched() as world:
        await world.put("a", x="1")
        await world.put("b", x="1")
        await world.change("a", x="2")
        await world.remove("b")
        await asyncio.sleep(1)

        assert world.known == await world.truth()
        assert world.count(Listed) == 1


async def test_hours_of_quiet_need_no_second_list() -> None:
    async with watched() as world:
        await asyncio.sleep(4 * 3600)
        await world.put("a", x="1")
        await asyncio.sleep(1)

        assert world.known == await world.truth()
        assert world.count(Listed) == 1
        assert world.count(Interrupted) == 0


async def test_what_happened_while_we_were_cut_off_is_reported_afterwards() -> None:
    async with watched() as world:
        await world.put("a", x="1")
        await world.put("b", x="1")
        world.network.cut("us", "lubeck")
        await asyncio.sleep(60)
        await world.change("a", x="2")
        await world.remove("b")
        world.network.heal("us", "lubeck")
        await asyncio.sleep(60)

        assert world.known == await world.truth()
        assert world.count(Interrupted) == 1
        assert world.store.rewinds == 0


async def test_the_first_watch_that_is_up_after_an_outage_ends_the_waits_of_the_others() -> None:
    server, network = ApiServer("lubeck", clock=LoopClock()), Network(Random(1))
    client = Client(network.transport("us", "lubeck", InProcessTransport(server)))
    up_at: dict[int, float] = {}

    async def follow(number: int) -> None:
        stream = list_and_watch(client, ConfigMap, namespace="default", random=Random(number))
        async with aclosing(stream) as events:
            async for event in events:
                if isinstance(event, Progress):
                    up_at.setdefault(number, asyncio.get_running_loop().time())

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(follow(n), name=f"watch {n}") for n in range(8)]
        await asyncio.sleep(1)
        network.cut("us", "lubeck")
        await asyncio.sleep(300)
        up_at.clear()
        network.heal("us", "lubeck")
        await asyncio.sleep(60)
        for task in tasks:
            task.cancel()

    assert len(up_at) == len(tasks)
    assert max(up_at.values()) - min(up_at.values()) < 1


async def test_a_restored_cluster_that_has_written_more_since_is_no_less_restored() -> None:
    async with watched() as world:
        await world.put("a", x="1")
        backup = world.server.storage.snapshot()
        await world.change("a", x="2")
        await world.put("b", x="1")
        await asyncio.sleep(1)
        world.network.cut("us", "lubeck")
        world.server.storage.restore(backup)
        for name in ("c", "d", "e", "f"):
            await world.put(name, x="1")
        await asyncio.sleep(3)
        world.network.heal("us", "lubeck")
        await asyncio.sleep(60)

        assert world.known == await world.truth()
        assert world.store.rewinds == 1


async def test_a_cluster_that_was_restored_unnoticed_and_has_written_more_is_listed() -> None:
    async with watched() as world:
        backup = world.server.storage.snapshot()
        await world.put("a", x="1")
        await asyncio.sleep(1)
        world.network.hang("us", "lubeck")
        world.server.storage.restore(backup)
        for name in ("c", "d", "e", "f"):
            await world.put(name, x="1")
        world.network.heal("us", "lubeck")
        await asyncio.sleep(60)

        assert world.known == await world.truth()
        assert world.count(Interrupted) == 0
        assert world.store.rewinds == 1


async def test_a_history_lost_meanwhile_is_made_good_by_a_list() -> None:
    async with watched() as world:
        await world.put("a", x="1")
        await world.put("b", x="1")
        world.network.cut("us", "lubeck")
        await asyncio.sleep(1)
        await world.change("a", x="2")
        await world.remove("b")
        world.server.storage.compact()
        world.network.heal("us", "lubeck")
        await asyncio.sleep(60)

        assert world.known == await world.truth()
        assert world.count(Listed) == 2
        assert world.store.rewinds == 0


async def test_a_cluster_restored_from_a_backup_is_listed_and_reported_as_rewound() -> None:
    async with watched() as world:
        await world.put("a", x="1")
        backup = world.server.storage.snapshot()
        await world.change("a", x="2")
        await world.put("b", x="1")
        await asyncio.sleep(1)
        world.network.cut("us", "lubeck")
        world.server.storage.restore(backup)
        world.network.heal("us", "lubeck")
        await asyncio.sleep(60)
        before_more = world.known == await world.truth()
        await world.put("c", x="1")
        await asyncio.sleep(1)

        assert before_more
        assert world.known == await world.truth()
        assert world.store.rewinds == 1


async def test_a_kind_that_goes_and_comes_back_is_followed_again() -> None:
    async with watched(ServiceExport) as world:
        at_first = world.count(NotServed)
        await define(world.direct, "v1beta1")
        await asyncio.sleep(60)
        served = world.store.synced
        await world.direct.send(Request("DELETE", f"{CRDS}/{EXPORTS}"))
        await asyncio.sleep(15 * 60)
        gone = world.count(NotServed)
        await define(world.direct, "v1beta1")
        made = {"metadata": {"name": "a"}, "kind": "ServiceExport"}
        body = msgspec.json.encode({**made, "apiVersion": "multicluster.x-k8s.io/v1beta1"})
        await asyncio.sleep(60)
        path = "/apis/multicluster.x-k8s.io/v1beta1/namespaces/default/serviceexports"
        await world.direct.send(Request("POST", path, body=body))
        await asyncio.sleep(1)

        assert (at_first, served, gone) == (1, True, 2)
        assert list(world.known) == ["a"]


@pytest.mark.parametrize("seed", range(10))
async def test_in_any_weather_the_store_ends_as_the_cluster_is(seed: int) -> None:
    chance = Random(seed)
    async with watched() as world:
        world.network.random.seed(seed)
        link = world.network.link("us", "lubeck")
        names: set[str] = set()
        for step in range(150):
            link.faults = LinkFaults(
                refused=chance.choice([0, 0.5]),
                lost=chance.choice([0, 0.5]),
                breaks=chance.choice([0, 0.5]),
            )
            if chance.random() < 0.1:
                world.network.break_watches("us", "lubeck")
            if chance.random() < 0.05:
                world.server.storage.compact()
            name = f"n{chance.randrange(12)}"
            if name not in names:
                await world.put(name, x=str(step))
                names.add(name)
            elif chance.random() < 0.3:
                await world.remove(name)
                names.discard(name)
            else:
                await world.change(name, x=str(step))
            await asyncio.sleep(chance.choice([0, 0.1, 5]))
        world.network.heal_all()
        await asyncio.sleep(120)

        assert world.known == await world.truth()
        assert world.store.rewinds == 0
