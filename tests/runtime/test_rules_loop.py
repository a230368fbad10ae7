"""Shared objects, waking, silence and mass disappearance: rules 10 to 13."""

import asyncio
from datetime import timedelta

import pytest

from hanse.model.facts import DeletionsHeld
from hanse.model.held_deletions import reported_holds
from hanse.model.kinds.coordination import Lease
from hanse.model.kinds.core import ConfigMap
from hanse.model.naming import AGENT
from hanse.model.plan import Key, Plan
from hanse.model.snapshot import Change, FactChange, Snapshot
from hanse.runtime.leader_election import LeaderElections
from tests.runtime.toy_world import SHOP, find_configmap, get_configmap, offer, toy_world
from tests.support.faults import LinkFaults
from tests.support.toy import HOME, Toy
from tests.support.world import BROKER
from tinykube.virtual_time import ON_VIRTUAL_TIME


@pytest.fixture
def anyio_backend() -> object:
    return ON_VIRTUAL_TIME


# 10


async def test_rule_10_the_first_in_order_writes_what_is_shared_and_the_next_steps_in() -> None:
    async with toy_world() as world:
        for name in world.names:
            await world.client(name).create(offer("bread", price="3"))
        await world.settle()
        sums = [w for w in world.network.writes if b"sum.shop.bread" in w.request.body]
        assert {w.source for w in sums if w.request.method == "POST"} <= {"lubeck", "hamburg"}

        await world.kill_agent("hamburg")
        with world.network.counting_writes() as writes:
            await world.client(BROKER).delete(ConfigMap, "sum.shop.bread", HOME)
            await asyncio.sleep(5)

        assert [(w.source, w.status) for w in writes] == [("lubeck", 201)]


# 11


async def test_rule_11_many_changes_of_one_key_make_few_plans() -> None:
    plans = 0

    class Counting(Toy):
        def plan(self, key: Key, snapshot: Snapshot) -> Plan:
            nonlocal plans
            plans += key == Key("offer", "bread", SHOP)
            return super().plan(key, snapshot)

    async with toy_world("lubeck", features=(Counting(),)) as world:
        client = world.client("lubeck")
        await client.create(offer("bread", price="0"))
        for price in range(1, 200):
            await client.patch(ConfigMap, "bread", SHOP, {"data": {"price": str(price)}})
        await world.settle()

        record = await get_configmap(world, BROKER, "shop.bread.lubeck", HOME)
        assert record.data == {"price": "199"}
        assert plans < 40


# 12


async def test_rule_12_restarting_an_agent_over_a_settled_fleet_writes_nothing() -> None:
    async with toy_world() as world:
        for name in world.names:
            for number in range(20):
                await world.client(name).create(offer(f"bread-{number}", price="3"))
        await world.settle()

        with world.network.counting_writes() as writes:
            for name in world.names:
                await world.kill_agent(name)
                world.start_agent(name)
            await world.settle(timedelta(hours=1))

        assert writes == []


# 13


async def test_rule_13_mass_disappearance_is_held_until_a_second_list_agrees(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with toy_world("lubeck") as world:
        for number in range(80):
            await world.client("lubeck").create(offer(f"bread-{number}", price="3"))
        await world.settle()
        reconciler = world.agents["lubeck"].reconciler
        holds = [
            DeletionsHeld(BROKER, "toy"),
            DeletionsHeld("lubeck", "toy"),
        ]
        began, ended = [], []

        def on_change(change: Change) -> None:
            match change:
                case FactChange(None, DeletionsHeld() as held):
                    began.append(held)
                case FactChange(DeletionsHeld() as held, None):
                    ended.append(held)

        reconciler.event_handlers.append(on_change)
        world.network.cut("lubeck", "lubeck")
        await asyncio.sleep(10)
        for number in range(80):
            await world.client("lubeck").delete(ConfigMap, f"bread-{number}", SHOP)
        world.clusters["lubeck"].storage.compact()
        world.network.heal_all()
        await world.settle()

        assert sorted(began, key=lambda one: one.key) == holds
        assert sorted(ended, key=lambda one: one.key) == holds

        held = reconciler.metrics.registry.get_sample_value(
            "hanse_held_deletions_total", {"cluster": BROKER, "feature": "toy"}
        )
        assert held is not None
        assert held > 0
        assert await find_configmap(world, BROKER, "shop.bread-0.lubeck", HOME) is None
        told: dict[str, list[str]] = {}
        for record in caplog.records:
            if record.name == "hanse.runtime.mass_deletion":
                told.setdefault(vars(record)["cluster"], []).append(record.message)
        held_and_confirmed = ["deletions held: too much vanished at once", "deletions go on"]
        assert told == {BROKER: held_and_confirmed, "lubeck": held_and_confirmed}


async def test_rule_13_the_lease_of_an_agent_says_what_it_holds_while_it_does() -> None:
    async with toy_world("lubeck") as world:
        home = world.client("lubeck")
        for number in range(80):
            await home.create(offer(f"bread-{number}", price="3"))
        await world.settle()
        informers = world.agents["lubeck"].reconciler.informers
        elections = LeaderElections(informers, "lubeck_1", clock=world.clock, random=world.random)
        async with elections.running():
            elections.contend_among_replicas(home, SHOP, lambda _: None)
            await asyncio.sleep(10)

            world.network.cut("lubeck", "lubeck")
            await asyncio.sleep(10)
            for number in range(80):
                await home.delete(ConfigMap, f"bread-{number}", SHOP)
            world.clusters["lubeck"].storage.compact()
            # The list that is to agree takes its time.
            world.network.link("lubeck", BROKER).faults = LinkFaults(delay=timedelta(seconds=20))
            world.network.heal("lubeck", "lubeck")
            await asyncio.sleep(20)
            held = reported_holds(await home.read(Lease, AGENT, SHOP))
            world.network.heal_all()
            await world.settle()
            after = reported_holds(await home.read(Lease, AGENT, SHOP))

        assert held == (DeletionsHeld(BROKER, "toy"),)
        assert after == ()


async def test_rule_13_deletions_seen_on_a_live_watch_are_no_surprise() -> None:
    async with toy_world("lubeck") as world:
        for number in range(80):
            await world.client("lubeck").create(offer(f"bread-{number}", price="3"))
        await world.settle()
        reconciler = world.agents["lubeck"].reconciler

        for number in range(80):
            await world.client("lubeck").delete(ConfigMap, f"bread-{number}", SHOP)
        await asyncio.sleep(10)

        assert reconciler.mass_deletion.holds == ()
        assert await find_configmap(world, BROKER, "shop.bread-79.lubeck", HOME) is None
