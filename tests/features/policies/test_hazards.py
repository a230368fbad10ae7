"""What may happen to a policy that is the same in three clusters, one scenario for each hazard."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest

from hanse.features.policies.content import FEDERATED
from hanse.features.policies.options import PolicyOptions
from hanse.features.policies.record import RESOLVE_MARK, record_name
from hanse.kube.errors import NotFound
from hanse.model.keys import Key
from hanse.model.kinds.core import ConfigMap, Namespace
from hanse.model.kinds.federation import SYSTEM
from hanse.model.objects import Meta
from hanse.testing.time import ON_VIRTUAL_TIME
from tests.features.policies.realm import (
    BERGEN,
    CLUSTERS,
    HAMBURG,
    LUBECK,
    SHOP,
    Realm,
    acnp,
    anp,
    is_plain,
)

DENY = acnp("deny")
DENY_RECORD = record_name(Key("acnp", "deny"))
A_WHILE = 45.0
A_WEEK = timedelta(days=7).total_seconds()


@pytest.fixture
def anyio_backend() -> object:
    return ON_VIRTUAL_TIME


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


# -- the plain life of a policy


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


# -- the hazards


@pytest.mark.parametrize("moment", [0.0, 0.01, 1.0, 30.0])
async def test_leader_restarts_while_the_user_deletes(moment: float) -> None:
    async with federation(elections=True) as realm:
        await deny_stands(realm)
        leader = realm.leader_of(BERGEN)
        await realm.kill_agent(leader)
        await realm.delete(BERGEN, DENY)
        await asyncio.sleep(moment)
        realm.start_agent(leader)

        await asyncio.sleep(3 * A_WHILE)

        assert await realm.priorities(DENY) == everywhere(None)


@pytest.mark.parametrize("request_number", range(1, 16))
async def test_crash_between_object_and_record(request_number: int) -> None:
    """Whatever the leader was about to send when it died, the next one goes on from there."""
    async with federation() as realm:
        await deny_stands(realm)
        for deed, expected in (("edit", 7), ("delete", None), ("create", 8)):
            crash = realm.network.crash_at(request_number)
            if deed == "edit":
                await realm.edit(BERGEN, DENY, {"spec": {"priority": 7}})
            elif deed == "delete":
                await realm.delete(BERGEN, DENY)
            else:
                await realm.create(BERGEN, acnp("deny", 8))
            done, _ = await asyncio.wait({crash}, timeout=10)
            realm.network.disarm()
            if done:
                await realm.kill_agent(LUBECK)
                realm.start_agent(LUBECK)
                for name in CLUSTERS:
                    realm.crown(LUBECK, name)
            await asyncio.sleep(A_WHILE)
            assert await realm.priorities(DENY) == everywhere(expected), deed


@pytest.mark.parametrize("request_number", range(2, 9))
async def test_an_edit_after_a_crash_is_nobody_elses_write(request_number: int) -> None:
    """What a leader wrote before it died was labels alone, which no generation tells of."""
    async with federation() as realm:
        await deny_stands(realm)
        crash = realm.network.crash_at(request_number)
        await realm.edit(HAMBURG, DENY, {"metadata": {"labels": {"team": "harbour"}}})
        await asyncio.wait({crash}, timeout=10)
        realm.network.disarm()
        await realm.kill_agent(LUBECK)

        await realm.edit(BERGEN, DENY, {"spec": {"priority": 9}})
        realm.start_agent(LUBECK)
        for name in CLUSTERS:
            realm.crown(LUBECK, name)
        await asyncio.sleep(A_WHILE)

        record = await realm.record(BERGEN, DENY)
        assert record is not None
        agreed = set((await realm.priorities(DENY)).values())
        told = {e.content.spec["priority"] for e in record.history.entries}
        assert len(agreed) == 1
        assert 9 in told, "it counts, or is kept"


async def test_delete_during_a_partition() -> None:
    async with federation() as realm:
        await deny_stands(realm)
        realm.network.cut(LUBECK, BERGEN)
        await asyncio.sleep(A_WHILE)
        await realm.delete(BERGEN, DENY)
        await asyncio.sleep(A_WHILE)
        assert await realm.priorities(DENY) == {**everywhere(5), BERGEN: None}

        realm.network.heal_all()
        await asyncio.sleep(2 * A_WHILE)

        assert await realm.priorities(DENY) == everywhere(None)


async def test_member_away_for_a_week() -> None:
    async with federation() as realm:
        await deny_stands(realm)
        await realm.create(LUBECK, acnp("allow", 1))
        await asyncio.sleep(A_WHILE)
        realm.network.cut(LUBECK, BERGEN)
        await realm.delete(LUBECK, DENY)
        await realm.edit(HAMBURG, acnp("allow"), {"spec": {"priority": 2}})
        await asyncio.sleep(timedelta(hours=1).total_seconds())
        for name in (LUBECK, HAMBURG):  # or their attempts to reach the member would fill the week
            await realm.kill_agent(name)
        await asyncio.sleep(A_WEEK)
        for name in (LUBECK, HAMBURG):
            realm.start_agent(name)
        for name in CLUSTERS:
            realm.crown(LUBECK, name)
        await asyncio.sleep(A_WHILE)
        record = await realm.record(LUBECK, DENY)
        assert record is not None, "a tombstone is kept for as long as a member has not seen it"

        realm.network.heal_all()
        await asyncio.sleep(timedelta(minutes=15).total_seconds())

        assert await realm.priorities(DENY) == everywhere(None)
        assert await realm.priorities(acnp("allow")) == everywhere(2)
        assert await realm.record(LUBECK, DENY) is None


@pytest.mark.parametrize("force", [False, True])
async def test_member_removed_and_rejoined_with_a_stale_copy(force: bool) -> None:
    async with federation(elections=True) as realm:
        await deny_stands(realm)
        await realm.create(LUBECK, acnp("allow", 1))
        await realm.create(LUBECK, acnp("same", 1))
        await asyncio.sleep(A_WHILE)
        await realm.remove(BERGEN, force=force)
        await realm.delete(LUBECK, DENY)
        await realm.edit(HAMBURG, acnp("allow"), {"spec": {"priority": 2}})
        await asyncio.sleep(timedelta(minutes=11).total_seconds())

        realm.add(BERGEN)
        await asyncio.sleep(3 * A_WHILE)

        assert await realm.priorities(DENY) == {LUBECK: None, HAMBURG: None, BERGEN: 5}
        assert await realm.priorities(acnp("allow")) == {LUBECK: 2, HAMBURG: 2, BERGEN: 1}
        assert (await phase_of(realm, BERGEN))[0] == "Quarantined"
        assert await phase_of(realm, BERGEN, acnp("allow")) == ("Quarantined", "Stale")
        assert await phase_of(realm, BERGEN, acnp("same")) == ("Applied", "")
        assert "Quarantined" in await realm.told(BERGEN)

        for name in ("deny", "allow"):
            change = {"metadata": {"annotations": {RESOLVE_MARK: "yield"}}}
            await realm.edit(BERGEN, acnp(name), change)
        await asyncio.sleep(A_WHILE)
        assert await realm.priorities(DENY) == everywhere(None)
        assert await realm.priorities(acnp("allow")) == everywhere(2)


async def test_a_person_may_keep_what_a_rejoined_member_has() -> None:
    async with federation(elections=True) as realm:
        await deny_stands(realm)
        await realm.remove(BERGEN)
        await realm.edit(HAMBURG, DENY, {"spec": {"priority": 2}})
        await asyncio.sleep(A_WHILE)
        realm.add(BERGEN)
        await asyncio.sleep(A_WHILE)
        assert await phase_of(realm, BERGEN) == ("Quarantined", "Stale")

        await realm.edit(BERGEN, DENY, {"metadata": {"annotations": {RESOLVE_MARK: "keep"}}})
        await asyncio.sleep(A_WHILE)

        assert await realm.priorities(DENY) == everywhere(5)
        kept = await realm.find(BERGEN, DENY)
        assert kept is not None
        assert RESOLVE_MARK not in kept.metadata.annotations


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

        await realm.edit(LUBECK, DENY, {"metadata": {"annotations": {RESOLVE_MARK: BERGEN}}})
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


async def test_two_leaders() -> None:
    """Two supervisors think that they lead the same member, and both are allowed to write."""
    async with federation() as realm:
        await deny_stands(realm)
        for name in CLUSTERS:
            realm.crown(HAMBURG, name)
        await realm.edit(BERGEN, DENY, {"spec": {"priority": 6}})
        await realm.create(LUBECK, acnp("allow", 1))
        await asyncio.sleep(0.05)
        await realm.edit(LUBECK, acnp("allow"), {"spec": {"priority": 2}})
        await asyncio.sleep(2 * A_WHILE)
        for name in CLUSTERS:
            realm.depose(LUBECK, name)
        await asyncio.sleep(A_WHILE)

        assert await realm.priorities(DENY) == everywhere(6)
        assert await realm.priorities(acnp("allow")) == everywhere(2)


async def test_a_late_copy_of_a_leader_that_was_replaced_does_not_bring_a_policy_back() -> None:
    async with federation() as realm:
        await deny_stands(realm)
        late = await realm.find(BERGEN, DENY)
        assert late is not None
        await realm.delete(HAMBURG, DENY)
        await asyncio.sleep(A_WHILE)

        meta = Meta(name="deny", annotations=late.metadata.annotations)
        await realm.create(BERGEN, type(DENY)(metadata=meta, spec=late.spec))
        await asyncio.sleep(A_WHILE)

        assert await realm.priorities(DENY) == {LUBECK: None, HAMBURG: None, BERGEN: 5}
        assert await phase_of(realm, BERGEN) == ("Quarantined", "Returned")


async def test_reach_x_but_not_y() -> None:
    """Each supervisor reaches two members: what they know goes through the one that both see."""
    async with federation(leaders={BERGEN: HAMBURG, HAMBURG: HAMBURG}) as realm:
        realm.network.cut(LUBECK, BERGEN)
        realm.network.cut(HAMBURG, LUBECK)
        await asyncio.sleep(A_WHILE)

        await realm.create(BERGEN, acnp("deny", 3))
        await asyncio.sleep(A_WHILE)

        assert await realm.priorities(DENY) == everywhere(3)


async def test_what_was_read_of_a_member_before_it_was_out_of_sight_brings_nothing_back() -> None:
    """A supervisor that lost one member goes on leading another, and a tombstone is forgotten."""
    quick = timedelta(seconds=10)
    async with federation(leaders={BERGEN: HAMBURG}, retention=quick, remembered=1) as realm:
        await deny_stands(realm)
        realm.network.cut(HAMBURG, LUBECK)
        await realm.delete(BERGEN, DENY)
        await asyncio.sleep(A_WHILE)
        assert await realm.record(BERGEN, DENY) is None, "all members have seen the end of it"

        await realm.create(LUBECK, acnp("allow", 1))
        await asyncio.sleep(A_WHILE)
        await realm.delete(LUBECK, acnp("allow", 1))
        await asyncio.sleep(A_WHILE)

        assert await realm.priorities(DENY) == everywhere(None)


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


async def test_rbac_revoked() -> None:
    async with federation() as realm:
        await deny_stands(realm)
        realm.revoked.add((LUBECK, BERGEN))
        realm.network.break_watches(LUBECK, BERGEN)
        await realm.edit(HAMBURG, DENY, {"spec": {"priority": 6}})
        await asyncio.sleep(timedelta(hours=1).total_seconds())
        assert await realm.priorities(DENY) == {**everywhere(6), BERGEN: 5}

        realm.revoked.clear()
        await asyncio.sleep(3 * A_WHILE)

        assert await realm.priorities(DENY) == everywhere(6)


@pytest.mark.parametrize("watched", [True, False])
async def test_etcd_restored_from_backup(watched: bool) -> None:
    """What was deleted meanwhile goes again, what was made or changed meanwhile comes again."""
    async with federation() as realm:
        await deny_stands(realm)
        await realm.create(BERGEN, acnp("allow", 1))
        await asyncio.sleep(A_WHILE)
        backup = realm.clusters[BERGEN].storage.snapshot()
        await realm.delete(BERGEN, DENY)
        await realm.edit(BERGEN, acnp("allow"), {"spec": {"priority": 2}})
        await realm.create(BERGEN, acnp("new", 3))
        await asyncio.sleep(timedelta(hours=1).total_seconds())
        assert await realm.record(LUBECK, DENY) is None, "its tombstone is collected"

        if not watched:
            await realm.kill_agent(LUBECK)
        realm.network.cut(LUBECK, BERGEN)
        realm.clusters[BERGEN].storage.restore(backup)
        await asyncio.sleep(5)
        realm.network.heal_all()
        if not watched:
            realm.start_agent(LUBECK)
            for name in CLUSTERS:
                realm.crown(LUBECK, name)
        await asyncio.sleep(4 * A_WHILE)

        assert await realm.priorities(DENY) == everywhere(None)
        assert await realm.priorities(acnp("allow")) == everywhere(2)
        assert await realm.priorities(acnp("new")) == everywhere(3)


SPEC_WITH_DEFAULTS = {
    "type": "object",
    "x-kubernetes-preserve-unknown-fields": True,
    "properties": {
        "tier": {"type": "string", "default": "application"},
        "mode": {"type": "string", "default": "strict"},
    },
}


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


KNOWN_TIERS = {
    "type": "object",
    "x-kubernetes-preserve-unknown-fields": True,
    "properties": {"tier": {"type": "string", "enum": ["application", "emergency"]}},
}


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


@pytest.mark.parametrize("alive", [True, False])
async def test_ledger_record_deleted_by_hand(alive: bool) -> None:
    async with federation() as realm:
        await deny_stands(realm)
        if not alive:
            await realm.kill_agent(LUBECK)
            await realm.edit(BERGEN, DENY, {"spec": {"priority": 6}})
        for name in CLUSTERS if alive else (BERGEN,):
            await realm.client(name).delete(ConfigMap, DENY_RECORD, SYSTEM)
            await asyncio.sleep(1)
        if not alive:
            realm.start_agent(LUBECK)
            for name in CLUSTERS:
                realm.crown(LUBECK, name)
        await asyncio.sleep(A_WHILE)

        assert await realm.priorities(DENY) == everywhere(5 if alive else 6)
        for name in CLUSTERS:
            assert await phase_of(realm, name) == ("Applied", "")


async def test_cluster_id_reused() -> None:
    """Another, empty cluster stands where a member stood: it gets all and decides nothing."""
    async with federation(elections=True) as realm:
        await deny_stands(realm)
        await realm.create(BERGEN, acnp("allow", 1))
        await asyncio.sleep(A_WHILE)
        await realm.remove(BERGEN, force=True)
        await realm.replace_cluster(BERGEN, SHOP)
        await realm.create(BERGEN, acnp("deny", 77))
        realm.add(BERGEN)

        await asyncio.sleep(3 * A_WHILE)

        assert await realm.priorities(acnp("allow")) == everywhere(1)
        assert await realm.priorities(DENY) == {LUBECK: 5, HAMBURG: 5, BERGEN: 77}
        assert await phase_of(realm, BERGEN) == ("Quarantined", "Stale")


async def test_cluster_replaced_under_its_id_without_anybody_telling() -> None:
    async with federation() as realm:
        await deny_stands(realm)
        await realm.kill_agent(LUBECK)
        await realm.replace_cluster(BERGEN, SHOP)
        realm.start_agent(LUBECK)
        for name in CLUSTERS:
            realm.crown(LUBECK, name)

        await asyncio.sleep(3 * A_WHILE)

        assert await realm.priorities(DENY) == everywhere(5)


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


async def test_a_member_that_leaves_keeps_its_policies_and_no_record() -> None:
    async with federation(elections=True) as realm:
        await deny_stands(realm)

        await realm.remove(BERGEN)
        await asyncio.sleep(A_WHILE)

        assert await realm.priorities(DENY) == everywhere(5)
        with pytest.raises(NotFound):
            await realm.client(BERGEN).read(ConfigMap, DENY_RECORD, SYSTEM)
        assert await phase_of(realm, LUBECK) == ("Applied", "")


async def test_a_policy_deleted_for_the_second_time_is_forgotten_again() -> None:
    async with federation() as realm:
        for _ in range(2):
            await deny_stands(realm)
            await realm.delete(BERGEN, DENY)
            await asyncio.sleep(timedelta(minutes=15).total_seconds())
            assert {await realm.record(name, DENY) for name in CLUSTERS} == {None}


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
