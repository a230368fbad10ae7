import asyncio
from datetime import timedelta
from random import Random

import pytest

from tinykube.virtual_time import EPOCH, LoopClock, NothingLeftToWaitFor, run


def test_an_hour_passes_at_once() -> None:
    async def nap() -> timedelta:
        await asyncio.sleep(3600)
        return LoopClock().now() - EPOCH

    assert timedelta(hours=1) <= run(nap()) < timedelta(hours=1, seconds=1)


def test_timers_fire_in_order() -> None:
    order: list[int] = []

    async def note(after: int) -> None:
        await asyncio.sleep(after)
        order.append(after)

    async def all_of_them() -> None:
        await asyncio.gather(note(30), note(10), note(20))

    run(all_of_them())

    assert order == [10, 20, 30]


def test_a_deadlock_is_an_error() -> None:
    async def forever() -> None:
        await asyncio.Event().wait()

    with pytest.raises(NothingLeftToWaitFor):
        run(forever())


def test_no_timer_fires_early() -> None:
    async def until(due: float) -> float:
        loop = asyncio.get_running_loop()
        waiting = loop.create_future()
        loop.call_at(due, waiting.set_result, None)
        await waiting
        return loop.time()

    for early, due in _UNLUCKY:

        async def waits(early: float = early, due: float = due) -> float:
            await until(early)
            return await until(due)

        assert run(waits()) >= due


_UNLUCKY = [(r.random() * 3, 4 + r.random() * 20) for r in map(Random, range(400))]
"""Moments, some of which one does not reach from the other by adding their difference."""
