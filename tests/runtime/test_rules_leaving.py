"""Outside systems, leaving and previews: rules 14 to 16."""

import asyncio
import time

import msgspec
import pytest
from msgspec.structs import replace

from hanse.kube.errors import Unanswered
from hanse.kube.transport import Request
from hanse.local.in_process import InProcessTransport
from hanse.model.facts import (
    Role,
)
from hanse.model.kinds.core import ConfigMap
from hanse.model.objects import ClusterObjectRef, K, Meta, ObjectRef
from hanse.model.plan import Key, Plan
from hanse.model.snapshot import Snapshot
from hanse.runtime.actions import Create
from hanse.runtime.api import ClusterClient
from hanse.runtime.background_task import running_task
from hanse.runtime.broker_membership import BrokerMembership
from hanse.runtime.external import ExternalApi
from hanse.runtime.leaving import force_leave, leave
from hanse.runtime.preview import preview
from tests.runtime.toy_world import (
    SHOP,
    ExternalFeature,
    InMemorySystem,
    find_configmap,
    offer,
    toy_world,
)
from tests.support.builders import configmap
from tests.support.faults import Link
from tests.support.toy import HOME, Toy
from tests.support.world import BROKER
from tinykube.virtual_time import ON_VIRTUAL_TIME


@pytest.fixture
def anyio_backend() -> object:
    return ON_VIRTUAL_TIME


# 14


async def test_rule_14_an_outside_system_is_served_by_the_same_comparison() -> None:
    async with toy_world("lubeck", features=(ExternalFeature(),), agents=False) as world:
        ledger = InMemorySystem()
        ledger.rows["old"] = ConfigMap(metadata=Meta(name="old"), data={"by": "a person"})
        reconciler = world.reconciler("lubeck")
        reconciler.informers.join("ledger", {Role.MEMBER}, ExternalApi(ledger))
        client = world.client("lubeck")
        async with reconciler.running():
            await client.create(configmap("old", SHOP, sum="1"))
            await client.create(configmap("new", SHOP, sum="2"))
            await asyncio.sleep(60)
            assert ledger.rows["old"].data == {"by": "a person"}
            assert ledger.rows["new"].data == {"sum": "2"}

            ledger.rows["new"] = replace(ledger.rows["new"], data={"sum": "wrong"})
            await asyncio.sleep(60)
            assert ledger.rows["new"].data == {"sum": "2"}, "a change by hand is put back"

            ledger.down = True
            await asyncio.sleep(60)
            await client.delete(ConfigMap, "new", SHOP)
            ledger.down = False
            await asyncio.sleep(60)
            assert set(ledger.rows) == {"old"}


# 15


async def test_rule_15_a_cluster_is_left_when_nothing_of_ours_is_in_it() -> None:
    async with toy_world() as world:
        for name in world.names:
            await world.client(name).create(offer("bread", price="3"))
        await world.settle()
        reconciler = world.agents["lubeck"].reconciler

        left = await leave(reconciler, BROKER)
        await world.settle()

        assert left.abandoned == ()
        assert await find_configmap(world, BROKER, "shop.bread.lubeck", HOME) is None
        assert await find_configmap(world, BROKER, "shop.bread.hamburg", HOME) is not None
        assert await find_configmap(world, "lubeck", "copy-of-bread") is None
        assert BROKER not in reconciler.informers.connections


async def test_rule_15_leaving_waits_until_finalizers_let_go_of_what_is_ours() -> None:
    async with toy_world("lubeck") as world:
        await world.client("lubeck").create(offer("bread", price="3"))
        await world.settle()
        broker, reconciler = world.client(BROKER), world.agents["lubeck"].reconciler
        held = {"metadata": {"finalizers": ["example.org/archive"]}}
        await broker.patch(ConfigMap, "shop.bread.lubeck", HOME, held)

        leaving = asyncio.create_task(leave(reconciler, BROKER))
        await asyncio.sleep(60)
        assert not leaving.done()
        assert BROKER in reconciler.informers.connections

        await broker.patch(ConfigMap, "shop.bread.lubeck", HOME, {"metadata": {"finalizers": None}})
        async with asyncio.timeout(60):
            await leaving
        assert await find_configmap(world, BROKER, "shop.bread.lubeck", HOME) is None


async def test_rule_15_leaving_waits_for_an_unreachable_cluster_and_force_does_not() -> None:
    async with toy_world("lubeck") as world:
        await world.client("lubeck").create(offer("bread", price="3"))
        await world.settle()
        reconciler = world.agents["lubeck"].reconciler
        world.network.cut("lubeck", BROKER)

        with pytest.raises(TimeoutError):
            async with asyncio.timeout(600):
                await leave(reconciler, BROKER)
        left = await force_leave(reconciler, BROKER)
        await world.settle()

        assert (
            ClusterObjectRef(BROKER, ObjectRef(ConfigMap.kind, "shop.bread.lubeck", HOME))
            in left.abandoned
        )
        assert await find_configmap(world, "lubeck", "copy-of-bread") is None


