"""The stage that scenarios are played on: `--engine` says on clusters of which kind."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hanse.features.services.feature import Services
from hanse.local.real.fleet import RealFleet
from hanse.model.verdict import Hook
from tests.scenarios.cities import *  # noqa: F403 - its fixtures
from tests.scenarios.engines import missing
from tests.scenarios.harbour import Harbour
from tests.scenarios.market import Market, shop_of
from tests.scenarios.shipyards import *  # noqa: F403 - its fixture
from tests.support.ground import Ground
from tests.support.stage import Features, Stage
from tests.support.stage_embedded import embedded_ground
from tests.support.stage_kubernetes import kubernetes_ground
from tests.support.time import ON_VIRTUAL_TIME
from tests.support.toy import Toy

HERE = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip what the engine cannot play; on real clusters scenarios are marked as such."""
    engine = config.getoption("--engine")
    if engine == "kubernetes":
        slow = [i for i in items if HERE in i.path.parents and i.get_closest_marker("virtual")]
        config.hook.pytest_deselected(items=slow)
        items[:] = [item for item in items if item not in slow]
    for item in items:
        if HERE not in item.path.parents:
            continue
        if engine == "kubernetes":
            item.add_marker(pytest.mark.real)
        needs = frozenset(need for mark in item.iter_markers("needs") for need in mark.args)
        if lacking := missing(engine, needs):
            lacked = " and ".join(sorted(lacking))
            item.add_marker(pytest.mark.skip(reason=f"needs {lacked}: not in {engine} clusters"))


@pytest.fixture(scope="session")
def engine(pytestconfig: pytest.Config) -> str:
    return str(pytestconfig.getoption("--engine"))


@pytest.fixture(scope="session")
def anyio_backend(engine: str) -> object:
    """Virtual time where clusters are in this process, else one loop that watches the fleet."""
    return ON_VIRTUAL_TIME if engine == "embedded" else "asyncio"


@pytest.fixture
def fleet(engine: str, request: pytest.FixtureRequest) -> RealFleet | None:
    """The shared real fleet, started only by those who play on it."""
    if engine == "embedded":
        return None
    shared: RealFleet = request.getfixturevalue("real_clusters")
    return shared


@pytest.fixture
async def ground(fleet: RealFleet | None, tmp_path: Path) -> AsyncIterator[Ground]:
    if fleet is None:
        async with embedded_ground() as embedded:
            yield embedded
    else:
        async with kubernetes_ground(fleet, tmp_path) as kubernetes:
            yield kubernetes


@pytest.fixture
def features() -> Features:
    """What agents do on the stage; modules about another feature override it."""
    return lambda: (Toy(),)


@pytest.fixture
def hooks() -> tuple[Hook, ...]:
    """What API servers ask agents on the stage; modules about admission override it."""
    return ()


@pytest.fixture
async def stage(
    ground: Ground,
    features: Features,
    hooks: tuple[Hook, ...],
    request: pytest.FixtureRequest,
) -> AsyncIterator[Stage]:
    """Three clusters and a broker, no agent yet, and a namespace of the scenario's own."""
    async with Stage(ground, shop_of(request.node.nodeid), features, hooks=hooks) as stage:
        yield stage


@pytest.fixture
async def market(stage: Stage) -> AsyncIterator[Market]:
    """What people offer each other on the stage; every cluster has its agent."""
    market = Market(stage)
    await market.open()
    await stage.start_agents()
    yield market
    for actor in list(stage.actors):
        await stage.kill_agent(actor)
    await market.clear()


@pytest.fixture
async def harbour(ground: Ground, request: pytest.FixtureRequest) -> AsyncIterator[Harbour]:
    """What people export to each other; every cluster has its agent, with that feature alone."""
    async with Stage(ground, shop_of(request.node.nodeid), lambda: (Services(),)) as stage:
        harbour = Harbour(stage)
        await harbour.open()
        await stage.start_agents()
        yield harbour
        for actor in list(stage.actors):
            await stage.kill_agent(actor)
        await harbour.close()
