"""Keys and their turns, on virtual time."""

import asyncio
from datetime import timedelta

import pytest

from hanse.model.plan import Key
from hanse.runtime.workqueue import COALESCE_MOST, LIGHT_LOAD, Item, Priority, WorkQueue
from tinykube.virtual_time import ON_VIRTUAL_TIME


@pytest.fixture
def anyio_backend() -> object:
    return ON_VIRTUAL_TIME


def item(name: str) -> Item:
    return ("toy", Key("copy", name))


def queue() -> WorkQueue:
    return WorkQueue(asyncio.get_running_loop().time)


def now() -> float:
    return asyncio.get_running_loop().time()


async def work_on(keys: WorkQueue, several: int) -> None:
    """Let so many other keys be worked on."""
    for n in range(several):
        keys.add(item(f"busy-{n}"))
    for _ in range(several):
        await keys.take()


async def test_when_idle_a_key_runs_at_once() -> None:
    keys, start = queue(), now()

    keys.add(item("a"))
    turn = await keys.take()

    assert turn.item == item("a")
    assert now() - start < 0.001


async def test_a_key_that_wakes_many_times_is_planned_once() -> None:
    keys = queue()
    for _ in range(100):
        keys.add(item("a"))

    keys.done((await keys.take()).item)

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(10):
            await keys.take()


async def test_one_worker_per_key() -> None:
    keys = queue()
    keys.add(item("a"))
    await keys.take()
    keys.add(item("a"))

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(10):
            await keys.take()
    keys.done(item("a"))

    assert (await keys.take()).item == item("a")


async def test_fresh_changes_overtake_a_backlog() -> None:
    keys = queue()
    for n in range(50):
        keys.add(item(f"old-{n}"), Priority.BACKLOG)
    first = await keys.take()
    await asyncio.sleep(1)
    keys.add(item("fresh"))
    await asyncio.sleep(COALESCE_MOST)

    assert first.item == item("old-0")
    assert (await keys.take()).item == item("fresh")


async def test_a_key_in_the_backlog_is_overtaken_by_its_own_fresh_change() -> None:
    keys = queue()
    for n in range(9):
        keys.add(item(f"old-{n}"), Priority.BACKLOG)
    await keys.take()
    await asyncio.sleep(1)
    keys.add(item("old-8"), Priority.FRESH)

    assert (await keys.take()).item == item("old-8")


async def test_what_follows_from_one_change_goes_on_at_once() -> None:
    keys = queue()
    keys.add(item("cause"))
    await keys.take()
    start = now()

    keys.add(item("effect"))
    await keys.take()

    assert now() - start < 0.001


async def test_under_load_changes_coalesce_for_20_to_100_ms() -> None:
    keys = queue()
    await work_on(keys, LIGHT_LOAD)
    start = now()

    keys.add(item("a"))
    await keys.take()

    assert 0.020 <= now() - start <= 0.100


async def test_a_key_that_keeps_waking_is_not_put_off_for_ever() -> None:
    keys = queue()
    await work_on(keys, LIGHT_LOAD)
    start = now()

    async def pester() -> None:
        for _ in range(100):
            keys.add(item("a"))
            await asyncio.sleep(0.01)

    pestering = asyncio.create_task(pester())
    await keys.take()

    assert now() - start <= 0.101
    pestering.cancel()


async def test_the_earliest_of_several_delays_of_a_key_wins() -> None:
    keys, start = queue(), now()
    keys.add_after(item("a"), timedelta(seconds=60))
    keys.add_after(item("a"), timedelta(seconds=5))
    keys.add_after(item("a"), timedelta(seconds=30))

    await keys.take()

    assert now() - start == pytest.approx(5, abs=0.01)


async def test_a_deletion_seen_is_remembered_until_the_plan() -> None:
    keys = queue()
    keys.add(item("a"), deletion_seen=True)
    keys.add(item("a"))

    first = await keys.take()
    keys.done(first.item)
    keys.add(item("a"))
    second = await keys.take()

    assert first.deletion_seen
    assert not second.deletion_seen


async def test_a_wait_shorter_than_the_clock_resolution_still_ends() -> None:
    """The loop takes a timer for due a nanosecond early, when the key is not.

    Two queues that wait in turn for so little would keep virtual time from going on.
    """
    rounds = 0

    def counted_time() -> float:
        nonlocal rounds
        rounds += 1
        assert rounds < 1000, "time does not go on"
        return now()

    several = [WorkQueue(counted_time) for _ in range(3)]
    tasks = []
    for keys in several:
        keys._schedule(item("a"), Priority.FRESH, 5e-10)
        tasks.append(asyncio.create_task(keys.take()))
        await asyncio.sleep(0)

    assert [turn.item for turn in await asyncio.gather(*tasks)] == [item("a")] * 3


async def test_a_held_key_is_waited_for_until_it_was_processed_again() -> None:
    keys = queue()
    keys.add(item("a"))
    taken = await keys.take()
    keys.hold(taken.item)
    keys.done(taken.item)
    waiting = asyncio.create_task(keys.wait_for_due())
    await asyncio.sleep(5)
    assert not waiting.done()

    keys.add(item("a"))
    keys.done((await keys.take()).item)

    await asyncio.wait_for(waiting, 1)
    assert keys.is_settled
