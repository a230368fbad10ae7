"""Laws of the runtime, by the toy feature under faults, whatever the order of steps.

What features do is checked by the simulator; here a hundred schedules take seconds.
"""

import asyncio
from collections.abc import Sequence
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hanse.kube.transport import Request
from hanse.model.kinds.core import ConfigMap
from hanse.model.objects import Meta, Object
from tests.runtime.toy_world import SHOP, find_configmap, get_configmap, offer, toy_world
from tests.support.faults import NO_FAULTS, READ_METHODS, Link, LinkFaults
from tests.support.toy import HOME, OFFER
from tests.support.world import BROKER, World
from tinykube.virtual_time import run

CLUSTERS = ("lubeck", "hamburg")
GOODS = ("bread", "salt")
GOODS_PATHS = tuple(f"/{good}" for good in GOODS)
STANDING = 60
"""Seconds after which every agent should know of an offer."""
LAG = LinkFaults(lag=timedelta(seconds=3))
STORMS = {
    "refused": LinkFaults(refused=0.5),
    "lost": LinkFaults(lost=0.5),
    "breaks": LinkFaults(breaks=0.5),
    "lag": LAG,
}
PLACES = {
    "copy": ("lubeck", "copy-of-bread", SHOP),
    "receipt": ("lubeck", "receipt-of-bread", SHOP),
    "record": (BROKER, "shop.bread.lubeck", HOME),
    "sum": (BROKER, "sum.shop.bread", HOME),
}

Step = tuple[str, ...]
_trades = st.tuples(
    st.sampled_from(("offer", "offer", "raise", "withdraw")),
    st.sampled_from(CLUSTERS),
    st.sampled_from(GOODS),
)
_links = (st.sampled_from(CLUSTERS), st.sampled_from(("own", BROKER)))
_faults = st.one_of(
    st.tuples(st.just("cut"), *_links),
    st.tuples(st.just("storm"), *_links, st.sampled_from(sorted(STORMS))),
    st.tuples(st.sampled_from(("kill", "start", "save", "restore")), st.sampled_from(CLUSTERS)),
    st.just(("heal",)),
)
_waits = st.tuples(st.just("wait"), st.sampled_from(("1", "15", "90")))


@settings(max_examples=40)
@given(st.lists(st.one_of(_trades, _faults, _waits), min_size=4, max_size=14))
def test_after_any_faults_all_is_as_users_want_it_and_nothing_they_want_was_taken_away(
    steps: list[Step],
) -> None:
    run(_play(steps))


@settings(max_examples=40)
@given(st.lists(st.one_of(_trades, _waits), min_size=4, max_size=10))
def test_an_agent_that_is_told_late_of_its_own_writes_does_not_repeat_them(
    steps: list[Step],
) -> None:
    run(_play_with_lag(steps))


@settings(max_examples=10)
@given(st.lists(_trades.map(lambda t: (t[0], "lubeck", "bread")), min_size=2, max_size=6))
@pytest.mark.parametrize("number", [0, 1, 2, 4])
@pytest.mark.parametrize("place", PLACES)
def test_what_a_person_puts_in_the_place_of_our_object_is_never_changed_or_lost(
    place: str, number: int, steps: list[Step]
) -> None:
    """It comes between the plan of a write and its arrival: only a precondition tells."""
    run(_play_with_intruder(steps, Intruder(PLACES[place], number)))


