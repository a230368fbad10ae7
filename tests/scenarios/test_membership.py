"""Two supervisors and a member that cannot reach them: leaders, failover, and status."""

from datetime import timedelta

import msgspec
import pytest

from hanse.features.federation.feature import Membership
from hanse.kube.leader_election import REQUEST_AFTER
from hanse.kube.transport import MERGE_PATCH, Request
from hanse.model.facts import Phase
from hanse.model.kinds import about
from hanse.model.kinds.about import ClusterProperty
from hanse.model.kinds.clusterprofile import ClusterProfile
from hanse.model.kinds.core import ConfigMap
from hanse.model.kinds.federation import CLUSTER_ID, CLUSTER_SET, SYSTEM, ClusterClaim, Federation
from hanse.model.objects import ClusterId, Meta, Wire
from tests.scenarios.toy_offers import shop_of
from tests.support.federation import (
    FederationScenario,
    create_or_patch,
    form_federation,
    install_crds,
)
from tests.support.scenario import Check, Features, Scenario, describe_writes
from tests.support.toy_leader import COLOURS, Flag


@pytest.fixture
def features(request: pytest.FixtureRequest) -> Features:
    namespace = shop_of(request.node.nodeid)
    return lambda: (Membership(), Flag(namespace))


@pytest.fixture
async def membership(scenario: Scenario) -> FederationScenario:
    """A federation whose agents run, everybody is led, and every flag is red."""
    membership = await form_federation(scenario)
    for supervisor in membership.supervisors:
        await set_colour(scenario, supervisor, "red")
    await scenario.start_agents()
    await scenario.eventually(membership.all_led())
    await scenario.eventually(has_flag(scenario, "red", *membership.members))
    return membership


async def set_colour(scenario: Scenario, cluster: ClusterId, colour: str) -> None:
    """Let a supervisor fly this colour where it leads."""
    meta = Meta(name=COLOURS, namespace=scenario.namespace)
    await create_or_patch(
        scenario.admin(cluster), ConfigMap(metadata=meta, data={"colour": colour})
    )


def has_flag(scenario: Scenario, colour: str, *clusters: ClusterId) -> Check[None]:
    async def check() -> None:
        for cluster in clusters:
            flag = await scenario.admin(cluster).read(ConfigMap, "flag", scenario.namespace)
            assert flag.data == {"colour": colour}, f"{cluster} has {flag.data}"

    return check


async def test_every_member_gets_a_leader_and_every_status_has_it(
    scenario: Scenario, membership: FederationScenario
) -> None:
    for supervisor in membership.supervisors:
        found = await scenario.eventually(
            membership.has_conditions(
                supervisor, Valid="Valid", MembersReachable="AllReachable", Led="Led"
            )
        )
        assert {m.cluster_id: m.reachable for m in found.status.members} == {
            "lubeck": True,
            "hamburg": True,
            "bergen": True,
        }
    child = await scenario.eventually(membership.has_conditions("bergen", Valid="Valid", Led="Led"))
    leaders = await membership.all_led()()

    assert leaders["lubeck"] == "lubeck"
    assert child.status.leaders == (leaders["bergen"],)
    assert child.status.members == ()


async def test_nothing_is_written_once_all_members_are_led_and_neither_by_a_restart(
    scenario: Scenario, membership: FederationScenario
) -> None:
    await scenario.settled()
    before = [await membership.federation_of(cluster) for cluster in membership.members]

    start = len(scenario.network.sent)
    for name in ("bergen", "hamburg"):
        await scenario.kill_agent(name)
        await scenario.start_agent(name)
    await scenario.settled()

    assert describe_writes(scenario.writes_since(start)) == []
    assert [await membership.federation_of(cluster) for cluster in membership.members] == before


def as_claim(entry: Wire) -> Wire:
    """A member's entry with its id written as a claim."""
    return {**entry, "clusterID": {"name": CLUSTER_ID, "value": entry["clusterID"]}}


