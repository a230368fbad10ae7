"""Agents that restart, are killed, stand by for each other, or are told to stop."""

from datetime import timedelta

import pytest

from hanse.model.facts import ClusterState, Phase, WriteOutcome
from hanse.model.kinds.core import Namespace
from hanse.model.ownership import PAUSED
from tests.scenarios.toy_offers import OffersScenario
from tests.support.faults import LinkFaults
from tests.support.scenario import Check, Scenario, describe_writes


async def test_agents_that_restart_over_a_settled_fleet_write_nothing(
    scenario: Scenario, toy_offers: OffersScenario
) -> None:
    await toy_offers.offer("lubeck", "bread", "3")
    await toy_offers.offer("hamburg", "salt", "8")
    await scenario.eventually(toy_offers.everywhere("bread", lubeck="3"))
    await scenario.eventually(toy_offers.everywhere("salt", hamburg="8"))
    await scenario.settled()

    start = len(scenario.network.sent)
    await scenario.restart_agents()
    await scenario.settled()

    assert describe_writes(scenario.writes_since(start)) == []


async def test_an_agent_that_was_dead_catches_up_with_all_that_it_missed(
    scenario: Scenario, toy_offers: OffersScenario
) -> None:
    for name in ("bread", "salt", "wine"):
        await toy_offers.offer("lubeck", name, "3")
        await scenario.eventually(toy_offers.everywhere(name, lubeck="3"))

    await scenario.kill_agent("hamburg")
    await toy_offers.reprice("lubeck", "bread", "4")
    await toy_offers.withdraw("lubeck", "salt")
    await toy_offers.remove("hamburg", "copy-of-wine")
    await toy_offers.offer("hamburg", "fish", "9")
    await scenario.eventually(toy_offers.shows("bergen", "bread", lubeck="4"))
    await scenario.start_agent("hamburg")

    await scenario.eventually(toy_offers.everywhere("bread", lubeck="4"))
    await scenario.eventually(toy_offers.nowhere("salt"))
    await scenario.eventually(toy_offers.everywhere("wine", lubeck="3"))
    await scenario.eventually(toy_offers.everywhere("fish", hamburg="9"))


async def test_an_offer_withdrawn_while_its_agent_was_dead_goes_when_it_lives(
    scenario: Scenario, toy_offers: OffersScenario
) -> None:
    await toy_offers.offer("hamburg", "bread", "3")
    await scenario.eventually(toy_offers.everywhere("bread", hamburg="3"))

    await scenario.kill_agent("hamburg")
    await toy_offers.withdraw("hamburg", "bread")
    await scenario.start_agent("hamburg")

    await scenario.eventually(toy_offers.nowhere("bread"))


def works(scenario: Scenario, *agents: str) -> Check[str]:
    """That exactly one of some replicas works; gives which."""

    async def check() -> str:
        working = [name for name in agents if scenario.agent(name).reconciler.active]
        assert len(working) == 1, f"{working} work"
        return working[0]

    return check


async def test_of_two_replicas_one_works_and_the_other_takes_over_when_it_is_killed(
    scenario: Scenario, toy_offers: OffersScenario
) -> None:
    await scenario.kill_agent("hamburg")
    replicas = ("hamburg/1", "hamburg/2")
    for name in ("1", "2"):
        await scenario.start_agent("hamburg", name)
    await toy_offers.offer("lubeck", "bread", "3")
    await scenario.eventually(toy_offers.everywhere("bread", lubeck="3"))
    working = await scenario.eventually(works(scenario, *replicas))
    await scenario.settled()
    await scenario.always(works(scenario, *replicas), for_=timedelta(seconds=2))

    await scenario.kill_agent(working)
    await toy_offers.reprice("lubeck", "bread", "4")

    lease = scenario.testbed.timings.lease_duration
    [other] = [name for name in replicas if name != working]
    await scenario.eventually(works(scenario, other), within=lease + timedelta(seconds=5))
    await scenario.eventually(toy_offers.everywhere("bread", lubeck="4"))
    idle = [s for s in scenario.writes_since(0) if s.source == other and s.status is None]
    assert describe_writes(idle) == []


async def test_a_replica_that_takes_over_while_its_watches_are_late_takes_nothing_away(
    scenario: Scenario, toy_offers: OffersScenario
) -> None:
    await scenario.kill_agent("hamburg")
    await scenario.start_agent("hamburg", "1")
    await scenario.eventually(works(scenario, "hamburg/1"))
    late = LinkFaults(lag=timedelta(seconds=5), lags="configmaps")
    scenario.network.link("hamburg/2", scenario.broker).faults = late
    await scenario.start_agent("hamburg", "2")
    await scenario.settled()
    await toy_offers.offer("lubeck", "bread", "3")
    await scenario.eventually(toy_offers.everywhere("bread", lubeck="3"))

    await scenario.stop_agent("hamburg/1")

    await scenario.always(
        toy_offers.shows("hamburg", "bread", lubeck="3"), for_=timedelta(seconds=8)
    )
    await scenario.eventually(works(scenario, "hamburg/2"))
    await toy_offers.withdraw("lubeck", "bread")
    await scenario.eventually(toy_offers.nowhere("bread"))


