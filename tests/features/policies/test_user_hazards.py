"""What people and their tools may do to a policy that is the same in three clusters."""

import asyncio
from datetime import timedelta

import pytest

from hanse.features.policies.content import FEDERATED
from hanse.features.policies.ledger import RESOLVE_ANNOTATION
from hanse.model.kinds.core import Namespace
from hanse.model.kinds.federation import SYSTEM
from tests.features.policies.federation import (
    A_WHILE,
    DENY,
    deny_stands,
    everywhere,
    federation,
    phase_of,
)
from tests.features.policies.fleet import (
    BERGEN,
    CLUSTERS,
    HAMBURG,
    LUBECK,
    acnp,
    is_plain,
)
from tinykube.virtual_time import ON_VIRTUAL_TIME

SPEC_WITH_DEFAULTS = {
    "type": "object",
    "x-kubernetes-preserve-unknown-fields": True,
    "properties": {
        "tier": {"type": "string", "default": "application"},
        "mode": {"type": "string", "default": "strict"},
    },
}
KNOWN_TIERS = {
    "type": "object",
    "x-kubernetes-preserve-unknown-fields": True,
    "properties": {"tier": {"type": "string", "enum": ["application", "emergency"]}},
}


@pytest.fixture
def anyio_backend() -> object:
    return ON_VIRTUAL_TIME


async def test_edits_in_two_clusters_at_once() -> None:
    async with federation(leaders={BERGEN: HAMBURG}) as realm:
        await deny_stands(realm)
        realm.network.cut(LUBECK, BERGEN)
        realm.network.cut(HAMBURG, LUBECK)
        realm.network.cut(HAMBURG, HAMBURG)
        await asyncio.sleep(A_WHILE)
        await realm.edit(BERGEN, DENY, {"spec": {"priority": 20}})
        await realm.edit(LUBECK, DENY, {"spec": {"priority": 30}})
        await asyncio.sleep(A_WHILE)

        realm.network.heal_all()
        await asyncio.sleep(2 * A_WHILE)

        assert await realm.priorities(DENY) == everywhere(30), "of equal sums the later cluster id"
        for name in CLUSTERS:
            record = await realm.record(name, DENY)
            assert record is not None
            assert [e.content.spec for e in record.history.overruled] == [{"priority": 20}]
        assert "VersionsCrossed" in await realm.told(BERGEN)

        await realm.edit(LUBECK, DENY, {"metadata": {"annotations": {RESOLVE_ANNOTATION: BERGEN}}})
        await asyncio.sleep(A_WHILE)
        assert await realm.priorities(DENY) == everywhere(20), "a person took the other one"
        record = await realm.record(HAMBURG, DENY)
        assert record is not None
        assert not record.history.overruled


async def test_edit_against_delete() -> None:
    async with federation(leaders={BERGEN: HAMBURG}) as realm:
        await deny_stands(realm)
        for source, target in ((LUBECK, BERGEN), (HAMBURG, LUBECK), (HAMBURG, HAMBURG)):
            realm.network.cut(source, target)
        await asyncio.sleep(A_WHILE)
        await realm.edit(BERGEN, DENY, {"spec": {"priority": 20}})
        await realm.delete(LUBECK, DENY)
        await asyncio.sleep(A_WHILE)

        realm.network.heal_all()
        await asyncio.sleep(3 * A_WHILE)

        assert await realm.priorities(DENY) == everywhere(20)
        assert "VersionsCrossed" in await realm.told(LUBECK)


async def test_annotation_removed() -> None:
    async with federation() as realm:
        await deny_stands(realm)
        await realm.edit(LUBECK, DENY, {"metadata": {"annotations": {FEDERATED: None}}})
        await asyncio.sleep(A_WHILE)

        assert await realm.priorities(DENY) == everywhere(5)
        for name in CLUSTERS:
            assert is_plain(await realm.find(name, DENY)), name

        await realm.edit(BERGEN, DENY, {"spec": {"priority": 9}})
        await realm.delete(HAMBURG, DENY)
        await asyncio.sleep(timedelta(hours=1).total_seconds())
        assert await realm.priorities(DENY) == {LUBECK: 5, HAMBURG: None, BERGEN: 9}


