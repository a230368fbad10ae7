"""Members that leave, die, are named wrongly or lie; supervisors that stop. On virtual time."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from hanse.features.federation.members import ABANDONED
from hanse.kube.errors import NotFound
from hanse.kube.request import Request
from hanse.model.conditions import find
from hanse.model.facts import Departed, Role
from hanse.model.kinds.coordination import Lease
from hanse.model.kinds.core import ConfigMap, Event, Secret
from hanse.model.kinds.federation import CLUSTER_ID, SUPERVISOR, SYSTEM, ClusterClaim, Federation
from hanse.model.labels import OWNER
from hanse.model.objects import ClusterId, Meta
from tests.support.stage import Check, Stage, told
from tests.support.stage_federation import NAME, League, put

SHOP = "shop"
TAKEOVER = timedelta(seconds=15 + 2 * 2)
"""The lease, and two tries."""


def no_flag(league: League, cluster: ClusterId) -> Check[None]:
    async def check() -> None:
        listed = await league.person(cluster).list(ConfigMap, namespace=SHOP, labels=OWNER)
        assert not listed.objects, f"{cluster} still flies a flag"

    return check


async def flag_uid(league: League, cluster: ClusterId) -> str:
    return (await league.person(cluster).read(ConfigMap, "flag", SHOP)).metadata.uid


def says(league: League, cluster: ClusterId, type_: str, words: str) -> Check[None]:
    """That a condition is False, and its message has these words."""

    async def check() -> None:
        found = await league.told(cluster)
        bad = find(found.status.conditions, type_)
        assert bad is not None, found.status
        assert bad.status == "False", found.status
        assert words in bad.message, bad.message

    return check


# -- taking over


async def test_supervisors_that_start_together_share_the_work(league: League) -> None:
    leaders = await league.all_led()()

    assert (leaders["lubeck"], leaders["hamburg"]) == ("lubeck", "hamburg")


async def test_a_dead_leader_is_followed_within_the_lease_and_two_tries(
    stage: Stage, league: League
) -> None:
    leader = await league.is_led("bergen")()
    (heir,) = set(league.supervisors) - {leader}

    await stage.kill_agent(leader)

    await stage.eventually(league.is_led("bergen", heir), TAKEOVER)
    await stage.eventually(league.is_led(leader, heir), TAKEOVER)


async def test_who_is_told_to_stop_hands_over_at_once_and_the_heir_writes_nothing_there(
    stage: Stage, league: League
) -> None:
    leader = await league.is_led("bergen")()
    (heir,) = set(league.supervisors) - {leader}
    start = len(stage.network.sent)

    await stage.stop_agent(leader)

    await stage.eventually(league.is_led("bergen", heir), timedelta(seconds=4))
    await stage.settled()
    written = [w for w in told(stage.writes_since(start)) if " bergen/" in w]
    assert all("federations/league/status" in w for w in written), "the flag was written again"
    assert len(written) <= 1


async def test_epochs_of_a_lease_grow_with_each_leader(stage: Stage, league: League) -> None:
    before = await league.person("bergen").read(Lease, "bergen", SYSTEM)
    leader = await league.is_led("bergen")()
    (heir,) = set(league.supervisors) - {leader}

    await stage.stop_agent(leader)
    await stage.eventually(league.is_led("bergen", heir))

    after = await league.person("bergen").read(Lease, "bergen", SYSTEM)
    assert after.spec.lease_transitions == before.spec.lease_transitions + 1


async def test_without_any_supervisor_a_cluster_says_so_and_keeps_what_it_has(
    stage: Stage, league: League
) -> None:
    flag = await flag_uid(league, "bergen")

    for supervisor in league.supervisors:
        await stage.kill_agent(supervisor)

    await stage.eventually(league.tells("bergen", Led="NoLeader"))
    assert await flag_uid(league, "bergen") == flag


async def test_of_two_replicas_only_the_one_that_works_stands_and_the_other_takes_over(
    stage: Stage, league: League
) -> None:
    await stage.stop_agent("lubeck")
    await stage.stop_agent("hamburg")
    await stage.start_agent("lubeck", "a")
    await stage.eventually(league.is_led("bergen", "lubeck"))
    await stage.start_agent("lubeck", "b")
    await asyncio.sleep(30)
    lease = await league.person("bergen").read(Lease, "bergen", SYSTEM)
    assert lease.spec.holder_identity == "lubeck_a"
    assert stage.agent("lubeck/b").leaders.members == frozenset()

    await stage.kill_agent("lubeck/a")

    async def is_held() -> None:
        held = await league.person("bergen").read(Lease, "bergen", SYSTEM)
        assert held.spec.holder_identity == "lubeck_b"

    await stage.eventually(is_held, TAKEOVER * 2)
    assert (await league.told("lubeck")).status.leaders == ("lubeck",)


# -- leaving


async def test_a_member_that_is_removed_is_left_clean(stage: Stage, league: League) -> None:
    for supervisor in league.supervisors:
        await league.name_members(supervisor, "lubeck", "hamburg")

    await stage.eventually(no_flag(league, "bergen"))
    await stage.settled()
    for supervisor in league.supervisors:
        found = await league.told(supervisor)
        assert {m.cluster_id for m in found.status.members} == {"lubeck", "hamburg"}
        assert "bergen" not in stage.agent(supervisor).engine.fleet.connections
    lease = await league.person("bergen").read(Lease, "bergen", SYSTEM)
    assert lease.spec.holder_identity == ""
    await stage.eventually(league.tells("bergen", Led="NoLeader"))


async def test_a_member_that_is_removed_while_it_is_away_is_left_when_it_is_back(
    stage: Stage, league: League
) -> None:
    for supervisor in league.supervisors:
        stage.network.cut(supervisor, "bergen")
    await asyncio.sleep(60)
    for supervisor in league.supervisors:
        await league.name_members(supervisor, "lubeck", "hamburg")
    await asyncio.sleep(200)
    assert await flag_uid(league, "bergen")

    for supervisor in league.supervisors:
        stage.network.heal(supervisor, "bergen")

    await stage.eventually(no_flag(league, "bergen"), timedelta(minutes=5))


async def test_an_agent_that_starts_anew_goes_on_leaving(stage: Stage, league: League) -> None:
    for supervisor in league.supervisors:
        stage.network.cut(supervisor, "bergen")
    await asyncio.sleep(60)
    for supervisor in league.supervisors:
        await league.name_members(supervisor, "lubeck", "hamburg")
    await asyncio.sleep(60)
    for supervisor in league.supervisors:
        states = {m.cluster_id: m.leaving for m in (await league.told(supervisor)).status.members}
        assert states == {"lubeck": False, "hamburg": False, "bergen": True}
        await stage.kill_agent(supervisor)
        stage.network.heal(supervisor, "bergen")

    await stage.start_agents()

    await stage.eventually(no_flag(league, "bergen"), timedelta(minutes=5))
    await stage.settled()
    for supervisor in league.supervisors:
        found = await league.told(supervisor)
        assert {m.cluster_id for m in found.status.members} == {"lubeck", "hamburg"}
        assert "bergen" not in stage.agent(supervisor).engine.fleet.connections


async def test_a_dead_member_that_is_given_up_holds_up_nobody(stage: Stage, league: League) -> None:
    for supervisor in league.supervisors:
        stage.network.cut(supervisor, "bergen")
    await asyncio.sleep(60)

    for supervisor in league.supervisors:
        marks = {"metadata": {"annotations": {ABANDONED: "bergen"}}}
        await league.person(supervisor).patch(Federation, NAME, "", marks)
        await league.name_members(supervisor, "lubeck", "hamburg")
    await stage.settled()

    for supervisor in league.supervisors:
        fleet = stage.agent(supervisor).engine.fleet
        assert "bergen" not in fleet.connections
        assert fleet.facts.get(Departed, "bergen") is not None
    assert await flag_uid(league, "bergen"), "what is given up stays behind"


async def test_what_stays_behind_in_a_member_that_is_given_up_is_written_down(
    stage: Stage, league: League
) -> None:
    leader = await league.is_led("bergen")()
    for supervisor in league.supervisors:
        stage.network.cut(supervisor, "bergen")
    await asyncio.sleep(60)

    marks = {"metadata": {"annotations": {ABANDONED: "bergen"}}}
    for supervisor in league.supervisors:
        await league.person(supervisor).patch(Federation, NAME, "", marks)
        await league.name_members(supervisor, "lubeck", "hamburg")
    await stage.settled()
    await stage.kill_agent(leader)
    await stage.start_agent(leader)
    await stage.settled()

    (gone,) = (await league.told(leader)).status.abandoned
    assert (gone.cluster_id, gone.objects) == ("bergen", 1)
    assert gone.names == (f"ConfigMap {SHOP}/flag",)
    events = (await league.person(leader).list(Event)).objects
    assert [e.type for e in events if e.reason == "AbandonedCluster"] == ["Warning"]

    await league.person(leader).patch(
        Federation, NAME, "", {"metadata": {"annotations": {ABANDONED: None}}}
    )
    await stage.settled()
    assert (await league.told(leader)).status.abandoned == ()


async def test_nobody_gives_up_its_own_home(stage: Stage, league: League) -> None:
    marks = {"metadata": {"annotations": {ABANDONED: "lubeck"}}}
    await league.person("lubeck").patch(Federation, NAME, "", marks)
    await league.name_members("lubeck", "hamburg", "bergen")
    await asyncio.sleep(60)

    home = stage.agent("lubeck").engine.fleet.connections["lubeck"]
    assert Role.LOCAL in home.roles
    assert Role.MEMBER not in home.roles


async def test_a_member_of_a_name_that_means_something_else_is_told(
    stage: Stage, league: League
) -> None:
    entry = {"clusterID": "broker", "server": "https://x.example", "secret": "member-bergen"}
    await league.edit("lubeck", {"members": [entry]})

    await stage.eventually(says(league, "lubeck", "Valid", "'broker' is something else here"))
    assert Role.BROKER in stage.agent("lubeck").engine.fleet.connections["broker"].roles


async def test_a_member_that_comes_back_while_it_is_being_left_stays(
    stage: Stage, league: League
) -> None:
    flag = await flag_uid(league, "bergen")
    for supervisor in league.supervisors:
        stage.network.cut(supervisor, "bergen")
        await league.name_members(supervisor, "lubeck", "hamburg")
    await asyncio.sleep(60)

    for supervisor in league.supervisors:
        await league.name_members(supervisor, *league.members)
        stage.network.heal(supervisor, "bergen")

    await stage.eventually(league.is_led("bergen"), timedelta(minutes=2))
    await stage.settled()
    assert await flag_uid(league, "bergen") == flag


@pytest.mark.parametrize("how", ["its Federation is deleted", "it claims no longer to supervise"])
async def test_who_ceases_to_supervise_leaves_members_to_the_others_without_a_blink(
    stage: Stage, league: League, how: str
) -> None:
    leader = await league.is_led("bergen")()
    (heir,) = set(league.supervisors) - {leader}
    flags = {m: await flag_uid(league, m) for m in league.members}

    if how == "its Federation is deleted":
        await league.person(leader).delete(Federation, NAME, "")
    else:
        await league.claim(leader, SUPERVISOR, "false")

    await stage.eventually(league.is_led("bergen", heir), TAKEOVER)
    await stage.settled()
    assert {m: await flag_uid(league, m) for m in league.members} == flags


async def test_the_last_supervisor_takes_everything_with_it(stage: Stage, league: League) -> None:
    await league.person("hamburg").delete(Federation, NAME, "")
    await league.person("hamburg").delete(ClusterClaim, SUPERVISOR, "")
    await stage.eventually(league.is_led("bergen", "lubeck"), TAKEOVER)
    await stage.settled()

    await league.person("lubeck").delete(Federation, NAME, "")

    for member in league.members:
        await stage.eventually(no_flag(league, member))


# -- what people write wrongly


@pytest.mark.parametrize(
    ("data", "words"),
    [
        pytest.param(
            None, "Secret antrea-plus-system/member-bergen does not exist", id="no Secret"
        ),
        pytest.param({"ca.crt": b"x"}, "has no key token", id="no token"),
        pytest.param({"token": b"t", "ca.crt": b"x"}, "holds no certificate", id="no PEM"),
    ],
)
async def test_a_bad_secret_is_told_by_its_field_and_the_way_before_it_stays(
    stage: Stage, league: League, data: Any, words: str
) -> None:
    good = await league.person("lubeck").read(Secret, "member-bergen", SYSTEM)

    await league.person("lubeck").delete(Secret, "member-bergen", SYSTEM)
    if data is not None:
        meta = Meta(name="member-bergen", namespace=SYSTEM)
        await league.person("lubeck").create(Secret(metadata=meta, data=data))

    field = "spec.members[2].secret: "
    await stage.eventually(says(league, "lubeck", "Valid", f"{field}"))
    await says(league, "lubeck", "Valid", words)()
    await asyncio.sleep(60)
    states = {m.cluster_id: m.reachable for m in (await league.told("lubeck")).status.members}
    assert states == {"lubeck": True, "hamburg": True, "bergen": True}

    await put(
        league.person("lubeck"),
        Secret(metadata=Meta(name="member-bergen", namespace=SYSTEM), data=good.data),
    )
    await stage.eventually(league.tells("lubeck", Valid="Valid"))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        pytest.param({"token": b"expired"}, "Unauthorized", id="a token that nobody issued"),
        pytest.param(
            {"ca.crt": b"-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n"},
            "not signed by the given authority",
            id="another authority",
        ),
    ],
)
async def test_credentials_that_are_refused_are_told_and_mended_at_once(
    stage: Stage, league: League, change: dict[str, bytes], words: str
) -> None:
    good = await league.person("lubeck").read(Secret, "member-bergen", SYSTEM)
    await stage.kill_agent("lubeck")
    meta = Meta(name="member-bergen", namespace=SYSTEM)
    await put(league.person("lubeck"), Secret(metadata=meta, data={**good.data, **change}))
    await stage.start_agent("lubeck")

    await stage.eventually(says(league, "lubeck", "MembersReachable", "bergen: "))
    await says(league, "lubeck", "MembersReachable", words)()
    await stage.eventually(league.is_led("bergen", "hamburg"), TAKEOVER)
    states = {m.cluster_id: m.reachable for m in (await league.told("lubeck")).status.members}
    assert states == {"lubeck": True, "hamburg": True, "bergen": False}

    await put(league.person("lubeck"), Secret(metadata=meta, data=good.data))
    mended = timedelta(seconds=3)
    await stage.eventually(league.tells("lubeck", MembersReachable="AllReachable"), mended)


async def test_a_token_that_ends_is_renewed_by_the_supervisors_that_use_it(
    stage: Stage, league: League
) -> None:
    short = await league.secret_for("bergen", timedelta(minutes=10))
    for supervisor in league.supervisors:
        await put(league.person(supervisor), short)
    start = len(stage.network.sent)

    await asyncio.sleep(timedelta(minutes=12).total_seconds())
    await stage.ground.restart_server("bergen")  # watches are not cut off when a token ends
    await asyncio.sleep(60)

    renewed = [w for w in told(stage.writes_since(start)) if "secrets/member-bergen" in w]
    for supervisor in league.supervisors:
        await league.tells(supervisor, MembersReachable="AllReachable")()
        secret = await league.person(supervisor).read(Secret, "member-bergen", SYSTEM)
        assert secret.data["token"] != short.data["token"]
        assert secret.data["ca.crt"] == short.data["ca.crt"]
    assert len(renewed) == 4, "each supervisor renews it at half its life: twice in this time"


async def test_a_token_that_runs_out_is_told_and_a_new_one_is_used(
    stage: Stage, league: League
) -> None:
    short = await league.secret_for("bergen", timedelta(minutes=10))
    for supervisor in league.supervisors:
        await put(league.person(supervisor), short)
    for supervisor in league.supervisors:
        await stage.kill_agent(supervisor)  # or they would renew it
    await asyncio.sleep(timedelta(minutes=11).total_seconds())
    await stage.start_agents()
    await stage.ground.restart_server("bergen")  # watches are not cut off when a token ends
    await stage.eventually(says(league, "lubeck", "MembersReachable", "Unauthorized"))

    for member in league.members:
        secret = await league.secret_for(member)
        for supervisor in league.supervisors:
            await put(league.person(supervisor), secret)

    for supervisor in league.supervisors:
        await stage.eventually(league.tells(supervisor, MembersReachable="AllReachable"))
    await stage.eventually(league.all_led())


async def test_a_server_that_moved_is_found_again(stage: Stage, league: League) -> None:
    members = [
        {"clusterID": m, "server": stage.ground.endpoint(m).url, "secret": f"member-{m}"}
        for m in league.members
    ]
    away = [dict(m) for m in members]
    away[2]["server"] = "https://nowhere.example:6443"
    await league.edit("lubeck", {"members": away})
    await stage.eventually(says(league, "lubeck", "MembersReachable", "cannot connect"))

    await league.edit("lubeck", {"members": members})

    await stage.eventually(
        league.tells("lubeck", MembersReachable="AllReachable"), timedelta(seconds=3)
    )


async def test_a_cluster_that_is_another_than_it_is_called_is_not_led(
    stage: Stage, league: League
) -> None:
    await league.claim("bergen", CLUSTER_ID, "oslo")
    for supervisor in league.supervisors:
        await stage.eventually(
            says(league, supervisor, "Valid", "spec.members[2].clusterID: the cluster at")
        )
    await asyncio.sleep(60)

    lease = await league.person("bergen").read(Lease, "bergen", SYSTEM)
    assert lease.spec.holder_identity == ""


async def test_of_two_federations_the_older_counts_and_the_other_is_told(
    stage: Stage, league: League
) -> None:
    await asyncio.sleep(5)
    await league.person("lubeck").create(Federation(metadata=Meta(name="another")))

    async def is_told() -> None:
        found = await league.person("lubeck").read(Federation, "another")
        valid = find(found.status.conditions, "Valid")
        assert valid is not None
        assert (valid.reason, valid.status) == ("SecondFederation", "False")

    await stage.eventually(is_told)
    await league.tells("lubeck", Valid="Valid")()
    assert "bergen" in stage.agent("lubeck").engine.fleet.connections


async def test_another_cluster_set_is_told_by_its_field(stage: Stage, league: League) -> None:
    await league.edit("lubeck", {"clusterSet": "other"})

    await stage.eventually(says(league, "lubeck", "Valid", "spec.clusterSet: 'other'"))


async def test_what_turns_bad_is_told_in_an_event_once(stage: Stage, league: League) -> None:
    stage.network.cut("lubeck", "bergen")
    await stage.eventually(league.tells("lubeck", MembersReachable="MemberUnreachable"))
    await asyncio.sleep(200)

    listed = await league.person("lubeck").list(Event, namespace="default")
    events = [e for e in listed.objects if e.reason == "MemberUnreachable"]
    assert len(events) == 1
    assert "bergen" in events[0].message


async def test_a_member_that_is_long_away_changes_what_is_told_only_twice(
    stage: Stage, league: League
) -> None:
    start = len(stage.network.sent)
    stage.network.cut("lubeck", "bergen")
    await asyncio.sleep(300)
    stage.network.heal("lubeck", "bergen")
    await stage.settled()

    statuses = [w for w in told(stage.writes_since(start)) if "lubeck/" in w and "status" in w]
    assert len(statuses) <= 4, statuses


async def test_a_restarted_api_server_of_a_member_costs_nothing_but_time(
    stage: Stage, league: League
) -> None:
    flag = await flag_uid(league, "bergen")

    await stage.ground.restart_server("bergen")
    await stage.eventually(league.tells("lubeck", MembersReachable="AllReachable"))
    await stage.settled()

    assert await flag_uid(league, "bergen") == flag
    await league.all_led()()


@pytest.mark.parametrize("last", [False, True], ids=["one of two", "the last supervisor"])
async def test_a_federation_that_vanishes_with_its_kind_moves_nobody(
    stage: Stage, league: League, last: bool
) -> None:
    """Somebody deletes the CRD: that is not a person's wish to leave everything."""
    if last:
        await league.person("hamburg").delete(Federation, NAME, "")
        await league.person("hamburg").delete(ClusterClaim, SUPERVISOR, "")
        await stage.eventually(league.is_led("bergen", "lubeck"), TAKEOVER)
        await stage.settled()
    flags = {m: await flag_uid(league, m) for m in league.members}
    path = "customresourcedefinitions/federations.antreaplus.vmware-tanzu.com"

    await league.person("lubeck").send(Request("DELETE", f"/apis/apiextensions.k8s.io/v1/{path}"))
    await asyncio.sleep(120)

    assert {m: await flag_uid(league, m) for m in league.members} == flags
    with pytest.raises(NotFound):
        await league.told("lubeck")
