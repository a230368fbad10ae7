"""Leaders, and the order of writes: rules 5 and 6."""

import asyncio
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

import pytest

from hanse.kube.client import Client
from hanse.kube.lease import LeaseTimings
from hanse.model.facts import (
    Leadership,
    Role,
)
from hanse.model.kinds.coordination import Lease
from hanse.model.kinds.core import ConfigMap, Namespace
from hanse.model.kinds.federation import SYSTEM
from hanse.model.ownership import EPOCH
from hanse.model.plan import Desired, Key, Plan
from hanse.model.snapshot import Change, FactChange, Snapshot, Watch, Writes
from hanse.runtime.diff import diff
from hanse.runtime.leader_election import LeaderElections
from hanse.runtime.ownership import Owner, owner_of, with_owner
from hanse.runtime.reconciler import Reconciler
from tests.runtime.toy_world import (
    SHOP,
    LeaderFeature,
    find_configmap,
    get_configmap,
    offer,
    toy_world,
)
from tests.support.builders import cluster, configmap, namespace, snapshot, stored
from tests.support.faults import LinkFaults, Sent
from tests.support.world import World
from tinykube.virtual_time import ON_VIRTUAL_TIME


@pytest.fixture
def anyio_backend() -> object:
    return ON_VIRTUAL_TIME


# 5

TERMS = LeaseTimings()


def supervisor(world: World, name: str, member: str) -> tuple[Reconciler, LeaderElections]:
    """A reconciler that contends for one member."""
    reconciler = world.reconciler(name)
    reconciler.informers.join(member, {Role.MEMBER}, world.api(name, member))
    elections = LeaderElections(
        reconciler.informers, f"{name}_1", clock=world.clock, random=world.random, timings=TERMS
    )
    reconciler.set_fence(elections)
    return reconciler, elections


async def _supervise(world: World, name: str, member: str) -> None:
    reconciler, elections = supervisor(world, name, member)
    async with reconciler.running(), elections.running():
        elections.contend(
            member, Client(world.network.transport(name, member, _way(world, member)))
        )
        await asyncio.get_running_loop().create_future()


def _way(world: World, member: str) -> Any:
    return world.client(member)._transport


async def test_rule_5_a_leader_without_a_fresh_lease_does_not_write() -> None:
    async with toy_world(
        "lubeck", "hamburg", "child", features=(LeaderFeature(),), agents=False
    ) as world:
        await world.client("child").create(namespace(SYSTEM))
        for name in ("lubeck", "hamburg"):
            await world.client(name).create(configmap("law", SHOP, of=name))
        first = asyncio.create_task(_supervise(world, "lubeck", "child"))
        await asyncio.sleep(10)
        second = asyncio.create_task(_supervise(world, "hamburg", "child"))
        await asyncio.sleep(10)
        assert (await get_configmap(world, "child", "law")).data == {"of": "lubeck"}

        world.network.link("lubeck", "child").faults = LinkFaults(delay=timedelta(seconds=40))
        await world.client("lubeck").patch(ConfigMap, "law", SHOP, {"data": {"of": "late"}})
        await asyncio.sleep(120)

        law = await get_configmap(world, "child", "law")
        late = [
            w
            for w in world.network.writes
            if w.source == "lubeck" and w.target == "child" and b"late" in w.request.body
        ]
        assert law.data == {"of": "hamburg"}
        assert all(w.status in (None, 409) for w in late), "a late write of an old leader counted"
        for task in (first, second):
            task.cancel()
        await asyncio.wait({first, second})


def _law(epoch: int, text: str) -> ConfigMap:
    owner = Owner("crown", Key("crown"), "child", led=True)
    return stored(with_owner(configmap("law", SHOP, of=text), owner, epoch=epoch))


@pytest.mark.parametrize(
    ("ours", "written"),
    [pytest.param(4, False, id="an older epoch"), pytest.param(5, True, id="the same epoch")],
)
def test_rule_5_a_lower_epoch_never_overwrites_a_higher(ours: int, written: bool) -> None:
    law = _law(5, "hamburg")
    observed = snapshot(
        LeaderFeature(),
        "lubeck",
        [cluster("lubeck", Role.LOCAL), cluster("child", Role.MEMBER, Role.LED)],
        {"lubeck": [stored(configmap("law", SHOP, of="lubeck"))], "child": [law]},
        [Leadership("child", "lubeck_1", ours, ours=True)],
    )
    owner = owner_of(law)
    assert owner is not None

    plan = LeaderFeature().plan(owner.key, observed)
    wanted = diff("crown", owner.key, plan, [("child", owner, law)], observed)

    assert bool(wanted.actions) is written
    assert law.metadata.annotations[EPOCH] == "5"