async def test_same_name_plain_policy() -> None:
    async with federation() as realm:
        plain = await realm.create(BERGEN, acnp("deny", 1, federated=False))
        await realm.create(LUBECK, acnp("deny", 5))
        await asyncio.sleep(A_WHILE)
        assert await realm.priorities(DENY) == {**everywhere(5), BERGEN: 1}
        assert await realm.find(BERGEN, DENY) == plain
        assert await phase_of(realm, BERGEN) == ("Blocked", "PlainPolicy")
        assert "BlockedPlainPolicy" in await realm.told(BERGEN)

        await realm.delete(BERGEN, DENY)
        await asyncio.sleep(A_WHILE)
        assert await realm.priorities(DENY) == everywhere(5)


async def test_a_policy_deleted_and_replaced_by_a_plain_one_while_nobody_looked_is_deleted() -> (
    None
):
    async with federation() as realm:
        await deny_stands(realm)
        await realm.kill_agent(LUBECK)
        await realm.delete(BERGEN, DENY)
        plain = await realm.create(BERGEN, acnp("deny", 1, federated=False))
        realm.start_agent(LUBECK)
        for name in CLUSTERS:
            realm.crown(LUBECK, name)

        await asyncio.sleep(A_WHILE)

        assert await realm.priorities(DENY) == {**everywhere(None), BERGEN: 1}
        assert await realm.find(BERGEN, DENY) == plain


async def test_webhook_defaulting() -> None:
    """One cluster fills fields in: its copies are no edits, and edits there are still seen."""
    async with federation() as realm:
        await realm.define(BERGEN, "clusternetworkpolicies.crd.antrea.io", SPEC_WITH_DEFAULTS)
        await deny_stands(realm)
        filled = await realm.find(BERGEN, DENY)
        assert filled is not None
        assert filled.spec == {"priority": 5, "tier": "application", "mode": "strict"}
        assert (await phase_of(realm, BERGEN))[0] == "Applied"
        other = await realm.find(LUBECK, DENY)
        assert other is not None
        assert other.spec == {"priority": 5}

        await realm.edit(BERGEN, DENY, {"spec": {"mode": "lax"}})
        await asyncio.sleep(A_WHILE)
        other = await realm.find(LUBECK, DENY)
        assert other is not None
        assert other.spec["mode"] == "lax"


async def test_missing_tier() -> None:
    """A policy that one cluster refuses is blocked there with its message, applied elsewhere."""
    async with federation() as realm:
        definition = "clusternetworkpolicies.crd.antrea.io"
        await realm.define(BERGEN, definition, KNOWN_TIERS)
        policy = acnp("deny", 5)
        policy.spec["tier"] = "gold"
        await realm.create(LUBECK, policy)
        await asyncio.sleep(A_WHILE)
        assert await realm.priorities(DENY) == {**everywhere(5), BERGEN: None}
        record = await realm.record(BERGEN, DENY)
        assert record is not None
        assert (record.here.phase, record.here.reason) == ("Blocked", "Refused")
        assert "gold" in record.here.message
        assert "BlockedRefused" in await realm.told(BERGEN)

        await realm.define(BERGEN, definition)
        await asyncio.sleep(timedelta(minutes=11).total_seconds())
        assert await realm.priorities(DENY) == everywhere(5)


