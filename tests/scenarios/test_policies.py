"""Policies that users create, change and delete in any of three clusters, on both testbeds."""

import asyncio
import os
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from hanse.app.views import examine, reads
from hanse.cli.fleet import build_fleet
from hanse.cli.fleet_lists import read_watches
from hanse.features.federation.feature import Membership
from hanse.features.policies.content import FEDERATED
from hanse.features.policies.feature import Policies
from hanse.features.policies.ledger import RESOLVE_ANNOTATION
from hanse.features.policies.options import PolicyOptions
from hanse.features.policies.view import OBJECTS
from hanse.model.kinds.antrea import ClusterGroup
from hanse.model.kinds.core import Service, ServicePort, ServiceSpec
from hanse.model.objects import Meta, Wire
from tests.scenarios.policies import PoliciesScenario, RandomScript, policies_scenario
from tests.support.federation import install_crds
from tests.support.scenario import Features, Scenario, describe_writes

QUICK = PolicyOptions(retention=timedelta(seconds=2))


@pytest.fixture
def features() -> Features:
    return lambda: (Membership(), Policies(QUICK))


@pytest.fixture
async def policies(scenario: Scenario) -> AsyncIterator[PoliciesScenario]:
    async with policies_scenario(scenario) as policies:
        yield policies


async def test_a_policy_is_replicated_and_deleted_in_all_clusters_and_then_nothing_is_written(
    scenario: Scenario, policies: PoliciesScenario
) -> None:
    for made_in, changed_in, deleted_in, policy in (
        ("lubeck", "hamburg", "bergen", policies.acnp(1)),
        ("bergen", "lubeck", "hamburg", policies.anp(1)),
    ):
        await policies.create(made_in, policy)
        await scenario.eventually(policies.all_have(policy, 1))
        await policies.set(changed_in, policy, 2)
        await scenario.eventually(policies.all_have(policy, 2))
        await scenario.eventually(policies.has_event(made_in, policy, "Federated"))
        await scenario.eventually(policies.has_event(deleted_in, policy, "Replicated"))
        await scenario.settled()
        start = len(scenario.network.sent)
        await scenario.kill_agent("lubeck")
        await scenario.start_agent("lubeck")
        await scenario.settled()
        assert describe_writes(scenario.writes_since(start)) == []

        await policies.delete(deleted_in, policy)
        await scenario.eventually(policies.all_have(policy, None))


async def test_changes_that_cross_leave_one_for_all_and_the_other_is_kept(
    scenario: Scenario, policies: PoliciesScenario
) -> None:
    policy = policies.acnp(1)
    await policies.create("hamburg", policy)
    await scenario.eventually(policies.all_have(policy, 1))
    for supervisor in policies.membership.supervisors:
        await scenario.kill_agent(supervisor)
    await policies.set("lubeck", policy, 20)
    await policies.set("bergen", policy, 30)

    await scenario.start_agents()
    await scenario.eventually(policies.all_have(policy, 20))

    async def other_is_kept() -> None:
        record = await policies.record("hamburg", policy)
        assert [e.content.spec for e in record.history.overruled] == [{"priority": 30}]

    await scenario.eventually(other_is_kept)
    await policies.edit(
        "hamburg", policy, {"metadata": {"annotations": {RESOLVE_ANNOTATION: "bergen"}}}
    )
    await scenario.eventually(policies.all_have(policy, 30))


