"""Bad templates, drained nodes and lost ones take no more replicas than the budget."""

import pytest

from hanse.features.statefulsets import disruption
from tests.support.simulator.fleet import Fleet
from tests.support.simulator.forks import play
from tests.support.simulator.loop import run
from tests.support.simulator.runner import Failure, Run, failure_of, failure_on, parts_named
from tests.support.simulator.schedule import Schedule, do
from tests.support.simulator.statefulsets import StatefulSets
from tests.support.testbed_embedded import embedded_testbed

SETS = parts_named(["services", "statefulsets"])
LOST = (
    do("statefulsets.launch", 5, pause=40),
    do("statefulsets.lose_node", "hamburg", pause=130),
    do("statefulsets.update", "2", pause=40),
)


def test_a_bad_template_takes_one_replica_whatever_else_happens() -> None:
    play(
        do("statefulsets.launch", 5, pause=40),
        do("statefulsets.update_badly", "4", pause=20),
        do("faults.restart", "lubeck"),
        do("statefulsets.scale", 4, pause=20),
        do("faults.storm", "hamburg", "broker"),
        do("statefulsets.rebalance", "a", pause=20),
        do("statefulsets.update_badly", "5", pause=5),
        do("faults.cut", "bergen", "broker", pause=40),
        do("statefulsets.scale", 2, pause=40),
        parts=SETS,
    )


def test_nodes_of_all_clusters_are_drained_one_replica_at_a_time() -> None:
    drains = [do("statefulsets.drain", cluster, pause=1) for cluster in ("lubeck", "bergen")]
    play(
        do("statefulsets.launch", 3, pause=20),
        do("statefulsets.protect", pause=20),
        *drains,
        *drains,
        do("faults.crash", 3),
        do("statefulsets.update", "2"),
        *drains,
        *drains,
        parts=SETS,
    )


def test_a_lost_node_costs_no_other_replica() -> None:
    play(
        *LOST,
        do("faults.restart", "bergen"),
        do("statefulsets.scale", 4, pause=40),
        do("statefulsets.restore_nodes", "hamburg", pause=40),
        parts=SETS,
    )


def test_the_law_notices_who_does_not_count_what_is_down(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disruption, "_room", lambda *_: (1, ""))

    failure = failure_of(Schedule(LOST), SETS)

    assert failure is not None
    assert failure.law == "budget-kept"


async def _failure_of_sets_alone(schedule: Schedule) -> Failure | None:
    async with (
        embedded_testbed() as testbed,
        Fleet(testbed, "shop", features=("statefulsets",)) as fleet,
    ):
        game = Run(fleet, SETS)
        game.laws = list(StatefulSets(fleet).laws())
        await game.start()
        return await failure_on(game, schedule)


def test_agents_and_name_servers_with_sets_alone_have_the_rights_that_they_use() -> None:
    assert run(_failure_of_sets_alone(Schedule((do("statefulsets.launch", 3, pause=40),)))) is None
