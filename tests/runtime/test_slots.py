"""Who may work at the same time."""

import asyncio

import pytest

from hanse.runtime.concurrency import HELD, ConcurrencyLimit
from tinykube.virtual_time import ON_VIRTUAL_TIME

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> object:
    return ON_VIRTUAL_TIME


async def test_no_more_begin_than_there_are_places_until_one_is_done() -> None:
    slots = ConcurrencyLimit(most=1)
    await slots.wait()
    first = slots.take({"lubeck"})

    waiting = asyncio.create_task(slots.wait())
    await asyncio.sleep(0)
    held = waiting.done()
    first.give_back()
    await waiting

    assert not held


async def test_a_key_that_takes_long_holds_up_nobody_and_gives_its_place_back_once() -> None:
    slots = ConcurrencyLimit(most=1)
    await slots.wait()
    hung = slots.take({"lubeck"})

    async with asyncio.timeout(HELD.total_seconds() + 0.1):
        await slots.wait()
    hung.give_back()

    assert slots.free.locked()


async def test_nobody_waits_for_a_cluster_that_answers_nobody() -> None:
    slots = ConcurrencyLimit(most=1)
    await slots.wait()
    slots.take({"bergen"})
    await asyncio.sleep(HELD.total_seconds())

    await slots.wait()
    both = slots.take({"bergen", "lubeck"})
    held = slots.free.locked()
    both.ended("lubeck")

    assert held
    assert not slots.free.locked()


async def test_a_cluster_that_answers_at_last_is_waited_for_again() -> None:
    slots = ConcurrencyLimit(most=1)
    await slots.wait()
    slots.take({"bergen"})
    await asyncio.sleep(HELD.total_seconds())

    slots.answered("bergen")
    await slots.wait()
    slots.take({"bergen"})

    assert slots.free.locked()


async def test_a_cluster_that_is_merely_busy_is_waited_for() -> None:
    slots = ConcurrencyLimit(most=2)
    for _ in range(2):
        await slots.wait()
    slots.take({"bergen"})
    await asyncio.sleep(HELD.total_seconds() / 2)
    slots.answered("bergen")
    await asyncio.sleep(HELD.total_seconds() / 2)

    assert not slots.silent