async def test_groups_and_services_that_a_policy_names_in_vain_are_told_until_they_are_there(
    scenario: Scenario, policies: PoliciesScenario
) -> None:
    """As `hanse doctor` reads the clusters: in each, what it alone lacks."""
    group, space = f"{scenario.namespace}-web", scenario.namespace
    for cluster in policies.names:
        await install_crds(scenario, cluster, ClusterGroup)
    policy = policies.acnp(1)
    egress = {"toServices": [{"name": "db", "namespace": space}]}
    rules: Wire = {"ingress": [{"from": [{"group": group}]}], "egress": [egress]}
    await policies.create("lubeck", replace(policy, spec={**policy.spec, **rules}))
    await scenario.eventually(policies.all_have(policy, 1))

    async def told() -> dict[str, str]:
        read = [await read_watches(c, scenario.admin(c), reads()) for c in policies.names]
        examined = examine(build_fleet(read, scenario.testbed.clock.now()), [OBJECTS])
        found = [one for one in examined.findings if one.code == "PolicyNamesNothing"]
        return {one.subject.cluster: one.summary for one in found}

    found = await told()
    assert sorted(found) == sorted(policies.names)
    for summary in found.values():
        assert f"spec.ingress[0].from[0].group: there is no ClusterGroup {group}" in summary
        assert f"there is no Service {space}/db" in summary
    for cluster in ("lubeck", "hamburg"):
        admin = scenario.admin(cluster)
        await admin.create(ClusterGroup(metadata=Meta(name=group)))
        scenario.closing.push_async_callback(admin.delete, ClusterGroup, group, "")
    service = Service(
        metadata=Meta(name="db", namespace=space), spec=ServiceSpec(ports=(ServicePort(port=80),))
    )
    await scenario.admin("lubeck").create(service)

    found = await told()
    assert sorted(found) == ["bergen", "hamburg"]
    assert "ClusterGroup" in found["bergen"]
    assert "ClusterGroup" not in found["hamburg"]
    assert f"there is no Service {space}/db" in found["hamburg"]


async def test_a_lost_deletion_is_kept_and_may_be_taken(
    scenario: Scenario, policies: PoliciesScenario
) -> None:
    policy = policies.acnp(1)
    await policies.create("hamburg", policy)
    await scenario.eventually(policies.all_have(policy, 1))
    for supervisor in policies.membership.supervisors:
        await scenario.kill_agent(supervisor)
    await policies.set("lubeck", policy, 20)
    await policies.delete("bergen", policy)

    await scenario.start_agents()
    await scenario.eventually(policies.all_have(policy, 20))

    async def deletion_is_kept() -> None:
        record = await policies.record("hamburg", policy)
        assert [(e.dot.cluster, e.state) for e in record.history.overruled] == [
            ("bergen", "Deleted")
        ]

    await scenario.eventually(deletion_is_kept)
    await policies.edit(
        "hamburg", policy, {"metadata": {"annotations": {RESOLVE_ANNOTATION: "bergen"}}}
    )
    await scenario.eventually(policies.all_have(policy, None))
    await scenario.settled()
    await policies.all_have(policy, None)()


async def test_a_deleted_policy_made_anew_from_live_yaml_with_changes_is_a_new_one(
    scenario: Scenario, policies: PoliciesScenario
) -> None:
    policy = policies.acnp(1)
    await policies.create("lubeck", policy)
    await scenario.eventually(policies.all_have(policy, 1))
    live = await policies.find("bergen", policy)
    assert live is not None
    await policies.delete("hamburg", policy)
    await scenario.eventually(policies.all_have(policy, None))

    meta = Meta(name=live.metadata.name, annotations=live.metadata.annotations)
    await policies.create("bergen", type(live)(metadata=meta, spec={"priority": 8}))

    await scenario.eventually(policies.all_have(policy, 8))
    await scenario.settled()
    await policies.all_have(policy, 8)()


async def test_a_deletion_while_the_leader_is_away_counts_and_stays(
    scenario: Scenario, policies: PoliciesScenario
) -> None:
    policy = policies.acnp(1)
    await policies.create("lubeck", policy)
    await scenario.eventually(policies.all_have(policy, 1))
    leader = await policies.membership.is_led("bergen")()
    await scenario.kill_agent(leader)
    await policies.delete("bergen", policy)

    await scenario.start_agent(leader)

    await scenario.eventually(policies.all_have(policy, None))
    await scenario.settled()
    await scenario.always(policies.all_have(policy, None), timedelta(seconds=3))


