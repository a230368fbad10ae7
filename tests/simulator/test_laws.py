"""Every law holds under a fixed set of schedules: the same for the same tree.

`make search HOURS=1` plays fresh ones.
"""

import pytest

from tests.support.simulator.forks import FLEETS
from tests.support.simulator.runner import parts_named, step_kinds
from tests.support.simulator.schedule import draw_schedule

SEEDS = range(9)
MEMBERSHIP = parts_named(["services", "members"])
"""Agents with fewer features, so that more schedules are played in the same time."""


@pytest.mark.parametrize("seed", SEEDS)
def test_every_law_holds(seed: int) -> None:
    schedule = draw_schedule(seed, step_kinds())

    failure = FLEETS.failure_of(schedule)

    assert failure is None, f"{failure}\n{schedule}"


@pytest.mark.parametrize("seed", range(100, 116))
def test_every_law_holds_as_clusters_leave_and_join(seed: int) -> None:
    schedule = draw_schedule(seed, step_kinds(MEMBERSHIP))

    failure = FLEETS.failure_of(schedule, MEMBERSHIP)

    assert failure is None, f"{failure}\n{schedule}"
