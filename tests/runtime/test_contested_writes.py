"""Writes that others undo slow down; those that we would have undone ourselves do not."""

import asyncio
from datetime import timedelta
from random import Random

import pytest
from msgspec.structs import replace

from hanse.model.kinds.core import ConfigMap
from hanse.model.plan import Desired, Key, Plan
from hanse.runtime.actions import OMITTED, Delete
from hanse.runtime.apply import WriteReport
from hanse.runtime.backoff import BackoffTracker
from tests.runtime.toy_world import SHOP, find_configmap, get_configmap, offer, toy_world
from tests.support.builders import configmap
from tests.support.faults import LinkFaults
from tests.support.toy import HOME
from tests.support.world import BROKER, World
from tinykube.virtual_time import ON_VIRTUAL_TIME

LATE = LinkFaults(lag=timedelta(seconds=4), lags="configmaps")


@pytest.fixture
def anyio_backend() -> object:
    return ON_VIRTUAL_TIME


async def test_what_one_agent_creates_and_another_deletes_by_turns_is_no_contest() -> None:
    async with toy_world() as world:
        lubeck, waits = world.client("lubeck"), []
        world.network.link("lubeck", BROKER).faults = LATE  # so that hamburg is first to delete
        for _ in range(15):  # a user who tries something out
            await lubeck.create(offer("bread", price="3"))
            await asyncio.sleep(9)
            await get_configmap(world, BROKER, "sum.shop.bread", HOME)
            await lubeck.delete(ConfigMap, "bread", SHOP)
            waits.append(await _seconds_until_deleted(world, "sum.shop.bread"))
            await asyncio.sleep(9)

        assert max(waits) < 1


async def _seconds_until_deleted(world: World, name: str) -> float:
    began = asyncio.get_running_loop().time()
    while await find_configmap(world, BROKER, name, HOME) is not None:  # noqa: ASYNC110
        await asyncio.sleep(0.1)
    return asyncio.get_running_loop().time() - began


@pytest.mark.parametrize("wanted_in_between", [False, True])
def test_only_deletions_that_stay_planned_are_contested(wanted_in_between: bool) -> None:
    item, now = ("toy", Key("sum", "bread", SHOP)), 0.0
    tracker = BackoffTracker(lambda: now, Random(0))
    asked: list[timedelta] = []
    for number in range(10):
        now += 5
        obj = configmap("sum")
        if wanted_in_between:
            tracker.observe_plan(item, Plan((Desired(obj, BROKER),)))
        tracker.observe_plan(item, Plan())
        version = replace(obj.metadata, resource_version=str(number))
        deletion = Delete(BROKER, replace(obj, metadata=version), OMITTED, 0)
        tracker.take_due(item, [deletion], lambda _, delay: asked.append(delay))
        tracker.record(item, [WriteReport(deletion, "Done")])

    assert bool(asked) == (not wanted_in_between)
