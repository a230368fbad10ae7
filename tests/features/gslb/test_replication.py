"""What followers get of the leader's configuration, what goes, and what is never deleted."""

from msgspec.structs import replace

from hanse.features.gslb.names import LED_BY, PARENTS, UUID, site_of
from hanse.features.gslb.replication import plan_federation
from hanse.model.facts import ClusterState, Phase, Role, WriteOutcome
from hanse.model.kinds.core import ConfigMap
from hanse.model.kinds.gslb import GlobalDeploymentPolicy, GSLBConfig, GSLBConfigStatus
from hanse.model.objects import ClusterObjectRef, Meta, Object, object_ref
from hanse.model.snapshot import Snapshot
from tests.features.gslb.fleet import (
    HOME,
    amko,
    config,
    found_at,
    marked,
    policy,
    rule,
    seen_by_leader,
)
from tests.features.gslb.test_leadership import conditions
from tests.support.builders import annotated
from tinykube.virtual_time import EPOCH

LEADER = amko("lubeck", "hamburg", "bergen", leads=True, epoch=3)
HAMBURG, BERGEN = site_of("hamburg"), site_of("bergen")
FOLLOWERS: dict[str, list[Object]] = {"hamburg": [amko("hamburg")], "bergen": [amko("bergen")]}


def test_spec_and_uuid_are_copied_and_status_and_our_bookkeeping_are_not() -> None:
    told = annotated(config("lubeck"), {UUID: "u-1", "hanse.dev/owner-key": "x", "note": "mine"})
    told = replace(told, status=GSLBConfigStatus(state="fine"))
    seen = seen_by_leader([LEADER, told], FOLLOWERS)

    copies = {d.where: d.object for d in plan_federation(seen).desired}

    assert set(copies) == {HAMBURG, BERGEN}
    copy = copies[HAMBURG]
    assert isinstance(copy, GSLBConfig)
    assert copy.spec == told.spec
    assert copy.status == GSLBConfigStatus()
    assert copy.metadata.annotations == {
        UUID: "u-1",
        LED_BY: "3/lubeck",
        PARENTS: "space/definition",
    }


def test_host_rules_and_policies_are_copied_too() -> None:
    seen = seen_by_leader([LEADER, policy("lubeck"), rule(), rule("b.example.org", "b")], FOLLOWERS)

    names = [d.object.metadata.name for d in plan_federation(seen).desired if d.where == BERGEN]

    assert sorted(names) == ["b", "gdp", "rule"]


def test_what_a_person_made_on_a_follower_is_taken_over() -> None:
    sites: dict[str, list[Object]] = {
        **FOLLOWERS,
        "hamburg": [amko("hamburg"), config("elsewhere")],
    }
    seen = seen_by_leader([LEADER, config("lubeck")], sites)

    assert all(d.takes_over for d in plan_federation(seen).desired)


def test_strays_on_followers_go_by_name_and_uid() -> None:
    sites: dict[str, list[Object]] = {
        **FOLLOWERS,
        "hamburg": [amko("hamburg"), config("x", name="stray")],
    }
    home = [LEADER, config("lubeck")]
    seen = seen_by_leader(home, sites, facts=found_at(seen_by_leader(home, sites)))

    (removal,) = plan_federation(seen).removals

    stray = seen.get(HAMBURG, GSLBConfig, "stray", "avi-system")
    assert stray is not None
    assert (removal.place, removal.uid) == (
        ClusterObjectRef(HAMBURG, object_ref(stray)),
        stray.metadata.uid,
    )


def test_nothing_is_removed_while_home_recovers_from_a_restore() -> None:
    recovering = ClusterState(
        HOME, frozenset({Role.LOCAL}), Phase.SYNCED, EPOCH, listed=True, recovering=True
    )
    sites: dict[str, list[Object]] = {
        **FOLLOWERS,
        "hamburg": [amko("hamburg"), marked(config("x"), "3/lubeck")],
    }
    seen = seen_by_leader([LEADER], sites, facts=[recovering])

    plan = plan_federation(seen)

    assert plan.removals == ()
    assert [d.object.metadata.name for d in plan.desired] == ["gc-1"]


