"""Laws that the product breaks today, each by the shortest schedule known, as expected failures.

The day one of them holds, its test fails: remove the mark, and the step from `schedule.KNOWN`.
"""

from tests.support.simulator.runner import play
from tests.support.simulator.schedule import do


def test_a_new_template_takes_one_replica_at_a_time() -> None:
    play(do("statefulsets.launch", 5, pause=40), do("statefulsets.update", "2", pause=40))
