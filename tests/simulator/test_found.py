"""Schedules that broke a law once, each shrunk to the steps that it took."""

import pytest

from tests.support.simulator.runner import play
from tests.support.simulator.schedule import do


@pytest.mark.parametrize("restore", ["faults.restore", "faults.restore_forward"])
def test_a_restored_broker_takes_no_answer_away(restore: str) -> None:
    play(do("services.offer", "lubeck", "web", False, pause=40), do(restore, "broker", 0))
