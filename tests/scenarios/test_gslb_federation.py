"""AMKO federation as people see it: copies, conditions, failures, and the three disasters."""

from collections.abc import AsyncIterator

import pytest

from hanse.features.gslb.feature import Gslb
from hanse.model.kinds.gslb import (
    GlobalDeploymentPolicy,
    GSLBConfig,
    GSLBHostRule,
)
from hanse.testing.stage import Features, Stage
from hanse.testing.stage_sites import Sites, balance

pytestmark = pytest.mark.anyio

FEDERATED = "federated to all valid clusters successfully"
GOOD = {
    "current": "valid AMKOCluster object",
    "member cluster initialisation": "all cluster clients fetched",
    "member cluster validation": "validated all member clusters",
    "GSLBConfig": FEDERATED,
    "GDP": FEDERATED,
}


@pytest.fixture
def features() -> Features:
    return lambda: (Gslb(),)


@pytest.fixture
async def sites(stage: Stage) -> AsyncIterator[Sites]:
    """Lubeck leads hamburg and bergen; every cluster has its agent."""
    made = await balance(stage)
    await made.policy("lubeck")
    await stage.start_agents()
    yield made
    for actor in list(stage.actors):
        await stage.kill_agent(actor)


async def test_followers_get_all_that_the_leader_has_and_it_says_so(
    sites: Sites, stage: Stage
) -> None:
    await sites.rule("lubeck", ttl=9)

    for follower in ("hamburg", "bergen"):
        await stage.eventually(sites.has(follower, GSLBConfig, "gc-1"))
        await stage.eventually(sites.has(follower, GlobalDeploymentPolicy, "gdp"))
        (rule,) = await stage.eventually(sites.has(follower, GSLBHostRule, "rule"))
        assert rule.spec.ttl == 9
    await stage.eventually(sites.tells("lubeck", **GOOD))
    await stage.eventually(sites.tells("hamburg", current="won't federate objects"))
