"""The copies of the leader's configuration on followers, and which of them are removed."""

from msgspec.structs import replace

from hanse.features.gslb.names import LED_BY, PARENTS, UUID, site_of
from hanse.features.gslb.replication import plan_federation
from hanse.model.facts import ClusterState, Phase, Role, WriteOutcome
from hanse.model.kinds.core import ConfigMap
from hanse.model.kinds.gslb import GlobalDeploymentPolicy, GSLBConfig, GSLBConfigStatus
from hanse.model.objects import ClusterObjectRef, Meta, Object, object_ref
from hanse.model.plan import TakeOver
from hanse.model.snapshot import Snapshot
from tests.features.gslb.fleet import (
    LOCAL,
    amko,
    answers_to_reads,
    config,
    leader_copy,
    leader_snapshot,
    policy,
    rule,
)
from tests.features.gslb.test_leadership import conditions
from tests.support.builders import annotated
from tinykube.virtual_time import EPOCH

LEADER = amko("lubeck", "hamburg", "bergen", leads=True, epoch=3)
HAMBURG, BERGEN = site_of("hamburg"), site_of("bergen")
FOLLOWERS: dict[str, list[Object]] = {"hamburg": [amko("hamburg")], "bergen": [amko("bergen")]}


def test_spec_and_uuid_are_copied_and_status_and_our_bookkeeping_are_not() -> None:
    original = annotated(
        config("lubeck"), {UUID: "u-1", "hanse.dev/owner-key": "x", "note": "mine"}
    )
    original = replace(original, status=GSLBConfigStatus(state="fine"))
    snapshot = leader_snapshot([LEADER, original], FOLLOWERS)

    copies = {d.where: d.object for d in plan_federation(snapshot).desired}

    assert set(copies) == {HAMBURG, BERGEN}
    copy = copies[HAMBURG]
    assert isinstance(copy, GSLBConfig)
    assert copy.spec == original.spec
    assert copy.status == GSLBConfigStatus()
    assert copy.metadata.annotations == {
        UUID: "u-1",
        LED_BY: "3/lubeck",
        PARENTS: "space/definition",
    }


def test_host_rules_and_policies_are_copied_too() -> None:
    snapshot = leader_snapshot(
        [LEADER, policy("lubeck"), rule(), rule("b.example.org", "b")], FOLLOWERS
    )

    names = [d.object.metadata.name for d in plan_federation(snapshot).desired if d.where == BERGEN]

    assert sorted(names) == ["b", "gdp", "rule"]


def test_what_a_user_created_on_a_follower_is_adopted() -> None:
    sites: dict[str, list[Object]] = {
        **FOLLOWERS,
        "hamburg": [amko("hamburg"), config("elsewhere")],
    }
    snapshot = leader_snapshot([LEADER, config("lubeck")], sites)

    assert all(isinstance(d.ownership, TakeOver) for d in plan_federation(snapshot).desired)


def test_strays_on_followers_go_by_name_and_uid() -> None:
    sites: dict[str, list[Object]] = {
        **FOLLOWERS,
        "hamburg": [amko("hamburg"), config("x", name="stray")],
    }
    local = [LEADER, config("lubeck")]
    snapshot = leader_snapshot(local, sites, facts=answers_to_reads(leader_snapshot(local, sites)))

    (removal,) = plan_federation(snapshot).removals

    stray = snapshot.get(HAMBURG, GSLBConfig, "stray", "avi-system")
    assert stray is not None
    assert (removal.target, removal.uid) == (
        ClusterObjectRef(HAMBURG, object_ref(stray)),
        stray.metadata.uid,
    )


def test_nothing_is_removed_while_the_leader_recovers_from_a_restore() -> None:
    recovering = ClusterState(
        LOCAL, frozenset({Role.LOCAL}), Phase.SYNCED, EPOCH, listed=True, recovering=True
    )
    sites: dict[str, list[Object]] = {
        **FOLLOWERS,
        "hamburg": [amko("hamburg"), leader_copy(config("x"), "3/lubeck")],
    }
    snapshot = leader_snapshot([LEADER], sites, facts=[recovering])

    plan = plan_federation(snapshot)

    assert plan.removals == ()
    assert [d.object.metadata.name for d in plan.desired] == ["gc-1"]


