"""Leaders that stop or die, and their successors, on virtual time."""

import asyncio
from datetime import timedelta

from hanse.model.kinds.coordination import Lease
from hanse.model.kinds.federation import SYSTEM
from tests.features.federation.checks import flag_uid
from tests.support.federation import FederationScenario
from tests.support.scenario import Scenario, describe_writes

TAKEOVER = timedelta(seconds=15 + 2 * 2)
"""The lease, and two tries."""


async def test_supervisors_that_start_together_share_the_work(
    membership: FederationScenario,
) -> None:
    leaders = await membership.all_led()()

    assert (leaders["lubeck"], leaders["hamburg"]) == ("lubeck", "hamburg")


async def test_a_dead_leader_is_followed_within_the_lease_and_two_tries(
    scenario: Scenario, membership: FederationScenario
) -> None:
    leader = await membership.is_led("bergen")()
    (heir,) = set(membership.supervisors) - {leader}

    await scenario.kill_agent(leader)

    await scenario.eventually(membership.is_led("bergen", heir), TAKEOVER)
    await scenario.eventually(membership.is_led(leader, heir), TAKEOVER)


async def test_a_leader_that_stops_releases_its_leases_and_the_next_writes_nothing(
    scenario: Scenario, membership: FederationScenario
) -> None:
    leader = await membership.is_led("bergen")()
    (heir,) = set(membership.supervisors) - {leader}
    start = len(scenario.network.sent)

    await scenario.stop_agent(leader)

    await scenario.eventually(membership.is_led("bergen", heir), timedelta(seconds=4))
    await scenario.settled()
    written = [w for w in describe_writes(scenario.writes_since(start)) if " bergen/" in w]
    assert all("federations/league/status" in w for w in written), "the flag was written again"
    assert len(written) <= 1


async def test_epochs_of_a_lease_grow_with_each_leader(
    scenario: Scenario, membership: FederationScenario
) -> None:
    before = await membership.admin("bergen").read(Lease, "bergen", SYSTEM)
    leader = await membership.is_led("bergen")()
    (heir,) = set(membership.supervisors) - {leader}

    await scenario.stop_agent(leader)
    await scenario.eventually(membership.is_led("bergen", heir))

    after = await membership.admin("bergen").read(Lease, "bergen", SYSTEM)
    assert after.spec.lease_transitions == before.spec.lease_transitions + 1


async def test_without_any_supervisor_a_cluster_reports_no_leader_and_keeps_its_objects(
    scenario: Scenario, membership: FederationScenario
) -> None:
    flag = await flag_uid(membership, "bergen")

    for supervisor in membership.supervisors:
        await scenario.kill_agent(supervisor)

    await scenario.eventually(membership.has_conditions("bergen", Led="NoLeader"))
    assert await flag_uid(membership, "bergen") == flag


async def test_of_two_replicas_only_the_active_one_is_a_candidate_and_the_other_takes_over(
    scenario: Scenario, membership: FederationScenario
) -> None:
    await scenario.stop_agent("lubeck")
    await scenario.stop_agent("hamburg")
    await scenario.start_agent("lubeck", "a")
    await scenario.eventually(membership.is_led("bergen", "lubeck"))
    await scenario.start_agent("lubeck", "b")
    await asyncio.sleep(30)
    lease = await membership.admin("bergen").read(Lease, "bergen", SYSTEM)
    assert lease.spec.holder_identity == "lubeck_a"
    assert scenario.agent("lubeck/b").elections.members == frozenset()

    await scenario.kill_agent("lubeck/a")

    async def is_held() -> None:
        held = await membership.admin("bergen").read(Lease, "bergen", SYSTEM)
        assert held.spec.holder_identity == "lubeck_b"

    await scenario.eventually(is_held, TAKEOVER * 2)
    assert (await membership.federation_of("lubeck")).status.leaders == ("lubeck",)
