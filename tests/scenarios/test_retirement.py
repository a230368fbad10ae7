"""Supervisors that retire or leave: nothing blinks, no address changes, nothing of ours remains."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from hanse.features.federated.feature import FederatedServices
from hanse.features.federation.feature import Membership
from hanse.features.federation.other_supervisors import DISSOLVE
from hanse.model.kinds.core import ConfigMap, Service
from hanse.model.kinds.discovery import EndpointSlice
from hanse.model.kinds.federation import SUPERVISOR, ClusterClaim, Federation
from hanse.model.objects import ClusterId, Wire
from hanse.model.ownership import OWNER
from tests.scenarios.disturbances import CUT, EACH, Disturbance, disturb
from tests.scenarios.federated import FederatedScenario, address, two_exporters
from tests.support.federation import NAME
from tests.support.scenario import Check, Features, Scenario

A_WHILE = timedelta(seconds=10)
L1, B1, B2 = address("lubeck", 1), address("bergen", 1), address("bergen", 2)
LEAVER, HEIR = "lubeck", "hamburg"


@pytest.fixture
def features() -> Features:
    return lambda: (Membership(), FederatedServices())


@pytest.fixture
async def federated(scenario: Scenario) -> AsyncIterator[FederatedScenario]:
    """A federated Service in all members; lubeck leads itself, and with it bergen or not."""
    async with two_exporters(scenario) as federated:
        await scenario.eventually(federated.membership.is_led(LEAVER, LEAVER))
        yield federated


async def demote(federated: FederatedScenario, supervisor: ClusterId, how: str) -> None:
    """Let a cluster supervise no longer."""
    match how:
        case "claim":
            await federated.admin(supervisor).delete(ClusterClaim, SUPERVISOR, "")
        case "federation":
            await federated.admin(supervisor).delete(Federation, NAME, "")
        case _:
            await federated.membership.edit(supervisor, {"members": []})


async def addresses(federated: FederatedScenario) -> dict[ClusterId, tuple[str, str]]:
    """The uid and the ClusterIP of the federated Service in each member."""
    found = {
        cluster: await federated.find(cluster, Service, federated.web)
        for cluster in federated.membership.members
    }
    return {c: (s.metadata.uid, s.spec.cluster_ip) for c, s in found.items() if s is not None}


def unchanged(
    federated: FederatedScenario, before: dict[ClusterId, tuple[str, str]]
) -> Check[None]:
    """That every federated Service is the same, with all its endpoints."""

    async def check() -> None:
        await federated.everywhere(lubeck=[L1], bergen=[B1])()
        assert await addresses(federated) == before

    return check


async def disturbed(
    federated: FederatedScenario, how: Disturbance, supervisor: ClusterId, check: Check[None]
) -> None:
    """That something holds all the time, while a supervisor is disturbed and for a while after."""
    others = [m for m in federated.membership.members if m != supervisor]
    async with asyncio.TaskGroup() as group:
        disturbance = disturb(federated.scenario, how, supervisor, *others)
        group.create_task(disturbance, name="disturbance")
        time = A_WHILE + timedelta(seconds=CUT if how == "cut" else 0)
        await federated.scenario.always(check, time)


@pytest.mark.parametrize(
    "demoted", [pytest.param("claim", marks=pytest.mark.virtual), "federation", "members"]
)
@pytest.mark.parametrize("how", EACH)
async def test_a_demoted_supervisor_changes_no_address_anywhere(
    federated: FederatedScenario, demoted: str, how: Disturbance
) -> None:
    scenario, before = federated.scenario, await addresses(federated)

    await demote(federated, LEAVER, demoted)

    await disturbed(federated, how, LEAVER, unchanged(federated, before))
    for member in federated.membership.members:
        await scenario.eventually(federated.membership.is_led(member, HEIR))
    await scenario.always(unchanged(federated, before), A_WHILE)


@pytest.mark.parametrize("how", EACH)
async def test_nothing_of_ours_remains_in_a_supervisor_that_leaves(
    federated: FederatedScenario, how: Disturbance
) -> None:
    scenario, membership = federated.scenario, federated.membership
    before = await addresses(federated)

    await demote(federated, LEAVER, "claim")
    await scenario.eventually(is_retired(federated, LEAVER))
    await membership.name_members(HEIR, HEIR, "bergen")
    await disturb(scenario, how, HEIR, LEAVER, "bergen")

    for cluster in (HEIR, "bergen"):
        await scenario.eventually(federated.has(cluster, bergen=[B1]))
    await scenario.eventually(lambda: nothing_of_ours(federated, LEAVER))
    await scenario.eventually(membership.is_led(LEAVER, ""))
    assert await federated.find(LEAVER, Service, "web", federated.namespace) is not None
    left = {c: found for c, found in (await addresses(federated)).items() if c != LEAVER}
    assert left == {c: found for c, found in before.items() if c != LEAVER}


async def test_a_supervisor_that_is_struck_off_before_it_has_handed_over_leaves_when_dissolved(
    federated: FederatedScenario,
) -> None:
    """Its agent sees both at once: no other names its cluster, which it would keep and lead."""
    scenario, membership = federated.scenario, federated.membership
    await membership.name_members(HEIR, HEIR, "bergen")
    await demote(federated, LEAVER, "claim")
    await scenario.eventually(membership.has_conditions(LEAVER, Valid="NoSuccessor"))

    dissolve: Wire = {"metadata": {"annotations": {DISSOLVE: "true"}}}
    await federated.admin(LEAVER).patch(Federation, NAME, "", dissolve)

    await scenario.eventually(is_retired(federated, LEAVER))
    await scenario.eventually(membership.is_led(LEAVER, ""))
    await scenario.eventually(lambda: nothing_of_ours(federated, LEAVER))
    for cluster in (HEIR, "bergen"):
        await scenario.eventually(federated.has(cluster, bergen=[B1]))


def is_retired(federated: FederatedScenario, cluster: ClusterId) -> Check[None]:
    """That a former supervisor has handed over every member, by its status."""

    async def check() -> None:
        status = (await federated.membership.federation_of(cluster)).status
        assert (status.members, status.retiring) == ((), ()), f"{cluster} has {status}"

    return check


async def nothing_of_ours(federated: FederatedScenario, cluster: ClusterId) -> None:
    """Check that nothing in a cluster carries our label."""
    for kind in (Service, EndpointSlice, ConfigMap):
        listed = (await federated.admin(cluster).list(kind, labels=OWNER)).objects
        assert not listed, f"{cluster} has {[o.metadata.name for o in listed]}"


@pytest.mark.virtual
@pytest.mark.parametrize("demoted", ["claim", "members"])
@pytest.mark.parametrize("how", EACH)
async def test_the_last_supervisor_keeps_what_stands(
    federated: FederatedScenario, demoted: str, how: Disturbance
) -> None:
    scenario, before = federated.scenario, await addresses(federated)
    await demote(federated, HEIR, demoted)
    await scenario.eventually(is_retired(federated, HEIR))

    await demote(federated, LEAVER, demoted)

    await scenario.eventually(federated.membership.has_conditions(LEAVER, Valid="NoSuccessor"))
    await disturbed(federated, how, LEAVER, unchanged(federated, before))


@pytest.mark.virtual
@pytest.mark.parametrize("demoted", ["claim", "members"])
async def test_the_last_supervisor_leads_on_after_a_restart(
    federated: FederatedScenario, demoted: str
) -> None:
    scenario, membership = federated.scenario, federated.membership
    await demote(federated, HEIR, demoted)
    await scenario.eventually(is_retired(federated, HEIR))
    await demote(federated, LEAVER, demoted)
    await scenario.eventually(membership.has_conditions(LEAVER, Valid="NoSuccessor"))

    await scenario.kill_agent(LEAVER)
    await scenario.start_agent(LEAVER)
    await federated.pods("bergen", 1, 2)

    await scenario.eventually(federated.everywhere(lubeck=[L1], bergen=[B1, B2]))
    for member in membership.members:
        await scenario.eventually(membership.is_led(member, LEAVER))


@pytest.mark.parametrize("how", EACH)
async def test_supervisors_with_different_lists_say_so_and_keep_what_stands(
    federated: FederatedScenario, how: Disturbance
) -> None:
    scenario, membership = federated.scenario, federated.membership
    before = await addresses(federated)

    await membership.name_members(HEIR, LEAVER, HEIR)
    for supervisor in membership.supervisors:
        await scenario.eventually(
            membership.has_conditions(supervisor, MembersDiffer="ListsDiffer")
        )
    await disturbed(federated, how, LEAVER, unchanged(federated, before))
    await disturbed(federated, how, HEIR, unchanged(federated, before))
    await scenario.kill_agent(HEIR)
    await scenario.start_agent(HEIR)
    await scenario.kill_agent(LEAVER)
    await scenario.eventually(membership.is_led(LEAVER, HEIR))

    await scenario.always(unchanged(federated, before), A_WHILE)
    await scenario.start_agent(LEAVER)
    await membership.name_members(HEIR, *membership.members)
    for supervisor in membership.supervisors:
        agree = membership.has_conditions(supervisor, MembersDiffer="ListsAgree")
        await scenario.eventually(agree)
    await scenario.always(unchanged(federated, before), A_WHILE)
