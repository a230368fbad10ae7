"""When keys are planned and writes are held: work queue, retries, pause, mass deletion."""

import asyncio
from collections.abc import Iterable, Sequence
from datetime import timedelta
from random import Random

import msgspec
import pytest

from hanse.kube.transport import Request, Response
from hanse.model.crds import crd_of
from hanse.model.facts import Role, WriteOutcome
from hanse.model.kinds.core import ConfigMap, Namespace
from hanse.model.kinds.hanse import ClusterSet
from hanse.model.objects import K, Meta
from hanse.model.ownership import ALLOW_MASS_DELETION
from hanse.model.plan import Desired, Key, Plan
from hanse.model.snapshot import Change, FactChange, ObjectChange, Snapshot, Watch, Writes
from hanse.runtime.external import ExternalApi
from hanse.runtime.workqueue import Priority, WorkQueue
from tests.runtime.test_reconciler import define
from tests.runtime.toy_world import (
    SHOP,
    ExternalFeature,
    InMemorySystem,
    find_configmap,
    offer,
    toy_world,
)
from tests.support import faults
from tests.support.builders import configmap, namespace
from tests.support.faults import LinkFaults
from tests.support.toy import OFFERED
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


async def test_wishes_for_a_far_future_that_are_overtaken_do_not_pile_up() -> None:
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
        told = isinstance(change, FactChange) and isinstance(change.fact, WriteOutcome)
        return [Key("thing")] if told or isinstance(change, ObjectChange) else []

    def plan(self, key: Key, snapshot: Snapshot) -> Plan:
        return Plan((Desired(configmap("thing", SHOP), snapshot.local),))


async def test_a_server_that_fails_in_ever_new_words_is_not_asked_without_a_pause(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def in_new_words(random: Random) -> Response:
        told = {"kind": "Status", "code": 500, "message": f"trace {random.random()}"}
        return Response(500, msgspec.json.encode(told), {})

    monkeypatch.setattr(faults, "_refusal", in_new_words)
    async with toy_world("lubeck", features=(Restless(),)) as world:
        await asyncio.sleep(5)
        world.network.link("lubeck", "lubeck").faults = LinkFaults(
            delay=timedelta(milliseconds=1), refused=1.0
        )
        with world.network.counting_writes() as writes:
            await world.client("lubeck").create(configmap("order", SHOP))
            await asyncio.sleep(60)

        assert 2 <= len(writes) < 30


async def test_an_agent_that_starts_in_a_paused_fleet_reads_the_brake_before_it_writes() -> None:
    async with toy_world("lubeck", agents=False) as world:
        await define(world, BROKER, crd_of(ClusterSet))
        informers = {
            "apiVersion": ClusterSet.kind.api_version,
            "kind": "ClusterSet",
            "metadata": {"name": "hansa"},
            "spec": {"paused": True},
        }
        path = f"/apis/{ClusterSet.kind.api_version}/{ClusterSet.kind.plural}"
        await world.client(BROKER).send(Request("POST", path, body=msgspec.json.encode(informers)))
        await world.client("lubeck").create(offer("bread", price="3"))
        world.network.link("lubeck", BROKER).faults = LinkFaults(delay=timedelta(seconds=2))

        world.start_agent("lubeck")
        await world.settle()

        assert world.network.writes == []
        assert world.agents["lubeck"].reconciler.paused
        await world.stop()


async def test_mass_deletion_that_a_person_allowed_beforehand_is_not_held() -> None:
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


async def test_an_outside_row_that_comes_back_as_it_was_is_seen_at_once() -> None:
    async with toy_world("lubeck", features=(ExternalFeature(),), agents=False) as world:
        ledger = InMemorySystem()
        reconciler = world.reconciler("lubeck")
        outside = ExternalApi(ledger, poll_interval=lambda: timedelta(hours=1))
        reconciler.informers.join("ledger", {Role.MEMBER}, outside)
        client = world.client("lubeck")
        async with reconciler.running():
            for _ in range(3):
                await client.create(configmap("row", SHOP, sum="1"))
                await asyncio.sleep(60)
                assert reconciler.snapshot().get("ledger", ConfigMap, "row") is not None
                await client.delete(ConfigMap, "row", SHOP)
                await asyncio.sleep(60)

        assert ledger.rows == {}
        assert outside._versions == {}, "what is gone is remembered for ever"


async def test_a_list_of_an_outside_system_that_a_write_overtook_is_read_again() -> None:
    class Slow(InMemorySystem):
        async def list(self, kind: type[K]) -> Sequence[K]:
            rows = await super().list(kind)
            await asyncio.sleep(1)
            return rows

    ledger = Slow()
    outside = ExternalApi(ledger)
    listing = asyncio.create_task(outside.list(ConfigMap))
    await asyncio.sleep(0.5)
    made = outside._count_write(await ledger.create(ConfigMap(metadata=Meta(name="row"))))

    listed = await listing

    assert [o.metadata.name for o in listed.objects] == ["row"]
    assert int(listed.resource_version) >= int(made.metadata.resource_version)


async def test_an_agent_that_cannot_read_the_brake_at_its_start_writes_nothing_until_then() -> None:
    async with toy_world("lubeck") as world:
        await world.client("lubeck").create(offer("bread", price="3"))
        await world.settle()
        await world.kill_agent("lubeck")
        undone = {"metadata": {"annotations": {OFFERED: "no"}}}
        await world.client("lubeck").patch(ConfigMap, "bread", SHOP, undone)

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
        mended = await world.client("lubeck").read(ConfigMap, "bread", SHOP)
        assert mended.metadata.annotations[OFFERED] == "yes"
