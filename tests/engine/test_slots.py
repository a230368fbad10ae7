"""Who may work at the same time."""

import asyncio

import pytest

from hanse.engine.slots import HELD, Slots
from hanse.testing.time import ON_VIRTUAL_TIME

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> object:
    return ON_VIRTUAL_TIME


async def test_no_more_begin_than_there_are_places_until_one_is_done() -> None:
    slots = Slots(most=1)
    await slots.wait()
    first = slots.take()

    waiting = asyncio.create_task(slots.wait())
    await asyncio.sleep(0)
    held = waiting.done()
    first.give_back()
    await waiting

    assert not held


async def test_a_key_that_takes_long_holds_up_nobody_and_gives_its_place_back_once() -> None:
    slots = Slots(most=1)
    await slots.wait()
    hung = slots.take()

    async with asyncio.timeout(HELD.total_seconds() + 0.1):
        await slots.wait()
    hung.give_back()

    assert slots.free.locked()
