"""Members that leave, are abandoned or come back, and former supervisors, on virtual time."""

import asyncio
from datetime import timedelta

import pytest

from hanse.features.federation.members import ABANDONED
from hanse.features.federation.other_supervisors import DISSOLVE
from hanse.model.facts import ClusterDeparted, Role
from hanse.model.kinds.coordination import Lease
from hanse.model.kinds.core import Event
from hanse.model.kinds.federation import SUPERVISOR, SYSTEM, ClusterClaim, Federation
from tests.features.federation.checks import SHOP, condition_says, flag_uid, no_flag
from tests.support.federation import NAME, FederationScenario
from tests.support.scenario import Scenario

TAKEOVER = timedelta(seconds=15 + 2 * 2)
"""The lease, and two tries."""


async def test_a_member_that_is_removed_is_left_clean(
    scenario: Scenario, membership: FederationScenario
) -> None:
    for supervisor in membership.supervisors:
        await membership.name_members(supervisor, "lubeck", "hamburg")

    await scenario.eventually(no_flag(membership, "bergen"))
    await scenario.settled()
    for supervisor in membership.supervisors:
        found = await membership.federation_of(supervisor)
        assert {m.cluster_id for m in found.status.members} == {"lubeck", "hamburg"}
        assert "bergen" not in scenario.agent(supervisor).reconciler.informers.connections
    lease = await membership.admin("bergen").read(Lease, "bergen", SYSTEM)
    assert lease.spec.holder_identity == ""
    await scenario.eventually(membership.has_conditions("bergen", Led="NoLeader"))


async def test_a_member_removed_while_unreachable_is_cleaned_up_when_it_is_back(
    scenario: Scenario, membership: FederationScenario
) -> None:
    for supervisor in membership.supervisors:
        scenario.network.cut(supervisor, "bergen")
    await asyncio.sleep(60)
    for supervisor in membership.supervisors:
        await membership.name_members(supervisor, "lubeck", "hamburg")
    await asyncio.sleep(200)
    assert await flag_uid(membership, "bergen")

    for supervisor in membership.supervisors:
        scenario.network.heal(supervisor, "bergen")

    await scenario.eventually(no_flag(membership, "bergen"), timedelta(minutes=5))


async def test_a_restarted_agent_continues_to_leave(
    scenario: Scenario, membership: FederationScenario
) -> None:
    for supervisor in membership.supervisors:
        scenario.network.cut(supervisor, "bergen")
    await asyncio.sleep(60)
    for supervisor in membership.supervisors:
        await membership.name_members(supervisor, "lubeck", "hamburg")
    await asyncio.sleep(60)
    for supervisor in membership.supervisors:
        states = {
            m.cluster_id: m.leaving
            for m in (await membership.federation_of(supervisor)).status.members
        }
        assert states == {"lubeck": False, "hamburg": False, "bergen": True}
        await scenario.kill_agent(supervisor)
        scenario.network.heal(supervisor, "bergen")

    await scenario.start_agents()

    await scenario.eventually(no_flag(membership, "bergen"), timedelta(minutes=5))
    await scenario.settled()
    for supervisor in membership.supervisors:
        found = await membership.federation_of(supervisor)
        assert {m.cluster_id for m in found.status.members} == {"lubeck", "hamburg"}
        assert "bergen" not in scenario.agent(supervisor).reconciler.informers.connections


async def test_an_abandoned_member_blocks_no_other(
    scenario: Scenario, membership: FederationScenario
) -> None:
    for supervisor in membership.supervisors:
        scenario.network.cut(supervisor, "bergen")
    await asyncio.sleep(60)

    for supervisor in membership.supervisors:
        marks = {"metadata": {"annotations": {ABANDONED: "bergen"}}}
        await membership.admin(supervisor).patch(Federation, NAME, "", marks)
        await membership.name_members(supervisor, "lubeck", "hamburg")
    await scenario.settled()

    for supervisor in membership.supervisors:
        informers = scenario.agent(supervisor).reconciler.informers
        assert "bergen" not in informers.connections
        assert informers.facts.get(ClusterDeparted, "bergen") is not None
    assert await flag_uid(membership, "bergen"), "what is given up stays behind"


