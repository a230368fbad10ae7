"""Hazards of members that are unreachable, leave, join again or are replaced."""

import asyncio
from datetime import timedelta

import pytest

from hanse.features.policies.ledger import RESOLVE_ANNOTATION
from hanse.kube.errors import NotFound
from hanse.model.kinds.core import ConfigMap
from hanse.model.kinds.federation import SYSTEM
from tests.features.policies.federation import (
    A_WEEK,
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
    SHOP,
    acnp,
)
from tinykube.virtual_time import ON_VIRTUAL_TIME


@pytest.fixture
def anyio_backend() -> object:
    return ON_VIRTUAL_TIME


async def test_member_away_for_a_week() -> None:
    async with federation() as fleet:
        await create_deny_everywhere(fleet)
        await fleet.create(LUBECK, acnp("allow", 1))
        await asyncio.sleep(SETTLE_TIME)
        fleet.network.cut(LUBECK, BERGEN)
        await fleet.delete(LUBECK, DENY)
        await fleet.edit(HAMBURG, acnp("allow"), {"spec": {"priority": 2}})
        await asyncio.sleep(timedelta(hours=1).total_seconds())
        for name in (LUBECK, HAMBURG):  # or their attempts to reach the member would fill the week
            await fleet.kill_agent(name)
        await asyncio.sleep(A_WEEK)
        for name in (LUBECK, HAMBURG):
            fleet.start_agent(name)
        for name in CLUSTERS:
            fleet.assign_leader(LUBECK, name)
        await asyncio.sleep(SETTLE_TIME)
        record = await fleet.record(LUBECK, DENY)
        assert record is not None, "a tombstone is kept for as long as a member has not seen it"

        fleet.network.heal_all()
        await asyncio.sleep(timedelta(minutes=15).total_seconds())

        assert await fleet.priorities(DENY) == everywhere(None)
        assert await fleet.priorities(acnp("allow")) == everywhere(2)
        assert await fleet.record(LUBECK, DENY) is None


@pytest.mark.parametrize("force", [False, True])
async def test_member_removed_and_rejoined_with_a_stale_copy(force: bool) -> None:
    async with federation(elections=True) as fleet:
        await create_deny_everywhere(fleet)
        await fleet.create(LUBECK, acnp("allow", 1))
        await fleet.create(LUBECK, acnp("same", 1))
        await asyncio.sleep(SETTLE_TIME)
        await fleet.remove(BERGEN, force=force)
        await fleet.delete(LUBECK, DENY)
        await fleet.edit(HAMBURG, acnp("allow"), {"spec": {"priority": 2}})
        await asyncio.sleep(timedelta(minutes=11).total_seconds())

        fleet.add(BERGEN)
        await asyncio.sleep(3 * SETTLE_TIME)

        assert await fleet.priorities(DENY) == {LUBECK: None, HAMBURG: None, BERGEN: 5}
        assert await fleet.priorities(acnp("allow")) == {LUBECK: 2, HAMBURG: 2, BERGEN: 1}
        assert (await read_phase(fleet, BERGEN))[0] == "Quarantined"
        assert await read_phase(fleet, BERGEN, acnp("allow")) == ("Quarantined", "Stale")
        assert await read_phase(fleet, BERGEN, acnp("same")) == ("Applied", "")
        assert "Quarantined" in await fleet.list_event_reasons(BERGEN)

        for name in ("deny", "allow"):
            change = {"metadata": {"annotations": {RESOLVE_ANNOTATION: "yield"}}}
            await fleet.edit(BERGEN, acnp(name), change)
        await asyncio.sleep(SETTLE_TIME)
        assert await fleet.priorities(DENY) == everywhere(None)
        assert await fleet.priorities(acnp("allow")) == everywhere(2)


async def test_what_was_changed_while_a_member_was_away_is_no_change_of_a_member() -> None:
    """However soon its ledger is looked at: records that lie there are of an earlier stay."""
    async with federation() as fleet:
        await create_deny_everywhere(fleet)
        for n in range(4):
            await fleet.create(LUBECK, acnp(f"other-{n}", n))
        await asyncio.sleep(SETTLE_TIME)
        await fleet.remove(BERGEN, force=True)
        fleet.crowns[LUBECK].members.discard(BERGEN)
        await fleet.edit(BERGEN, DENY, {"spec": {"priority": 7}})
        await asyncio.sleep(SETTLE_TIME)

        fleet.add(BERGEN)
        fleet.assign_leader(LUBECK, BERGEN)
        await asyncio.sleep(SETTLE_TIME)

        assert await fleet.priorities(DENY) == {LUBECK: 5, HAMBURG: 5, BERGEN: 7}
        assert await read_phase(fleet, BERGEN) == ("Quarantined", "Stale")


