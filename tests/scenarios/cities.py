"""Where scenarios of tenant networks are played.

Embedded clusters are each scenario's own. Real ones are shared: there one agent serves all
scenarios of a module, whose tenants have names of their own.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from typing import Literal

import pytest

from hanse.features.networks.feature import Networks
from hanse.features.networks.options import NetworksOptions
from hanse.features.networks.webhooks import network_hooks
from hanse.local.real.fleet import RealFleet
from tests.scenarios.city import HERE, City
from tests.scenarios.market import shop_of
from tests.support.ground import Ground
from tests.support.stage import Stage
from tests.support.stage_embedded import embedded_ground
from tests.support.stage_kubernetes import kubernetes_ground

__all__ = ["city", "city_fleet", "guarded", "guarded_town", "town"]

_numbers = count(1)


def _as_long_as(fixture_name: str, config: pytest.Config) -> Literal["module", "function"]:
    return "module" if config.getoption("--engine") == "kubernetes" else "function"


@pytest.fixture(scope=_as_long_as)
def city_fleet(request: pytest.FixtureRequest) -> RealFleet | None:
    """The shared real clusters, where scenarios are played on them."""
    if request.config.getoption("--engine") == "embedded":
        return None
    shared: RealFleet = request.getfixturevalue("real_clusters")
    return shared


@pytest.fixture(scope=_as_long_as)
async def town(
    city_fleet: RealFleet | None,
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[Stage]:
    """A stage whose agent has the feature alone and is asked about nothing."""
    async with _settled(city_fleet, request, tmp_path_factory, guarded=False) as stage:
        yield stage


@pytest.fixture(scope=_as_long_as)
async def guarded_town(
    city_fleet: RealFleet | None,
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[Stage]:
    """A stage whose API server asks the agent about what tenants write."""
    async with _settled(city_fleet, request, tmp_path_factory, guarded=True) as stage:
        await stage.eventually(City(stage, 0).is_asked)
        yield stage


@pytest.fixture
async def city(town: Stage) -> AsyncIterator[City]:
    """Tenants of one cluster."""
    async with _lived_in(town) as city:
        yield city


@pytest.fixture
async def guarded(guarded_town: Stage) -> AsyncIterator[City]:
    """Tenants of one cluster whose API server asks the agent about what they write."""
    async with _lived_in(guarded_town) as city:
        yield city


@asynccontextmanager
async def _settled(
    fleet: RealFleet | None,
    request: pytest.FixtureRequest,
    folders: pytest.TempPathFactory,
    *,
    guarded: bool,
) -> AsyncIterator[Stage]:
    """A stage with its agent, until the block ends."""
    shop = shop_of(request.node.nodeid)
    agent = f"system:serviceaccount:{shop}-system:agent-of-{HERE}"
    options = NetworksOptions(agents=(agent,))
    hooks = network_hooks(Networks(options)) if guarded else ()
    async with (
        _ground(fleet, folders) as ground,
        Stage(ground, shop, lambda: (Networks(options),), hooks=hooks) as stage,
    ):
        await City(stage, 0).open()
        await stage.start_agent(HERE)
        yield stage
        for actor in list(stage.actors):
            await stage.kill_agent(actor)
        await City(stage, 0).clean_up()


@asynccontextmanager
async def _ground(
    fleet: RealFleet | None, folders: pytest.TempPathFactory
) -> AsyncIterator[Ground]:
    if fleet is None:
        async with embedded_ground() as embedded:
            yield embedded
    else:
        async with kubernetes_ground(fleet, folders.mktemp("city")) as kubernetes:
            yield kubernetes


@asynccontextmanager
async def _lived_in(stage: Stage) -> AsyncIterator[City]:
    city = City(stage, next(_numbers))
    if HERE not in stage.actors:  # an earlier scenario failed without it
        await stage.start_agent(HERE)
    yield city
    await city.close()
