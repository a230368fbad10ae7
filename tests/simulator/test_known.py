"""Laws that the product breaks today, each by the shortest schedule known.

The day one of them holds, its test fails: remove the mark, and the step from `schedule.KNOWN`.
"""

import pytest

from tests.support.simulator.runner import play
from tests.support.simulator.schedule import do


@pytest.mark.xfail(reason="an answer is lost when the broker goes back by more than a minute")
def test_a_broker_that_is_restored_late_takes_no_answer_away() -> None:
    play(
        do("services.offer", "lubeck", "web", False, pause=81.01),
        do("faults.restore", "broker", 1),
        seed=1,
    )


@pytest.mark.xfail(reason="clusters roll out at the same time, each by its own budget")
def test_a_new_template_takes_one_replica_at_a_time() -> None:
    play(do("statefulsets.launch", 5, pause=40), do("statefulsets.update", "2", pause=40))