async def test_a_plain_policy_of_that_name_is_not_touched_and_orphans_are_left_alone(
    scenario: Scenario, policies: PoliciesScenario
) -> None:
    plain = await policies.create("bergen", policies.acnp(9, plain=True))
    policy = policies.acnp(1)
    await policies.create("lubeck", policy)
    await scenario.eventually(policies.has_phase("bergen", policy, "Blocked", "PlainPolicy"))
    assert await policies.find("bergen", policy) == plain
    await scenario.eventually(policies.has_phase("hamburg", policy, "Applied"))

    await policies.edit("hamburg", policy, {"metadata": {"annotations": {FEDERATED: None}}})

    async def is_left() -> None:
        for cluster in ("lubeck", "hamburg"):
            found = await policies.find(cluster, policy)
            assert found is not None
            assert found.metadata.annotations == {}

    await scenario.eventually(is_left)
    assert await policies.find("bergen", policy) == plain


async def test_a_member_restored_from_a_backup_takes_over_what_happened_meanwhile(
    scenario: Scenario, policies: PoliciesScenario
) -> None:
    deleted, changed = policies.acnp(1, "gone"), policies.acnp(1, "changed")
    for policy in (deleted, changed):
        await policies.create("bergen", policy)
        await scenario.eventually(policies.all_have(policy, 1))
    await scenario.settled()
    backup = await scenario.testbed.back_up("bergen")
    await policies.delete("bergen", deleted)
    await policies.set("bergen", changed, 2)
    await scenario.eventually(policies.all_have(deleted, None))
    await scenario.eventually(policies.all_have(changed, 2))

    await scenario.testbed.restore("bergen", backup)

    within = timedelta(minutes=3)
    await scenario.eventually(policies.all_have(changed, 2), within)
    await scenario.eventually(policies.all_have(deleted, None), within)


@pytest.mark.needs("rbac")
async def test_rights_that_are_taken_away_delete_nothing(
    scenario: Scenario, policies: PoliciesScenario
) -> None:
    policy = policies.acnp(1)
    await policies.create("hamburg", policy)
    await scenario.eventually(policies.all_have(policy, 1))
    await policies.delete_supervisor_bindings("bergen")
    for supervisor in policies.membership.supervisors:
        scenario.network.break_watches(supervisor, "bergen")
    await asyncio.sleep(3)
    await policies.set("lubeck", policy, 2)
    await asyncio.sleep(3)
    assert await policies.priorities(policy) == {"lubeck": 2, "hamburg": 2, "bergen": 1}

    for supervisor in policies.membership.supervisors:
        await policies.membership.secret_for("bergen", supervisor)  # which grants them anew

    await scenario.eventually(policies.all_have(policy, 2), timedelta(minutes=2))


async def test_after_random_actions_and_faults_all_members_agree_on_a_users_version(
    scenario: Scenario, policies: PoliciesScenario
) -> None:
    """Once; `HANSE_SCRIPT_SECONDS` says how long it is to go on, `HANSE_SEED` where it begins."""
    script = RandomScript(policies, int(os.environ.get("HANSE_SEED", "1")))
    plain = await policies.create("bergen", policies.acnp(0, "plain", plain=True))
    end = asyncio.get_running_loop().time() + float(os.environ.get("HANSE_SCRIPT_SECONDS", "0"))

    async def agree() -> Any:
        found = set((await policies.priorities(policies.acnp())).values())
        assert len(found) == 1, found
        assert found <= script.outcomes(), script.story
        return found.pop()

    while True:
        for _ in range(12):
            await script.step()
            await asyncio.sleep(script.random.choice((0, 0.1, 1)))
        await script.end()
        await scenario.eventually(agree, timedelta(minutes=3))
        await scenario.settled()
        script.agreed(await agree())
        assert await policies.find("bergen", policies.acnp(0, "plain")) == plain
        if asyncio.get_running_loop().time() >= end:
            break
    start = len(scenario.network.sent)
    await scenario.kill_agent("hamburg")
    await scenario.start_agent("hamburg")
    await scenario.settled()
    assert describe_writes(scenario.writes_since(start)) == []
