"""The life cycle of a policy that is replicated to three clusters, until it is collected."""

import asyncio
from datetime import timedelta

import pytest

from tests.features.policies.federation import (
    DENY,
    SETTLE_TIME,
    create_deny_everywhere,
    everywhere,
    federation,
)
from tests.features.policies.fleet import (
    BERGEN,
    CLUSTERS,
    HAMBURG,
    acnp,
    anp,
)
from tinykube.virtual_time import ON_VIRTUAL_TIME


@pytest.fixture
def anyio_backend() -> object:
    return ON_VIRTUAL_TIME


@pytest.mark.parametrize("origin", CLUSTERS)
async def test_a_policy_made_changed_and_deleted_in_any_member_is_so_in_all(origin: str) -> None:
    async with federation() as fleet:
        for policy in (acnp("deny", 1), anp("deny", 1)):
            await fleet.create(origin, policy)
            await asyncio.sleep(SETTLE_TIME)
            assert await fleet.priorities(policy) == everywhere(1)

            change = {"spec": {"priority": 2}, "metadata": {"labels": {"team": "net"}}}
            await fleet.edit(origin, policy, change)
            await asyncio.sleep(SETTLE_TIME)
            assert await fleet.priorities(policy) == everywhere(2)
            for name in CLUSTERS:
                copy = await fleet.find(name, policy)
                assert copy is not None
                assert copy.metadata.labels == {"team": "net"}

            await fleet.delete(origin, policy)
            await asyncio.sleep(SETTLE_TIME)
            assert await fleet.priorities(policy) == everywhere(None)


async def test_tombstones_are_collected_when_all_members_know_them_then_no_writes() -> None:
    async with federation() as fleet:
        await create_deny_everywhere(fleet)
        await fleet.delete(BERGEN, DENY)

        await asyncio.sleep(timedelta(minutes=15).total_seconds())

        for name in CLUSTERS:
            assert await fleet.record(name, DENY) is None
            page = await fleet.page(name)
            assert page is not None
            assert list(page.collected) == ["acnp//deny"]
        with fleet.network.counting_writes() as writes:
            await asyncio.sleep(600)
        assert not writes


async def test_origin_and_copies_have_events() -> None:
    async with federation() as fleet:
        await create_deny_everywhere(fleet)

        assert await fleet.list_event_reasons(HAMBURG) == {"Federated"}
        assert await fleet.list_event_reasons(BERGEN) == {"Replicated"}


async def test_a_policy_deleted_for_the_second_time_is_forgotten_again() -> None:
    async with federation() as fleet:
        for _ in range(2):
            await create_deny_everywhere(fleet)
            await fleet.delete(BERGEN, DENY)
            await asyncio.sleep(timedelta(minutes=15).total_seconds())
            assert {await fleet.record(name, DENY) for name in CLUSTERS} == {None}
