"""A member that takes every request and answers none: the others do not notice, people are told."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from hanse.features.federated.feature import FederatedServices
from hanse.features.federation.feature import Membership
from hanse.model.kinds.core import Service
from hanse.model.kinds.federation import SYSTEM
from hanse.runtime.health import report
from hanse.runtime.health_probe import NOTICED
from hanse.runtime.slots import HELD, MOST_AT_ONCE
from tests.scenarios.guild import GLOBAL, Guild, address, guild_on
from tests.support.faults import Weather
from tests.support.stage import Features, Stage

pytestmark = pytest.mark.virtual

SERVICES = 3 * MOST_AT_ONCE
"""More than are worked on at a time, several times over."""
TRIP = timedelta(milliseconds=20)
SOON = timedelta(seconds=5)
"""What it takes to tell what was noticed."""


@pytest.fixture
def features() -> Features:
    return lambda: (Membership(), FederatedServices())


@pytest.fixture
async def guild(stage: Stage) -> AsyncIterator[Guild]:
    async with guild_on(stage) as guild:
        await guild.join("lubeck", 1)
        await stage.eventually(guild.everywhere(lubeck=[address("lubeck", 1)]))
        yield guild


async def test_the_others_keep_their_pace_while_one_answers_nothing(guild: Guild) -> None:
    slow_roads(guild)
    before = await seconds_until_federated(guild, "early", "hamburg")

    hang(guild, "bergen")
    meanwhile = await seconds_until_federated(guild, "late", "hamburg")

    assert await federated(guild, "late", "bergen") == set()
    assert meanwhile <= 1.5 * before + HELD.total_seconds()


async def test_the_hung_one_is_told_and_catches_up(guild: Guild) -> None:
    stage = guild.stage
    hang(guild, "bergen")
    await guild.pods("lubeck", 1, 2)
    await asyncio.sleep((NOTICED + SOON).total_seconds())
    for supervisor in guild.league.supervisors:
        await guild.league.tells(supervisor, MembersReachable="MemberUnreachable")()
        engine = stage.actors[supervisor].agent.engine
        told = "[-] bergen: Unreachable it takes requests and answers none of them"
        assert told in report(engine)
        reachable = engine.metrics.registry.get_sample_value
        assert reachable("hanse_reachable", {"cluster": "bergen"}) == 0
        assert reachable("hanse_reachable", {"cluster": "lubeck"}) == 1

    stage.network.heal_all()

    both = [address("lubeck", 1), address("lubeck", 2)]
    await stage.eventually(guild.everywhere(lubeck=both))
    for supervisor in guild.league.supervisors:
        await stage.eventually(guild.league.tells(supervisor, MembersReachable="AllReachable"))


def hang(guild: Guild, member: str) -> None:
    for supervisor in guild.league.supervisors:
        guild.stage.network.hang(supervisor, member)


def slow_roads(guild: Guild) -> None:
    for supervisor in guild.league.supervisors:
        for member in guild.league.members:
            guild.stage.network.link(supervisor, member).weather = Weather(delay=TRIP)


async def seconds_until_federated(guild: Guild, prefix: str, cluster: str) -> float:
    """How long it takes until a cluster has as many new federated Services of another."""
    names = {f"{prefix}-{number}" for number in range(SERVICES)}
    began = asyncio.get_running_loop().time()
    for name in sorted(names):
        await guild.serve("lubeck", name, marks={GLOBAL: name})

    async def all_there() -> None:
        assert await federated(guild, prefix, cluster) == names

    await guild.stage.eventually(all_there)
    return asyncio.get_running_loop().time() - began


async def federated(guild: Guild, prefix: str, cluster: str) -> set[str]:
    listed = await guild.person(cluster).list(Service, namespace=SYSTEM)
    return {s.metadata.name for s in listed.objects if s.metadata.name.startswith(prefix)}