async def test_rule_15_a_write_under_way_when_a_leave_begins_leaves_nothing_behind() -> None:
    async with toy_world("lubeck") as world:
        await world.settle()
        reconciler, sent = world.agents["lubeck"].reconciler, asyncio.Event()

        async def take_long(link: Link, _: Request) -> None:
            if link.target == BROKER:
                sent.set()
                await asyncio.sleep(5)

        world.network.before_write = take_long
        await world.client("lubeck").create(offer("bread", price="3"))
        await sent.wait()
        async with asyncio.timeout(60):
            await leave(reconciler, BROKER)
        await world.settle()

        assert await find_configmap(world, BROKER, "shop.bread.lubeck", HOME) is None


@pytest.mark.parametrize(
    ("waits", "lands"), [(0, 20), (30, 50)], ids=["it was sent at once", "it had to wait"]
)
async def test_rule_15_a_write_without_an_answer_leaves_nothing_behind_if_it_lands_later(
    waits: float, lands: float
) -> None:
    async with toy_world("lubeck") as world, asyncio.TaskGroup() as group:
        await world.settle()
        reconciler, sent = world.agents["lubeck"].reconciler, asyncio.Event()

        async def land(request: Request) -> None:
            await asyncio.sleep(lands)
            await InProcessTransport(world.clusters[BROKER]).send(request)

        async def lose_answer(link: Link, request: Request) -> None:
            if link.target == BROKER and request.method == "POST" and not sent.is_set():
                sent.set()
                await asyncio.sleep(waits)
                group.create_task(land(request), name="land")
                raise Unanswered("no answer within 10 s")

        world.network.before_write = lose_answer
        await world.client("lubeck").create(offer("bread", price="3"))
        await sent.wait()
        async with asyncio.timeout(120):
            await leave(reconciler, BROKER)
        await world.settle()

        assert await find_configmap(world, BROKER, "shop.bread.lubeck", HOME) is None
        assert await find_configmap(world, BROKER, "sum.shop.bread", HOME) is None


# 16


async def test_rule_16_a_preview_shows_what_would_be_written_and_writes_nothing() -> None:
    async with toy_world("lubeck") as world:
        await world.settle()
        reconciler = world.agents["lubeck"].reconciler
        with world.network.counting_writes() as writes:
            would = preview(reconciler, [("lubeck", offer("bread", price="3"))])
            await world.settle()

        made = {(a.where, a.object.metadata.name) for a in would.actions if isinstance(a, Create)}
        assert writes == []
        assert made == {
            (BROKER, "shop.bread.lubeck"),
            (BROKER, "sum.shop.bread"),
            ("lubeck", "copy-of-bread"),
            ("lubeck", "receipt-of-bread"),
        }
        assert reconciler.snapshot().get("lubeck", ConfigMap, "bread", SHOP) is None


async def test_rule_16_a_plan_that_takes_too_long_is_counted() -> None:
    class Slow(Toy):
        def plan(self, key: Key, snapshot: Snapshot) -> Plan:
            time.sleep(0.025)  # the plan itself is slow: this is what is measured
            return super().plan(key, snapshot)

    async with toy_world("lubeck", features=(Slow(),)) as world:
        await world.client("lubeck").create(offer("bread", price="3"))
        await world.settle()

        registry = world.agents["lubeck"].reconciler.metrics.registry
        slow = registry.get_sample_value("hanse_slow_plans_total", {"feature": "toy"})
        assert slow is not None
        assert slow >= 1


# and what stands around them


class LastRead(ClusterClient):
    """A client that has read the record of a leaving cluster, which is deleted since."""

    async def read(self, kind: type[K], name: str, namespace: str = "") -> K:
        spec = {"clusterID": name, "uid": "1"}
        record = {"metadata": {"name": name}, "spec": spec, "status": {"phase": "Leaving"}}
        return msgspec.convert(record, kind)


async def test_a_cluster_whose_record_is_deleted_while_it_leaves_has_left() -> None:
    async with toy_world("lubeck") as world:
        await world.settle()
        reconciler = world.agents["lubeck"].reconciler
        client = LastRead(InProcessTransport(world.clusters[BROKER]))
        membership = BrokerMembership(reconciler, client, BROKER, HOME, world.clock)

        async with asyncio.timeout(60), running_task(membership.run(lambda: True), "membership"):
            while not membership.has_left:  # noqa: ASYNC110 - it has no event
                await asyncio.sleep(1)

        assert membership.has_left
        assert BROKER not in reconciler.informers.connections
