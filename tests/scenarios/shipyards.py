"""The fixture of scenarios about federated StatefulSets."""

from collections.abc import AsyncIterator

import pytest

from hanse.features.services.feature import BROKER_NAMESPACE
from hanse.features.statefulsets.feature import StatefulSets
from tests.scenarios.market import shop_of
from tests.scenarios.shipyard import Shipyard
from tests.support.ground import Ground
from tests.support.stage import Stage

__all__ = ["shipyard"]


@pytest.fixture
async def shipyard(ground: Ground, request: pytest.FixtureRequest) -> AsyncIterator[Shipyard]:
    """What people submit to the federation; every cluster has its agent, with that feature."""
    shop = shop_of(request.node.nodeid)
    async with Stage(ground, shop, lambda: (StatefulSets(BROKER_NAMESPACE),)) as stage:
        shipyard = Shipyard(stage)
        await shipyard.open()
        await stage.start_agents()
        await stage.eventually(shipyard.all_have_joined())
        yield shipyard
        for actor in list(stage.actors):
            await stage.kill_agent(actor)
        await shipyard.close()
