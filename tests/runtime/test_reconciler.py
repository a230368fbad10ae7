"""Which writes the reconciler sends, when and by whom: ownership, steps, retries, previews."""

import asyncio
from collections.abc import Iterable
from datetime import timedelta
from itertools import pairwise

import msgspec
import pytest
from msgspec.structs import replace

from hanse.kube.transport import Request
from hanse.model.crds import crd_of
from hanse.model.facts import Leadership, Phase, Role, WriteOutcome
from hanse.model.kinds.core import ConfigMap, Namespace
from hanse.model.kinds.multicluster import ServiceExport
from hanse.model.objects import ClusterId, ClusterObjectRef, Meta, Wire, object_ref
from hanse.model.plan import Desired, InOrder, Key, Plan
from hanse.model.snapshot import Change, ObjectChange, Snapshot, Watch, Writes
from hanse.runtime.actions import Create
from hanse.runtime.diff import diff
from hanse.runtime.leaving import force_leave, leave
from hanse.runtime.ownership import Owner, owner_of, with_owner
from hanse.runtime.preview import preview
from tests.runtime.toy_world import (
    SHOP,
    LeaderFeature,
    find_configmap,
    get_configmap,
    offer,
    prices,
    toy_world,
)
from tests.support.builders import cluster, configmap, namespace, snapshot, stored
from tests.support.faults import LinkFaults
from tests.support.toy import HOME, Toy
from tests.support.world import BROKER, World
from tinykube.virtual_time import ON_VIRTUAL_TIME

RECORD_KEY = Key("offer", "bread", SHOP)


@pytest.fixture
def anyio_backend() -> object:
    return ON_VIRTUAL_TIME


async def define(world: World, where: str, definition: Wire) -> None:
    """Teach a cluster a kind."""
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    request = Request("POST", path, body=msgspec.json.encode(definition))
    await world.client(where).send(request)


# ownership


def test_a_leader_leaves_alone_what_the_members_own_agent_wrote() -> None:
    theirs = Owner("toy", RECORD_KEY, "hamburg")
    record = stored(with_owner(configmap("shop.bread.hamburg", HOME), theirs))
    view = snapshot(
        Toy(),
        "lubeck",
        [cluster("lubeck", Role.LOCAL), cluster(BROKER, Role.BROKER)],
        {BROKER: [record]},
        [Leadership("hamburg", "lubeck_1", 1, ours=True)],
    )

    wanted = diff("toy", RECORD_KEY, Plan(), [(BROKER, theirs, record)], view)

    assert wanted.actions == ()


def test_a_members_own_agent_leaves_alone_what_its_leader_wrote() -> None:
    connected = [cluster("lubeck", Role.LOCAL), cluster("child", Role.MEMBER, Role.LED)]
    lead = Leadership("child", "lubeck_1", 0, ours=True)
    desired = Desired(configmap("law", SHOP), "child", as_leader_of="child")
    by_leader = snapshot(LeaderFeature(), "lubeck", connected, {}, [lead])
    (create,) = diff("crown", Key("crown"), Plan((desired,)), [], by_leader).actions
    assert isinstance(create, Create)
    law = stored(create.object)
    owner = owner_of(law)
    assert owner is not None

    at_home = snapshot(LeaderFeature(), "child", [cluster("child", Role.LOCAL)], {"child": [law]})
    wanted = diff("crown", Key("crown"), Plan(), [("child", owner, law)], at_home)
    as_leader = snapshot(LeaderFeature(), "lubeck", connected, {"child": [law]}, [lead])
    withdrawn = diff("crown", Key("crown"), Plan(), [("child", owner, law)], as_leader)

    assert wanted.actions == ()
    assert len(withdrawn.actions) == 1


async def test_leaving_by_force_ends_a_leaving_that_waits() -> None:
    async with toy_world("lubeck") as world:
        await world.client("lubeck").create(offer("bread", price="3"))
        await world.settle()
        reconciler = world.agents["lubeck"].reconciler
        world.network.cut("lubeck", BROKER)
        patient = asyncio.create_task(leave(reconciler, BROKER))
        await asyncio.sleep(60)

        await force_leave(reconciler, BROKER)
        left = await asyncio.wait_for(patient, 60)

        assert left.cluster == BROKER