async def test_objects_left_in_an_abandoned_member_are_recorded(
    scenario: Scenario, membership: FederationScenario
) -> None:
    leader = await membership.is_led("bergen")()
    for supervisor in membership.supervisors:
        scenario.network.cut(supervisor, "bergen")
    await asyncio.sleep(60)

    marks = {"metadata": {"annotations": {ABANDONED: "bergen"}}}
    for supervisor in membership.supervisors:
        await membership.admin(supervisor).patch(Federation, NAME, "", marks)
        await membership.name_members(supervisor, "lubeck", "hamburg")
    await scenario.settled()
    await scenario.kill_agent(leader)
    await scenario.start_agent(leader)
    await scenario.settled()

    (gone,) = (await membership.federation_of(leader)).status.abandoned
    assert (gone.cluster_id, gone.objects) == ("bergen", 1)
    assert gone.names == (f"ConfigMap {SHOP}/flag",)
    events = (await membership.admin(leader).list(Event)).objects
    assert [e.type for e in events if e.reason == "Abandoned"] == ["Warning"]

    await membership.admin(leader).patch(
        Federation, NAME, "", {"metadata": {"annotations": {ABANDONED: None}}}
    )
    await scenario.settled()
    assert (await membership.federation_of(leader)).status.abandoned == ()


async def test_a_cluster_cannot_abandon_itself(
    scenario: Scenario, membership: FederationScenario
) -> None:
    marks = {"metadata": {"annotations": {ABANDONED: "lubeck"}}}
    await membership.admin("lubeck").patch(Federation, NAME, "", marks)
    await membership.name_members("lubeck", "hamburg", "bergen")
    await asyncio.sleep(60)

    home = scenario.agent("lubeck").reconciler.informers.connections["lubeck"]
    assert Role.LOCAL in home.roles
    assert Role.MEMBER not in home.roles


async def test_a_member_with_a_reserved_name_is_reported(
    scenario: Scenario, membership: FederationScenario
) -> None:
    entry = {"clusterID": "broker", "server": "https://x.example", "secret": "member-bergen"}
    await membership.edit("lubeck", {"members": [entry]})

    await scenario.eventually(
        condition_says(membership, "lubeck", "Valid", "'broker' is something else here")
    )
    assert Role.BROKER in scenario.agent("lubeck").reconciler.informers.connections["broker"].roles


async def test_a_member_that_is_added_again_while_it_is_leaving_stays(
    scenario: Scenario, membership: FederationScenario
) -> None:
    flag = await flag_uid(membership, "bergen")
    for supervisor in membership.supervisors:
        scenario.network.cut(supervisor, "bergen")
        await membership.name_members(supervisor, "lubeck", "hamburg")
    await asyncio.sleep(60)

    for supervisor in membership.supervisors:
        await membership.name_members(supervisor, *membership.members)
        scenario.network.heal(supervisor, "bergen")

    await scenario.eventually(membership.is_led("bergen"), timedelta(minutes=2))
    await scenario.settled()
    assert await flag_uid(membership, "bergen") == flag


@pytest.mark.parametrize("how", ["its Federation is deleted", "it claims no longer to supervise"])
async def test_a_former_supervisor_leaves_members_to_the_others_without_a_gap(
    scenario: Scenario, membership: FederationScenario, how: str
) -> None:
    leader = await membership.is_led("bergen")()
    (heir,) = set(membership.supervisors) - {leader}
    flags = {m: await flag_uid(membership, m) for m in membership.members}

    if how == "its Federation is deleted":
        await membership.admin(leader).delete(Federation, NAME, "")
    else:
        await membership.claim(leader, SUPERVISOR, "false")

    await scenario.eventually(membership.is_led("bergen", heir), TAKEOVER)
    await scenario.settled()
    assert {m: await flag_uid(membership, m) for m in membership.members} == flags


async def test_the_last_supervisor_keeps_everything_until_the_federation_is_dissolved(
    scenario: Scenario, membership: FederationScenario
) -> None:
    await membership.admin("hamburg").delete(Federation, NAME, "")
    await membership.admin("hamburg").delete(ClusterClaim, SUPERVISOR, "")
    await scenario.eventually(membership.is_led("bergen", "lubeck"), TAKEOVER)
    await scenario.settled()

    await membership.claim("lubeck", SUPERVISOR, "false")
    await scenario.eventually(membership.has_conditions("lubeck", Valid="NoSuccessor"))
    await asyncio.sleep(60)
    for member in membership.members:
        assert await flag_uid(membership, member)

    await membership.claim("lubeck", SUPERVISOR, "true")
    await membership.admin("lubeck").patch(
        Federation, NAME, "", {"metadata": {"annotations": {DISSOLVE: "true"}}}
    )
    await scenario.kill_agent("lubeck")
    await scenario.start_agent("lubeck")

    for member in membership.members:
        await scenario.eventually(no_flag(membership, member))
    await scenario.settled()
    assert await membership.is_led("bergen", "")() == ""
    assert (await membership.federation_of("lubeck")).status.members == ()
