"""What goes with its namespace or its kind was deleted by nobody: followers keep it."""

from hanse.features.gslb.feature import Gslb
from hanse.features.gslb.names import LED_BY, site_of
from hanse.features.gslb.replication import plan_federation
from hanse.model.kinds.core import Namespace
from hanse.model.kinds.globalservice import GlobalMember, GlobalService, GlobalServiceSpec
from hanse.model.kinds.gslb import GlobalDeploymentPolicy, GSLBConfig
from hanse.model.objects import K, Meta, Object
from hanse.model.plan import Key, Plan
from hanse.model.snapshot import Snapshot
from tests.features.gslb.fleet import (
    HOST,
    amko,
    config,
    definition,
    found_at,
    marked,
    policy,
    seen_by_leader,
    space,
)
from tests.features.gslb.test_leadership import conditions
from tests.support.builders import annotated

LEADER = amko("lubeck", "hamburg", leads=True, epoch=3)
HAMBURG = site_of("hamburg")
MARK = "3/lubeck"
CRD = "gslbconfigs.amko.vmware.com"


def copied(obj: K) -> K:
    return marked(obj, MARK)


def followers(*copies: Object) -> dict[str, list[Object]]:
    return {"hamburg": [amko("hamburg"), *copies]}


def kept(snapshot: Snapshot) -> list[str]:
    """What stays in hamburg; nothing is taken from it in any other way either."""
    plan = plan_federation(snapshot)
    assert plan.removals == ()
    return [d.object.metadata.name for d in plan.desired if d.where == HAMBURG]


def reason(snapshot: Snapshot, scenario: str) -> str:
    (found,) = (why for kind, _, why in conditions(snapshot) if kind == scenario)
    return found


def serving(snapshot: Snapshot) -> Plan:
    return Gslb().plan(Key("host", HOST), snapshot)


def test_what_goes_while_the_namespace_goes_is_kept_by_followers_and_the_leader_says_so() -> None:
    seen = seen_by_leader([LEADER, space(going=True)], followers(copied(config("lubeck"))))

    assert kept(seen) == ["gc-1"]
    told = reason(seen, "current AMKOCluster Validation")
    assert "namespace avi-system is being deleted here" in told
    assert "promote one of them" in told


def test_what_goes_while_its_definition_goes_is_kept_by_followers() -> None:
    home = [LEADER, definition(GSLBConfig, going=True)]
    seen = seen_by_leader(home, followers(copied(config("lubeck"))))

    assert kept(seen) == ["gc-1"]
    assert f"the definition {CRD} is gone here" in reason(seen, "current AMKOCluster Validation")


def test_what_is_gone_is_looked_for_before_followers_lose_it() -> None:
    seen = seen_by_leader([LEADER], followers(copied(config("lubeck"))))

    assert kept(seen) == ["gc-1"]
    assert len(plan_federation(seen).questions) == 2


def test_what_is_gone_while_all_stands_was_deleted() -> None:
    sites = followers(copied(config("lubeck")))
    seen = seen_by_leader([LEADER], sites, facts=found_at(seen_by_leader([LEADER], sites)))

    (removal,) = plan_federation(seen).removals

    assert removal.place.ref.name == "gc-1"


def test_a_definition_whose_end_was_not_seen_yet_is_found_to_go() -> None:
    sites = followers(copied(config("lubeck")))
    before = seen_by_leader([LEADER], sites)
    going = found_at(before, definition(GSLBConfig, going=True))

    seen = seen_by_leader([LEADER], sites, facts=going)

    assert kept(seen) == ["gc-1"]
    assert f"the definition {CRD} is gone here" in reason(seen, "GSLBConfig Federation")


def test_a_namespace_whose_end_was_not_seen_yet_is_found_to_be_gone() -> None:
    sites = followers(copied(config("lubeck")))
    gone = found_at(seen_by_leader([LEADER], sites), without="avi-system")

    seen = seen_by_leader([LEADER], sites, facts=gone)

    assert kept(seen) == ["gc-1"]


def test_a_definition_made_anew_does_not_make_a_deletion_of_what_went_before() -> None:
    home: list[Object] = [LEADER, definition(GSLBConfig, "another")]
    sites = followers(copied(config("lubeck")))
    seen = seen_by_leader(home, sites, facts=found_at(seen_by_leader(home, sites)))

    assert kept(seen) == ["gc-1"]
    told = reason(seen, "GSLBConfig Federation")
    assert told.endswith("gc-1, which nobody deleted here: create it here, or delete it there")


def test_who_makes_a_configuration_anew_replaces_what_followers_kept() -> None:
    home: list[Object] = [LEADER, space("another"), config("lubeck", name="new")]
    sites = followers(copied(config("lubeck")))
    seen = seen_by_leader(home, sites, facts=found_at(seen_by_leader(home, sites)))

    plan = plan_federation(seen)

    assert [r.place.ref.name for r in plan.removals] == ["gc-1"]
    assert [d.object.metadata.name for d in plan.desired] == ["new"]


def test_copies_of_before_we_told_of_homes_go_when_they_are_deleted() -> None:
    sites = followers(annotated(config("lubeck"), {LED_BY: MARK}))
    seen = seen_by_leader([LEADER], sites, facts=found_at(seen_by_leader([LEADER], sites)))

    assert [r.place.ref.name for r in plan_federation(seen).removals] == ["gc-1"]


def test_hosts_are_served_until_followers_agree_that_there_is_no_policy() -> None:
    service = marked(
        GlobalService(
            metadata=Meta(name=HOST, namespace="avi-system"),
            spec=GlobalServiceSpec(
                host=HOST,
                members=(GlobalMember(cluster="hamburg", address="192.0.2.1"),),
            ),
        ),
        MARK,
    )
    home = [LEADER, config("hamburg"), service]
    with_copy = seen_by_leader(home, followers(copied(policy("hamburg")), service))
    without = seen_by_leader(home, followers(service))

    assert {d.where for d in serving(with_copy).desired} == {"lubeck", HAMBURG}
    assert serving(without).desired == ()


def test_a_namespace_of_another_name_may_go() -> None:
    other = Namespace(metadata=Meta(name="shop"))
    seen = seen_by_leader([LEADER, config("lubeck"), policy("lubeck"), other], followers())

    assert {type(d.object) for d in plan_federation(seen).desired} == {
        GSLBConfig,
        GlobalDeploymentPolicy,
    }