async def test_a_repair_ends_when_writes_that_were_forbidden_are_done() -> None:
    async with toy_world("lubeck") as world:
        await world.settle()
        reconciler = world.agents["lubeck"].reconciler
        target = ClusterObjectRef(BROKER, object_ref(configmap("shop.bread.lubeck", HOME)))
        now = reconciler.snapshot().now
        reconciler.informers.put_fact(WriteOutcome(target, "Forbidden", "not yet", now))
        repairing = asyncio.create_task(reconciler.repair(BROKER, relist=False))
        await asyncio.sleep(20)
        assert not repairing.done(), "what the broker forbids is not there"

        reconciler.informers.drop_fact(WriteOutcome, target)

        async with asyncio.timeout(5):
            await repairing


async def test_a_repair_waits_until_the_local_cluster_is_listed() -> None:
    async with toy_world("lubeck") as world:
        await world.client("lubeck").create(offer("bread", price="3"))
        await world.settle()
        await world.kill_agent("lubeck")
        await world.client(BROKER).delete(ConfigMap, "shop.bread.lubeck", HOME)
        world.network.cut("lubeck", "lubeck")
        reconciler = world.start_agent("lubeck")
        repairing = asyncio.create_task(reconciler.repair(BROKER, relist=False))
        await asyncio.sleep(20)
        assert not repairing.done(), "nobody knows yet what belongs on the broker"

        world.network.heal("lubeck", "lubeck")
        async with asyncio.timeout(60):
            await repairing

        await world.client(BROKER).read(ConfigMap, "shop.bread.lubeck", HOME)


@pytest.mark.parametrize("slow", ["lubeck", BROKER])
async def test_a_repair_of_a_replica_that_takes_over_waits_until_it_has_listed_again(
    slow: str,
) -> None:
    """It would show others that this cluster is alive before it has repaired what they answer."""
    async with toy_world("lubeck") as world:
        await world.settle()
        reconciler = world.agents["lubeck"].reconciler
        reconciler.deactivate()
        late = LinkFaults(lag=timedelta(seconds=8), lags="configmaps")
        world.network.link("lubeck", "lubeck").faults = late
        world.network.link("lubeck", slow).faults = replace(late, delay=timedelta(seconds=2))
        await world.client("lubeck").create(offer("bread", price="3"))
        for name, connection in reconciler.informers.connections.items():
            reconciler.informers.relist_for_leader(name, connection.roles)
        reconciler.activate()

        async with asyncio.timeout(60):
            await reconciler.repair(BROKER, relist=False)

        await world.client(BROKER).read(ConfigMap, "shop.bread.lubeck", HOME)


# steps


class OrderedFeature:
    """Says which of its keys is more urgent, and remembers what it planned."""

    name = "ordered"
    watches = (Watch(Role.LOCAL, ConfigMap),)

    def __init__(self) -> None:
        self.planned: list[str] = []

    def keys_for(self, change: Change, snapshot: Snapshot) -> Iterable[Key]:
        return InOrder((Key("urgent"), Key("any")))

    def plan(self, key: Key, snapshot: Snapshot) -> Plan:
        self.planned.append(key.topic)
        return Plan()


async def test_keys_are_planned_in_the_order_that_their_feature_gives() -> None:
    feature = OrderedFeature()
    async with toy_world("lubeck", features=(feature,)) as world:
        await world.settle()
        feature.planned.clear()

        await world.client("lubeck").create(configmap("order", SHOP))
        await world.settle()

        assert feature.planned == ["urgent", "any"]


class TwoStepFeature:
    """Writes a foundation, whose name the cluster may refuse, and in the next step a roof."""

    name = "builder"
    watches = (Watch(Role.LOCAL, ConfigMap, writes=Writes.OBJECTS),)

    def keys_for(self, change: Change, snapshot: Snapshot) -> Iterable[Key]:
        return [Key("house")]

    def plan(self, key: Key, snapshot: Snapshot) -> Plan:
        order = snapshot.get(snapshot.local, ConfigMap, "order", SHOP)
        if order is None:
            return Plan()
        foundation = configmap(order.data["foundation"], SHOP)
        roof = configmap("roof", SHOP, tiles=order.data.get("tiles", "red"))
        return Plan((Desired(foundation, snapshot.local), Desired(roof, snapshot.local, step=1)))


