"""One time limit for many waits."""

import asyncio
from contextlib import closing

import pytest

from hanse.kube.repeated_timeout import RepeatedTimeout
from tinykube.virtual_time import ON_VIRTUAL_TIME

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> object:
    return ON_VIRTUAL_TIME


async def test_each_wait_has_its_full_time() -> None:
    loop, ended = asyncio.get_running_loop(), 0.0

    with closing(RepeatedTimeout(10)) as limit:
        for _ in range(3):
            with limit:
                await asyncio.sleep(7)
            await asyncio.sleep(20)  # between two waits nothing is limited
        with pytest.raises(TimeoutError), limit:
            await asyncio.sleep(11)
        ended = loop.time()

    assert ended == pytest.approx(3 * 27 + 10)


async def test_a_wait_after_one_that_took_too_long_is_limited_too() -> None:
    with closing(RepeatedTimeout(10)) as limit:
        for _ in range(2):
            with pytest.raises(TimeoutError), limit:
                await asyncio.sleep(11)


async def test_a_task_that_is_cancelled_stays_cancelled() -> None:
    async def wait() -> None:
        with closing(RepeatedTimeout(10)) as limit, limit:
            await asyncio.sleep(100)

    task = asyncio.create_task(wait())
    await asyncio.sleep(1)
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task


async def test_only_the_present_wait_expires() -> None:
    limit = RepeatedTimeout(None)
    limit.expire()
    with limit:
        await asyncio.sleep(1)

    asyncio.get_running_loop().call_later(1, limit.expire)
    with pytest.raises(TimeoutError), limit:
        await asyncio.sleep(1000)
