"""A member that takes every request and answers none: the others do not notice, people are told."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from hanse.features.federated.feature import FederatedServices
from hanse.features.federation.feature import Membership
from hanse.model.kinds.core import Service
from hanse.model.kinds.federation import SYSTEM
from hanse.runtime.concurrency import MAX_CONCURRENT, PERMIT_TIMEOUT
from hanse.runtime.readiness import report
from tests.scenarios.federated import GLOBAL, FederatedScenario, address, federated_scenario
from tests.support.faults import DETECTION_TIME, LinkFaults
from tests.support.scenario import Features, Scenario

pytestmark = pytest.mark.virtual

SERVICES = 3 * MAX_CONCURRENT
"""More than are worked on at a time, several times over."""
TRIP = timedelta(milliseconds=20)
SOON = timedelta(seconds=5)
"""What it takes to tell what was noticed."""


@pytest.fixture
def features() -> Features:
    return lambda: (Membership(), FederatedServices())


@pytest.fixture
async def federated(scenario: Scenario) -> AsyncIterator[FederatedScenario]:
    async with federated_scenario(scenario) as federated:
        await federated.join("lubeck", 1)
        await scenario.eventually(federated.everywhere(lubeck=[address("lubeck", 1)]))
        yield federated


async def test_the_others_keep_their_pace_while_one_answers_nothing(
    federated: FederatedScenario,
) -> None:
    slow_links(federated)
    before = await seconds_until_federated(federated, "early", "hamburg")

    hang(federated, "bergen")
    meanwhile = await seconds_until_federated(federated, "late", "hamburg")

    assert await federated_names(federated, "late", "bergen") == set()
    assert meanwhile <= 1.5 * before + PERMIT_TIMEOUT.total_seconds()


async def test_the_hung_member_is_reported_and_catches_up(federated: FederatedScenario) -> None:
    scenario = federated.scenario
    hang(federated, "bergen")
    await federated.pods("lubeck", 1, 2)
    await asyncio.sleep((DETECTION_TIME + SOON).total_seconds())
    for supervisor in federated.membership.supervisors:
        await federated.membership.has_conditions(
            supervisor, MembersReachable="MemberUnreachable"
        )()
        reconciler = scenario.agents[supervisor].agent.reconciler
        line = "[-] bergen: Unreachable it takes requests and answers none of them"
        assert line in report(reconciler)
        reachable = reconciler.metrics.registry.get_sample_value
        assert reachable("hanse_reachable", {"cluster": "bergen"}) == 0
        assert reachable("hanse_reachable", {"cluster": "lubeck"}) == 1

    scenario.network.heal_all()

    both = [address("lubeck", 1), address("lubeck", 2)]
    await scenario.eventually(federated.everywhere(lubeck=both))
    for supervisor in federated.membership.supervisors:
        await scenario.eventually(
            federated.membership.has_conditions(supervisor, MembersReachable="AllReachable")
        )


def hang(federated: FederatedScenario, member: str) -> None:
    for supervisor in federated.membership.supervisors:
        federated.scenario.network.hang(supervisor, member)


def slow_links(federated: FederatedScenario) -> None:
    for supervisor in federated.membership.supervisors:
        for member in federated.membership.members:
            federated.scenario.network.link(supervisor, member).faults = LinkFaults(delay=TRIP)


async def seconds_until_federated(federated: FederatedScenario, prefix: str, cluster: str) -> float:
    """How long it takes until a cluster has as many new federated Services of another."""
    names = {f"{prefix}-{number}" for number in range(SERVICES)}
    began = asyncio.get_running_loop().time()
    for name in sorted(names):
        await federated.serve("lubeck", name, marks={GLOBAL: name})

    async def all_there() -> None:
        assert await federated_names(federated, prefix, cluster) == names

    await federated.scenario.eventually(all_there)
    return asyncio.get_running_loop().time() - began


async def federated_names(federated: FederatedScenario, prefix: str, cluster: str) -> set[str]:
    listed = await federated.admin(cluster).list(Service, namespace=SYSTEM)
    return {s.metadata.name for s in listed.objects if s.metadata.name.startswith(prefix)}
