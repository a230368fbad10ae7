"""When keys are planned and writes are held: work queue, retries, pause, mass deletion."""

import asyncio
from collections.abc import Iterable
from datetime import timedelta
from random import Random

import msgspec
import pytest

from hanse.kube.transport import Request, Response
from hanse.model.crds import crd_of
from hanse.model.facts import Role, WriteOutcome
from hanse.model.kinds.core import ConfigMap, Namespace
from hanse.model.kinds.hanse import ClusterSet
from hanse.model.objects import ClusterId
from hanse.model.ownership import ALLOW_MASS_DELETION
from hanse.model.plan import Desired, Key, Plan
from hanse.model.snapshot import Change, FactChange, ObjectChange, Snapshot, Watch, Writes
from hanse.runtime.api import ClusterClient
from hanse.runtime.workqueue import Priority, WorkQueue
from tests.runtime.test_reconciler import define
from tests.runtime.toy_world import (
    SHOP,
    find_configmap,
    offer,
    toy_world,
)
from tests.support import faults
from tests.support.builders import configmap, namespace
from tests.support.faults import LinkFaults
from tests.support.toy import HOME, OFFERED
from tests.support.world import BROKER
from tinykube.virtual_time import ON_VIRTUAL_TIME


@pytest.fixture
def anyio_backend() -> object:
    return ON_VIRTUAL_TIME


def key(name: str) -> tuple[str, Key]:
    return ("toy", Key("offer", name))


async def test_a_fresh_change_overtakes_a_backlog_that_its_own_key_is_about_to_join() -> None:
    now = 0.0
    queue = WorkQueue(lambda: now)
    queue.add(key("first"), Priority.BACKLOG)
    await queue.take()
    for number in range(100):
        queue.add(key(f"old-{number}"), Priority.BACKLOG)
    queue.add(key("news"), Priority.BACKLOG)

    queue.add(key("news"), Priority.FRESH)
    now = 1.0

    assert (await queue.take()).item == key("news")


async def test_entries_for_a_far_future_that_are_overtaken_do_not_pile_up() -> None:
    now = 0.0
    queue = WorkQueue(lambda: now)

    for _ in range(10_000):
        queue.add(key("busy"))
        turn = await queue.take()
        queue.add_after(turn.item, timedelta(days=1))
        queue.done(turn.item)
        now += 1.0

    assert len(queue._heap) < 2_000


class Restless:
    """Wants one object, and looks again whenever it hears how a write of it ended."""

    name = "restless"
    watches = (Watch(Role.LOCAL, ConfigMap, writes=Writes.OBJECTS),)

    def keys_for(self, change: Change, snapshot: Snapshot) -> Iterable[Key]:
        outcome_changed = isinstance(change, FactChange) and isinstance(change.fact, WriteOutcome)
        return [Key("thing")] if outcome_changed or isinstance(change, ObjectChange) else []

    def plan(self, key: Key, snapshot: Snapshot) -> Plan:
        return Plan((Desired(configmap("thing", SHOP), snapshot.local),))


