"""The simulator itself: schedules replay, shrink and print; a stopped process does nothing."""

import asyncio
import os
import subprocess
import sys
from typing import Any

from tests.mutants.catalogue import ROOT
from tests.support.simulator.batch import batches_of, play_on_cores
from tests.support.simulator.behaviour import TAKEN, Probed
from tests.support.simulator.forks import StartedFleets, Wanted
from tests.support.simulator.loop import PROCESS, SimulationLoop, run
from tests.support.simulator.runner import PARTS, parts_named, parts_of, step_kinds
from tests.support.simulator.schedule import Schedule, do, draw_schedule
from tests.support.simulator.shrink import shrink

SERVICES = parts_named(["services"])


def test_a_schedule_is_a_function_of_its_seed() -> None:
    kinds = step_kinds()

    assert draw_schedule(7, kinds) == draw_schedule(7, kinds)
    assert draw_schedule(7, kinds) != draw_schedule(8, kinds)


def test_a_schedule_replays_in_another_process() -> None:
    """Storms, restores and cuts draw numbers in the order of requests, whatever sets hash to."""
    command = [sys.executable, "-m", "tests.support.simulator", "--seeds", "1915", "--trace"]
    processes = [
        subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": seed},
            stdout=subprocess.PIPE,
            text=True,
        )
        for seed in ("1", "2")
    ]

    one, two = (process.communicate()[0].splitlines() for process in processes)

    assert len(one) > 1000, "the run was short"
    assert [(a, b) for a, b in zip(one, two, strict=False) if a != b][:1] == []
    assert len(one) == len(two)


def test_a_schedule_prints_as_it_is_written() -> None:
    schedule = draw_schedule(7, step_kinds())

    read = eval(str(schedule), {"play": lambda *steps, **how: Schedule(steps, **how), "do": do})

    assert read == schedule


def test_a_failing_schedule_shrinks_to_the_steps_that_it_takes() -> None:
    steps = [do(f"x.{number}", pause=number) for number in range(20)]

    def breaks(schedule: Schedule) -> bool:
        names = [step.name for step in schedule.steps]
        return "x.3" in names and "x.15" in names

    assert shrink(Schedule(tuple(steps)), breaks).steps == (do("x.3"), do("x.15"))


def test_a_stopped_process_does_nothing_until_it_goes_on() -> None:
    seen: list[tuple[str, float]] = []

    async def process(name: str) -> None:
        PROCESS.set(name)
        for _ in range(3):
            await asyncio.sleep(1)
            seen.append((name, round(asyncio.get_running_loop().time())))

    async def main() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SimulationLoop)
        tasks = [asyncio.create_task(process(name)) for name in ("stopped", "other")]
        await asyncio.sleep(1.5)
        loop.stop_process("stopped")
        await asyncio.sleep(10)
        loop.continue_process("stopped")
        await asyncio.gather(*tasks)

    run(main())

    assert [at for name, at in seen if name == "other"] == [1, 2, 3]
    assert [at for name, at in seen if name == "stopped"] == [1, 12, 13]


def test_a_process_stops_at_its_nth_await() -> None:
    seen: list[int] = []

    async def process() -> None:
        PROCESS.set("stopped")
        for number in range(10):
            await asyncio.sleep(0)
            seen.append(number)

    async def main() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SimulationLoop)
        task = asyncio.create_task(process())
        await asyncio.sleep(0)
        loop.stop_process_after("stopped", 3)
        await asyncio.sleep(60)
        stopped_at = len(seen)
        loop.continue_process("stopped")
        await task
        assert 0 < stopped_at < 10

    run(main())

    assert seen == list(range(10))


def test_a_schedule_is_played_with_the_parts_that_it_takes() -> None:
    steps = (do("policies.write", "lubeck", "deny", 1), do("faults.restart", "lubeck"))

    taken = {part.name for part in parts_of(Schedule(steps, 1))}

    assert taken == {"faults", "policies", "federated"}
    assert parts_of(Schedule(steps, 10)) is PARTS


def test_schedules_that_share_a_fleet_are_played_one_after_the_other_on_a_core() -> None:
    schedules = [
        Schedule((do("networks.build", "lab"),), 1),
        Schedule((do("gslb.serve", "lubeck"),), 2),
        Schedule((do("networks.build", "yard"),), 3),
    ]

    batches = batches_of(schedules, PARTS)
    played = [one for batch in play_on_cores(batches, 2, whole=True) for one in batch]

    assert [len(batch.schedules) for batch in batches] == [2, 1]
    assert {one.schedule for one in played} == set(schedules)
    assert [one.failure for one in played] == [None] * 3


def test_a_search_observes_the_branches_that_a_schedule_takes() -> None:
    offer = do("services.offer", "lubeck", "web", False)
    longer = Schedule((offer, do("faults.restart", "lubeck", pause=1)))
    fleets = StartedFleets()
    try:
        first = fleets.play(Wanted(Schedule((offer,)), observed=True, traced=True), SERVICES)
        second = fleets.play(Wanted(longer, observed=True), SERVICES)
        alone = fleets.play(Wanted(Schedule((offer,)), traced=True), SERVICES)
    finally:
        fleets.end()

    assert len(first.behaviour) > 1000
    assert second.behaviour - first.behaviour
    assert not alone.behaviour
    assert first.trace == alone.trace


BRANCHING = '''
async def choose(number):
    """Says what a number is."""
    for _ in range(number):
        break
    try:
        if number > 2:
            return "many"
        elif number == 2:
            raise KeyError
    except KeyError:
        return "two"
    match number:
        case 0:
            return "none"
        case _:
            return (lambda: "one")()
'''


def test_every_branch_is_told_from_the_others() -> None:
    probed = Probed(BRANCHING, "branching.py")
    module: dict[str, Any] = {TAKEN: probed.taken}
    exec(probed.code, module)
    paths = []
    for number in range(4):
        probed.taken[:] = [False] * len(probed.taken)
        paths.append((run(module["choose"](number)), tuple(probed.taken)))

    assert [said for said, _ in paths] == ["none", "one", "two", "many"]
    assert len({taken for _, taken in paths}) == 4
    assert all(any(taken) for taken in zip(*(taken for _, taken in paths), strict=True))
    assert module["choose"].__doc__ == "Says what a number is."
