"""Every law holds under a fixed set of schedules: the same for the same tree.

`make search HOURS=1` plays fresh ones.
"""

import pytest

from tests.support.simulator.runner import failure_of, step_kinds
from tests.support.simulator.schedule import draw_schedule

SEEDS = range(14)


@pytest.mark.parametrize("seed", SEEDS)
def test_every_law_holds(seed: int) -> None:
    schedule = draw_schedule(seed, step_kinds())

    failure = failure_of(schedule)

    assert failure is None, f"{failure}\n{schedule}"
