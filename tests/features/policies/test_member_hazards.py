"""What happens to a policy when members are away, leave, come back, or are others than before."""

import asyncio
from datetime import timedelta

import pytest

from hanse.features.policies.ledger import RESOLVE_ANNOTATION
from hanse.kube.errors import NotFound
from hanse.model.kinds.core import ConfigMap
from hanse.model.kinds.federation import SYSTEM
from tests.features.policies.federation import (
    A_WEEK,
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
    SHOP,
    acnp,
)
from tinykube.virtual_time import ON_VIRTUAL_TIME


@pytest.fixture
def anyio_backend() -> object:
    return ON_VIRTUAL_TIME


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
            change = {"metadata": {"annotations": {RESOLVE_ANNOTATION: "yield"}}}
            await realm.edit(BERGEN, acnp(name), change)
        await asyncio.sleep(A_WHILE)
        assert await realm.priorities(DENY) == everywhere(None)
        assert await realm.priorities(acnp("allow")) == everywhere(2)


async def test_what_was_changed_while_a_member_was_away_is_no_change_of_a_member() -> None:
    """However soon its ledger is looked at: records that lie there are of an earlier stay."""
    async with federation() as realm:
        await deny_stands(realm)
        for n in range(4):
            await realm.create(LUBECK, acnp(f"other-{n}", n))
        await asyncio.sleep(A_WHILE)
        await realm.remove(BERGEN, force=True)
        realm.crowns[LUBECK].members.discard(BERGEN)
        await realm.edit(BERGEN, DENY, {"spec": {"priority": 7}})
        await asyncio.sleep(A_WHILE)

        realm.add(BERGEN)
        realm.crown(LUBECK, BERGEN)
        await asyncio.sleep(A_WHILE)

        assert await realm.priorities(DENY) == {LUBECK: 5, HAMBURG: 5, BERGEN: 7}
        assert await phase_of(realm, BERGEN) == ("Quarantined", "Stale")


async def test_a_person_may_keep_what_a_rejoined_member_has() -> None:
    async with federation(elections=True) as realm:
        await deny_stands(realm)
        await realm.remove(BERGEN)
        await realm.edit(HAMBURG, DENY, {"spec": {"priority": 2}})
        await asyncio.sleep(A_WHILE)
        realm.add(BERGEN)
        await asyncio.sleep(A_WHILE)
        assert await phase_of(realm, BERGEN) == ("Quarantined", "Stale")

        await realm.edit(BERGEN, DENY, {"metadata": {"annotations": {RESOLVE_ANNOTATION: "keep"}}})
        await asyncio.sleep(A_WHILE)

        assert await realm.priorities(DENY) == everywhere(5)
        kept = await realm.find(BERGEN, DENY)
        assert kept is not None
        assert RESOLVE_ANNOTATION not in kept.metadata.annotations


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


async def test_a_member_that_leaves_keeps_its_policies_and_no_record() -> None:
    async with federation(elections=True) as realm:
        await deny_stands(realm)

        await realm.remove(BERGEN)
        await asyncio.sleep(A_WHILE)

        assert await realm.priorities(DENY) == everywhere(5)
        with pytest.raises(NotFound):
            await realm.client(BERGEN).read(ConfigMap, DENY_RECORD, SYSTEM)
        assert await phase_of(realm, LUBECK) == ("Applied", "")