def test_a_leader_that_never_had_a_configuration_does_not_delete_the_last_one() -> None:
    sites: dict[str, list[Object]] = {
        **FOLLOWERS,
        "hamburg": [amko("hamburg"), leader_copy(config("x"), "2/paris")],
    }
    snapshot = leader_snapshot(
        [LEADER], sites, facts=answers_to_reads(leader_snapshot([LEADER], sites))
    )

    plan = plan_federation(snapshot)

    assert plan.removals == ()
    found = {t: (s, r) for t, s, r in conditions(snapshot)}
    status, reason = found["GSLBConfig Federation"]
    assert status == "failure in federation"
    assert "cluster hamburg keeps gc-1, which nobody deleted here" in reason


def _failing(snapshot: Snapshot, *where: str) -> list[WriteOutcome]:
    return [
        WriteOutcome(
            ClusterObjectRef(d.where, object_ref(d.object)), "Forbidden", "no rights", EPOCH
        )
        for d in plan_federation(snapshot).desired
        if d.where in where
    ]


def test_one_follower_that_fails_is_some_and_all_are_a_failure() -> None:
    local = [LEADER, config("lubeck")]
    copy = leader_copy(config("lubeck"), "3/lubeck")
    one: dict[str, list[Object]] = {"hamburg": [amko("hamburg")], "bergen": [amko("bergen"), copy]}
    some = _failing(leader_snapshot(local, one), HAMBURG)
    every = _failing(leader_snapshot(local, FOLLOWERS), HAMBURG, BERGEN)

    one_failing = conditions(leader_snapshot(local, one, facts=some))
    all_failing = conditions(leader_snapshot(local, FOLLOWERS, facts=every))

    assert one_failing[3] == (
        "GSLBConfig Federation",
        "error in federating to some clusters",
        "cluster hamburg: no rights",
    )
    assert all_failing[3][1:] == (
        "failure in federation",
        "cluster hamburg: no rights, cluster bergen: no rights",
    )


def test_writes_under_way_leave_the_present_condition() -> None:
    snapshot = leader_snapshot([LEADER, config("lubeck")], FOLLOWERS)

    stages = [scenario for scenario, _, _ in conditions(snapshot)]

    assert "GSLBConfig Federation" not in stages


def test_monitors_that_are_named_go_with_the_policy_and_others_do_not() -> None:
    named, other = (
        ConfigMap(metadata=Meta(name=n, namespace="avi-system"), data={"type": "TCP", "port": "1"})
        for n in ("quick", "other")
    )
    gdp = policy("lubeck", health_monitor_template="quick")
    snapshot = leader_snapshot([LEADER, config("lubeck"), gdp, named, other], FOLLOWERS)

    copies = [d for d in plan_federation(snapshot).desired if isinstance(d.object, ConfigMap)]

    assert [
        (d.where, d.object.metadata.name, isinstance(d.ownership, TakeOver)) for d in copies
    ] == [
        (HAMBURG, "quick", False),
        (BERGEN, "quick", False),
    ]


def test_a_copied_monitor_stays_with_a_follower() -> None:
    copy = ConfigMap(metadata=Meta(name="quick", namespace="avi-system"), data={"type": "TCP"})
    snapshot = leader_snapshot([amko("lubeck"), leader_copy(copy, "2/paris")])

    assert [d.object.metadata.name for d in plan_federation(snapshot).desired] == ["quick"]


def test_every_follower_is_sent_its_leader() -> None:
    snapshot = leader_snapshot([LEADER], FOLLOWERS)

    claims = [p for p in plan_federation(snapshot).patches if p.target.where != LOCAL]

    assert {p.target.where for p in claims} == {HAMBURG, BERGEN}
    assert claims[0].change == {"metadata": {"annotations": {LED_BY: "3/lubeck"}}}


def test_a_leader_that_was_stopped_keeps_its_copies_as_they_are() -> None:
    mine = leader_copy(policy("lubeck"), "3/lubeck")
    sites: dict[str, list[Object]] = {
        "hamburg": [amko("hamburg", leads=True), mine],
        "bergen": [amko("bergen")],
    }
    snapshot = leader_snapshot([LEADER], sites)

    plan = plan_federation(snapshot)

    assert [(d.where, type(d.object)) for d in plan.desired] == [(HAMBURG, GlobalDeploymentPolicy)]
    assert plan.removals == ()
