"""Federated Services while clusters, leaders and ways between them fail."""

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from hanse.features.federated.feature import FederatedServices
from hanse.features.federation.feature import Membership
from hanse.features.machines.feature import Machines
from hanse.model.kinds.core import Service
from tests.scenarios.guild import Guild, address, guild_on
from tests.support.stage import Features, Stage, all_of

A_WHILE = timedelta(seconds=10)
L1, L2 = address("lubeck", 1), address("lubeck", 2)
H1 = address("hamburg", 1)
B1, B2 = address("bergen", 1), address("bergen", 2)


@pytest.fixture
def features() -> Features:
    return lambda: (Membership(), FederatedServices(), Machines())


@pytest.fixture
async def guild(stage: Stage) -> AsyncIterator[Guild]:
    """A federated Service with a member in each of two clusters."""
    async with guild_on(stage) as guild:
        await guild.join("lubeck", 1)
        await guild.join("bergen", 1)
        await stage.eventually(guild.everywhere(lubeck=[L1], bergen=[B1]))
        yield guild


async def test_another_supervisor_goes_on_where_a_leader_died(guild: Guild) -> None:
    stage = guild.stage
    leader = await guild.league.is_led("bergen")()
    [other] = [s for s in guild.league.supervisors if s != leader]

    await stage.kill_agent(leader)
    await guild.pods("bergen", 1, 2)

    await stage.eventually(guild.league.is_led("bergen", other))
    await stage.eventually(guild.everywhere(lubeck=[L1], bergen=[B1, B2]))


async def test_a_member_out_of_reach_empties_nobody_and_catches_up(guild: Guild) -> None:
    stage = guild.stage
    for supervisor in guild.league.supervisors:
        stage.network.cut(supervisor, "bergen")
    await guild.pods("lubeck", 1, 2)
    for cluster in ("lubeck", "hamburg"):
        await stage.eventually(guild.has(cluster, lubeck=[L1, L2], bergen=[B1]))
    await stage.always(guild.has("bergen", lubeck=[L1], bergen=[B1]), A_WHILE)
    await guild.pods("bergen", 1, 2)

    stage.network.heal_all()

    await stage.eventually(guild.everywhere(lubeck=[L1, L2], bergen=[B1, B2]))


async def test_leaders_that_restart_while_a_member_is_out_of_reach_keep_what_came_from_it(
    guild: Guild,
) -> None:
    stage = guild.stage
    for supervisor in guild.league.supervisors:
        stage.network.cut(supervisor, "bergen")
        await stage.kill_agent(supervisor)
    for supervisor in guild.league.supervisors:
        await stage.start_agent(supervisor)

    for cluster in ("lubeck", "hamburg"):
        await stage.eventually(guild.league.is_led(cluster))
    standing = [guild.has(cluster, lubeck=[L1], bergen=[B1]) for cluster in ("lubeck", "hamburg")]
    await stage.always(all_of(*standing), A_WHILE)
    await guild.join("hamburg", 1)
    for cluster in ("lubeck", "hamburg"):
        await stage.eventually(guild.has(cluster, lubeck=[L1], bergen=[B1], hamburg=[H1]))


async def test_both_sides_of_a_partition_work_on_and_agree_when_it_heals(guild: Guild) -> None:
    stage = guild.stage
    sides = {"lubeck": "hamburg", "hamburg": "lubeck"}
    for one, other in sides.items():
        stage.network.cut(one, other)
    stage.network.cut("lubeck", "bergen")
    await guild.join("hamburg", 1)
    await guild.pods("bergen", 1, 2)
    for cluster in ("hamburg", "bergen"):
        await stage.eventually(guild.has(cluster, lubeck=[L1], bergen=[B1, B2], hamburg=[H1]))
    await guild.pods("lubeck", 1, 2)
    await stage.eventually(guild.has("lubeck", lubeck=[L1, L2], bergen=[B1]))

    stage.network.heal_all()

    await stage.eventually(guild.everywhere(lubeck=[L1, L2], bergen=[B1, B2], hamburg=[H1]))


async def test_a_member_that_leaves_takes_its_endpoints_along_and_is_left_clean(
    guild: Guild,
) -> None:
    stage = guild.stage
    for supervisor in guild.league.supervisors:
        await guild.league.name_members(supervisor, "lubeck", "hamburg")

    for cluster in ("lubeck", "hamburg"):
        await stage.eventually(guild.has(cluster, lubeck=[L1]))
    await stage.eventually(guild.has("bergen"))
    assert await guild.find("bergen", Service, "web", guild.shop) is not None


async def test_what_somebody_deletes_or_edits_is_put_back(guild: Guild) -> None:
    stage = guild.stage
    await guild.person("bergen").delete(Service, guild.web, "antrea-plus-system")
    await stage.eventually(guild.has("bergen", lubeck=[L1], bergen=[B1]))

    change = {"spec": {"sessionAffinity": "ClientIP"}}
    await guild.edit("hamburg", Service, guild.web, change, space="antrea-plus-system")

    async def put_back() -> None:
        found = await guild.find("hamburg", Service, guild.web)
        assert found is not None
        assert found.spec.session_affinity == "None"

    await stage.eventually(put_back)


async def test_a_member_that_was_restored_from_a_backup_empties_nobody(guild: Guild) -> None:
    stage = guild.stage
    backup = await stage.ground.back_up("bergen")
    await guild.pods("bergen", 1, 2)
    await stage.eventually(guild.everywhere(lubeck=[L1], bergen=[B1, B2]))

    await stage.ground.restore("bergen", backup)

    await stage.eventually(guild.everywhere(lubeck=[L1], bergen=[B1]))
