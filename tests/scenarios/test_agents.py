"""Agents that restart, are killed, stand by for each other, or are told to stop."""

from datetime import timedelta

import pytest

from hanse.model.facts import ClusterState, Phase, WriteOutcome
from hanse.model.kinds.core import Namespace
from hanse.model.labels import PAUSED
from tests.scenarios.market import Market
from tests.support.stage import Check, Stage, told


async def test_agents_that_restart_over_a_settled_fleet_write_nothing(
    stage: Stage, market: Market
) -> None:
    await market.offer("lubeck", "bread", "3")
    await market.offer("hamburg", "salt", "8")
    await stage.eventually(market.everywhere("bread", lubeck="3"))
    await stage.eventually(market.everywhere("salt", hamburg="8"))
    await stage.settled()

    start = len(stage.network.sent)
    for cluster in stage.names:
        await stage.kill_agent(cluster)
    await stage.start_agents()
    await stage.settled()

    assert told(stage.writes_since(start)) == []


async def test_an_agent_that_was_dead_catches_up_with_all_that_it_missed(
    stage: Stage, market: Market
) -> None:
    for name in ("bread", "salt", "wine"):
        await market.offer("lubeck", name, "3")
        await stage.eventually(market.everywhere(name, lubeck="3"))

    await stage.kill_agent("hamburg")
    await market.reprice("lubeck", "bread", "4")
    await market.withdraw("lubeck", "salt")
    await market.remove("hamburg", "copy-of-wine")
    await market.offer("hamburg", "fish", "9")
    await stage.eventually(market.shows("bergen", "bread", lubeck="4"))
    await stage.start_agent("hamburg")

    await stage.eventually(market.everywhere("bread", lubeck="4"))
    await stage.eventually(market.nowhere("salt"))
    await stage.eventually(market.everywhere("wine", lubeck="3"))
    await stage.eventually(market.everywhere("fish", hamburg="9"))


async def test_an_offer_withdrawn_while_its_agent_was_dead_goes_when_it_lives(
    stage: Stage, market: Market
) -> None:
    await market.offer("hamburg", "bread", "3")
    await stage.eventually(market.everywhere("bread", hamburg="3"))

    await stage.kill_agent("hamburg")
    await market.withdraw("hamburg", "bread")
    await stage.start_agent("hamburg")

    await stage.eventually(market.nowhere("bread"))


def works(stage: Stage, *agents: str) -> Check[str]:
    """That exactly one of some replicas works; gives which."""

    async def check() -> str:
        working = [name for name in agents if stage.agent(name).engine.active]
        assert len(working) == 1, f"{working} work"
        return working[0]

    return check


async def test_of_two_replicas_one_works_and_the_other_takes_over_when_it_is_killed(
    stage: Stage, market: Market
) -> None:
    await stage.kill_agent("hamburg")
    replicas = ("hamburg/1", "hamburg/2")
    for name in ("1", "2"):
        await stage.start_agent("hamburg", name)
    await market.offer("lubeck", "bread", "3")
    await stage.eventually(market.everywhere("bread", lubeck="3"))
    working = await stage.eventually(works(stage, *replicas))
    await stage.settled()
    await stage.always(works(stage, *replicas), for_=timedelta(seconds=2))

    await stage.kill_agent(working)
    await market.reprice("lubeck", "bread", "4")

    lease = stage.ground.terms.lease
    [other] = [name for name in replicas if name != working]
    await stage.eventually(works(stage, other), within=lease + timedelta(seconds=5))
    await stage.eventually(market.everywhere("bread", lubeck="4"))
    idle = [s for s in stage.writes_since(0) if s.source == other and s.status is None]
    assert told(idle) == []


async def test_a_replica_that_stands_by_writes_nothing(stage: Stage, market: Market) -> None:
    await stage.kill_agent("hamburg")
    await stage.start_agent("hamburg", "1")
    await stage.eventually(works(stage, "hamburg/1"))
    await stage.start_agent("hamburg", "2")

    await market.offer("hamburg", "bread", "3")
    await stage.eventually(market.everywhere("bread", hamburg="3"))
    await market.withdraw("hamburg", "bread")
    await stage.eventually(market.nowhere("bread"))

    assert told(s for s in stage.writes_since(0) if s.source == "hamburg/2") == []


