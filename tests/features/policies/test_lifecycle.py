"""The plain life of a policy that is the same in three clusters, until it is forgotten."""

import asyncio
from datetime import timedelta

import pytest

from tests.features.policies.federation import (
    A_WHILE,
    DENY,
    deny_stands,
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
    async with federation() as realm:
        for policy in (acnp("deny", 1), anp("deny", 1)):
            await realm.create(origin, policy)
            await asyncio.sleep(A_WHILE)
            assert await realm.priorities(policy) == everywhere(1)

            change = {"spec": {"priority": 2}, "metadata": {"labels": {"team": "net"}}}
            await realm.edit(origin, policy, change)
            await asyncio.sleep(A_WHILE)
            assert await realm.priorities(policy) == everywhere(2)
            for name in CLUSTERS:
                copy = await realm.find(name, policy)
                assert copy is not None
                assert copy.metadata.labels == {"team": "net"}

            await realm.delete(origin, policy)
            await asyncio.sleep(A_WHILE)
            assert await realm.priorities(policy) == everywhere(None)


async def test_tombstones_go_when_all_have_seen_them_and_then_nobody_writes() -> None:
    async with federation() as realm:
        await deny_stands(realm)
        await realm.delete(BERGEN, DENY)

        await asyncio.sleep(timedelta(minutes=15).total_seconds())

        for name in CLUSTERS:
            assert await realm.record(name, DENY) is None
            page = await realm.page(name)
            assert page is not None
            assert list(page.collected) == ["acnp//deny"]
        with realm.network.counting_writes() as writes:
            await asyncio.sleep(600)
        assert not writes


async def test_origin_and_copies_are_told_by_events() -> None:
    async with federation() as realm:
        await deny_stands(realm)

        assert await realm.told(HAMBURG) == {"Federated"}
        assert await realm.told(BERGEN) == {"Replicated"}


async def test_a_policy_deleted_for_the_second_time_is_forgotten_again() -> None:
    async with federation() as realm:
        for _ in range(2):
            await deny_stands(realm)
            await realm.delete(BERGEN, DENY)
            await asyncio.sleep(timedelta(minutes=15).total_seconds())
            assert {await realm.record(name, DENY) for name in CLUSTERS} == {None}
