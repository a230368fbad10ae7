"""Beyond the sixteen rules: pause, Events, faulty features, restored clusters, bad objects."""

import asyncio
from collections.abc import Iterable
from datetime import timedelta

import pytest
from msgspec.structs import replace

from hanse.kube.lease_observer import RECONNECT_TIME
from hanse.model.facts import (
    ClusterState,
    PausedObject,
    Phase,
    Role,
)
from hanse.model.kinds.coordination import Lease
from hanse.model.kinds.core import ConfigMap, Event, Namespace, Pod, Secret, Service
from hanse.model.kinds.discovery import EndpointSlice
from hanse.model.plan import Key, Plan
from hanse.model.snapshot import Change, FactChange, ObjectChange, Snapshot, Watch, Writes
from hanse.runtime.connection import RECOVERY
from tests.runtime.toy_world import SHOP, find_configmap, offer, prices, toy_world
from tests.support.builders import namespace
from tests.support.faults import LinkFaults, Sent
from tests.support.toy import HOME, Toy
from tests.support.world import BROKER, World
from tinykube.virtual_time import ON_VIRTUAL_TIME


@pytest.fixture
def anyio_backend() -> object:
    return ON_VIRTUAL_TIME


async def test_a_pause_stops_writes_until_it_is_lifted() -> None:
    async with toy_world("lubeck") as world:
        await world.client("lubeck").create(namespace("hanse-system"))
        pause = {"metadata": {"annotations": {"hanse.dev/paused": "true"}}}
        await world.client("lubeck").patch(Namespace, "hanse-system", "", pause)
        await asyncio.sleep(5)
        with world.network.counting_writes() as writes:
            await world.client("lubeck").create(offer("bread", price="3"))
            await world.settle()
        assert writes == []

        lift = {"metadata": {"annotations": {"hanse.dev/paused": None}}}
        await world.client("lubeck").patch(Namespace, "hanse-system", "", lift)
        await world.settle()

        assert prices(await find_configmap(world, "lubeck", "copy-of-bread")) == {"lubeck": "3"}


async def test_an_event_is_recorded_only_with_a_patch_that_was_needed() -> None:
    async with toy_world("lubeck") as world:
        heard: list[Change] = []
        world.agents["lubeck"].reconciler.event_handlers.append(heard.append)
        await world.client("lubeck").create(offer("bread", price="3"))
        await world.settle()
        await world.kill_agent("lubeck")
        world.start_agent("lubeck").event_handlers.append(heard.append)
        await world.settle()

        events = [
            o for c in heard if isinstance(c, ObjectChange) and isinstance(o := c.object, Event)
        ]
        assert [e.involved_object.name for e in events] == ["bread"]
        events = [
            e for e in (await world.client("lubeck").list(Event)).objects if e.reason == "Offered"
        ]
        assert [(e.involved_object.name, e.count) for e in events] == [("bread", 1)]


async def test_a_plan_that_raises_holds_up_nobody_else() -> None:
    class Clumsy(Toy):
        def plan(self, key: Key, snapshot: Snapshot) -> Plan:
            if key.name == "salt":
                raise ZeroDivisionError
            return super().plan(key, snapshot)

    async with toy_world("lubeck", features=(Clumsy(),)) as world:
        await world.client("lubeck").create(offer("salt", price="3"))
        await world.client("lubeck").create(offer("bread", price="3"))
        await world.settle()

        registry = world.agents["lubeck"].reconciler.metrics.registry
        failed = registry.get_sample_value("hanse_failed_plans_total", {"feature": "toy"})
        assert failed is not None
        assert 1 <= failed < 30, "it is tried again, more and more slowly"
        assert prices(await find_configmap(world, "lubeck", "copy-of-bread")) == {"lubeck": "3"}


async def test_a_feature_that_cannot_take_a_change_in_holds_up_nobody_else() -> None:
    class Deaf(Toy):
        name = "deaf"

        def keys_for(self, change: Change, snapshot: Snapshot) -> Iterable[Key]:
            raise ZeroDivisionError

    async with toy_world("lubeck", features=(Deaf(), Toy())) as world:
        await world.client("lubeck").create(offer("bread", price="3"))
        await world.settle()

        assert prices(await find_configmap(world, "lubeck", "copy-of-bread")) == {"lubeck": "3"}


