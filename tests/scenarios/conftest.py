"""Fixtures of scenarios: `--engine` selects embedded or real clusters."""

from collections.abc import AsyncIterator
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from hanse.features.clusterset.feature import ClusterSetMember
from hanse.features.services.feature import Services
from hanse.local.real.fleet import RealFleet
from hanse.model.admission import AdmissionHook
from tests.scenarios.engines import missing
from tests.scenarios.network_fixtures import *  # noqa: F403 - its fixtures
from tests.scenarios.services import ServicesScenario, running_services
from tests.scenarios.statefulset_fixtures import *  # noqa: F403 - its fixture
from tests.scenarios.toy_offers import OffersScenario, shop_of
from tests.support.rights import USED_RIGHTS, GrantedVerb
from tests.support.scenario import Features, Scenario
from tests.support.testbed import ClusterTestbed
from tests.support.testbed_embedded import embedded_testbed
from tests.support.testbed_kubernetes import kubernetes_testbed
from tests.support.toy import Toy
from tinykube.virtual_time import ON_VIRTUAL_TIME

HERE = "tests/scenarios/"
"""What the ids of these tests start with."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip what the engine lacks; mark scenarios on real clusters as such."""
    engine = config.getoption("--engine")
    if engine == "kubernetes" or config.getoption("--latency") is not None:
        slow = [i for i in items if i.nodeid.startswith(HERE) and i.get_closest_marker("virtual")]
        config.hook.pytest_deselected(items=slow)
        items[:] = [item for item in items if item not in slow]
    for item in items:
        if not item.nodeid.startswith(HERE):
            continue
        if engine == "kubernetes":
            item.add_marker(pytest.mark.real)
        needs = frozenset(need for mark in item.iter_markers("needs") for need in mark.args)
        if lacking := missing(engine, needs):
            lacked = " and ".join(sorted(lacking))
            item.add_marker(pytest.mark.skip(reason=f"needs {lacked}: not in {engine} clusters"))


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Hand the rights of this worker to the controller."""
    if not session.config.getoption("--rights"):
        return
    worker_output = getattr(session.config, "workeroutput", None)
    if worker_output is not None:
        encoded = msgspec.json.encode([sorted(USED_RIGHTS.granted), sorted(USED_RIGHTS.used)])
        worker_output["rights"] = encoded.decode()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take the rights of a worker that has ended."""
    text = getattr(node, "workeroutput", {}).get("rights")
    if text:
        granted, used = msgspec.json.decode(text, type=list[set[GrantedVerb]])
        USED_RIGHTS.granted |= granted
        USED_RIGHTS.used |= used


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """List rights that were granted and that no scenario used."""
    if not config.getoption("--rights"):
        return
    terminalreporter.section("rights of agents in their own clusters")
    terminalreporter.line(f"{len(USED_RIGHTS.granted)} granted, {len(USED_RIGHTS.used)} used")
    for one in USED_RIGHTS.unused():
        terminalreporter.line(f"never used: {one}")


@pytest.fixture(scope="session")
def engine(pytestconfig: pytest.Config) -> str:
    return str(pytestconfig.getoption("--engine"))


@pytest.fixture(scope="session")
def anyio_backend(engine: str) -> object:
    """Virtual time where clusters are in this process, else one loop that watches the fleet."""
    return ON_VIRTUAL_TIME if engine == "embedded" else "asyncio"


@pytest.fixture
def fleet(engine: str, request: pytest.FixtureRequest) -> RealFleet | None:
    """The shared real fleet, started only where it is used."""
    if engine == "embedded":
        return None
    shared: RealFleet = request.getfixturevalue("real_clusters")
    return shared


@pytest.fixture
def latency(request: pytest.FixtureRequest) -> Random | None:
    """The latencies of a test with `--latency`, which are its own and the same in every run."""
    seed = request.config.getoption("--latency")
    return Random(f"{seed} {request.node.nodeid}") if seed is not None else None


@pytest.fixture
async def testbed(
    fleet: RealFleet | None, latency: Random | None, tmp_path: Path
) -> AsyncIterator[ClusterTestbed]:
    if fleet is None:
        async with embedded_testbed(latency=latency) as embedded:
            yield embedded
    else:
        async with kubernetes_testbed(fleet, tmp_path) as kubernetes:
            yield kubernetes


@pytest.fixture
def features() -> Features:
    """The features of the agents; modules about another feature override it."""
    return lambda: (Toy(),)


@pytest.fixture
def hooks() -> tuple[AdmissionHook, ...]:
    """The webhooks of the agents; modules about admission override it."""
    return ()


@pytest.fixture
async def scenario(
    testbed: ClusterTestbed,
    features: Features,
    hooks: tuple[AdmissionHook, ...],
    request: pytest.FixtureRequest,
) -> AsyncIterator[Scenario]:
    """Three clusters and a broker, no agent yet, and a namespace of the scenario's own."""
    async with Scenario(testbed, shop_of(request.node.nodeid), features, hooks=hooks) as scenario:
        yield scenario


@pytest.fixture
async def toy_offers(scenario: Scenario) -> AsyncIterator[OffersScenario]:
    """The toy feature on a fleet in which every cluster has its agent."""
    toy_offers = OffersScenario(scenario)
    await toy_offers.open()
    await scenario.start_agents()
    yield toy_offers
    for running in list(scenario.agents):
        await scenario.kill_agent(running)
    await toy_offers.clear()


@pytest.fixture
async def services(
    testbed: ClusterTestbed, request: pytest.FixtureRequest
) -> AsyncIterator[ServicesScenario]:
    """Multi-cluster services on a fleet whose agents have that feature alone."""
    async with running_services(testbed, request.node.nodeid) as services:
        yield services


def member_features() -> tuple[Services, ClusterSetMember]:
    """Services, and the record of a cluster on the broker."""
    return Services(), ClusterSetMember(features=("services",), version="0.2.0")


@pytest.fixture
async def members(
    testbed: ClusterTestbed, request: pytest.FixtureRequest
) -> AsyncIterator[ServicesScenario]:
    """Services on a fleet whose clusters have records on the broker."""
    name = request.node.nodeid
    async with running_services(testbed, name, features=member_features) as services:
        for cluster in services.scenario.names:
            await services.add_record(cluster)
        yield services
