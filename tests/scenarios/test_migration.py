"""Clusters are upgraded from Submariner Lighthouse one by one, and rolled back, without a gap."""

import pytest

from hanse.model.kinds.hanse import LighthouseVersion
from tests.scenarios.toy_offers import shop_of
from tests.support.simulator.migration import Order, Step, play_order
from tests.support.testbed import ClusterTestbed

STEPS = (
    Step("upgrade", "lubeck"),
    Step("pods", "lubeck", "web", 0),
    Step("pods", "hamburg", "db", 2),
    Step("roll_back", "lubeck"),
    Step("pods", "lubeck", "web", 1),
    Step("upgrade", "bergen"),
    Step("export", "bergen", "db"),
    Step("upgrade", "lubeck"),
    Step("unexport", "hamburg", "web"),
    Step("upgrade", "hamburg"),
)


# on real clusters the earlier version alone: it has objects of two kinds that arrive by themselves
@pytest.mark.parametrize("version", ["0.14", pytest.param("0.15", marks=pytest.mark.virtual)])
async def test_every_answer_stays_right_while_clusters_are_upgraded_and_rolled_back(
    testbed: ClusterTestbed, version: LighthouseVersion, request: pytest.FixtureRequest
) -> None:
    """The name servers of all clusters give every ready address and no dead one, all the time."""
    await play_order(testbed, Order(version, STEPS), shop_of(request.node.nodeid))


RETURNS = (
    Step("upgrade", "hamburg"),
    Step("upgrade", "lubeck"),
    Step("roll_back", "lubeck"),
    Step("unexport", "hamburg", "web"),
    Step("roll_back", "hamburg"),
    Step("upgrade", "lubeck"),
    Step("upgrade", "hamburg"),
    Step("upgrade", "bergen"),
)


@pytest.mark.virtual  # five more exchanges of agents, each with a Lease that expires: minutes
async def test_an_agent_that_is_upgraded_again_has_forgotten_what_it_imported_before(
    testbed: ClusterTestbed, request: pytest.FixtureRequest
) -> None:
    await play_order(testbed, Order("0.14", RETURNS), shop_of(request.node.nodeid))
