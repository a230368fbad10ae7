"""Policies that people make, change and delete in any of three clusters, on both engines."""

import asyncio
import os
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from hanse.features.federation.feature import Membership
from hanse.features.policies.content import FEDERATED
from hanse.features.policies.feature import Policies
from hanse.features.policies.options import PolicyOptions
from hanse.features.policies.record import RESOLVE_MARK
from tests.scenarios.chancery import Chancery, Script, chancery_on
from tests.support.stage import Features, Stage, told

QUICK = PolicyOptions(retention=timedelta(seconds=2))


@pytest.fixture
def features() -> Features:
    return lambda: (Membership(), Policies(QUICK))


@pytest.fixture
async def chancery(stage: Stage) -> AsyncIterator[Chancery]:
    async with chancery_on(stage) as chancery:
        yield chancery


async def test_a_policy_lives_and_ends_the_same_in_all_clusters_then_nobody_writes(
    stage: Stage, chancery: Chancery
) -> None:
    for made_in, changed_in, deleted_in, policy in (
        ("lubeck", "hamburg", "bergen", chancery.acnp(1)),
        ("bergen", "lubeck", "hamburg", chancery.anp(1)),
    ):
        await chancery.create(made_in, policy)
        await stage.eventually(chancery.all_say(policy, 1))
        await chancery.set(changed_in, policy, 2)
        await stage.eventually(chancery.all_say(policy, 2))
        await stage.eventually(chancery.told(made_in, policy, "Federated"))
        await stage.eventually(chancery.told(deleted_in, policy, "Replicated"))
        await stage.settled()
        start = len(stage.network.sent)
        await stage.kill_agent("lubeck")
        await stage.start_agent("lubeck")
        await stage.settled()
        assert told(stage.writes_since(start)) == []

        await chancery.delete(deleted_in, policy)
        await stage.eventually(chancery.all_say(policy, None))


async def test_changes_that_cross_leave_one_for_all_and_the_other_is_kept(
    stage: Stage, chancery: Chancery
) -> None:
    policy = chancery.acnp(1)
    await chancery.create("hamburg", policy)
    await stage.eventually(chancery.all_say(policy, 1))
    for supervisor in chancery.league.supervisors:
        await stage.kill_agent(supervisor)
    await chancery.set("lubeck", policy, 20)
    await chancery.set("bergen", policy, 30)

    await stage.start_agents()
    await stage.eventually(chancery.all_say(policy, 20))
    record = await chancery.record("hamburg", policy)
    assert [e.content.spec for e in record.history.overruled] == [{"priority": 30}]

    await chancery.edit("hamburg", policy, {"metadata": {"annotations": {RESOLVE_MARK: "bergen"}}})
    await stage.eventually(chancery.all_say(policy, 30))


async def test_a_deletion_while_the_leader_is_away_counts_and_stays(
    stage: Stage, chancery: Chancery
) -> None:
    policy = chancery.acnp(1)
    await chancery.create("lubeck", policy)
    await stage.eventually(chancery.all_say(policy, 1))
    leader = await chancery.league.is_led("bergen")()
    await stage.kill_agent(leader)
    await chancery.delete("bergen", policy)

    await stage.start_agent(leader)

    await stage.eventually(chancery.all_say(policy, None))
    await stage.settled()
    await stage.always(chancery.all_say(policy, None), timedelta(seconds=3))


async def test_a_plain_policy_of_that_name_is_not_touched_and_orphans_are_left_alone(
    stage: Stage, chancery: Chancery
) -> None:
    plain = await chancery.create("bergen", chancery.acnp(9, plain=True))
    policy = chancery.acnp(1)
    await chancery.create("lubeck", policy)
    await stage.eventually(chancery.stands("bergen", policy, "Blocked", "PlainPolicy"))
    assert await chancery.find("bergen", policy) == plain

    await chancery.edit("hamburg", policy, {"metadata": {"annotations": {FEDERATED: None}}})

    async def is_left() -> None:
        for cluster in ("lubeck", "hamburg"):
            found = await chancery.find(cluster, policy)
            assert found is not None
            assert found.metadata.annotations == {}

    await stage.eventually(is_left)
    assert await chancery.find("bergen", policy) == plain


async def test_a_member_restored_from_a_backup_takes_over_what_happened_meanwhile(
    stage: Stage, chancery: Chancery
) -> None:
    gone, changed = chancery.acnp(1, "gone"), chancery.acnp(1, "changed")
    for policy in (gone, changed):
        await chancery.create("bergen", policy)
        await stage.eventually(chancery.all_say(policy, 1))
    await stage.settled()
    backup = await stage.ground.back_up("bergen")
    await chancery.delete("bergen", gone)
    await chancery.set("bergen", changed, 2)
    await stage.eventually(chancery.all_say(gone, None))
    await stage.eventually(chancery.all_say(changed, 2))

    await stage.ground.restore("bergen", backup)

    within = timedelta(minutes=3)
    await stage.eventually(chancery.all_say(changed, 2), within)
    await stage.eventually(chancery.all_say(gone, None), within)


@pytest.mark.needs("rbac")
async def test_rights_that_are_taken_away_delete_nothing(stage: Stage, chancery: Chancery) -> None:
    policy = chancery.acnp(1)
    await chancery.create("hamburg", policy)
    await stage.eventually(chancery.all_say(policy, 1))
    await chancery.take_rights_away("bergen")
    for supervisor in chancery.league.supervisors:
        stage.network.break_watches(supervisor, "bergen")
    await asyncio.sleep(3)
    await chancery.set("lubeck", policy, 2)
    await asyncio.sleep(3)
    assert await chancery.priorities(policy) == {"lubeck": 2, "hamburg": 2, "bergen": 1}

    await chancery.league.secret_for("bergen")  # which grants them anew

    await stage.eventually(chancery.all_say(policy, 2), timedelta(minutes=2))


async def test_after_a_random_script_of_people_and_faults_all_agree_on_what_somebody_did(
    stage: Stage, chancery: Chancery
) -> None:
    """Once; `HANSE_SCRIPT_SECONDS` says how long it is to go on, `HANSE_SEED` where it begins."""
    script = Script(chancery, int(os.environ.get("HANSE_SEED", "1")))
    plain = await chancery.create("bergen", chancery.acnp(0, "plain", plain=True))
    end = asyncio.get_running_loop().time() + float(os.environ.get("HANSE_SCRIPT_SECONDS", "0"))

    async def agree() -> Any:
        found = set((await chancery.priorities(chancery.acnp())).values())
        assert len(found) == 1, found
        assert found <= script.outcomes(), script.story
        return found.pop()

    while True:
        for _ in range(12):
            await script.step()
            await asyncio.sleep(script.random.choice((0, 0.1, 1)))
        await script.end()
        await stage.eventually(agree, timedelta(minutes=3))
        await stage.settled()
        script.agreed(await agree())
        assert await chancery.find("bergen", chancery.acnp(0, "plain")) == plain
        if asyncio.get_running_loop().time() >= end:
            break
    start = len(stage.network.sent)
    await stage.kill_agent("hamburg")
    await stage.start_agent("hamburg")
    await stage.settled()
    assert told(stage.writes_since(start)) == []