async def test_a_restored_cluster_is_read_again_before_anything_is_written_there() -> None:
    async with toy_world() as world:
        await world.client("lubeck").create(offer("bread", price="3"))
        await world.settle()
        backup = world.clusters[BROKER].storage.snapshot()
        await world.client("lubeck").create(offer("salt", price="5"))
        await world.settle()

        world.clusters[BROKER].storage.restore(backup)
        with world.network.counting_writes() as writes:
            await world.settle()

        assert not [w for w in writes if "of-salt" in w.request.path], "copies do not flap"
        for name in world.names:
            state = world.agents[name].reconciler.informers.facts.get(ClusterState, BROKER)
            assert state is not None
            assert state.phase is Phase.SYNCED
            assert prices(await find_configmap(world, name, "copy-of-salt")) == {"lubeck": "5"}
        assert await find_configmap(world, BROKER, "shop.salt.lubeck", HOME) is not None


async def test_a_restored_cluster_is_listed_once_more_and_not_again_for_the_same_restore() -> None:
    async with toy_world("lubeck") as world:
        await world.settle()
        backup = world.clusters["lubeck"].storage.snapshot()
        await world.client("lubeck").create(offer("salt", price="5"))
        await world.settle()
        home = world.agents["lubeck"].reconciler.informers.connections["lubeck"]
        before = {scope: informer.store.lists for scope, informer in home.informers.items()}

        world.clusters["lubeck"].storage.restore(backup)
        await asyncio.sleep(60)

        lists = [i.store.lists - before[scope] for scope, i in home.informers.items()]
        assert lists == [1] * len(before)


async def test_a_second_restore_is_recovered_from_in_its_own_time() -> None:
    async with toy_world("lubeck") as world:
        await world.settle()
        backup = world.clusters["lubeck"].storage.snapshot()
        home = world.agents["lubeck"].reconciler.informers.connections["lubeck"]
        for name in ("salt", "bread"):
            await world.client("lubeck").create(offer(name, price="5"))
            await asyncio.sleep(5)
            world.clusters["lubeck"].storage.restore(backup)
            await asyncio.sleep(15)

        await asyncio.sleep(RECOVERY.total_seconds() - 18)
        assert home.recovering, "the second has its full time"
        await asyncio.sleep(5)
        assert not home.recovering


async def test_a_recovery_lets_no_time_pass_while_the_cluster_cannot_be_seen() -> None:
    async with toy_world("lubeck") as world:
        await world.settle()
        backup = world.clusters["lubeck"].storage.snapshot()
        home = world.agents["lubeck"].reconciler.informers.connections["lubeck"]
        await world.client("lubeck").create(offer("salt", price="5"))
        await asyncio.sleep(5)

        world.clusters["lubeck"].storage.restore(backup)
        await asyncio.sleep(10)
        world.network.cut("lubeck", "lubeck")
        await asyncio.sleep(RECOVERY.total_seconds() * 2)
        world.network.heal_all()
        await asyncio.sleep(RECONNECT_TIME)

        assert home.state.phase is Phase.SYNCED
        assert home.recovering, "what was done meanwhile has its time, too"
        await asyncio.sleep(RECOVERY.total_seconds())
        assert not home.recovering


async def test_informers_that_sync_together_check_the_identity_a_few_times_at_most() -> None:
    class Curious(Toy):
        watches = (
            *Toy.watches,
            *(Watch(Role.LOCAL, kind) for kind in (Pod, Secret, Service, Lease, EndpointSlice)),
        )

    async with toy_world("lubeck", features=(Curious(),)) as world:
        await asyncio.sleep(5)

        home = world.agents["lubeck"].reconciler.informers.connections["lubeck"]
        asked = [s for s in world.network.sent if s.target == "lubeck" and _is_identity(s)]
        assert len(home.informers) > 5
        assert 1 <= len(asked) <= 3, "before Leases are listed, and once or twice after the syncs"
        assert home.identity, "and it is known then"


