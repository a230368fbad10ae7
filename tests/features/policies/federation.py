"""Three clusters with a replicated policy, for the scenarios of hazards."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

from hanse.features.policies.ledger import record_name
from hanse.features.policies.options import PolicyOptions
from hanse.model.plan import Key
from tests.features.policies.fleet import (
    CLUSTERS,
    HAMBURG,
    LUBECK,
    SHOP,
    PolicyFleet,
    acnp,
)

DENY = acnp("deny")
DENY_RECORD = record_name(Key("acnp", "deny"))
SETTLE_TIME = 45.0
A_WEEK = timedelta(days=7).total_seconds()


def everywhere(value: Any) -> dict[str, Any]:
    return dict.fromkeys(CLUSTERS, value)


@asynccontextmanager
async def federation(
    *, elections: bool = False, leaders: dict[str, str] | None = None, **options: Any
) -> AsyncIterator[PolicyFleet]:
    """Three clusters; lubeck's agent leads all members unless other leaders are given."""
    fleet = PolicyFleet(elections=elections, options=PolicyOptions(**options))
    for name in CLUSTERS:
        await fleet.prepare_cluster(name, SHOP)
    async with fleet.agents_running():
        if not elections:
            for name in CLUSTERS:
                fleet.assign_leader((leaders or {}).get(name, LUBECK), name)
        await asyncio.sleep(SETTLE_TIME)
        yield fleet


async def create_deny_everywhere(fleet: PolicyFleet, priority: int = 5) -> None:
    """Create a policy and wait until all members have it."""
    await fleet.create(HAMBURG, acnp("deny", priority))
    await asyncio.sleep(SETTLE_TIME)
    assert await fleet.priorities(DENY) == everywhere(priority)


async def read_phase(fleet: PolicyFleet, cluster: str, policy: Any = DENY) -> tuple[str, str]:
    record = await fleet.record(cluster, policy)
    assert record is not None, f"{cluster} has no record"
    return record.here.phase, record.here.reason
