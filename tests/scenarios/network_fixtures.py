"""Fixtures of scenarios about tenant networks.

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
from tests.scenarios.networks import HERE, NetworksScenario
from tests.scenarios.toy_offers import shop_of
from tests.support.scenario import Scenario
from tests.support.testbed import ClusterTestbed
from tests.support.testbed_embedded import embedded_testbed
from tests.support.testbed_kubernetes import kubernetes_testbed

__all__ = ["guarded", "guarded_scenario", "networks_fleet", "plain_scenario", "tenancy"]

_numbers = count(1)


def _as_long_as(fixture_name: str, config: pytest.Config) -> Literal["module", "function"]:
    return "module" if config.getoption("--engine") == "kubernetes" else "function"


@pytest.fixture(scope=_as_long_as)
def networks_fleet(request: pytest.FixtureRequest) -> RealFleet | None:
    """The shared real clusters, where scenarios run on them."""
    if request.config.getoption("--engine") == "embedded":
        return None
    shared: RealFleet = request.getfixturevalue("real_clusters")
    return shared


@pytest.fixture(scope=_as_long_as)
async def plain_scenario(
    networks_fleet: RealFleet | None,
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[Scenario]:
    """A fleet whose agent has the feature alone, without webhooks."""
    async with _running_scenario(
        networks_fleet, request, tmp_path_factory, guarded=False
    ) as scenario:
        yield scenario


@pytest.fixture(scope=_as_long_as)
async def guarded_scenario(
    networks_fleet: RealFleet | None,
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[Scenario]:
    """A fleet whose API server calls the agent's webhooks."""
    async with _running_scenario(
        networks_fleet, request, tmp_path_factory, guarded=True
    ) as scenario:
        await scenario.eventually(NetworksScenario(scenario, 0).webhook_is_called)
        yield scenario


@pytest.fixture
async def tenancy(plain_scenario: Scenario) -> AsyncIterator[NetworksScenario]:
    """Tenants of one cluster."""
    async with _tenants_on(plain_scenario) as tenancy:
        yield tenancy


@pytest.fixture
async def guarded(guarded_scenario: Scenario) -> AsyncIterator[NetworksScenario]:
    """Tenants of one cluster whose API server asks the agent about what they write."""
    async with _tenants_on(guarded_scenario) as tenancy:
        yield tenancy


def agent_users(namespace: str) -> tuple[str, ...]:
    """The users of the agents of a scenario, whom its admission policies trust."""
    return (f"system:serviceaccount:{namespace}-system:agent-of-{HERE}",)


@asynccontextmanager
async def _running_scenario(
    fleet: RealFleet | None,
    request: pytest.FixtureRequest,
    folders: pytest.TempPathFactory,
    *,
    guarded: bool,
) -> AsyncIterator[Scenario]:
    """Run a scenario with its agent until the block ends."""
    namespace = shop_of(request.node.nodeid)
    options = NetworksOptions(agents=agent_users(namespace))
    hooks = network_hooks(Networks(options)) if guarded else ()
    async with (
        _testbed(fleet, folders) as testbed,
        Scenario(testbed, namespace, lambda: (Networks(options),), hooks=hooks) as scenario,
    ):
        await NetworksScenario(scenario, 0).open()
        await scenario.start_agent(HERE)
        yield scenario
        for running in list(scenario.agents):
            await scenario.kill_agent(running)
        await NetworksScenario(scenario, 0).clean_up()


@asynccontextmanager
async def _testbed(
    fleet: RealFleet | None, folders: pytest.TempPathFactory
) -> AsyncIterator[ClusterTestbed]:
    if fleet is None:
        async with embedded_testbed() as embedded:
            yield embedded
    else:
        async with kubernetes_testbed(fleet, folders.mktemp("networks")) as kubernetes:
            yield kubernetes


@asynccontextmanager
async def _tenants_on(scenario: Scenario) -> AsyncIterator[NetworksScenario]:
    tenancy = NetworksScenario(scenario, next(_numbers))
    if HERE not in scenario.agents:  # an earlier scenario failed without it
        await scenario.start_agent(HERE)
    yield tenancy
    await tenancy.close()
