"""Hazards of leaders and their crashes, a scenario for each."""

import asyncio
from datetime import timedelta

import msgspec
import pytest

from hanse.model.kinds.core import ConfigMap
from hanse.model.kinds.federation import SYSTEM
from hanse.model.objects import Meta
from tests.features.policies.federation import (
    DENY,
    DENY_RECORD,
    SETTLE_TIME,
    create_deny_everywhere,
    everywhere,
    federation,
    read_phase,
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
    async with federation(elections=True) as fleet:
        await create_deny_everywhere(fleet)
        leader = fleet.leader_of(BERGEN)
        await fleet.kill_agent(leader)
        await fleet.delete(BERGEN, DENY)
        await asyncio.sleep(moment)
        fleet.start_agent(leader)

        await asyncio.sleep(3 * SETTLE_TIME)

        assert await fleet.priorities(DENY) == everywhere(None)


@pytest.mark.parametrize("request_number", range(1, 16))
async def test_crash_between_object_and_record(request_number: int) -> None:
    """Whatever the leader was about to send when it died, the next one goes on from there."""
    async with federation() as fleet:
        await create_deny_everywhere(fleet)
        for action, expected in (("edit", 7), ("delete", None), ("create", 8)):
            crash = fleet.network.crash_at(request_number)
            if action == "edit":
                await fleet.edit(BERGEN, DENY, {"spec": {"priority": 7}})
            elif action == "delete":
                await fleet.delete(BERGEN, DENY)
            else:
                await fleet.create(BERGEN, acnp("deny", 8))
            done, _ = await asyncio.wait({crash}, timeout=10)
            fleet.network.cancel_crash()
            if done:
                await fleet.kill_agent(LUBECK)
                fleet.start_agent(LUBECK)
                for name in CLUSTERS:
                    fleet.assign_leader(LUBECK, name)
            await asyncio.sleep(SETTLE_TIME)
            assert await fleet.priorities(DENY) == everywhere(expected), action


@pytest.mark.parametrize("request_number", range(2, 9))
async def test_an_edit_after_a_crash_is_not_taken_for_our_write(request_number: int) -> None:
    """What a leader wrote before it died was labels alone, which no generation tells of."""
    async with federation() as fleet:
        await create_deny_everywhere(fleet)
        crash = fleet.network.crash_at(request_number)
        await fleet.edit(HAMBURG, DENY, {"metadata": {"labels": {"team": "harbour"}}})
        await asyncio.wait({crash}, timeout=10)
        fleet.network.cancel_crash()
        await fleet.kill_agent(LUBECK)

        await fleet.edit(BERGEN, DENY, {"spec": {"priority": 9}})
        fleet.start_agent(LUBECK)
        for name in CLUSTERS:
            fleet.assign_leader(LUBECK, name)
        await asyncio.sleep(SETTLE_TIME)

        record = await fleet.record(BERGEN, DENY)
        assert record is not None
        agreed = set((await fleet.priorities(DENY)).values())
        priorities = {e.content.spec["priority"] for e in record.history.entries}
        assert len(agreed) == 1
        assert 9 in priorities, "it counts, or is kept"


async def test_two_leaders() -> None:
    """Two supervisors think that they lead the same member, and both are allowed to write."""
    async with federation() as fleet:
        await create_deny_everywhere(fleet)
        for name in CLUSTERS:
            fleet.assign_leader(HAMBURG, name)
        await fleet.edit(BERGEN, DENY, {"spec": {"priority": 6}})
        await fleet.create(LUBECK, acnp("allow", 1))
        await asyncio.sleep(0.05)
        await fleet.edit(LUBECK, acnp("allow"), {"spec": {"priority": 2}})
        await asyncio.sleep(2 * SETTLE_TIME)
        for name in CLUSTERS:
            fleet.revoke_leader(LUBECK, name)
        await asyncio.sleep(SETTLE_TIME)

        assert await fleet.priorities(DENY) == everywhere(6)
        assert await fleet.priorities(acnp("allow")) == everywhere(2)


async def test_a_late_copy_of_a_leader_that_was_replaced_does_not_bring_a_policy_back() -> None:
    async with federation() as fleet:
        await create_deny_everywhere(fleet)
        late = await fleet.find(BERGEN, DENY)
        assert late is not None
        await fleet.delete(HAMBURG, DENY)
        await asyncio.sleep(SETTLE_TIME)

        meta = Meta(name="deny", annotations=late.metadata.annotations)
        await fleet.create(BERGEN, type(DENY)(metadata=meta, spec=late.spec))
        await asyncio.sleep(SETTLE_TIME)

        assert await fleet.priorities(DENY) == {LUBECK: None, HAMBURG: None, BERGEN: 5}
        assert await read_phase(fleet, BERGEN) == ("Quarantined", "Returned")


async def test_reach_x_but_not_y() -> None:
    """Each supervisor reaches two members: what they know goes through the one that both see."""
    async with federation(leaders={BERGEN: HAMBURG, HAMBURG: HAMBURG}) as fleet:
        fleet.network.cut(LUBECK, BERGEN)
        fleet.network.cut(HAMBURG, LUBECK)
        await asyncio.sleep(SETTLE_TIME)

        await fleet.create(BERGEN, acnp("deny", 3))
        await asyncio.sleep(SETTLE_TIME)

        assert await fleet.priorities(DENY) == everywhere(3)


async def test_stale_reads_of_an_unreachable_member_bring_nothing_back() -> None:
    """A supervisor that lost one member goes on leading another, and a tombstone is forgotten."""
    quick = timedelta(seconds=10)
    async with federation(leaders={BERGEN: HAMBURG}, retention=quick, remembered=1) as fleet:
        await create_deny_everywhere(fleet)
        fleet.network.cut(HAMBURG, LUBECK)
        await fleet.delete(BERGEN, DENY)
        await asyncio.sleep(SETTLE_TIME)
        assert await fleet.record(BERGEN, DENY) is None, "all members have seen the end of it"

        await fleet.create(LUBECK, acnp("allow", 1))
        await asyncio.sleep(SETTLE_TIME)
        await fleet.delete(LUBECK, acnp("allow", 1))
        await asyncio.sleep(SETTLE_TIME)

        assert await fleet.priorities(DENY) == everywhere(None)


async def test_delete_during_a_partition() -> None:
    async with federation() as fleet:
        await create_deny_everywhere(fleet)
        fleet.network.cut(LUBECK, BERGEN)
        await asyncio.sleep(SETTLE_TIME)
        await fleet.delete(BERGEN, DENY)
        await asyncio.sleep(SETTLE_TIME)
        assert await fleet.priorities(DENY) == {**everywhere(5), BERGEN: None}

        fleet.network.heal_all()
        await asyncio.sleep(2 * SETTLE_TIME)

        assert await fleet.priorities(DENY) == everywhere(None)


async def test_rbac_revoked() -> None:
    async with federation() as fleet:
        await create_deny_everywhere(fleet)
        fleet.revoked.add((LUBECK, BERGEN))
        fleet.network.break_watches(LUBECK, BERGEN)
        await fleet.edit(HAMBURG, DENY, {"spec": {"priority": 6}})
        await asyncio.sleep(timedelta(hours=1).total_seconds())
        assert await fleet.priorities(DENY) == {**everywhere(6), BERGEN: 5}

        fleet.revoked.clear()
        await asyncio.sleep(3 * SETTLE_TIME)

        assert await fleet.priorities(DENY) == everywhere(6)


@pytest.mark.parametrize("alive", [True, False])
async def test_ledger_record_deleted_by_hand(alive: bool) -> None:
    async with federation() as fleet:
        await create_deny_everywhere(fleet)
        if not alive:
            await fleet.kill_agent(LUBECK)
            await fleet.edit(BERGEN, DENY, {"spec": {"priority": 6}})
        for name in CLUSTERS if alive else (BERGEN,):
            await fleet.client(name).delete(ConfigMap, DENY_RECORD, SYSTEM)
            await asyncio.sleep(1)
        if not alive:
            fleet.start_agent(LUBECK)
            for name in CLUSTERS:
                fleet.assign_leader(LUBECK, name)
        await asyncio.sleep(SETTLE_TIME)

        assert await fleet.priorities(DENY) == everywhere(5 if alive else 6)
        for name in CLUSTERS:
            assert await read_phase(fleet, name) == ("Applied", "")


@pytest.mark.parametrize("since", ["yesterday", "2020-01-01T00:00:00"])
async def test_a_forged_time_of_one_tombstone_keeps_no_other_one(since: str) -> None:
    """Ledgers are written by all supervisors: their times are input like any other."""
    allow = acnp("allow", 1)
    async with federation(retention=timedelta(seconds=2 * SETTLE_TIME)) as fleet:
        await create_deny_everywhere(fleet)
        await fleet.create(LUBECK, allow)
        await asyncio.sleep(SETTLE_TIME)
        await fleet.delete(BERGEN, DENY)
        await fleet.delete(LUBECK, allow)
        await asyncio.sleep(SETTLE_TIME)
        stored = await fleet.client(BERGEN).read(ConfigMap, DENY_RECORD, SYSTEM)
        record = msgspec.json.decode(stored.data["record"])
        record["here"]["since"] = since
        change = {"data": {"record": msgspec.json.encode(record).decode()}}
        await fleet.client(BERGEN).patch(ConfigMap, DENY_RECORD, SYSTEM, change)

        await asyncio.sleep(4 * SETTLE_TIME)

        assert await fleet.record(BERGEN, allow) is None, "it is forgotten in time"
