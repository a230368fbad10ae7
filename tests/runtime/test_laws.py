"""A law of the runtime: what a person puts in the place of our object is never changed or lost."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hanse.kube.transport import Request
from hanse.model.kinds.core import ConfigMap
from hanse.model.objects import Meta
from tests.runtime.toy_world import SHOP, get_configmap, offer, toy_world
from tests.support.faults import Link
from tests.support.toy import HOME
from tests.support.world import BROKER, World
from tinykube.virtual_time import run

STEPS = ("offer", "raise", "withdraw")
PLACES = {
    "copy": ("lubeck", "copy-of-bread", SHOP),
    "receipt": ("lubeck", "receipt-of-bread", SHOP),
    "record": (BROKER, "shop.bread.lubeck", HOME),
    "sum": (BROKER, "sum.shop.bread", HOME),
}


@settings(max_examples=25)
@given(st.lists(st.sampled_from(STEPS), min_size=2, max_size=6), st.integers(0, 8))
@pytest.mark.parametrize("place", PLACES)
def test_what_a_person_puts_in_the_place_of_our_object_is_never_changed_or_lost(
    place: str, steps: list[str], number: int
) -> None:
    """It comes between the plan of a write and its arrival: only a precondition tells."""
    run(_play(steps, PLACES[place], number))


async def _play(steps: list[str], place: tuple[str, str, str], number: int) -> None:
    """Play steps; just before our write of a number at a place, a person's object stands there."""
    where, name, namespace = place
    async with toy_world() as world:
        intruder = Intruder(world, place, number)
        world.network.before_write = intruder
        for step in steps:
            await _do(step, world)
            await asyncio.sleep(5)
        await world.settle()
        if intruder.put is not None:
            assert await get_configmap(world, where, name, namespace) == intruder.put


async def _do(step: str, world: World) -> None:
    """What a user does with an offer, if it can be done."""
    client = world.client("lubeck")
    listed = await client.list(ConfigMap, namespace=SHOP)
    found = [one for one in listed.objects if one.name == "bread"]
    match step, found:
        case "offer", []:
            await client.create(offer("bread", price="3"))
        case "raise", [bread]:
            price = str(int(bread.data["price"]) + 1)
            await client.patch(ConfigMap, "bread", SHOP, {"data": {"price": price}})
        case "withdraw", [_]:
            await client.delete(ConfigMap, "bread", SHOP)


class Intruder:
    """Replaces an object by a person's own, just before our write of some number reaches it."""

    def __init__(self, world: World, place: tuple[str, str, str], number: int) -> None:
        self._world = world
        self._place = place
        self._left = number
        self.put: ConfigMap | None = None

    async def __call__(self, link: Link, request: Request) -> None:
        where, name, namespace = self._place
        if link.target != where or self.put is not None:
            return
        if not request.path.endswith((f"/{name}", "/configmaps")):
            return
        self._left -= 1
        if self._left < 0:
            client = self._world.client(where)
            listed = await client.list(ConfigMap, namespace=namespace)
            for one in listed.objects:
                if one.name == name:
                    await client.delete(ConfigMap, name, namespace)
            mine = ConfigMap(metadata=Meta(name=name, namespace=namespace), data={"mine": "yes"})
            self.put = await client.create(mine)
