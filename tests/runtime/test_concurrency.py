"""How many keys are applied at the same time."""

import asyncio

import pytest

from hanse.runtime.concurrency import PERMIT_TIMEOUT, ConcurrencyLimit
from tinykube.virtual_time import ON_VIRTUAL_TIME

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> object:
    return ON_VIRTUAL_TIME


async def test_no_more_begin_than_the_limit_allows_until_one_is_done() -> None:
    limit = ConcurrencyLimit(most=1)
    await limit.acquire()
    first = limit.permit({"lubeck"})

    waiting = asyncio.create_task(limit.acquire())
    await asyncio.sleep(0)
    held = waiting.done()
    first.release()
    await waiting

    assert not held


async def test_a_key_that_takes_long_holds_up_nobody_and_releases_its_permit_once() -> None:
    limit = ConcurrencyLimit(most=1)
    await limit.acquire()
    hung = limit.permit({"lubeck"})

    async with asyncio.timeout(PERMIT_TIMEOUT.total_seconds() + 0.1):
        await limit.acquire()
    hung.release()

    assert limit.free.locked()


async def test_nobody_waits_for_a_cluster_that_answers_nobody() -> None:
    limit = ConcurrencyLimit(most=1)
    await limit.acquire()
    limit.permit({"bergen"})
    await asyncio.sleep(PERMIT_TIMEOUT.total_seconds())

    await limit.acquire()
    both = limit.permit({"bergen", "lubeck"})
    held = limit.free.locked()
    both.finish_cluster("lubeck")

    assert held
    assert not limit.free.locked()


async def test_a_cluster_that_answers_at_last_is_waited_for_again() -> None:
    limit = ConcurrencyLimit(most=1)
    await limit.acquire()
    limit.permit({"bergen"})
    await asyncio.sleep(PERMIT_TIMEOUT.total_seconds())

    limit.record_answer("bergen")
    await limit.acquire()
    limit.permit({"bergen"})

    assert limit.free.locked()


async def test_a_cluster_that_is_merely_busy_is_waited_for() -> None:
    limit = ConcurrencyLimit(most=2)
    for _ in range(2):
        await limit.acquire()
    limit.permit({"bergen"})
    await asyncio.sleep(PERMIT_TIMEOUT.total_seconds() / 2)
    limit.record_answer("bergen")
    await asyncio.sleep(PERMIT_TIMEOUT.total_seconds() / 2)

    assert not limit.unresponsive