async def test_a_later_step_waits_as_long_as_an_earlier_one_is_refused() -> None:
    async with toy_world("lubeck", features=(TwoStepFeature(),)) as world:
        client = world.client("lubeck")
        await client.create(configmap("order", SHOP, foundation="Not A Name"))
        await asyncio.sleep(2)
        await client.patch(ConfigMap, "order", SHOP, {"data": {"tiles": "blue"}})
        await world.settle(timedelta(minutes=30))
        too_early = await find_configmap(world, "lubeck", "roof")

        await client.patch(ConfigMap, "order", SHOP, {"data": {"foundation": "stone"}})
        await world.settle()

        assert too_early is None, "the roof was built on a foundation that was refused"
        assert (await get_configmap(world, "lubeck", "roof")).data == {"tiles": "blue"}


def test_a_later_step_waits_for_one_whose_sources_were_never_seen_whole() -> None:
    view = snapshot(
        TwoStepFeature(),
        "lubeck",
        [cluster("lubeck", Role.LOCAL), cluster(BROKER, Role.BROKER, phase=Phase.CONNECTING)],
        {},
    )
    first = Desired(configmap("stone", SHOP), "lubeck", sources=frozenset({BROKER}))
    second = Desired(configmap("roof", SHOP), "lubeck", step=1)

    assert diff("builder", Key("house"), Plan((first, second)), [], view).actions == ()


# retries


class NamespaceWaitingFeature:
    """Wants one object in a namespace, and watches nothing that tells of the namespace."""

    name = "settler"
    watches = (Watch(Role.LOCAL, ConfigMap, writes=Writes.OBJECTS),)

    def keys_for(self, change: Change, snapshot: Snapshot) -> Iterable[Key]:
        return [Key("hut")] if isinstance(change, ObjectChange) else []

    def plan(self, key: Key, snapshot: Snapshot) -> Plan:
        return Plan((Desired(configmap("hut", "island"), snapshot.local),))


async def test_what_a_missing_namespace_refused_is_written_as_soon_as_there_is_one() -> None:
    async with toy_world("lubeck", features=(NamespaceWaitingFeature(),)) as world:
        await world.client("lubeck").create(configmap("order", SHOP))
        await world.settle(timedelta(hours=1))

        await world.client("lubeck").create(namespace("island"))
        await asyncio.sleep(1)

        assert await find_configmap(world, "lubeck", "hut", "island") is not None


class KindWaitingFeature:
    """Wants an export for every ConfigMap, be the kind served or not."""

    name = "registrar"
    watches = (
        Watch(Role.LOCAL, ConfigMap),
        Watch(Role.LOCAL, ServiceExport, writes=Writes.OBJECTS),
    )

    def keys_for(self, change: Change, snapshot: Snapshot) -> Iterable[Key]:
        if isinstance(change, ObjectChange) and isinstance(change.object, ConfigMap):
            yield Key("entry", change.object.metadata.name, change.object.metadata.namespace)

    def plan(self, key: Key, snapshot: Snapshot) -> Plan:
        if snapshot.get(snapshot.local, ConfigMap, key.name, key.namespace) is None:
            return Plan()
        export = ServiceExport(metadata=Meta(name=key.name, namespace=key.namespace))
        return Plan((Desired(export, snapshot.local),))


async def test_what_waits_for_a_kind_is_written_as_soon_as_it_is_served() -> None:
    async with toy_world("lubeck", features=(KindWaitingFeature(),)) as world:
        client = world.client("lubeck")
        await client.create(configmap("order", SHOP))
        await world.settle()

        await define(world, "lubeck", crd_of(ServiceExport))
        await world.settle(timedelta(minutes=2))

        assert (await client.read(ServiceExport, "order", SHOP)).metadata.name == "order"


# shared objects


async def test_each_time_a_shared_object_needs_a_write_its_first_writer_is_waited_for() -> None:
    async with toy_world() as world:
        for name in world.names:
            await world.client(name).create(offer("bread", price="3"))
        await world.settle()

        for _ in range(3):
            with world.network.counting_writes() as writes:
                await world.client(BROKER).delete(ConfigMap, "sum.shop.bread", HOME)
                await world.settle()
            assert [(w.source, w.status) for w in writes] == [("hamburg", 201)]


