"""Leaving, lost and misconfigured members, and supervisors that stop, on virtual time."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from hanse.features.federation.members import ABANDONED
from hanse.kube.errors import NotFound
from hanse.kube.transport import Request
from hanse.model.conditions import find_condition
from hanse.model.facts import ClusterDeparted, Role
from hanse.model.kinds.coordination import Lease
from hanse.model.kinds.core import ConfigMap, Event, Secret
from hanse.model.kinds.federation import CLUSTER_ID, SUPERVISOR, SYSTEM, ClusterClaim, Federation
from hanse.model.objects import ClusterId, Meta
from hanse.model.ownership import OWNER
from tests.support.federation import NAME, FederationScenario, create_or_patch
from tests.support.scenario import Check, Scenario, describe_writes

SHOP = "shop"
TAKEOVER = timedelta(seconds=15 + 2 * 2)
"""The lease, and two tries."""


def no_flag(membership: FederationScenario, cluster: ClusterId) -> Check[None]:
    async def check() -> None:
        listed = await membership.admin(cluster).list(ConfigMap, namespace=SHOP, labels=OWNER)
        assert not listed.objects, f"{cluster} still flies a flag"

    return check


async def flag_uid(membership: FederationScenario, cluster: ClusterId) -> str:
    return (await membership.admin(cluster).read(ConfigMap, "flag", SHOP)).metadata.uid


def condition_says(
    membership: FederationScenario, cluster: ClusterId, type_: str, text: str
) -> Check[None]:
    """That a condition is False, and its message has these words."""

    async def check() -> None:
        found = await membership.federation_of(cluster)
        bad = find_condition(found.status.conditions, type_)
        assert bad is not None, found.status
        assert bad.status == "False", found.status
        assert text in bad.message, bad.message

    return check


# -- failover


async def test_supervisors_that_start_together_share_the_work(
    membership: FederationScenario,
) -> None:
    leaders = await membership.all_led()()

    assert (leaders["lubeck"], leaders["hamburg"]) == ("lubeck", "hamburg")


async def test_a_dead_leader_is_followed_within_the_lease_and_two_tries(
    scenario: Scenario, membership: FederationScenario
) -> None:
    leader = await membership.is_led("bergen")()
    (heir,) = set(membership.supervisors) - {leader}

    await scenario.kill_agent(leader)

    await scenario.eventually(membership.is_led("bergen", heir), TAKEOVER)
    await scenario.eventually(membership.is_led(leader, heir), TAKEOVER)


async def test_a_leader_that_stops_releases_its_leases_and_the_next_writes_nothing(
    scenario: Scenario, membership: FederationScenario
) -> None:
    leader = await membership.is_led("bergen")()
    (heir,) = set(membership.supervisors) - {leader}
    start = len(scenario.network.sent)

    await scenario.stop_agent(leader)

    await scenario.eventually(membership.is_led("bergen", heir), timedelta(seconds=4))
    await scenario.settled()
    written = [w for w in describe_writes(scenario.writes_since(start)) if " bergen/" in w]
    assert all("federations/league/status" in w for w in written), "the flag was written again"
    assert len(written) <= 1


async def test_epochs_of_a_lease_grow_with_each_leader(
    scenario: Scenario, membership: FederationScenario
) -> None:
    before = await membership.admin("bergen").read(Lease, "bergen", SYSTEM)
    leader = await membership.is_led("bergen")()
    (heir,) = set(membership.supervisors) - {leader}

    await scenario.stop_agent(leader)
    await scenario.eventually(membership.is_led("bergen", heir))

    after = await membership.admin("bergen").read(Lease, "bergen", SYSTEM)
    assert after.spec.lease_transitions == before.spec.lease_transitions + 1


async def test_without_any_supervisor_a_cluster_reports_no_leader_and_keeps_its_objects(
    scenario: Scenario, membership: FederationScenario
) -> None:
    flag = await flag_uid(membership, "bergen")

    for supervisor in membership.supervisors:
        await scenario.kill_agent(supervisor)

    await scenario.eventually(membership.has_conditions("bergen", Led="NoLeader"))
    assert await flag_uid(membership, "bergen") == flag


async def test_of_two_replicas_only_the_active_one_is_a_candidate_and_the_other_takes_over(
    scenario: Scenario, membership: FederationScenario
) -> None:
    await scenario.stop_agent("lubeck")
    await scenario.stop_agent("hamburg")
    await scenario.start_agent("lubeck", "a")
    await scenario.eventually(membership.is_led("bergen", "lubeck"))
    await scenario.start_agent("lubeck", "b")
    await asyncio.sleep(30)
    lease = await membership.admin("bergen").read(Lease, "bergen", SYSTEM)
    assert lease.spec.holder_identity == "lubeck_a"
    assert scenario.agent("lubeck/b").elections.members == frozenset()

    await scenario.kill_agent("lubeck/a")

    async def is_held() -> None:
        held = await membership.admin("bergen").read(Lease, "bergen", SYSTEM)
        assert held.spec.holder_identity == "lubeck_b"

    await scenario.eventually(is_held, TAKEOVER * 2)
    assert (await membership.federation_of("lubeck")).status.leaders == ("lubeck",)


# -- leaving


async def test_a_member_that_is_removed_is_left_clean(
    scenario: Scenario, membership: FederationScenario
) -> None:
    for supervisor in membership.supervisors:
        await membership.name_members(supervisor, "lubeck", "hamburg")

    await scenario.eventually(no_flag(membership, "bergen"))
    await scenario.settled()
    for supervisor in membership.supervisors:
        found = await membership.federation_of(supervisor)
        assert {m.cluster_id for m in found.status.members} == {"lubeck", "hamburg"}
        assert "bergen" not in scenario.agent(supervisor).reconciler.informers.connections
    lease = await membership.admin("bergen").read(Lease, "bergen", SYSTEM)
    assert lease.spec.holder_identity == ""
    await scenario.eventually(membership.has_conditions("bergen", Led="NoLeader"))


async def test_a_member_removed_while_unreachable_is_cleaned_up_when_it_is_back(
    scenario: Scenario, membership: FederationScenario
) -> None:
    for supervisor in membership.supervisors:
        scenario.network.cut(supervisor, "bergen")
    await asyncio.sleep(60)
    for supervisor in membership.supervisors:
        await membership.name_members(supervisor, "lubeck", "hamburg")
    await asyncio.sleep(200)
    assert await flag_uid(membership, "bergen")

    for supervisor in membership.supervisors:
        scenario.network.heal(supervisor, "bergen")

    await scenario.eventually(no_flag(membership, "bergen"), timedelta(minutes=5))


async def test_a_restarted_agent_continues_to_leave(
    scenario: Scenario, membership: FederationScenario
) -> None:
    for supervisor in membership.supervisors:
        scenario.network.cut(supervisor, "bergen")
    await asyncio.sleep(60)
    for supervisor in membership.supervisors:
        await membership.name_members(supervisor, "lubeck", "hamburg")
    await asyncio.sleep(60)
    for supervisor in membership.supervisors:
        states = {
            m.cluster_id: m.leaving
            for m in (await membership.federation_of(supervisor)).status.members
        }
        assert states == {"lubeck": False, "hamburg": False, "bergen": True}
        await scenario.kill_agent(supervisor)
        scenario.network.heal(supervisor, "bergen")

    await scenario.start_agents()

    await scenario.eventually(no_flag(membership, "bergen"), timedelta(minutes=5))
    await scenario.settled()
    for supervisor in membership.supervisors:
        found = await membership.federation_of(supervisor)
        assert {m.cluster_id for m in found.status.members} == {"lubeck", "hamburg"}
        assert "bergen" not in scenario.agent(supervisor).reconciler.informers.connections


async def test_an_abandoned_member_blocks_no_other(
    scenario: Scenario, membership: FederationScenario
) -> None:
    for supervisor in membership.supervisors:
        scenario.network.cut(supervisor, "bergen")
    await asyncio.sleep(60)

    for supervisor in membership.supervisors:
        marks = {"metadata": {"annotations": {ABANDONED: "bergen"}}}
        await membership.admin(supervisor).patch(Federation, NAME, "", marks)
        await membership.name_members(supervisor, "lubeck", "hamburg")
    await scenario.settled()

    for supervisor in membership.supervisors:
        informers = scenario.agent(supervisor).reconciler.informers
        assert "bergen" not in informers.connections
        assert informers.facts.get(ClusterDeparted, "bergen") is not None
    assert await flag_uid(membership, "bergen"), "what is given up stays behind"


async def test_objects_left_in_an_abandoned_member_are_recorded(
    scenario: Scenario, membership: FederationScenario
) -> None:
    leader = await membership.is_led("bergen")()
    for supervisor in membership.supervisors:
        scenario.network.cut(supervisor, "bergen")
    await asyncio.sleep(60)

    marks = {"metadata": {"annotations": {ABANDONED: "bergen"}}}
    for supervisor in membership.supervisors:
        await membership.admin(supervisor).patch(Federation, NAME, "", marks)
        await membership.name_members(supervisor, "lubeck", "hamburg")
    await scenario.settled()
    await scenario.kill_agent(leader)
    await scenario.start_agent(leader)
    await scenario.settled()

    (gone,) = (await membership.federation_of(leader)).status.abandoned
    assert (gone.cluster_id, gone.objects) == ("bergen", 1)
    assert gone.names == (f"ConfigMap {SHOP}/flag",)
    events = (await membership.admin(leader).list(Event)).objects
    assert [e.type for e in events if e.reason == "Abandoned"] == ["Warning"]

    await membership.admin(leader).patch(
        Federation, NAME, "", {"metadata": {"annotations": {ABANDONED: None}}}
    )
    await scenario.settled()
    assert (await membership.federation_of(leader)).status.abandoned == ()


async def test_a_cluster_cannot_abandon_itself(
    scenario: Scenario, membership: FederationScenario
) -> None:
    marks = {"metadata": {"annotations": {ABANDONED: "lubeck"}}}
    await membership.admin("lubeck").patch(Federation, NAME, "", marks)
    await membership.name_members("lubeck", "hamburg", "bergen")
    await asyncio.sleep(60)

    home = scenario.agent("lubeck").reconciler.informers.connections["lubeck"]
    assert Role.LOCAL in home.roles
    assert Role.MEMBER not in home.roles


async def test_a_member_with_a_reserved_name_is_reported(
    scenario: Scenario, membership: FederationScenario
) -> None:
    entry = {"clusterID": "broker", "server": "https://x.example", "secret": "member-bergen"}
    await membership.edit("lubeck", {"members": [entry]})

    await scenario.eventually(
        condition_says(membership, "lubeck", "Valid", "'broker' is something else here")
    )
    assert Role.BROKER in scenario.agent("lubeck").reconciler.informers.connections["broker"].roles


async def test_a_member_that_is_added_again_while_it_is_leaving_stays(
    scenario: Scenario, membership: FederationScenario
) -> None:
    flag = await flag_uid(membership, "bergen")
    for supervisor in membership.supervisors:
        scenario.network.cut(supervisor, "bergen")
        await membership.name_members(supervisor, "lubeck", "hamburg")
    await asyncio.sleep(60)

    for supervisor in membership.supervisors:
        await membership.name_members(supervisor, *membership.members)
        scenario.network.heal(supervisor, "bergen")

    await scenario.eventually(membership.is_led("bergen"), timedelta(minutes=2))
    await scenario.settled()
    assert await flag_uid(membership, "bergen") == flag


@pytest.mark.parametrize("how", ["its Federation is deleted", "it claims no longer to supervise"])
async def test_a_former_supervisor_leaves_members_to_the_others_without_a_gap(
    scenario: Scenario, membership: FederationScenario, how: str
) -> None:
    leader = await membership.is_led("bergen")()
    (heir,) = set(membership.supervisors) - {leader}
    flags = {m: await flag_uid(membership, m) for m in membership.members}

    if how == "its Federation is deleted":
        await membership.admin(leader).delete(Federation, NAME, "")
    else:
        await membership.claim(leader, SUPERVISOR, "false")

    await scenario.eventually(membership.is_led("bergen", heir), TAKEOVER)
    await scenario.settled()
    assert {m: await flag_uid(membership, m) for m in membership.members} == flags


async def test_the_last_supervisor_takes_everything_with_it(
    scenario: Scenario, membership: FederationScenario
) -> None:
    await membership.admin("hamburg").delete(Federation, NAME, "")
    await membership.admin("hamburg").delete(ClusterClaim, SUPERVISOR, "")
    await scenario.eventually(membership.is_led("bergen", "lubeck"), TAKEOVER)
    await scenario.settled()

    await membership.admin("lubeck").delete(Federation, NAME, "")

    for member in membership.members:
        await scenario.eventually(no_flag(membership, member))


# -- invalid configuration


@pytest.mark.parametrize(
    ("data", "text"),
    [
        pytest.param(
            None, "Secret antrea-plus-system/member-bergen does not exist", id="no Secret"
        ),
        pytest.param({"ca.crt": b"x"}, "has no key token", id="no token"),
        pytest.param({"token": b"t", "ca.crt": b"x"}, "holds no certificate", id="no PEM"),
    ],
)
async def test_an_invalid_secret_is_reported_by_its_field_and_the_connection_is_kept(
    scenario: Scenario, membership: FederationScenario, data: Any, text: str
) -> None:
    good = await membership.admin("lubeck").read(Secret, "member-bergen", SYSTEM)

    await membership.admin("lubeck").delete(Secret, "member-bergen", SYSTEM)
    if data is not None:
        meta = Meta(name="member-bergen", namespace=SYSTEM)
        await membership.admin("lubeck").create(Secret(metadata=meta, data=data))

    field = "spec.members[2].secret: "
    await scenario.eventually(condition_says(membership, "lubeck", "Valid", f"{field}"))
    await condition_says(membership, "lubeck", "Valid", text)()
    await asyncio.sleep(60)
    states = {
        m.cluster_id: m.reachable for m in (await membership.federation_of("lubeck")).status.members
    }
    assert states == {"lubeck": True, "hamburg": True, "bergen": True}

    await create_or_patch(
        membership.admin("lubeck"),
        Secret(metadata=Meta(name="member-bergen", namespace=SYSTEM), data=good.data),
    )
    await scenario.eventually(membership.has_conditions("lubeck", Valid="Valid"))


@pytest.mark.parametrize(
    ("change", "text"),
    [
        pytest.param({"token": b"expired"}, "Unauthorized", id="a token that nobody issued"),
        pytest.param(
            {"ca.crt": b"-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n"},
            "not signed by the given authority",
            id="another authority",
        ),
    ],
)
async def test_refused_credentials_are_reported_and_new_ones_used_at_once(
    scenario: Scenario, membership: FederationScenario, change: dict[str, bytes], text: str
) -> None:
    good = await membership.admin("lubeck").read(Secret, "member-bergen", SYSTEM)
    await scenario.kill_agent("lubeck")
    meta = Meta(name="member-bergen", namespace=SYSTEM)
    await create_or_patch(
        membership.admin("lubeck"), Secret(metadata=meta, data={**good.data, **change})
    )
    await scenario.start_agent("lubeck")

    await scenario.eventually(condition_says(membership, "lubeck", "MembersReachable", "bergen: "))
    await condition_says(membership, "lubeck", "MembersReachable", text)()
    await scenario.eventually(membership.is_led("bergen", "hamburg"), TAKEOVER)
    states = {
        m.cluster_id: m.reachable for m in (await membership.federation_of("lubeck")).status.members
    }
    assert states == {"lubeck": True, "hamburg": True, "bergen": False}

    await create_or_patch(membership.admin("lubeck"), Secret(metadata=meta, data=good.data))
    resolved = timedelta(seconds=3)
    await scenario.eventually(
        membership.has_conditions("lubeck", MembersReachable="AllReachable"), resolved
    )


async def test_a_token_that_ends_is_renewed_by_the_supervisors_that_use_it(
    scenario: Scenario, membership: FederationScenario
) -> None:
    short = await membership.secret_for("bergen", timedelta(minutes=10))
    for supervisor in membership.supervisors:
        await create_or_patch(membership.admin(supervisor), short)
    start = len(scenario.network.sent)

    await asyncio.sleep(timedelta(minutes=12).total_seconds())
    await scenario.testbed.restart_server("bergen")  # watches are not cut off when a token ends
    await asyncio.sleep(60)

    renewed = [
        w for w in describe_writes(scenario.writes_since(start)) if "secrets/member-bergen" in w
    ]
    for supervisor in membership.supervisors:
        await membership.has_conditions(supervisor, MembersReachable="AllReachable")()
        secret = await membership.admin(supervisor).read(Secret, "member-bergen", SYSTEM)
        assert secret.data["token"] != short.data["token"]
        assert secret.data["ca.crt"] == short.data["ca.crt"]
    assert len(renewed) == 4, "each supervisor renews it at half its life: twice in this time"


async def test_an_expired_token_is_reported_and_a_new_one_is_used(
    scenario: Scenario, membership: FederationScenario
) -> None:
    short = await membership.secret_for("bergen", timedelta(minutes=10))
    for supervisor in membership.supervisors:
        await create_or_patch(membership.admin(supervisor), short)
    for supervisor in membership.supervisors:
        await scenario.kill_agent(supervisor)  # or they would renew it
    await asyncio.sleep(timedelta(minutes=11).total_seconds())
    await scenario.start_agents()
    await scenario.testbed.restart_server("bergen")  # watches are not cut off when a token ends
    await scenario.eventually(
        condition_says(membership, "lubeck", "MembersReachable", "Unauthorized")
    )

    for member in membership.members:
        secret = await membership.secret_for(member)
        for supervisor in membership.supervisors:
            await create_or_patch(membership.admin(supervisor), secret)

    for supervisor in membership.supervisors:
        await scenario.eventually(
            membership.has_conditions(supervisor, MembersReachable="AllReachable")
        )
    await scenario.eventually(membership.all_led())


async def test_a_server_that_moved_is_found_again(
    scenario: Scenario, membership: FederationScenario
) -> None:
    members = [
        {"clusterID": m, "server": scenario.testbed.endpoint(m).url, "secret": f"member-{m}"}
        for m in membership.members
    ]
    away = [dict(m) for m in members]
    away[2]["server"] = "https://nowhere.example:6443"
    await membership.edit("lubeck", {"members": away})
    await scenario.eventually(
        condition_says(membership, "lubeck", "MembersReachable", "cannot connect")
    )

    await membership.edit("lubeck", {"members": members})

    await scenario.eventually(
        membership.has_conditions("lubeck", MembersReachable="AllReachable"), timedelta(seconds=3)
    )


async def test_a_cluster_that_is_another_than_it_is_called_is_not_led(
    scenario: Scenario, membership: FederationScenario
) -> None:
    await membership.claim("bergen", CLUSTER_ID, "oslo")
    for supervisor in membership.supervisors:
        await scenario.eventually(
            condition_says(
                membership, supervisor, "Valid", "spec.members[2].clusterID: the cluster at"
            )
        )
    await asyncio.sleep(60)

    lease = await membership.admin("bergen").read(Lease, "bergen", SYSTEM)
    assert lease.spec.holder_identity == ""


async def test_of_two_federations_the_older_counts_and_the_other_is_reported(
    scenario: Scenario, membership: FederationScenario
) -> None:
    await asyncio.sleep(5)
    await membership.admin("lubeck").create(Federation(metadata=Meta(name="another")))

    async def has_conditions() -> None:
        found = await membership.admin("lubeck").read(Federation, "another")
        valid = find_condition(found.status.conditions, "Valid")
        assert valid is not None
        assert (valid.reason, valid.status) == ("SecondFederation", "False")

    await scenario.eventually(has_conditions)
    await membership.has_conditions("lubeck", Valid="Valid")()
    assert "bergen" in scenario.agent("lubeck").reconciler.informers.connections


async def test_another_cluster_set_is_reported_by_its_field(
    scenario: Scenario, membership: FederationScenario
) -> None:
    await membership.edit("lubeck", {"clusterSet": "other"})

    await scenario.eventually(
        condition_says(membership, "lubeck", "Valid", "spec.clusterSet: 'other'")
    )


async def test_a_condition_that_turns_bad_is_one_event(
    scenario: Scenario, membership: FederationScenario
) -> None:
    scenario.network.cut("lubeck", "bergen")
    await scenario.eventually(
        membership.has_conditions("lubeck", MembersReachable="MemberUnreachable")
    )
    await asyncio.sleep(200)

    listed = await membership.admin("lubeck").list(Event, namespace="default")
    events = [e for e in listed.objects if e.reason == "MemberUnreachable"]
    assert len(events) == 1
    assert "bergen" in events[0].message


async def test_a_member_that_is_unreachable_for_long_changes_the_status_only_twice(
    scenario: Scenario, membership: FederationScenario
) -> None:
    start = len(scenario.network.sent)
    scenario.network.cut("lubeck", "bergen")
    await asyncio.sleep(300)
    scenario.network.heal("lubeck", "bergen")
    await scenario.settled()

    statuses = [
        w for w in describe_writes(scenario.writes_since(start)) if "lubeck/" in w and "status" in w
    ]
    assert len(statuses) <= 4, statuses


async def test_a_restarted_api_server_of_a_member_costs_nothing_but_time(
    scenario: Scenario, membership: FederationScenario
) -> None:
    flag = await flag_uid(membership, "bergen")

    await scenario.testbed.restart_server("bergen")
    await scenario.eventually(membership.has_conditions("lubeck", MembersReachable="AllReachable"))
    await scenario.settled()

    assert await flag_uid(membership, "bergen") == flag
    await membership.all_led()()


@pytest.mark.parametrize("last", [False, True], ids=["one of two", "the last supervisor"])
async def test_a_federation_that_is_deleted_with_its_crd_disconnects_no_member(
    scenario: Scenario, membership: FederationScenario, last: bool
) -> None:
    """Somebody deletes the CRD: that is not a person's wish to leave everything."""
    if last:
        await membership.admin("hamburg").delete(Federation, NAME, "")
        await membership.admin("hamburg").delete(ClusterClaim, SUPERVISOR, "")
        await scenario.eventually(membership.is_led("bergen", "lubeck"), TAKEOVER)
        await scenario.settled()
    flags = {m: await flag_uid(membership, m) for m in membership.members}
    path = "customresourcedefinitions/federations.antreaplus.vmware-tanzu.com"

    await membership.admin("lubeck").send(
        Request("DELETE", f"/apis/apiextensions.k8s.io/v1/{path}")
    )
    await asyncio.sleep(120)

    assert {m: await flag_uid(membership, m) for m in membership.members} == flags
    with pytest.raises(NotFound):
        await membership.federation_of("lubeck")
