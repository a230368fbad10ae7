"""Hazards of users and their tools, a scenario for each."""

import asyncio
from copy import deepcopy
from datetime import timedelta

import msgspec
import pytest

from hanse.features.federation.manifests import supervisor_policies
from hanse.features.policies.content import FEDERATED
from hanse.features.policies.ledger import RESOLVE_ANNOTATION
from hanse.features.policies.write_rules import SUPERVISOR_RULES
from hanse.kube.transport import Request
from hanse.model.kinds.core import Namespace
from hanse.model.kinds.federation import SYSTEM
from hanse.model.objects import Meta, Wire
from tests.features.policies.federation import (
    DENY,
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
    PolicyFleet,
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
    async with federation(leaders={BERGEN: HAMBURG}) as fleet:
        await create_deny_everywhere(fleet)
        fleet.network.cut(LUBECK, BERGEN)
        fleet.network.cut(HAMBURG, LUBECK)
        fleet.network.cut(HAMBURG, HAMBURG)
        await asyncio.sleep(SETTLE_TIME)
        await fleet.edit(BERGEN, DENY, {"spec": {"priority": 20}})
        await fleet.edit(LUBECK, DENY, {"spec": {"priority": 30}})
        await asyncio.sleep(SETTLE_TIME)

        fleet.network.heal_all()
        await asyncio.sleep(2 * SETTLE_TIME)

        assert await fleet.priorities(DENY) == everywhere(30), "of equal sums the later cluster id"
        for name in CLUSTERS:
            record = await fleet.record(name, DENY)
            assert record is not None
            assert [e.content.spec for e in record.history.overruled] == [{"priority": 20}]
        assert "VersionsCrossed" in await fleet.list_event_reasons(BERGEN)

        await fleet.edit(LUBECK, DENY, {"metadata": {"annotations": {RESOLVE_ANNOTATION: BERGEN}}})
        await asyncio.sleep(SETTLE_TIME)
        assert await fleet.priorities(DENY) == everywhere(20), "a person took the other one"
        record = await fleet.record(HAMBURG, DENY)
        assert record is not None
        assert not record.history.overruled


async def test_edit_against_delete() -> None:
    async with federation(leaders={BERGEN: HAMBURG}) as fleet:
        await create_deny_everywhere(fleet)
        for source, target in ((LUBECK, BERGEN), (HAMBURG, LUBECK), (HAMBURG, HAMBURG)):
            fleet.network.cut(source, target)
        await asyncio.sleep(SETTLE_TIME)
        await fleet.edit(BERGEN, DENY, {"spec": {"priority": 20}})
        await fleet.delete(LUBECK, DENY)
        await asyncio.sleep(SETTLE_TIME)

        fleet.network.heal_all()
        await asyncio.sleep(3 * SETTLE_TIME)

        assert await fleet.priorities(DENY) == everywhere(20)
        assert "VersionsCrossed" in await fleet.list_event_reasons(LUBECK)

        await fleet.edit(HAMBURG, DENY, {"metadata": {"annotations": {RESOLVE_ANNOTATION: LUBECK}}})
        await asyncio.sleep(2 * SETTLE_TIME)
        assert await fleet.priorities(DENY) == everywhere(None), "a person took the deletion"


async def test_annotation_removed() -> None:
    async with federation() as fleet:
        await create_deny_everywhere(fleet)
        await fleet.edit(LUBECK, DENY, {"metadata": {"annotations": {FEDERATED: None}}})
        await asyncio.sleep(SETTLE_TIME)

        assert await fleet.priorities(DENY) == everywhere(5)
        for name in CLUSTERS:
            assert is_plain(await fleet.find(name, DENY)), name

        await fleet.edit(BERGEN, DENY, {"spec": {"priority": 9}})
        await fleet.delete(HAMBURG, DENY)
        await asyncio.sleep(timedelta(hours=1).total_seconds())
        assert await fleet.priorities(DENY) == {LUBECK: 5, HAMBURG: None, BERGEN: 9}


async def test_same_name_plain_policy() -> None:
    async with federation() as fleet:
        plain = await fleet.create(BERGEN, acnp("deny", 1, federated=False))
        await fleet.create(LUBECK, acnp("deny", 5))
        await asyncio.sleep(SETTLE_TIME)
        assert await fleet.priorities(DENY) == {**everywhere(5), BERGEN: 1}
        assert await fleet.find(BERGEN, DENY) == plain
        assert await read_phase(fleet, BERGEN) == ("Blocked", "PlainPolicy")
        assert "BlockedPlainPolicy" in await fleet.list_event_reasons(BERGEN)

        await fleet.delete(BERGEN, DENY)
        await asyncio.sleep(SETTLE_TIME)
        assert await fleet.priorities(DENY) == everywhere(5)


async def test_a_policy_replaced_by_a_plain_one_unobserved_is_deleted() -> None:
    async with federation() as fleet:
        await create_deny_everywhere(fleet)
        await fleet.kill_agent(LUBECK)
        await fleet.delete(BERGEN, DENY)
        plain = await fleet.create(BERGEN, acnp("deny", 1, federated=False))
        fleet.start_agent(LUBECK)
        for name in CLUSTERS:
            fleet.assign_leader(LUBECK, name)

        await asyncio.sleep(SETTLE_TIME)

        assert await fleet.priorities(DENY) == {**everywhere(None), BERGEN: 1}
        assert await fleet.find(BERGEN, DENY) == plain


async def test_webhook_defaulting() -> None:
    """One cluster fills fields in: its copies are no edits, and edits there are still seen."""
    async with federation() as fleet:
        await fleet.define(BERGEN, "clusternetworkpolicies.crd.antrea.io", SPEC_WITH_DEFAULTS)
        await create_deny_everywhere(fleet)
        filled = await fleet.find(BERGEN, DENY)
        assert filled is not None
        assert filled.spec == {"priority": 5, "tier": "application", "mode": "strict"}
        assert (await read_phase(fleet, BERGEN))[0] == "Applied"
        other = await fleet.find(LUBECK, DENY)
        assert other is not None
        assert other.spec == {"priority": 5}

        await fleet.edit(BERGEN, DENY, {"spec": {"mode": "lax"}})
        await asyncio.sleep(SETTLE_TIME)
        other = await fleet.find(LUBECK, DENY)
        assert other is not None
        assert other.spec["mode"] == "lax"


async def test_missing_tier() -> None:
    """A policy that one cluster refuses is blocked there with its message, applied elsewhere."""
    async with federation() as fleet:
        definition = "clusternetworkpolicies.crd.antrea.io"
        await fleet.define(BERGEN, definition, KNOWN_TIERS)
        policy = acnp("deny", 5)
        policy.spec["tier"] = "gold"
        await fleet.create(LUBECK, policy)
        await asyncio.sleep(SETTLE_TIME)
        assert await fleet.priorities(DENY) == {**everywhere(5), BERGEN: None}
        record = await fleet.record(BERGEN, DENY)
        assert record is not None
        assert (record.here.phase, record.here.reason) == ("Blocked", "Refused")
        assert "gold" in record.here.message
        assert "BlockedRefused" in await fleet.list_event_reasons(BERGEN)

        await fleet.define(BERGEN, definition)
        await asyncio.sleep(timedelta(minutes=11).total_seconds())
        assert await fleet.priorities(DENY) == everywhere(5)


async def test_gitops_recreating_what_was_deleted() -> None:
    """Somebody deletes, a tool creates again: after some rounds a person is asked."""
    async with federation() as fleet:
        await create_deny_everywhere(fleet)

        async def recreate() -> None:
            while True:
                if await fleet.find(BERGEN, DENY) is None:
                    await fleet.create(BERGEN, acnp("deny", 5))
                await asyncio.sleep(20)

        tool = asyncio.create_task(recreate())
        for _ in range(4):
            if await fleet.find(LUBECK, DENY) is not None:
                await fleet.delete(LUBECK, DENY)
            await asyncio.sleep(2 * SETTLE_TIME)

        assert await fleet.priorities(DENY) == {LUBECK: None, HAMBURG: None, BERGEN: 5}
        assert await read_phase(fleet, BERGEN) == ("Quarantined", "Flapping")
        with fleet.network.counting_writes() as writes:
            await asyncio.sleep(timedelta(hours=2).total_seconds())
        assert not writes, "nobody fights with the tool"

        tool.cancel()
        await fleet.delete(BERGEN, DENY)
        await asyncio.sleep(timedelta(minutes=15).total_seconds())
        assert await fleet.priorities(DENY) == everywhere(None)
        assert await fleet.record(BERGEN, DENY) is None


async def test_two_tools_that_disagree_are_stopped() -> None:
    async with federation() as fleet:
        await create_deny_everywhere(fleet)

        async def insist(cluster: str, priority: int) -> None:
            while True:
                standing = await fleet.find(cluster, DENY)
                if standing is not None and standing.spec["priority"] != priority:
                    await fleet.edit(cluster, DENY, {"spec": {"priority": priority}})
                await asyncio.sleep(20)

        tools = [asyncio.create_task(insist(c, p)) for c, p in ((LUBECK, 1), (BERGEN, 2))]
        await asyncio.sleep(10 * SETTLE_TIME)

        with fleet.network.counting_writes() as writes:
            await asyncio.sleep(timedelta(hours=1).total_seconds())
        assert not writes
        phases = {name: await read_phase(fleet, name) for name in CLUSTERS}
        assert ("Quarantined", "Flapping") in phases.values()
        for tool in tools:
            tool.cancel()


async def test_too_many_deletions_at_once_are_held_until_a_user_allows_them() -> None:
    async with federation(vanished=3) as fleet:
        names = [f"p{i}" for i in range(8)]
        for name in names:
            await fleet.create(LUBECK, acnp(name, 1))
        await asyncio.sleep(SETTLE_TIME)
        await fleet.kill_agent(LUBECK)
        for name in names:
            await fleet.delete(BERGEN, acnp(name))
        fleet.start_agent(LUBECK)
        for name in CLUSTERS:
            fleet.assign_leader(LUBECK, name)
        await asyncio.sleep(3 * SETTLE_TIME)
        for name in names:
            assert await fleet.priorities(acnp(name)) == {**everywhere(1), BERGEN: None}
        assert await read_phase(fleet, BERGEN, acnp("p0")) == ("Applied", "Held")

        change = {"metadata": {"annotations": {"hanse.dev/allow-mass-deletion": "policies"}}}
        await fleet.client(BERGEN).patch(Namespace, SYSTEM, "", change)
        await asyncio.sleep(3 * SETTLE_TIME)
        for name in names:
            assert await fleet.priorities(acnp(name)) == everywhere(None)


async def test_federation_ended_by_the_value_false_leaves_that_value() -> None:
    async with federation() as fleet:
        await create_deny_everywhere(fleet)
        await fleet.edit(LUBECK, DENY, {"metadata": {"annotations": {FEDERATED: "false"}}})
        await asyncio.sleep(SETTLE_TIME)

        left = await fleet.find(LUBECK, DENY)
        assert left is not None
        assert left.metadata.annotations == {FEDERATED: "false"}
        assert await read_phase(fleet, LUBECK) == ("Released", "")


async def _hold_to(fleet: PolicyFleet, cluster: str, validations: list[Wire] | None) -> None:
    """Hold every update and deletion of policies to these rules; a supervisor's if None."""
    for made in supervisor_policies(SUPERVISOR_RULES, LUBECK):
        wire = deepcopy(made.wire)
        if "validations" in wire["spec"]:
            del wire["spec"]["matchConditions"]
            if validations is not None:
                wire["spec"]["validations"] = validations
        path = f"/apis/{made.kind.group}/{made.kind.version}/{made.kind.plural}"
        body = msgspec.json.encode(wire)
        answer = await fleet.client(cluster).send(Request("POST", path, body=body))
        assert answer.status == 201, answer.body


async def _hold_no_more(fleet: PolicyFleet, cluster: str) -> None:
    for made in supervisor_policies(SUPERVISOR_RULES, LUBECK):
        path = f"/apis/{made.kind.group}/{made.kind.version}/{made.kind.plural}/{made.name}"
        await fleet.client(cluster).send(Request("DELETE", path))


@pytest.mark.parametrize("where", CLUSTERS)
async def test_the_rules_of_supervisors_let_a_policy_leave_the_federation(where: str) -> None:
    async with federation() as fleet:
        await create_deny_everywhere(fleet)
        for cluster in CLUSTERS:
            await _hold_to(fleet, cluster, None)
        await fleet.edit(where, DENY, {"metadata": {"annotations": {FEDERATED: None}}})
        await asyncio.sleep(SETTLE_TIME)

        for cluster in CLUSTERS:
            assert is_plain(await fleet.find(cluster, DENY)), cluster
            assert await read_phase(fleet, cluster) == ("Released", "")


async def test_a_cluster_that_does_not_let_a_policy_go_says_so_until_it_does() -> None:
    async with federation() as fleet:
        await create_deny_everywhere(fleet)
        await _hold_to(fleet, BERGEN, [{"expression": "false", "message": "it is frozen"}])
        await fleet.edit(LUBECK, DENY, {"metadata": {"annotations": {FEDERATED: None}}})
        await asyncio.sleep(SETTLE_TIME)
        record = await fleet.record(BERGEN, DENY)
        assert record is not None
        assert record.here.phase == "Blocked"
        assert "it is frozen" in record.here.message

        await _hold_no_more(fleet, BERGEN)
        await asyncio.sleep(timedelta(minutes=11).total_seconds())
        assert is_plain(await fleet.find(BERGEN, DENY))
        assert await fleet.record(BERGEN, DENY) is None, "all members know: it is collected"


async def test_a_cluster_that_refuses_a_deletion_says_so_until_it_does_not() -> None:
    async with federation() as fleet:
        await create_deny_everywhere(fleet)
        await _hold_to(fleet, BERGEN, [{"expression": "false", "message": "it is frozen"}])
        await fleet.delete(LUBECK, DENY)
        await asyncio.sleep(2 * SETTLE_TIME)
        record = await fleet.record(BERGEN, DENY)
        assert record is not None
        assert record.here.phase == "Blocked"
        assert "it is frozen" in record.here.message

        await _hold_no_more(fleet, BERGEN)
        await asyncio.sleep(timedelta(minutes=11).total_seconds())
        assert await fleet.priorities(DENY) == everywhere(None)
        assert await fleet.record(BERGEN, DENY) is None, "all members know: it is collected"


async def test_a_policy_made_in_a_partition_follows_its_namesake_out_of_the_federation() -> None:
    """Leaving beats what crossed it: nobody ends up federated with plain policies around."""
    async with federation() as fleet:
        fleet.network.cut(LUBECK, BERGEN)
        await asyncio.sleep(SETTLE_TIME)
        await fleet.create(LUBECK, acnp("deny", 1))
        await fleet.create(BERGEN, acnp("deny", 2))
        await asyncio.sleep(SETTLE_TIME)
        await fleet.edit(HAMBURG, DENY, {"metadata": {"annotations": {FEDERATED: None}}})

        fleet.network.heal_all()
        await asyncio.sleep(2 * SETTLE_TIME)

        assert await fleet.priorities(DENY) == {LUBECK: 1, HAMBURG: 1, BERGEN: 2}
        for name in CLUSTERS:
            assert is_plain(await fleet.find(name, DENY)), name


async def test_a_deleted_policy_made_anew_from_live_yaml_with_changes_is_a_new_one() -> None:
    async with federation() as fleet:
        await create_deny_everywhere(fleet)
        live = await fleet.find(BERGEN, DENY)
        assert live is not None
        for cluster in (BERGEN, LUBECK):
            await fleet.delete(HAMBURG, DENY)
            await asyncio.sleep(SETTLE_TIME)
            meta = Meta(name="deny", annotations=live.metadata.annotations)
            spec = {**live.spec, "priority": 8}
            await fleet.create(cluster, type(DENY)(metadata=meta, spec=spec))
            await asyncio.sleep(SETTLE_TIME)

            assert await fleet.priorities(DENY) == everywhere(8)