async def test_a_few_requests_refused_do_not_make_a_cluster_unreachable() -> None:
    async with toy_world() as world:
        await world.settle()
        phases: list[str] = []
        reconciler = world.agents["lubeck"].reconciler
        reconciler.event_handlers.append(lambda change: phases.extend(_broker_phase(change)))

        link = world.network.link("lubeck", BROKER)
        for _ in range(5):
            link.faults = LinkFaults(refused=1.0)
            world.network.break_watches("lubeck", BROKER)
            await asyncio.sleep(2)
            link.faults = LinkFaults()
            await asyncio.sleep(20)
        await world.client("hamburg").create(offer("bread", price="3"))
        await asyncio.sleep(5)

        assert phases == []
        assert prices(await find_configmap(world, "lubeck", "copy-of-bread")) == {"hamburg": "3"}

        link.faults = LinkFaults(refused=1.0)
        world.network.break_watches("lubeck", BROKER)
        await asyncio.sleep(15)

        assert phases == [Phase.UNREACHABLE]


def _broker_phase(change: Change) -> list[str]:
    fact = change.after if isinstance(change, FactChange) else None
    return [fact.phase] if isinstance(fact, ClusterState) and fact.cluster == BROKER else []


def _is_identity(sent: Sent) -> bool:
    return sent.request.path.endswith("/namespaces/kube-system")


async def test_an_undecodable_object_is_counted_and_the_others_are_kept() -> None:
    async with toy_world("lubeck") as world:
        storage = world.clusters["lubeck"].storage
        bad = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "bad", "namespace": SHOP, "uid": "u"},
            "data": {"number": 5},
        }
        storage.create("configmaps", bad)
        await world.client("lubeck").create(offer("bread", price="3"))
        await world.settle()
        await world.kill_agent("lubeck")
        reconciler = world.start_agent("lubeck")
        await world.settle()

        unreadable = reconciler.metrics.registry.get_sample_value(
            "hanse_unreadable_objects", {"cluster": "lubeck", "kind": "ConfigMap"}
        )
        assert unreadable == 1
        assert prices(await find_configmap(world, "lubeck", "copy-of-bread")) == {"lubeck": "3"}


async def test_a_write_that_is_not_declared_is_a_mistake_and_is_not_sent() -> None:
    class Sneaky(Toy):
        watches: tuple[Watch, ...] = tuple(replace(w, writes=Writes.NOTHING) for w in Toy.watches)

    async with toy_world("lubeck", features=(Sneaky(),)) as world:
        await world.client("lubeck").create(offer("bread", price="3"))
        await world.settle()

        assert world.network.writes == []


async def test_two_who_disagree_do_not_fight_without_end() -> None:
    class Rival(Toy):
        """Thinks that there should be no sums."""

        def plan(self, key: Key, snapshot: Snapshot) -> Plan:
            return Plan() if key.topic == "sum" else super().plan(key, snapshot)

    world = World(("lubeck", "hamburg"), lambda: (Rival() if world.agents else Toy(),))
    for name in world.names:
        await world.client(name).create(namespace(SHOP))
    await world.client(BROKER).create(namespace(HOME))
    async with world.agents_running():
        await world.client("lubeck").create(offer("bread", price="3"))
        await world.settle(timedelta(minutes=10))

        sums = [
            w for w in world.network.writes if "sum" in w.request.path or b"sum" in w.request.body
        ]
        assert 2 <= len(sums) < 60


async def test_an_object_that_a_person_paused_is_a_fact_until_it_is_resumed() -> None:
    async with toy_world("lubeck") as world:
        client = world.client("lubeck")
        await client.create(offer("bread", price="3"))
        await world.settle()
        copy = await find_configmap(world, "lubeck", "copy-of-bread")
        assert copy is not None
        facts = world.agents["lubeck"].reconciler.informers.facts

        for value, found in (("true", ["copy-of-bread"]), (None, [])):
            change = {"metadata": {"annotations": {"hanse.dev/paused": value}}}
            await client.patch(ConfigMap, copy.name, copy.namespace, change)
            await world.settle()
            assert [one.target.ref.name for one in facts.all(PausedObject)] == found
