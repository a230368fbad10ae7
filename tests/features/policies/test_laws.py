"""The laws of replicated policies over random schedules of people, faults, crashes and time.

`HANSE_SCHEDULES` and `HANSE_SEED` make the search longer or start it elsewhere; a failure prints
its seed, and `python -m tests.features.policies.schedules SEED` replays it.
"""

import os

import pytest

from tests.features.policies import schedules

SCHEDULES = int(os.environ.get("HANSE_SCHEDULES", "80"))
SEED = int(os.environ.get("HANSE_SEED", "0"))
PARTS = 5


@pytest.mark.parametrize("part", range(PARTS))
def test_every_law_holds_after_any_schedule(part: int) -> None:
    for seed in range(SEED + part, SEED + SCHEDULES, PARTS):
        schedules.play(seed)