async def test_a_user_may_keep_what_a_rejoined_member_has() -> None:
    async with federation(elections=True) as fleet:
        await create_deny_everywhere(fleet)
        await fleet.remove(BERGEN)
        await fleet.edit(HAMBURG, DENY, {"spec": {"priority": 2}})
        await asyncio.sleep(SETTLE_TIME)
        fleet.add(BERGEN)
        await asyncio.sleep(SETTLE_TIME)
        assert await read_phase(fleet, BERGEN) == ("Quarantined", "Stale")

        await fleet.edit(BERGEN, DENY, {"metadata": {"annotations": {RESOLVE_ANNOTATION: "keep"}}})
        await asyncio.sleep(SETTLE_TIME)

        assert await fleet.priorities(DENY) == everywhere(5)
        kept = await fleet.find(BERGEN, DENY)
        assert kept is not None
        assert RESOLVE_ANNOTATION not in kept.metadata.annotations


@pytest.mark.parametrize("watched", [True, False])
async def test_etcd_restored_from_backup(watched: bool) -> None:
    """What was deleted meanwhile goes again, what was made or changed meanwhile comes again."""
    async with federation() as fleet:
        await create_deny_everywhere(fleet)
        await fleet.create(BERGEN, acnp("allow", 1))
        await asyncio.sleep(SETTLE_TIME)
        backup = fleet.clusters[BERGEN].storage.snapshot()
        await fleet.delete(BERGEN, DENY)
        await fleet.edit(BERGEN, acnp("allow"), {"spec": {"priority": 2}})
        await fleet.create(BERGEN, acnp("new", 3))
        await asyncio.sleep(timedelta(hours=1).total_seconds())
        assert await fleet.record(LUBECK, DENY) is None, "its tombstone is collected"

        if not watched:
            await fleet.kill_agent(LUBECK)
        fleet.network.cut(LUBECK, BERGEN)
        fleet.clusters[BERGEN].storage.restore(backup)
        await asyncio.sleep(5)
        fleet.network.heal_all()
        if not watched:
            fleet.start_agent(LUBECK)
            for name in CLUSTERS:
                fleet.assign_leader(LUBECK, name)
        await asyncio.sleep(4 * SETTLE_TIME)

        assert await fleet.priorities(DENY) == everywhere(None)
        assert await fleet.priorities(acnp("allow")) == everywhere(2)
        assert await fleet.priorities(acnp("new")) == everywhere(3)


async def test_cluster_id_reused() -> None:
    """Another, empty cluster stands where a member stood: it gets all and decides nothing."""
    async with federation(elections=True) as fleet:
        await create_deny_everywhere(fleet)
        await fleet.create(BERGEN, acnp("allow", 1))
        await asyncio.sleep(SETTLE_TIME)
        await fleet.remove(BERGEN, force=True)
        await fleet.replace_cluster(BERGEN, SHOP)
        await fleet.create(BERGEN, acnp("deny", 77))
        fleet.add(BERGEN)

        await asyncio.sleep(3 * SETTLE_TIME)

        assert await fleet.priorities(acnp("allow")) == everywhere(1)
        assert await fleet.priorities(DENY) == {LUBECK: 5, HAMBURG: 5, BERGEN: 77}
        assert await read_phase(fleet, BERGEN) == ("Quarantined", "Stale")


async def test_cluster_replaced_under_its_id_without_anybody_telling() -> None:
    async with federation() as fleet:
        await create_deny_everywhere(fleet)
        await fleet.kill_agent(LUBECK)
        await fleet.replace_cluster(BERGEN, SHOP)
        fleet.start_agent(LUBECK)
        for name in CLUSTERS:
            fleet.assign_leader(LUBECK, name)

        await asyncio.sleep(3 * SETTLE_TIME)

        assert await fleet.priorities(DENY) == everywhere(5)


async def test_a_member_that_leaves_keeps_its_policies_and_no_record() -> None:
    async with federation(elections=True) as fleet:
        await create_deny_everywhere(fleet)

        await fleet.remove(BERGEN)
        await asyncio.sleep(SETTLE_TIME)

        assert await fleet.priorities(DENY) == everywhere(5)
        with pytest.raises(NotFound):
            await fleet.client(BERGEN).read(ConfigMap, DENY_RECORD, SYSTEM)
        assert await read_phase(fleet, LUBECK) == ("Applied", "")