async def test_a_server_that_fails_with_ever_new_messages_is_retried_with_backoff(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def with_new_message(random: Random) -> Response:
        status = {"kind": "Status", "code": 500, "message": f"trace {random.random()}"}
        return Response(500, msgspec.json.encode(status), {})

    monkeypatch.setattr(faults, "_refusal", with_new_message)
    async with toy_world("lubeck", features=(Restless(),)) as world:
        await asyncio.sleep(5)
        world.network.link("lubeck", "lubeck").faults = LinkFaults(
            delay=timedelta(milliseconds=1), refused=1.0
        )
        with world.network.counting_writes() as writes:
            await world.client("lubeck").create(configmap("order", SHOP))
            await asyncio.sleep(60)

        assert 2 <= len(writes) < 30


class LateRenewal:
    """The fence of a leader whose renewal comes late, but before anybody counts it as lost."""

    renewed = False

    def may_write(self, member: ClusterId | None) -> bool:
        return self.renewed


async def test_a_write_that_the_fence_held_back_for_a_moment_is_sent_after_it() -> None:
    async with toy_world("lubeck") as world:
        fence = LateRenewal()
        world.agents["lubeck"].reconciler.set_fence(fence)
        await world.client("lubeck").create(offer("bread", price="3"))
        await asyncio.sleep(1)

        fence.renewed = True
        await asyncio.sleep(30)

        assert await find_configmap(world, BROKER, "shop.bread.lubeck", "toy") is not None


async def test_a_write_that_the_client_kept_back_is_not_sent_once_the_lease_is_lost() -> None:
    async with toy_world("lubeck") as world:
        fence = LateRenewal()
        fence.renewed = True
        reconciler = world.agents["lubeck"].reconciler
        reconciler.set_fence(fence)
        await world.settle()
        api = reconciler.informers.connections[BROKER].api
        assert isinstance(api, ClusterClient)
        api.limit.width = 0
        await world.client("lubeck").create(offer("bread", price="3"))
        await asyncio.sleep(1)
        kept_back = api.limit.waiting

        fence.renewed = False
        api.limit.width = 16
        await api.list(ConfigMap, namespace=HOME)
        await asyncio.sleep(30)

        assert kept_back, "the write waited"
        assert await find_configmap(world, BROKER, "shop.bread.lubeck", "toy") is None


async def test_an_agent_that_starts_in_a_paused_fleet_reads_the_pause_before_it_writes() -> None:
    async with toy_world("lubeck", agents=False) as world:
        await define(world, BROKER, crd_of(ClusterSet))
        cluster_set = {
            "apiVersion": ClusterSet.kind.api_version,
            "kind": "ClusterSet",
            "metadata": {"name": "hansa"},
            "spec": {"paused": True},
        }
        path = f"/apis/{ClusterSet.kind.api_version}/{ClusterSet.kind.plural}"
        await world.client(BROKER).send(
            Request("POST", path, body=msgspec.json.encode(cluster_set))
        )
        await world.client("lubeck").create(offer("bread", price="3"))
        world.network.link("lubeck", BROKER).faults = LinkFaults(delay=timedelta(seconds=2))

        world.start_agent("lubeck")
        await world.settle()

        assert world.network.writes == []
        assert world.agents["lubeck"].reconciler.paused
        await world.stop()


async def test_mass_deletion_that_a_user_allowed_beforehand_is_not_held() -> None:
    async with toy_world("lubeck") as world:
        await world.client("lubeck").create(namespace("hanse-system"))
        allow = {"metadata": {"annotations": {ALLOW_MASS_DELETION: "toy"}}}
        await world.client("lubeck").patch(Namespace, "hanse-system", "", allow)
        for number in range(80):
            await world.client("lubeck").create(offer(f"bread-{number}", price="3"))
        await world.settle()
        reconciler = world.agents["lubeck"].reconciler

        world.network.cut("lubeck", "lubeck")
        await asyncio.sleep(10)
        for number in range(80):
            await world.client("lubeck").delete(ConfigMap, f"bread-{number}", SHOP)
        world.clusters["lubeck"].storage.compact()
        world.network.heal_all()
        await world.settle()

        held = {"cluster": BROKER, "feature": "toy"}
        assert (
            reconciler.metrics.registry.get_sample_value("hanse_held_deletions_total", held) is None
        )
        assert await find_configmap(world, BROKER, "shop.bread-0.lubeck", "toy") is None


async def test_an_agent_that_cannot_read_the_pause_at_its_start_writes_nothing_until_then() -> None:
    async with toy_world("lubeck") as world:
        await world.client("lubeck").create(offer("bread", price="3"))
        await world.settle()
        await world.kill_agent("lubeck")
        unmarked = {"metadata": {"annotations": {OFFERED: "no"}}}
        await world.client("lubeck").patch(ConfigMap, "bread", SHOP, unmarked)

        world.network.cut("lubeck", BROKER)
        with world.network.counting_writes() as writes:
            world.start_agent("lubeck")
            await asyncio.sleep(60)
        why = world.agents["lubeck"].reconciler.paused
        world.network.heal_all()
        await asyncio.sleep(120)
        await world.settle()

        assert writes == []
        assert why == "broker cannot be reached to say whether writes are paused"
        assert not world.agents["lubeck"].reconciler.paused
        repaired = await world.client("lubeck").read(ConfigMap, "bread", SHOP)
        assert repaired.metadata.annotations[OFFERED] == "yes"
