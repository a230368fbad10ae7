"""A federation on embedded clusters and virtual time."""

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from hanse.features.federation.feature import Membership
from hanse.model.kinds.core import ConfigMap
from hanse.model.objects import Meta
from tests.support.federation import FederationScenario, form_federation
from tests.support.scenario import Check, Scenario
from tests.support.testbed_embedded import embedded_testbed
from tests.support.toy_leader import COLOURS, Flag
from tinykube.virtual_time import ON_VIRTUAL_TIME

SHOP = "shop"


@pytest.fixture
def anyio_backend() -> object:
    return ON_VIRTUAL_TIME


@pytest.fixture
async def scenario() -> AsyncIterator[Scenario]:
    async with embedded_testbed() as testbed:
        testbed.settle_time = timedelta(
            seconds=40
        )  # leases are renewed every two seconds: time costs
        async with Scenario(testbed, SHOP, lambda: (Membership(), Flag(SHOP))) as scenario:
            yield scenario


@pytest.fixture
async def membership(scenario: Scenario) -> FederationScenario:
    """A federation in which every member is led and has the toy leader's flag."""
    membership = await form_federation(scenario)
    for supervisor in membership.supervisors:
        meta = Meta(name=COLOURS, namespace=SHOP)
        await membership.admin(supervisor).create(ConfigMap(metadata=meta, data={"colour": "red"}))
    await scenario.start_agents()
    await scenario.eventually(membership.all_led())
    await scenario.eventually(flags_fly(membership))
    return membership


def flags_fly(membership: FederationScenario) -> Check[None]:
    """Every member is led and has its flag, and every status says so."""

    async def check() -> None:
        for member in membership.members:
            await membership.admin(member).read(ConfigMap, "flag", SHOP)
            await membership.has_conditions(member, Led="Led")()
        for supervisor in membership.supervisors:
            await membership.has_conditions(supervisor, MembersReachable="AllReachable")()

    return check
