"""Three clusters with a policy in all of them, for the scenarios of what may happen to it."""

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
    Realm,
    acnp,
)

DENY = acnp("deny")
DENY_RECORD = record_name(Key("acnp", "deny"))
A_WHILE = 45.0
A_WEEK = timedelta(days=7).total_seconds()


def everywhere(value: Any) -> dict[str, Any]:
    return dict.fromkeys(CLUSTERS, value)


@asynccontextmanager
async def federation(
    *, elections: bool = False, leaders: dict[str, str] | None = None, **options: Any
) -> AsyncIterator[Realm]:
    """Three clusters; lubeck's agent leads all unless somebody else is named."""
    realm = Realm(elections=elections, options=PolicyOptions(**options))
    for name in CLUSTERS:
        await realm.furnish(name, SHOP)
    async with realm.agents_running():
        if not elections:
            for name in CLUSTERS:
                realm.crown((leaders or {}).get(name, LUBECK), name)
        await asyncio.sleep(A_WHILE)
        yield realm


async def deny_stands(realm: Realm, priority: int = 5) -> None:
    """A policy that all members have and nobody touches."""
    await realm.create(HAMBURG, acnp("deny", priority))
    await asyncio.sleep(A_WHILE)
    assert await realm.priorities(DENY) == everywhere(priority)


async def phase_of(realm: Realm, cluster: str, policy: Any = DENY) -> tuple[str, str]:
    record = await realm.record(cluster, policy)
    assert record is not None, f"{cluster} has no record"
    return record.here.phase, record.here.reason
