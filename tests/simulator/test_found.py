"""Schedules that broke a law once, each shrunk to the steps that it took."""

import pytest

from tests.support.simulator.runner import play
from tests.support.simulator.schedule import do


@pytest.mark.parametrize("restore", ["faults.restore", "faults.restore_forward"])
@pytest.mark.parametrize("pause", [40, 81.01])
def test_a_restored_broker_takes_no_answer_away(restore: str, pause: float) -> None:
    play(do("services.offer", "lubeck", "web", False, pause=pause), do(restore, "broker", 0))


def test_exports_say_who_imports_them_when_a_cluster_leaves() -> None:
    play(
        do("services.offer", "bergen", "web", False, pause=20),
        do("services.offer", "lubeck", "db", True, pause=5),
        do("members.leave", "bergen"),
        seed=26,
    )