async def test_ids_and_the_set_may_be_written_as_claims_and_that_changes_nothing(
    scenario: Scenario, membership: FederationScenario
) -> None:
    await scenario.settled()
    before = await membership.federation_of("lubeck")
    entries = [as_claim(msgspec.to_builtins(one)) for one in before.spec.members]
    claim = {"name": "clusterSet.k8s.io", "value": before.spec.cluster_set}
    start = len(scenario.network.sent)

    await membership.edit("lubeck", {"clusterSet": claim, "members": entries})
    await scenario.settled()

    after = await membership.federation_of("lubeck")
    written = describe_writes(scenario.writes_since(start))
    assert [one for one in written if "/federations/league/status" not in one] == []
    assert after.status.members == before.status.members
    await membership.has_conditions("lubeck", Valid="Valid", MembersReachable="AllReachable")()
    assert msgspec.to_builtins(after.spec) == {"clusterSet": claim, "members": tuple(entries)}

    await set_colour(scenario, "lubeck", "blue")
    await scenario.eventually(has_flag(scenario, "blue", "lubeck"))
    await membership.edit("lubeck", {"clusterSet": {**claim, "value": "other"}})
    await scenario.eventually(membership.has_conditions("lubeck", Valid="ClusterSetMismatch"))
    await membership.edit("lubeck", {"clusterSet": claim, "members": [entries[0], entries[1]]})
    await membership.name_members("hamburg", "lubeck", "hamburg")
    await scenario.eventually(has_members(membership, "lubeck", "lubeck", "hamburg"))


def has_members(
    membership: FederationScenario, cluster: ClusterId, *members: ClusterId
) -> Check[None]:
    async def check() -> None:
        found = await membership.federation_of(cluster)
        assert {m.cluster_id for m in found.status.members} == {*members}

    return check


async def test_an_id_that_is_a_number_takes_nobody_out(
    scenario: Scenario, membership: FederationScenario
) -> None:
    await scenario.settled()
    before = await membership.federation_of("lubeck")
    entries = [msgspec.to_builtins(one) for one in before.spec.members]
    start = len(scenario.network.sent)

    path = f"/apis/{Federation.kind.api_version}/federations/{before.name}"
    wrong = {"spec": {"members": [*entries[:2], {**entries[2], "clusterID": 5}]}}
    body = msgspec.json.encode(wrong)
    await membership.admin("lubeck").send(Request("PATCH", path, (), body, MERGE_PATCH))
    await scenario.settled()

    assert describe_writes(scenario.writes_since(start)) == []
    await has_flag(scenario, "red", *membership.members)()

    await scenario.kill_agent("lubeck")  # it has no last readable version when it starts again
    await scenario.start_agent("lubeck")
    await scenario.settled()
    await scenario.always(has_flag(scenario, "red", *membership.members), timedelta(seconds=20))
    assert [w for w in describe_writes(scenario.writes_since(start)) if "DELETE" in w] == []
    await membership.edit("lubeck", {"members": entries})
    await scenario.eventually(membership.all_led())
    await scenario.eventually(membership.has_conditions("lubeck", MembersReachable="AllReachable"))


async def test_a_new_token_is_used_without_a_disconnect(
    scenario: Scenario, membership: FederationScenario
) -> None:
    await scenario.settled()
    agent = scenario.agent("lubeck")
    secret = await membership.secret_for("bergen", "lubeck")

    await create_or_patch(membership.admin("lubeck"), secret)

    async def uses_it() -> None:
        managed = agent.connections.managed["bergen"]
        assert managed.config.identity.token == secret.data["token"].decode()
        assert agent.reconciler.informers.connections["bergen"].state.phase is Phase.SYNCED

    await scenario.eventually(uses_it)


async def test_when_the_leaders_supervisor_stops_another_takes_over(
    scenario: Scenario, membership: FederationScenario
) -> None:
    leader = await membership.is_led("bergen")()
    (successor,) = set(membership.supervisors) - {leader}
    await set_colour(scenario, successor, "blue")

    await scenario.kill_agent(leader)
    for member in membership.members:
        scenario.network.cut(leader, member)

    await scenario.eventually(
        membership.is_led("bergen", successor), scenario.testbed.timings.lease_duration * 3
    )
    await scenario.eventually(has_flag(scenario, "blue", "bergen", successor, leader))

    async def has_conditions() -> None:
        assert (await membership.federation_of(successor)).status.leaders == (successor,)

    await scenario.eventually(has_conditions)