async def test_a_standby_replica_writes_nothing(
    scenario: Scenario, toy_offers: OffersScenario
) -> None:
    await scenario.kill_agent("hamburg")
    await scenario.start_agent("hamburg", "1")
    await scenario.eventually(works(scenario, "hamburg/1"))
    await scenario.start_agent("hamburg", "2")

    await toy_offers.offer("hamburg", "bread", "3")
    await scenario.eventually(toy_offers.everywhere("bread", hamburg="3"))
    await toy_offers.withdraw("hamburg", "bread")
    await scenario.eventually(toy_offers.nowhere("bread"))

    assert describe_writes(s for s in scenario.writes_since(0) if s.source == "hamburg/2") == []


async def test_a_paused_agent_writes_nothing_and_goes_on_when_it_may(
    scenario: Scenario, toy_offers: OffersScenario
) -> None:
    await toy_offers.offer("lubeck", "bread", "3")
    await scenario.eventually(toy_offers.everywhere("bread", lubeck="3"))
    await _pause(scenario, "hamburg", "true")
    start = len(scenario.network.sent)

    await toy_offers.reprice("lubeck", "bread", "4")
    await toy_offers.offer("hamburg", "salt", "8")
    await scenario.eventually(toy_offers.shows("bergen", "bread", lubeck="4"))
    await scenario.settled()
    assert describe_writes(s for s in scenario.writes_since(start) if s.source == "hamburg") == []
    await toy_offers.shows("hamburg", "bread", lubeck="3")()

    await _pause(scenario, "hamburg", None)

    await scenario.eventually(toy_offers.everywhere("bread", lubeck="4"))
    await scenario.eventually(toy_offers.everywhere("salt", hamburg="8"))


async def _pause(scenario: Scenario, cluster: str, value: str | None) -> None:
    change = {"metadata": {"annotations": {PAUSED: value}}}
    await scenario.admin(cluster).patch(Namespace, scenario.system, "", change)

    async def noticed() -> None:
        assert bool(scenario.agent(cluster).reconciler.paused) == (value is not None)

    await scenario.eventually(noticed)


async def test_a_paused_object_is_left_alone_until_it_is_not(
    scenario: Scenario, toy_offers: OffersScenario
) -> None:
    await toy_offers.offer("lubeck", "bread", "3")
    await scenario.eventually(toy_offers.everywhere("bread", lubeck="3"))

    await toy_offers.edit(
        "hamburg", "copy-of-bread", {"metadata": {"annotations": {PAUSED: "true"}}}
    )
    await toy_offers.reprice("lubeck", "bread", "4")
    await scenario.eventually(toy_offers.shows("bergen", "bread", lubeck="4"))
    await scenario.settled()
    await toy_offers.shows("hamburg", "bread", lubeck="3")()

    await toy_offers.edit("hamburg", "copy-of-bread", {"metadata": {"annotations": {PAUSED: None}}})

    await scenario.eventually(toy_offers.everywhere("bread", lubeck="4"))


@pytest.mark.needs("rbac")
async def test_revoked_rights_are_reported_cost_no_requests_and_work_again_when_granted(
    scenario: Scenario, toy_offers: OffersScenario
) -> None:
    await toy_offers.offer("lubeck", "bread", "3")
    await toy_offers.offer("hamburg", "salt", "8")
    await scenario.eventually(toy_offers.everywhere("bread", lubeck="3"))
    await scenario.eventually(toy_offers.everywhere("salt", hamburg="8"))

    await scenario.allow("hamburg", only=lambda rule: rule.resource != "configmaps")
    await toy_offers.reprice("lubeck", "bread", "4")
    await scenario.eventually(_is_forbidden(scenario, "hamburg"))
    scenario.network.break_watches("hamburg", "hamburg")
    await scenario.eventually(_is_unreachable(scenario, "hamburg", "may not read ConfigMap"))
    await scenario.eventually(toy_offers.shows("bergen", "bread", lubeck="4"))
    await toy_offers.shows("hamburg", "bread", lubeck="3")()
    await toy_offers.shows("lubeck", "salt", hamburg="8")()

    await scenario.allow("hamburg")

    await scenario.eventually(
        toy_offers.everywhere("bread", lubeck="4"), within=timedelta(minutes=2)
    )
    await toy_offers.everywhere("salt", hamburg="8")()


def _is_forbidden(scenario: Scenario, agent: str) -> Check[None]:
    async def check() -> None:
        outcomes = list(scenario.agent(agent).reconciler.informers.facts.all(WriteOutcome))
        assert any(o.result == "Forbidden" for o in outcomes), outcomes

    return check


def _is_unreachable(scenario: Scenario, agent: str, words: str) -> Check[None]:
    async def check() -> None:
        state = scenario.agent(agent).reconciler.informers.facts.get(ClusterState, agent)
        assert state is not None
        assert state.phase is Phase.UNREACHABLE, state
        assert words in state.reason, state

    return check