class Market:
    """What users offer, and since when; it judges the deletions that agents ask for."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._since: dict[tuple[str, str], float] = {}
        self.taken: list[str] = []
        """The objects that agents deleted although users want them."""

    async def observe(self) -> None:
        """Note what is offered now: users changed it, or a backup was restored."""
        now = asyncio.get_running_loop().time()
        found = {
            (cluster, one.name) for cluster in CLUSTERS for one in await self.offers_in(cluster)
        }
        self._since = {place: self._since.get(place, now) for place in found}

    async def offers_in(self, cluster: str) -> list[ConfigMap]:
        listed = await self._world.client(cluster).list(ConfigMap, namespace=SHOP, labels=OFFER)
        return list(listed.objects)

    async def judge(self, link: Link, request: Request) -> None:
        """Note a deletion of what is derived from an offer that stands."""
        name = request.path.rpartition("/")[2]
        if request.method != "DELETE":
            return
        now = asyncio.get_running_loop().time()
        for (cluster, good), since in self._since.items():
            derived = (f"copy-of-{good}", f"receipt-of-{good}", f"shop.{good}.{cluster}")
            if name in (*derived, f"sum.shop.{good}") and now - since > STANDING:
                self.taken.append(f"{name} in {link.target} by {link.source}")


async def _play(steps: Sequence[Step]) -> None:
    """Play steps, heal everything, and compare with what users want; then nothing is written."""
    async with toy_world(*CLUSTERS) as world:
        market, backups = Market(world), {c: world.clusters[c].storage.snapshot() for c in CLUSTERS}
        world.network.before_write = market.judge
        for step in steps:
            match step:
                case "cut", cluster, target:
                    world.network.cut(cluster, _target(cluster, target))
                case "storm", cluster, target, how:
                    world.network.link(cluster, _target(cluster, target)).faults = STORMS[how]
                case ("kill", cluster) if cluster in world.agents:
                    await world.kill_agent(cluster)
                case ("start", cluster) if cluster not in world.agents:
                    world.start_agent(cluster)
                case "save", cluster:
                    backups[cluster] = world.clusters[cluster].storage.snapshot()
                case "restore", cluster:
                    world.clusters[cluster].storage.restore(backups[cluster])
                case ("heal",):
                    world.network.heal_all()
                case _:
                    await _trade(step, world)
            await market.observe()
        world.network.heal_all()
        for cluster in set(CLUSTERS) - world.agents.keys():
            world.start_agent(cluster)
        await world.settle()
        assert market.taken == []
        await _check_market(world, market)
        with world.network.counting_writes() as writes:
            await asyncio.sleep(60)
        assert writes == []


def _target(cluster: str, target: str) -> str:
    return cluster if target == "own" else target


async def _trade(step: Step, world: World) -> None:
    """What a user does with an offer, if it can be done, and a moment or longer for it."""
    match step:
        case "wait", seconds:
            await asyncio.sleep(int(seconds))
        case (("offer" | "raise" | "withdraw") as what, cluster, good):
            client = world.client(cluster)
            found = await find_configmap(world, cluster, good)
            if what == "offer" and found is None:
                await client.create(offer(good, price="3"))
            elif what == "raise" and found is not None:
                price = str(int(found.data["price"]) + 1)
                await client.patch(ConfigMap, good, SHOP, {"data": {"price": price}})
            elif what == "withdraw" and found is not None:
                await client.delete(ConfigMap, good, SHOP)
            await asyncio.sleep(0.5)


async def _check_market(world: World, market: Market) -> None:
    """That records, copies, receipts and sums are those of all offers, and there are no others."""
    offered = {c: {o.name: o.data["price"] for o in await market.offers_in(c)} for c in CLUSTERS}
    goods = {good for goods in offered.values() for good in goods}
    records = {f"shop.{good}.{c}": p for c, goods in offered.items() for good, p in goods.items()}
    on_broker = {o.name: o for o in await _list(world, BROKER, HOME)}
    assert on_broker.keys() == records.keys() | {f"sum.shop.{good}" for good in goods}
    assert {name: on_broker[name].data["price"] for name in records} == records
    for cluster in CLUSTERS:
        names = {o.name for o in await _list(world, cluster, SHOP)} - offered[cluster].keys()
        assert names == {f"{what}-of-{good}" for what in ("copy", "receipt") for good in goods}
        for good in goods:
            copy = await get_configmap(world, cluster, f"copy-of-{good}")
            assert set(copy.data) == {c for c in CLUSTERS if good in offered[c]}
            assert all(offered[c][good] in text for c, text in copy.data.items())


async def _list(world: World, cluster: str, namespace: str) -> Sequence[ConfigMap]:
    return (await world.client(cluster).list(ConfigMap, namespace=namespace)).objects


async def _play_with_lag(steps: Sequence[Step]) -> None:
    """Play steps with watch events that come late; no write of an object that is ours is refused.

    Of an offer it may be: its user has changed it meanwhile.
    """
    async with toy_world("lubeck") as world:
        for target in ("lubeck", BROKER):
            world.network.link("lubeck", target).faults = LAG
        for step in steps:
            await _trade((step[0], *("lubeck" if s in CLUSTERS else s for s in step[1:])), world)
        world.network.link("lubeck", "lubeck").faults = NO_FAULTS
        await world.settle()
        ours = [s for s in world.network.writes if not s.request.path.endswith(GOODS_PATHS)]
        assert [s for s in ours if s.status is not None and s.status >= 400] == []


async def _play_with_intruder(steps: Sequence[Step], intruder: "Intruder") -> None:
    """Play steps; what a person has put in our object's place meanwhile stands at the end."""
    where, name, namespace = intruder.place
    async with toy_world(*CLUSTERS) as world:
        intruder.world = world
        world.network.before_write = intruder.intrude
        for step in steps:
            await _trade(step, world)
            await asyncio.sleep(5)
        await world.settle()
        if intruder.put is not None:
            found = await find_configmap(world, where, name, namespace)
            assert found == intruder.put


class Intruder:
    """A person who replaces an object by another, just before our write of some number there."""

    def __init__(self, place: tuple[str, str, str], number: int) -> None:
        self.place = place
        self.world: World | None = None
        self.put: Object | None = None
        self._writes_left = number

    async def intrude(self, link: Link, request: Request) -> None:
        """Count a write that concerns the place; replace what stands there if its turn has come."""
        where, name, namespace = self.place
        assert self.world is not None
        if link.target != where or self.put is not None or request.method in READ_METHODS:
            return
        if not request.path.endswith((f"/{name}", "/configmaps")):
            return
        self._writes_left -= 1
        if self._writes_left < 0:
            client = self.world.client(where)
            if await find_configmap(self.world, where, name, namespace) is not None:
                await client.delete(ConfigMap, name, namespace)
            mine = ConfigMap(metadata=Meta(name=name, namespace=namespace), data={"mine": "yes"})
            self.put = await client.create(mine)
