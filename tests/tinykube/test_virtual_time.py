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


def test_who_waits_again_until_a_moment_has_come_does_not_stop_the_time_of_others() -> None:
    async def rounds(due: float) -> int:
        loop = asyncio.get_running_loop()
        for again in range(100):
            if loop.time() >= due:
                return again
            waiting = loop.create_future()
            loop.call_at(due, waiting.set_result, None)
            await waiting
        raise AssertionError("time stands still")

    async def two() -> tuple[int, int]:
        due = asyncio.get_running_loop().time() + 5e-10  # sooner than a real clock can tell
        first = asyncio.ensure_future(rounds(due))
        await asyncio.sleep(0)  # one of them is always about to go on
        second = asyncio.ensure_future(rounds(due))
        return await first, await second

    assert run(two()) == (1, 1)


_UNLUCKY = [(r.random() * 3, 4 + r.random() * 20) for r in map(Random, range(400))]
"""Moments, some of which one does not reach from the other by adding their difference."""
