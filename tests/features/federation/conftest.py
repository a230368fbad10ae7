"""A federation on embedded clusters and virtual time, for what takes hours or goes wrong oddly."""

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from hanse.features.federation.feature import Membership
from hanse.model.kinds.core import ConfigMap
from hanse.model.objects import Meta
from tests.support.flag import COLOURS, Flag
from tests.support.stage import Check, Stage
from tests.support.stage_embedded import embedded_ground
from tests.support.stage_federation import League, federate
from tests.support.time import ON_VIRTUAL_TIME

SHOP = "shop"


@pytest.fixture
def anyio_backend() -> object:
    return ON_VIRTUAL_TIME


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    async with embedded_ground() as ground:
        ground.calm = timedelta(seconds=40)  # leases are renewed every two seconds: time costs
        async with Stage(ground, SHOP, lambda: (Membership(), Flag(SHOP))) as stage:
            yield stage


@pytest.fixture
async def league(stage: Stage) -> League:
    """Everybody is led, and every flag flies."""
    league = await federate(stage)
    for supervisor in league.supervisors:
        meta = Meta(name=COLOURS, namespace=SHOP)
        await league.person(supervisor).create(ConfigMap(metadata=meta, data={"colour": "red"}))
    await stage.start_agents()
    await stage.eventually(league.all_led())
    await stage.eventually(flags_fly(league))
    return league


def flags_fly(league: League) -> Check[None]:
    """That every member is led, its flag flies, and everybody is told."""

    async def check() -> None:
        for member in league.members:
            await league.person(member).read(ConfigMap, "flag", SHOP)
            await league.tells(member, Led="Led")()
        for supervisor in league.supervisors:
            await league.tells(supervisor, MembersReachable="AllReachable")()

    return check