async def test_gitops_recreating_what_was_deleted() -> None:
    """Somebody deletes, a tool creates again: after some rounds a person is asked."""
    async with federation() as realm:
        await deny_stands(realm)

        async def recreate() -> None:
            while True:
                if await realm.find(BERGEN, DENY) is None:
                    await realm.create(BERGEN, acnp("deny", 5))
                await asyncio.sleep(20)

        tool = asyncio.create_task(recreate())
        for _ in range(4):
            if await realm.find(LUBECK, DENY) is not None:
                await realm.delete(LUBECK, DENY)
            await asyncio.sleep(2 * A_WHILE)

        assert await realm.priorities(DENY) == {LUBECK: None, HAMBURG: None, BERGEN: 5}
        assert await phase_of(realm, BERGEN) == ("Quarantined", "Flapping")
        with realm.network.counting_writes() as writes:
            await asyncio.sleep(timedelta(hours=2).total_seconds())
        assert not writes, "nobody fights with the tool"

        tool.cancel()
        await realm.delete(BERGEN, DENY)
        await asyncio.sleep(timedelta(minutes=15).total_seconds())
        assert await realm.priorities(DENY) == everywhere(None)
        assert await realm.record(BERGEN, DENY) is None


async def test_two_tools_that_disagree_are_stopped() -> None:
    async with federation() as realm:
        await deny_stands(realm)

        async def insist(cluster: str, priority: int) -> None:
            while True:
                standing = await realm.find(cluster, DENY)
                if standing is not None and standing.spec["priority"] != priority:
                    await realm.edit(cluster, DENY, {"spec": {"priority": priority}})
                await asyncio.sleep(20)

        tools = [asyncio.create_task(insist(c, p)) for c, p in ((LUBECK, 1), (BERGEN, 2))]
        await asyncio.sleep(10 * A_WHILE)

        with realm.network.counting_writes() as writes:
            await asyncio.sleep(timedelta(hours=1).total_seconds())
        assert not writes
        phases = {name: await phase_of(realm, name) for name in CLUSTERS}
        assert ("Quarantined", "Flapping") in phases.values()
        for tool in tools:
            tool.cancel()


async def test_too_many_that_vanish_at_once_are_held_until_a_person_says_so() -> None:
    async with federation(vanished=3) as realm:
        names = [f"p{i}" for i in range(8)]
        for name in names:
            await realm.create(LUBECK, acnp(name, 1))
        await asyncio.sleep(A_WHILE)
        await realm.kill_agent(LUBECK)
        for name in names:
            await realm.delete(BERGEN, acnp(name))
        realm.start_agent(LUBECK)
        for name in CLUSTERS:
            realm.crown(LUBECK, name)
        await asyncio.sleep(3 * A_WHILE)
        for name in names:
            assert await realm.priorities(acnp(name)) == {**everywhere(1), BERGEN: None}
        assert await phase_of(realm, BERGEN, acnp("p0")) == ("Applied", "Held")

        change = {"metadata": {"annotations": {"hanse.dev/allow-mass-deletion": "policies"}}}
        await realm.client(BERGEN).patch(Namespace, SYSTEM, "", change)
        await asyncio.sleep(3 * A_WHILE)
        for name in names:
            assert await realm.priorities(acnp(name)) == everywhere(None)


async def test_a_policy_made_in_a_partition_follows_its_namesake_out_of_the_federation() -> None:
    """Leaving beats what crossed it: nobody ends up federated with plain policies around."""
    async with federation() as realm:
        realm.network.cut(LUBECK, BERGEN)
        await asyncio.sleep(A_WHILE)
        await realm.create(LUBECK, acnp("deny", 1))
        await realm.create(BERGEN, acnp("deny", 2))
        await asyncio.sleep(A_WHILE)
        await realm.edit(HAMBURG, DENY, {"metadata": {"annotations": {FEDERATED: None}}})

        realm.network.heal_all()
        await asyncio.sleep(2 * A_WHILE)

        assert await realm.priorities(DENY) == {LUBECK: 1, HAMBURG: 1, BERGEN: 2}
        for name in CLUSTERS:
            assert is_plain(await realm.find(name, DENY)), name
