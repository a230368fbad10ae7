"""Two supervisors and a child that cannot reach them: who leads, who takes over, who is told."""

from datetime import timedelta

import pytest

from hanse.features.federation.feature import Membership
from hanse.model.facts import Phase
from hanse.testing.stage import Features, Stage, told
from hanse.testing.stage_federation import League, federate, put

A_WHILE = timedelta(seconds=10)


@pytest.fixture
def features() -> Features:
    return lambda: (Membership(),)


@pytest.fixture
async def league(stage: Stage) -> League:
    """A federation whose agents run, and everybody is led."""
    league = await federate(stage)
    await stage.start_agents()
    await stage.eventually(league.all_led())
    return league


async def test_every_member_gets_a_leader_and_the_supervisors_share_the_work(
    stage: Stage, league: League
) -> None:
    for supervisor in league.supervisors:
        found = await stage.eventually(
            league.tells(supervisor, Valid="Valid", MembersReachable="AllReachable", Led="Led")
        )
        assert {m.cluster_id: m.reachable for m in found.status.members} == {
            "lubeck": True,
            "hamburg": True,
            "bergen": True,
        }
    child = await stage.eventually(league.tells("bergen", Valid="Valid", Led="Led"))
    leaders = await league.all_led()()

    assert leaders["lubeck"] == "lubeck"
    assert leaders["hamburg"] == "hamburg"
    assert child.status.leaders == (leaders["bergen"],)
    assert child.status.members == ()


async def test_nothing_is_written_once_everybody_is_led_and_a_restart_writes_nothing(
    stage: Stage, league: League
) -> None:
    await stage.settled()
    before = [await league.told(cluster) for cluster in league.members]

    start = len(stage.network.sent)
    await stage.kill_agent("bergen")
    await stage.start_agent("bergen")
    await stage.settled()

    assert told(stage.writes_since(start)) == []
    assert [await league.told(cluster) for cluster in league.members] == before


async def test_a_new_token_is_used_without_losing_sight(stage: Stage, league: League) -> None:
    await stage.settled()
    agent = stage.agent("lubeck")
    secret = await league.secret_for("bergen")

    await put(league.person("lubeck"), secret)

    async def uses_it() -> None:
        road = agent._roads._roads["bergen"]
        assert road.access.identity.token == secret.data["token"].decode()
        assert agent.engine.fleet.connections["bergen"].state.phase is Phase.SYNCED

    await stage.eventually(uses_it)
