"""Invalid Secrets, credentials, servers and claims of members, on virtual time."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from hanse.kube.errors import NotFound
from hanse.kube.transport import Request
from hanse.model.conditions import find_condition
from hanse.model.kinds.coordination import Lease
from hanse.model.kinds.core import Event, Secret
from hanse.model.kinds.federation import CLUSTER_ID, SUPERVISOR, SYSTEM, ClusterClaim, Federation
from hanse.model.objects import Meta
from tests.features.federation.checks import condition_says, flag_uid
from tests.support.federation import NAME, FederationScenario, create_or_patch
from tests.support.scenario import Scenario, describe_writes

TAKEOVER = timedelta(seconds=15 + 2 * 2)
"""The lease, and two tries."""


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
    short = {}
    for supervisor in membership.supervisors:
        short[supervisor] = await membership.secret_for("bergen", supervisor, timedelta(minutes=10))
        await create_or_patch(membership.admin(supervisor), short[supervisor])
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
        assert secret.data["token"] != short[supervisor].data["token"]
        assert secret.data["ca.crt"] == short[supervisor].data["ca.crt"]
    assert len(renewed) == 4, "each supervisor renews it at half its life: twice in this time"


async def test_an_expired_token_is_reported_and_a_new_one_is_used(
    scenario: Scenario, membership: FederationScenario
) -> None:
    for supervisor in membership.supervisors:
        short = await membership.secret_for("bergen", supervisor, timedelta(minutes=10))
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
        for supervisor in membership.supervisors:
            secret = await membership.secret_for(member, supervisor)
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