@pytest.mark.virtual
async def test_a_supervisor_that_is_back_gets_its_members_back_after_a_while(
    scenario: Scenario, membership: FederationScenario
) -> None:
    before = await membership.all_led()()
    leader = before["bergen"]
    (successor,) = set(membership.supervisors) - {leader}
    await scenario.kill_agent(leader)
    await scenario.eventually(
        membership.is_led("bergen", successor), scenario.testbed.timings.lease_duration * 3
    )
    await scenario.eventually(
        membership.is_led(leader, successor), scenario.testbed.timings.lease_duration * 3
    )

    await scenario.start_agent(leader)
    await scenario.always(membership.is_led("bergen", successor), REQUEST_AFTER / 2)

    for member in (leader, "bergen"):
        await scenario.eventually(membership.is_led(member, leader), 2 * REQUEST_AFTER)
    await scenario.settled()
    assert await membership.all_led()() == before
    start = len(scenario.network.sent)
    await scenario.always(membership.all_led(), 2 * REQUEST_AFTER)
    assert (await membership.all_led()(), describe_writes(scenario.writes_since(start))) == (
        before,
        [],
    )


async def test_both_sides_of_a_partition_work_on_and_agree_once_it_heals(
    scenario: Scenario, membership: FederationScenario
) -> None:
    away = {"lubeck": "hamburg", "hamburg": "lubeck"}
    leader = await membership.is_led("bergen")()
    other = away[leader]

    scenario.network.cut(leader, other)
    scenario.network.cut(other, leader)
    scenario.network.cut(other, "bergen")
    for supervisor in membership.supervisors:
        await scenario.eventually(
            membership.has_conditions(supervisor, MembersReachable="MemberUnreachable")
        )
    await set_colour(scenario, leader, "blue")
    await set_colour(scenario, other, "green")

    await scenario.eventually(has_flag(scenario, "blue", leader, "bergen"))
    await scenario.eventually(has_flag(scenario, "green", other))
    await membership.is_led("bergen", leader)()

    scenario.network.heal(leader, other)
    scenario.network.heal(other, leader)
    scenario.network.heal(other, "bergen")

    for supervisor in membership.supervisors:
        await scenario.eventually(
            membership.has_conditions(supervisor, MembersReachable="AllReachable")
        )
    await scenario.settled()
    await has_flag(scenario, "blue", leader)()
    await has_flag(scenario, "green", other)()
    colours = {leader: "blue", other: "green"}
    await has_flag(scenario, colours[await membership.is_led("bergen")()], "bergen")()


async def test_profiles_and_properties_of_clusters_are_kept_where_their_kinds_are_served(
    scenario: Scenario, membership: FederationScenario
) -> None:
    admin = membership.admin("lubeck")
    for kind in (ClusterProfile, ClusterProperty):
        await install_crds(scenario, "lubeck", kind)

    async def has_all() -> None:
        profiles = (await admin.list(ClusterProfile)).objects
        assert {one.name for one in profiles} == set(membership.members)
        assert all(one.status.conditions and one.spec.display_name == one.name for one in profiles)
        found = await admin.read(ClusterProperty, about.CLUSTER_ID)
        assert found.spec.value == "lubeck"

    await scenario.eventually(has_all)
    false = {"spec": {"displayName": "x"}}
    await admin.patch(ClusterProfile, "bergen", SYSTEM, false)
    await admin.patch(ClusterProperty, about.CLUSTER_ID, "", {"spec": {"value": "x"}})
    await scenario.eventually(has_all)
    await admin.delete(ClusterProfile, "bergen", SYSTEM)
    await scenario.eventually(has_all)
    federation = await membership.federation_of("lubeck")
    kept = [one for one in federation.spec.members if one.cluster_id != "bergen"]
    change = {"spec": {"members": msgspec.to_builtins(kept)}}
    await admin.patch(Federation, federation.name, "", change)
    await admin.delete(ClusterClaim, CLUSTER_SET, "")

    async def has_fewer() -> None:
        profiles = (await admin.list(ClusterProfile)).objects
        assert "bergen" not in {one.name for one in profiles}
        properties = (await admin.list(ClusterProperty)).objects
        assert [one.name for one in properties] == [about.CLUSTER_ID]

    await scenario.eventually(has_fewer)
