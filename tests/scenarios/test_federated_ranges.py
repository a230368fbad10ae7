"""Members of a Federation whose address ranges overlap: nobody is sent to the wrong pods."""

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from hanse.features.federated.feature import FederatedServices
from hanse.features.federation.feature import Membership
from hanse.model.kinds.core import Service
from hanse.model.kinds.federation import SYSTEM
from tests.scenarios.disturbances import EACH, Disturbance, disturb
from tests.scenarios.federated import FederatedScenario, address, two_exporters
from tests.support.scenario import Features, Scenario, all_of

A_WHILE = timedelta(seconds=10)
L1, B1 = address("lubeck", 1), address("bergen", 1)


@pytest.fixture
def features() -> Features:
    return lambda: (Membership(), FederatedServices())


@pytest.fixture
async def federated(scenario: Scenario) -> AsyncIterator[FederatedScenario]:
    async with two_exporters(scenario) as federated:
        yield federated


@pytest.mark.parametrize("how", EACH)
async def test_members_with_the_same_addresses_take_none_of_each_other_and_are_told(
    federated: FederatedScenario, how: Disturbance
) -> None:
    scenario, membership = federated.scenario, federated.membership

    for cluster in ("lubeck", "bergen"):
        await membership.edit(cluster, {"ranges": ["10.210.1.0/24"]})
    await scenario.eventually(federated.has("bergen", bergen=[B1]))
    leader = await membership.is_led("bergen")()
    await disturb(scenario, how, leader, "bergen")

    others = [federated.has(c, lubeck=[L1], bergen=[B1]) for c in ("lubeck", "hamburg")]
    await scenario.always(all_of(federated.has("bergen", bergen=[B1]), *others), A_WHILE)
    told = (federated.web, "AddressesAllowed", "RangesOverlap", SYSTEM)
    await scenario.eventually(federated.has_conditions("bergen", Service, *told))
    for supervisor in membership.supervisors:
        overlap = membership.has_conditions(supervisor, RangesDistinct="RangesOverlap")
        found = (await scenario.eventually(overlap)).status.conditions
        (message,) = [c.message for c in found if c.type == "RangesDistinct"]
        assert "bergen (10.210.1.0/24) and lubeck (10.210.1.0/24) have the same" in message

    await membership.edit("bergen", {"ranges": ["10.210.3.0/24"]})
    await scenario.eventually(federated.everywhere(lubeck=[L1], bergen=[B1]))
    distinct = (federated.web, "AddressesAllowed", "Distinct", SYSTEM)
    await scenario.eventually(federated.has_conditions("bergen", Service, *distinct))
    for supervisor in membership.supervisors:
        apart = membership.has_conditions(supervisor, RangesDistinct="Distinct")
        await scenario.eventually(apart)
    await scenario.settled()
