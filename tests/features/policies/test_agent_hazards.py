"""What leaders and their crashes may do to a policy that is the same in three clusters."""

import asyncio
from datetime import timedelta

import pytest

from hanse.model.kinds.core import ConfigMap
from hanse.model.kinds.federation import SYSTEM
from hanse.model.objects import Meta
from tests.features.policies.federation import (
    A_WHILE,
    DENY,
    DENY_RECORD,
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
)
from tinykube.virtual_time import ON_VIRTUAL_TIME


@pytest.fixture
def anyio_backend() -> object:
    return ON_VIRTUAL_TIME


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
            realm.network.cancel_crash()
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
        realm.network.cancel_crash()
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
