"""The fixture of scenarios about federated StatefulSets."""

from collections.abc import AsyncIterator

import pytest

from hanse.features.statefulsets.feature import StatefulSets
from hanse.model.naming import BROKER_NAMESPACE
from tests.scenarios.statefulsets import StatefulSetsScenario
from tests.scenarios.toy_offers import shop_of
from tests.support.scenario import Scenario
from tests.support.testbed import ClusterTestbed

__all__ = ["sets"]


@pytest.fixture
async def sets(
    testbed: ClusterTestbed, request: pytest.FixtureRequest
) -> AsyncIterator[StatefulSetsScenario]:
    """Federated StatefulSets on a fleet whose agents have that feature."""
    namespace = shop_of(request.node.nodeid)
    async with Scenario(testbed, namespace, lambda: (StatefulSets(BROKER_NAMESPACE),)) as scenario:
        sets = StatefulSetsScenario(scenario)
        await sets.open()
        await scenario.start_agents()
        await scenario.eventually(sets.all_have_joined())
        yield sets
