"""The laws of the reconciler over random schedules of users, faults, crashes and time.

`HANSE_SCHEDULES` and `HANSE_SEED` make the search longer or start it elsewhere; a failure prints
its seed, and `python -m tests.runtime.schedules SEED` replays it.
"""

import os

import pytest

from tests.runtime import schedules

SCHEDULES = int(os.environ.get("HANSE_SCHEDULES", "300"))
SEED = int(os.environ.get("HANSE_SEED", "0"))
PARTS = 40


@pytest.mark.parametrize("part", range(PARTS))
def test_every_law_holds_after_any_schedule_of_failures(part: int) -> None:
    for seed in range(SEED + part, SEED + SCHEDULES, PARTS):
        schedules.play(seed)
