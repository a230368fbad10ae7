"""Membership of a broker: records of members, and who counts."""

from collections.abc import AsyncIterator

import pytest

from hanse.features.clusterset.feature import ClusterSetMember
from hanse.features.services.feature import Services
from hanse.model.kinds.hanse import ClusterMember
from hanse.model.naming import BROKER_NAMESPACE
from tests.scenarios.services import ServicesScenario, running_services
from tests.support.scenario import Check
from tests.support.testbed import ClusterTestbed


def features() -> tuple[Services, ClusterSetMember]:
    return Services(), ClusterSetMember(features=("services",), version="0.2.0")


@pytest.fixture
async def members(
    testbed: ClusterTestbed, request: pytest.FixtureRequest
) -> AsyncIterator[ServicesScenario]:
    """Services on a fleet whose clusters have records on the broker."""
    async with running_services(testbed, request.node.nodeid, features=features) as services:
        for cluster in services.scenario.names:
            await services.add_record(cluster)
        yield services


def has_phase(services: ServicesScenario, cluster: str, phase: str) -> Check[None]:
    """That the record of a cluster has a phase."""

    async def check() -> None:
        broker = services.admin(services.scenario.broker)
        record = await broker.read(ClusterMember, cluster, BROKER_NAMESPACE)
        assert record.status.phase == phase, f"{cluster} is {record.status.phase}"

    return check


async def test_every_agent_keeps_its_record_and_a_settled_fleet_writes_none(
    members: ServicesScenario,
) -> None:
    scenario = members.scenario
    await members.serve_and_export("lubeck")

    for cluster in scenario.names:
        await scenario.eventually(has_phase(members, cluster, "Ready"))

    broker = members.admin(scenario.broker)
    record = await broker.read(ClusterMember, "lubeck", BROKER_NAMESPACE)
    assert (record.spec.features, record.status.agent.version) == (("services",), "0.2.0")
    await scenario.eventually(members.everywhere("web", "lubeck"))
    await scenario.settled()


async def test_a_cluster_that_has_left_is_imported_nowhere_although_its_agent_runs(
    members: ServicesScenario,
) -> None:
    scenario = members.scenario
    for cluster in ("bergen", "lubeck"):
        await members.serve_and_export(cluster)
    await scenario.eventually(members.everywhere("web", "bergen", "lubeck"))

    left = {"status": {"phase": "Left"}}
    place = (ClusterMember, "lubeck", BROKER_NAMESPACE, left)
    await members.admin(scenario.broker).patch(*place, subresource="status")

    await scenario.eventually(members.imports("bergen", "web", "bergen"))
    await scenario.eventually(members.imports("hamburg", "web", "bergen"))