async def test_our_own_object_that_became_unreadable_is_left_alone_until_it_is_repaired() -> None:
    async with toy_world("lubeck") as world:
        await world.client("lubeck").create(offer("bread", price="3"))
        await world.settle()
        storage = world.clusters["lubeck"].storage
        copy = storage.get("configmaps", SHOP, "copy-of-bread")
        assert copy is not None
        storage.replace("configmaps", {**copy, "data": {"number": 5}})

        with world.network.counting_writes() as writes:
            await world.client("lubeck").patch(ConfigMap, "bread", SHOP, {"data": {"price": "4"}})
            await asyncio.sleep(300)
        sent = [w for w in writes if "copy-of-bread" in w.request.path]
        storage.remove("configmaps", SHOP, "copy-of-bread")
        await asyncio.sleep(120)

        assert sent == []
        assert prices(await find_configmap(world, "lubeck", "copy-of-bread")) == {"lubeck": "4"}


async def test_a_preview_keeps_what_others_say_of_an_object_that_is_applied_again() -> None:
    async with toy_world("lubeck") as world:
        await world.client("lubeck").create(offer("bread", price="3"))
        await world.settle()

        would = preview(world.agents["lubeck"].reconciler, [("lubeck", offer("bread", price="3"))])

        assert would.actions == ()


async def test_a_preview_wakes_only_features_that_watch_the_kind() -> None:
    class Particular(Toy):
        def keys_for(self, change: Change, snapshot: Snapshot) -> Iterable[Key]:
            assert not isinstance(change, ObjectChange) or type(change.object) in (
                ConfigMap,
                Namespace,
            )
            return super().keys_for(change, snapshot)

    async with toy_world("lubeck", features=(Particular(),)) as world:
        await world.settle()
        other = ServiceExport(metadata=Meta(name="web", namespace=SHOP))

        would = preview(world.agents["lubeck"].reconciler, [("lubeck", other)])

        assert would.actions == ()


# fences and requeues


class Closed:
    """A fence that lets nothing pass."""

    def may_write(self, member: ClusterId | None) -> bool:
        return False


async def test_nothing_is_sent_once_the_fence_forbids_it() -> None:
    async with toy_world("lubeck") as world:
        await world.settle()
        world.agents["lubeck"].reconciler.set_fence(Closed())

        with world.network.counting_writes() as writes:
            await world.client("lubeck").create(offer("bread", price="3"))
            await world.settle()

        assert writes == []
        facts = world.agents["lubeck"].reconciler.informers.facts
        assert {outcome.result for outcome in facts.all(WriteOutcome)} == {"Fenced"}


async def test_a_key_is_planned_again_when_its_plan_asked_for_it() -> None:
    planned_at: list[float] = []

    class Timed(Toy):
        def plan(self, key: Key, snapshot: Snapshot) -> Plan:
            planned_at.append(asyncio.get_running_loop().time())
            return Plan(requeue_after=timedelta(seconds=100))

    async with toy_world("lubeck", features=(Timed(),)) as world:
        await world.client("lubeck").create(offer("bread", price="3"))
        await asyncio.sleep(350)

    waits = [after - before for before, after in pairwise(planned_at)]
    assert [round(wait) for wait in waits if wait > 1] == [100, 100, 100]


async def test_a_later_step_is_not_sent_after_one_that_failed() -> None:
    async with toy_world("lubeck") as world:
        await world.settle()
        link = world.network.link("lubeck", "lubeck")

        link.faults = LinkFaults(fails="configmaps")  # its watches go on
        await world.client("lubeck").create(offer("bread", price="3"))
        await asyncio.sleep(5)

        sent = [s.request.body for s in world.network.sent if s.request.method == "POST"]
        assert any(b"copy-of-bread" in body for body in sent)
        assert not any(b"receipt-of-bread" in body for body in sent)

        link.faults = LinkFaults()
        await world.settle()
        assert await find_configmap(world, "lubeck", "receipt-of-bread") is not None


async def test_nothing_is_planned_before_the_local_cluster_was_read_whole() -> None:
    planned: list[bool] = []

    class Careful(Toy):
        def plan(self, key: Key, snapshot: Snapshot) -> Plan:
            planned.append(snapshot.listed(snapshot.local, Namespace))
            return super().plan(key, snapshot)

    async with toy_world("lubeck", features=(Careful(),), agents=False) as world:
        await world.client("lubeck").create(offer("bread", price="3"))
        world.network.link("lubeck", "lubeck").faults = LinkFaults(late="namespaces")
        world.start_agent("lubeck")
        await asyncio.sleep(30)
        await world.stop()

    assert planned
    assert all(planned)