async def test_rule_5_watches_of_the_led_start_and_stop_with_leadership() -> None:
    async with toy_world("lubeck", "child", features=(LeaderFeature(),), agents=False) as world:
        await world.client("child").create(namespace(SYSTEM))
        reconciler, elections = supervisor(world, "lubeck", "child")
        async with reconciler.running(), elections.running():
            client = world.client("child")
            elections.contend("child", client)
            await asyncio.sleep(5)
            watched = ("child", ConfigMap.kind) in reconciler.informers.stores
            await elections.resign("child")
            reconciler.informers.set_roles("child", {Role.MEMBER})
            await asyncio.sleep(5)

            assert watched
            assert ("child", ConfigMap.kind) not in reconciler.informers.stores


class NamespacesFeature(LeaderFeature):
    """Writes the names of a member's namespaces into it, as its leader."""

    watches = (
        Watch(Role.MEMBER, ConfigMap, writes=Writes.OBJECTS),
        Watch(Role.MEMBER, Namespace),
    )

    def plan(self, key: Key, snapshot: Snapshot) -> Plan:
        return Plan(
            tuple(
                Desired(_names(m.member, snapshot), m.member, as_leader_of=m.member)
                for m in snapshot.facts(Leadership)
                if m.ours
            )
        )


def _names(member: str, snapshot: Snapshot) -> ConfigMap:
    spaces = sorted(o.metadata.name for o in snapshot.all(member, Namespace))
    return configmap("names", SHOP, spaces=",".join(spaces))


def _lists(watched: Iterable[Sent], target: str) -> list[str]:
    """The resources that were listed in a cluster, Leases aside, each as often as it was."""
    resources = [
        s.request.path.rpartition("/")[2]
        for s in watched
        if s.target == target and ("sendInitialEvents", "true") in s.request.query
    ]
    return sorted(r for r in resources if r != "leases")


async def test_rule_5_a_new_leader_whose_watches_are_late_lists_once_before_it_writes() -> None:
    async with toy_world(
        "lubeck", "hamburg", "child", features=(NamespacesFeature(),), agents=False
    ) as world:
        await world.client("child").create(namespace(SYSTEM))
        late = LinkFaults(lag=timedelta(seconds=8), lags="namespaces")
        world.network.link("hamburg", "child").faults = late
        first = asyncio.create_task(_supervise(world, "lubeck", "child"))
        await asyncio.sleep(10)
        second = asyncio.create_task(_supervise(world, "hamburg", "child"))
        await asyncio.sleep(10)
        await world.client("child").create(namespace("salt"))
        await asyncio.sleep(2)
        written = await get_configmap(world, "child", "names")
        assert "salt" in written.data["spaces"]
        watched = len(world.network.watched)

        first.cancel()  # it releases its Lease
        await asyncio.sleep(60)

        lease = await world.client("child").read(Lease, "child", SYSTEM)
        assert lease.spec.holder_identity == "hamburg_1"
        assert await get_configmap(world, "child", "names") == written
        assert _lists(world.network.watched[watched:], "child") == ["configmaps", "namespaces"]
        second.cancel()
        await asyncio.wait({first, second})


async def test_rule_5_a_leader_whom_nobody_has_replaced_lists_nothing_again() -> None:
    async with toy_world("lubeck", "child", features=(NamespacesFeature(),), agents=False) as world:
        await world.client("child").create(namespace(SYSTEM))
        reconciler, elections = supervisor(world, "lubeck", "child")
        async with reconciler.running(), elections.running():
            way = world.network.transport("lubeck", "child", _way(world, "child"))
            elections.contend("child", Client(way))
            await asyncio.sleep(20)
            watched, leads = len(world.network.watched), list[bool]()

            def on_change(change: Change) -> None:
                if isinstance(change, FactChange) and isinstance(change.fact, Leadership):
                    leads.append(change.fact.ours)

            reconciler.event_handlers.append(on_change)

            world.network.link("lubeck", "child").faults = LinkFaults(forbids="writes")
            await asyncio.sleep(20)
            world.network.link("lubeck", "child").faults = LinkFaults()
            await asyncio.sleep(20)

            assert leads == [False, True]
            assert _lists(world.network.watched[watched:], "child") == []


# 6


async def test_rule_6_a_later_step_waits_for_the_one_before_in_its_destination_alone() -> None:
    async with toy_world() as world:
        world.network.link("hamburg", "hamburg").faults = LinkFaults(refused=1.0)
        await world.client("lubeck").create(offer("bread", price="3"))
        await asyncio.sleep(30)
        stuck = await find_configmap(world, "hamburg", "receipt-of-bread")
        elsewhere = await find_configmap(world, "lubeck", "receipt-of-bread")
        world.network.heal_all()
        await world.settle()

        assert stuck is None
        assert elsewhere is not None
        order = [
            w.request.path
            for w in world.network.writes
            if w.source == w.target == "hamburg" and w.status == 201
        ]
        assert len(order) == 2
        assert await find_configmap(world, "hamburg", "receipt-of-bread") is not None