def test_a_leader_that_never_had_a_configuration_does_not_delete_the_last_one() -> None:
    sites: dict[str, list[Object]] = {
        **FOLLOWERS,
        "hamburg": [amko("hamburg"), marked(config("x"), "2/paris")],
    }
    seen = seen_by_leader([LEADER], sites, facts=found_at(seen_by_leader([LEADER], sites)))

    plan = plan_federation(seen)

    assert plan.removals == ()
    told = {t: (s, r) for t, s, r in conditions(seen)}
    status, reason = told["GSLBConfig Federation"]
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
    home = [LEADER, config("lubeck")]
    copy = marked(config("lubeck"), "3/lubeck")
    one: dict[str, list[Object]] = {"hamburg": [amko("hamburg")], "bergen": [amko("bergen"), copy]}
    some = _failing(seen_by_leader(home, one), HAMBURG)
    every = _failing(seen_by_leader(home, FOLLOWERS), HAMBURG, BERGEN)

    told_of_one = conditions(seen_by_leader(home, one, facts=some))
    told_of_all = conditions(seen_by_leader(home, FOLLOWERS, facts=every))

    assert told_of_one[3] == (
        "GSLBConfig Federation",
        "error in federating to some clusters",
        "cluster hamburg: no rights",
    )
    assert told_of_all[3][1:] == (
        "failure in federation",
        "cluster hamburg: no rights, cluster bergen: no rights",
    )


def test_what_is_under_way_leaves_what_was_told() -> None:
    seen = seen_by_leader([LEADER, config("lubeck")], FOLLOWERS)

    stages = [scenario for scenario, _, _ in conditions(seen)]

    assert "GSLBConfig Federation" not in stages
    assert "GDP Federation" in stages


def test_monitors_that_are_named_go_with_the_policy_and_others_do_not() -> None:
    named, other = (
        ConfigMap(metadata=Meta(name=n, namespace="avi-system"), data={"type": "TCP", "port": "1"})
        for n in ("quick", "other")
    )
    said = policy("lubeck", health_monitor_template="quick")
    seen = seen_by_leader([LEADER, config("lubeck"), said, named, other], FOLLOWERS)

    copies = [d for d in plan_federation(seen).desired if isinstance(d.object, ConfigMap)]

    assert [(d.where, d.object.metadata.name, d.takes_over) for d in copies] == [
        (HAMBURG, "quick", False),
        (BERGEN, "quick", False),
    ]


def test_a_copied_monitor_stays_with_a_follower() -> None:
    copy = ConfigMap(metadata=Meta(name="quick", namespace="avi-system"), data={"type": "TCP"})
    seen = seen_by_leader([amko("lubeck"), marked(copy, "2/paris")])

    assert [d.object.metadata.name for d in plan_federation(seen).desired] == ["quick"]


def test_every_follower_hears_whom_it_follows() -> None:
    seen = seen_by_leader([LEADER], FOLLOWERS)

    claims = [p for p in plan_federation(seen).patches if p.place.where != HOME]

    assert {p.place.where for p in claims} == {HAMBURG, BERGEN}
    assert claims[0].change == {"metadata": {"annotations": {LED_BY: "3/lubeck"}}}


def test_a_leader_that_was_stopped_keeps_its_copies_as_they_are() -> None:
    mine = marked(policy("lubeck"), "3/lubeck")
    sites: dict[str, list[Object]] = {
        "hamburg": [amko("hamburg", leads=True), mine],
        "bergen": [amko("bergen")],
    }
    seen = seen_by_leader([LEADER], sites)

    plan = plan_federation(seen)

    assert [(d.where, type(d.object)) for d in plan.desired] == [(HAMBURG, GlobalDeploymentPolicy)]
    assert plan.removals == ()
