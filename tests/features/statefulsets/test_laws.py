"""The laws of federated sets over random schedules of user actions, faults, crashes and time.

`HANSE_SET_SCHEDULES` and `HANSE_SEED` make the search longer or start it elsewhere; a failure
prints its seed, and `python -m tests.features.statefulsets.schedules SEED` replays it.
"""

import os

import pytest

from tests.features.statefulsets import schedules

SCHEDULES = int(os.environ.get("HANSE_SET_SCHEDULES", "12"))
SEED = int(os.environ.get("HANSE_SEED", "0"))
PARTS = 6


@pytest.mark.parametrize("part", range(PARTS))
def test_every_replica_has_one_place_after_any_schedule(part: int) -> None:
    for seed in range(SEED + part, SEED + SCHEDULES, PARTS):
        schedules.play(seed)