async def test_a_paused_agent_writes_nothing_and_goes_on_when_it_may(
    stage: Stage, market: Market
) -> None:
    await market.offer("lubeck", "bread", "3")
    await stage.eventually(market.everywhere("bread", lubeck="3"))
    await _pause(stage, "hamburg", "true")
    start = len(stage.network.sent)

    await market.reprice("lubeck", "bread", "4")
    await market.offer("hamburg", "salt", "8")
    await stage.eventually(market.shows("bergen", "bread", lubeck="4"))
    await stage.settled()
    assert told(s for s in stage.writes_since(start) if s.source == "hamburg") == []
    await market.shows("hamburg", "bread", lubeck="3")()

    await _pause(stage, "hamburg", None)

    await stage.eventually(market.everywhere("bread", lubeck="4"))
    await stage.eventually(market.everywhere("salt", hamburg="8"))


async def _pause(stage: Stage, cluster: str, value: str | None) -> None:
    change = {"metadata": {"annotations": {PAUSED: value}}}
    await stage.person(cluster).patch(Namespace, stage.system, "", change)

    async def noticed() -> None:
        assert bool(stage.agent(cluster).engine.paused) == (value is not None)

    await stage.eventually(noticed)


async def test_a_paused_object_is_left_alone_until_it_is_not(stage: Stage, market: Market) -> None:
    await market.offer("lubeck", "bread", "3")
    await stage.eventually(market.everywhere("bread", lubeck="3"))

    await market.edit("hamburg", "copy-of-bread", {"metadata": {"annotations": {PAUSED: "true"}}})
    await market.reprice("lubeck", "bread", "4")
    await stage.eventually(market.shows("bergen", "bread", lubeck="4"))
    await stage.settled()
    await market.shows("hamburg", "bread", lubeck="3")()

    await market.edit("hamburg", "copy-of-bread", {"metadata": {"annotations": {PAUSED: None}}})

    await stage.eventually(market.everywhere("bread", lubeck="4"))


@pytest.mark.needs("rbac")
async def test_rights_that_are_revoked_are_told_cost_nothing_and_work_again_when_granted(
    stage: Stage, market: Market
) -> None:
    await market.offer("lubeck", "bread", "3")
    await market.offer("hamburg", "salt", "8")
    await stage.eventually(market.everywhere("bread", lubeck="3"))
    await stage.eventually(market.everywhere("salt", hamburg="8"))

    await stage.allow("hamburg", only=lambda rule: rule.resource != "configmaps")
    await market.reprice("lubeck", "bread", "4")
    await stage.eventually(_is_forbidden(stage, "hamburg"))
    stage.network.break_watches("hamburg", "hamburg")
    await stage.eventually(_is_unreachable(stage, "hamburg", "may not read ConfigMap"))
    await stage.eventually(market.shows("bergen", "bread", lubeck="4"))
    await market.shows("hamburg", "bread", lubeck="3")()
    await market.shows("lubeck", "salt", hamburg="8")()

    await stage.allow("hamburg")

    await stage.eventually(market.everywhere("bread", lubeck="4"), within=timedelta(minutes=2))
    await market.everywhere("salt", hamburg="8")()


def _is_forbidden(stage: Stage, agent: str) -> Check[None]:
    async def check() -> None:
        outcomes = list(stage.agent(agent).engine.fleet.facts.all(WriteOutcome))
        assert any(o.result == "Forbidden" for o in outcomes), outcomes

    return check


def _is_unreachable(stage: Stage, agent: str, words: str) -> Check[None]:
    async def check() -> None:
        state = stage.agent(agent).engine.fleet.facts.get(ClusterState, agent)
        assert state is not None
        assert state.phase is Phase.UNREACHABLE, state
        assert words in state.reason, state

    return check
