"""Two supervisors and a child that cannot reach them: who leads, who takes over, who is told."""

import pytest

from hanse.features.federation.feature import Membership
from hanse.kube.elector import STEADY
from hanse.model.facts import Phase
from hanse.model.kinds.core import ConfigMap
from hanse.model.objects import ClusterId, Meta
from tests.scenarios.market import shop_of
from tests.support.flag import COLOURS, Flag
from tests.support.stage import Check, Features, Stage, told
from tests.support.stage_federation import League, federate, put


@pytest.fixture
def features(request: pytest.FixtureRequest) -> Features:
    shop = shop_of(request.node.nodeid)
    return lambda: (Membership(), Flag(shop))


@pytest.fixture
async def league(stage: Stage) -> League:
    """A federation whose agents run, everybody is led, and every flag is red."""
    league = await federate(stage)
    for supervisor in league.supervisors:
        await paint(stage, supervisor, "red")
    await stage.start_agents()
    await stage.eventually(league.all_led())
    await stage.eventually(flies(stage, "red", *league.members))
    return league


async def paint(stage: Stage, cluster: ClusterId, colour: str) -> None:
    """Let a supervisor fly this colour where it leads."""
    meta = Meta(name=COLOURS, namespace=stage.shop)
    await put(stage.person(cluster), ConfigMap(metadata=meta, data={"colour": colour}))


def flies(stage: Stage, colour: str, *clusters: ClusterId) -> Check[None]:
    async def check() -> None:
        for cluster in clusters:
            flag = await stage.person(cluster).read(ConfigMap, "flag", stage.shop)
            assert flag.data == {"colour": colour}, f"{cluster} flies {flag.data}"

    return check


async def test_every_member_gets_a_leader_and_everybody_is_told(
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
    assert child.status.leaders == (leaders["bergen"],)
    assert child.status.members == ()


async def test_nothing_is_written_once_everybody_is_led_and_a_restart_writes_nothing(
    stage: Stage, league: League
) -> None:
    await stage.settled()
    before = [await league.told(cluster) for cluster in league.members]

    start = len(stage.network.sent)
    for name in ("bergen", "hamburg"):
        await stage.kill_agent(name)
        await stage.start_agent(name)
    await stage.settled()

    assert told(stage.writes_since(start)) == []
    assert [await league.told(cluster) for cluster in league.members] == before


async def test_a_new_token_is_used_without_losing_sight(stage: Stage, league: League) -> None:
    await stage.settled()
    agent = stage.agent("lubeck")
    secret = await league.secret_for("bergen")

    await put(league.person("lubeck"), secret)

    async def uses_it() -> None:
        road = agent.roads.known["bergen"]
        assert road.access.identity.token == secret.data["token"].decode()
        assert agent.engine.fleet.connections["bergen"].state.phase is Phase.SYNCED

    await stage.eventually(uses_it)


async def test_when_the_leaders_supervisor_dies_another_takes_over(
    stage: Stage, league: League
) -> None:
    leader = await league.is_led("bergen")()
    (heir,) = set(league.supervisors) - {leader}
    await paint(stage, heir, "blue")

    await stage.kill_agent(leader)
    for member in league.members:
        stage.network.cut(leader, member)

    await stage.eventually(league.is_led("bergen", heir), stage.ground.terms.lease * 3)
    await stage.eventually(flies(stage, "blue", "bergen", heir, leader))

    async def is_told() -> None:
        assert (await league.told(heir)).status.leaders == (heir,)

    await stage.eventually(is_told)


@pytest.mark.virtual
async def test_a_supervisor_that_is_back_gets_its_members_back_after_a_while(
    stage: Stage, league: League
) -> None:
    before = await league.all_led()()
    leader = before["bergen"]
    (heir,) = set(league.supervisors) - {leader}
    await stage.kill_agent(leader)
    await stage.eventually(league.is_led("bergen", heir), stage.ground.terms.lease * 3)
    await stage.eventually(league.is_led(leader, heir), stage.ground.terms.lease * 3)

    await stage.start_agent(leader)
    await stage.always(league.is_led("bergen", heir), STEADY / 2)

    for member in (leader, "bergen"):
        await stage.eventually(league.is_led(member, leader), 2 * STEADY)
    await stage.settled()
    assert await league.all_led()() == before
    start = len(stage.network.sent)
    await stage.always(league.all_led(), 2 * STEADY)
    assert (await league.all_led()(), told(stage.writes_since(start))) == (before, [])


async def test_both_sides_of_a_partition_work_on_and_agree_once_it_heals(
    stage: Stage, league: League
) -> None:
    away = {"lubeck": "hamburg", "hamburg": "lubeck"}
    leader = await league.is_led("bergen")()
    other = away[leader]

    stage.network.cut(leader, other)
    stage.network.cut(other, leader)
    stage.network.cut(other, "bergen")
    for supervisor in league.supervisors:
        await stage.eventually(league.tells(supervisor, MembersReachable="MemberUnreachable"))
    await paint(stage, leader, "blue")
    await paint(stage, other, "green")

    await stage.eventually(flies(stage, "blue", leader, "bergen"))
    await stage.eventually(flies(stage, "green", other))
    await league.is_led("bergen", leader)()

    stage.network.heal(leader, other)
    stage.network.heal(other, leader)
    stage.network.heal(other, "bergen")

    for supervisor in league.supervisors:
        await stage.eventually(league.tells(supervisor, MembersReachable="AllReachable"))
    await stage.settled()
    await flies(stage, "blue", leader, "bergen")()
    await flies(stage, "green", other)()
