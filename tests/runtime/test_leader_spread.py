"""Leaders spread over supervisors again after some were away: all move back, and then nobody.

`HANSE_SPREAD_SCHEDULES` and `HANSE_SEED` make the search longer or start it elsewhere.
"""

import asyncio
import os
from collections import Counter
from random import Random

import pytest

from hanse.kube.leader_election import REQUEST_AFTER
from hanse.model.kinds.coordination import Lease
from hanse.model.kinds.federation import SYSTEM
from hanse.model.objects import ClusterId
from hanse.runtime.leader_election import REQUEST_INTERVAL
from tests.support.supervised_world import SupervisedWorld
from tinykube.virtual_time import ON_VIRTUAL_TIME

pytestmark = pytest.mark.anyio

SCHEDULES = int(os.environ.get("HANSE_SPREAD_SCHEDULES", "2"))
SEED = int(os.environ.get("HANSE_SEED", "0"))
NAMES = ("lubeck", "hamburg", "bergen", "oslo")
SUPERVISORS = 3


@pytest.fixture
def anyio_backend() -> object:
    return ON_VIRTUAL_TIME


async def holders(world: SupervisedWorld) -> dict[ClusterId, tuple[str, int]]:
    """Who holds the Lease of each member, and how often that has changed."""
    found = {}
    for name in world.names:
        lease = await world.admin(name).read(Lease, name, SYSTEM)
        holder = lease.spec.holder_identity.partition("_")[0]
        found[name] = (holder, lease.spec.lease_transitions)
    return found


def best(world: SupervisedWorld) -> dict[ClusterId, ClusterId]:
    """The first of those that run, in each member's order."""
    return {
        name: next(chief for chief in world.turns(name) if chief in world.supervisors)
        for name in world.names
    }


async def converged(world: SupervisedWorld) -> dict[ClusterId, tuple[str, int]]:
    moves = len(world.names) * REQUEST_INTERVAL.total_seconds()
    await asyncio.sleep(2 * REQUEST_AFTER.total_seconds() + moves + 30)
    found = await holders(world)
    assert {name: holder for name, (holder, _) in found.items()} == best(world)
    return found


async def test_who_comes_back_gets_its_members_one_after_the_other_and_then_nobody_moves() -> None:
    world = SupervisedWorld(NAMES, SUPERVISORS, lambda: ())
    await world.open()
    async with world.running():
        await asyncio.sleep(20)
        before = await holders(world)
        await world.kill("lubeck")
        await asyncio.sleep(30)
        assert "lubeck" not in {holder for holder, _ in (await holders(world)).values()}

        world.start("lubeck")
        await asyncio.sleep(REQUEST_AFTER.total_seconds() - 5)
        assert not world.supervisors["lubeck"].leads, "it has to stand by for a while"
        await asyncio.sleep(5 + REQUEST_INTERVAL.total_seconds() / 2)
        assert len(world.supervisors["lubeck"].leads) == 1, "one at a time"

        after = await converged(world)
        assert {n: h for n, (h, _) in after.items()} == {n: h for n, (h, _) in before.items()}
        assert Counter(h for h, _ in after.values()) == {"lubeck": 2, "hamburg": 1, "bergen": 1}
        await asyncio.sleep(2 * REQUEST_AFTER.total_seconds())
        assert await holders(world) == after


@pytest.mark.parametrize("seed", range(SEED, SEED + SCHEDULES))
async def test_whatever_happened_leaders_are_spread_in_the_end_and_stay(seed: int) -> None:
    random = Random(seed)
    world = SupervisedWorld(NAMES, SUPERVISORS, lambda: (), seed=seed)
    await world.open()
    async with world.running():
        for _ in range(5):
            await asyncio.sleep(random.uniform(1, 1.2 * REQUEST_AFTER.total_seconds()))
            name = random.choice(world.supervisor_names)
            if name not in world.supervisors:
                world.start(name)
            elif len(world.supervisors) > 1:
                await world.kill(name)
        after = await converged(world)
        await asyncio.sleep(1.5 * REQUEST_AFTER.total_seconds())

        assert await holders(world) == after
