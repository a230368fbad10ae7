"""Invariants of multi-cluster services over random schedules of actions, faults, crashes and time.

`HANSE_SERVICE_SCHEDULES` and `HANSE_SEED` make the search longer or start it elsewhere; a failure
prints its seed, and `python -m tests.features.services.schedules SEED` replays it.
"""

import os

import pytest

from tests.features.services import schedules

SCHEDULES = int(os.environ.get("HANSE_SERVICE_SCHEDULES", "150"))
SEED = int(os.environ.get("HANSE_SEED", "0"))
PARTS = 20


@pytest.mark.parametrize("part", range(PARTS))
def test_every_cluster_imports_the_merge_of_all_exports_after_any_schedule(part: int) -> None:
    for seed in range(SEED + part, SEED + SCHEDULES, PARTS):
        schedules.play(seed)
