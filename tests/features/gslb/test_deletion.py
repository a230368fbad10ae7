"""What is removed with its namespace or kind is not deleted: followers keep it."""

from hanse.features.gslb.feature import Gslb
from hanse.features.gslb.names import LED_BY, WITHDRAWN, site_of
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
    answers_to_reads,
    config,
    definition,
    leader_copy,
    leader_snapshot,
    policy,
    system_namespace,
)
from tests.features.gslb.test_leadership import conditions
from tests.support.builders import annotated

LEADER = amko("lubeck", "hamburg", leads=True, epoch=3)
HAMBURG = site_of("hamburg")
MARK = "3/lubeck"
CRD = "gslbconfigs.amko.vmware.com"


def copied(obj: K) -> K:
    return leader_copy(obj, MARK)


def followers(*copies: Object) -> dict[str, list[Object]]:
    return {"hamburg": [amko("hamburg"), *copies]}


def list_kept(snapshot: Snapshot) -> list[str]:
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
    snapshot = leader_snapshot(
        [LEADER, system_namespace(terminating=True)], followers(copied(config("lubeck")))
    )

    assert list_kept(snapshot) == ["gc-1"]
    message = reason(snapshot, "current AMKOCluster Validation")
    assert "namespace avi-system is being deleted here" in message
    assert "promote one of them" in message


def test_what_goes_while_its_definition_goes_is_kept_by_followers() -> None:
    local = [LEADER, definition(GSLBConfig, terminating=True)]
    snapshot = leader_snapshot(local, followers(copied(config("lubeck"))))

    assert list_kept(snapshot) == ["gc-1"]
    assert f"the definition {CRD} is gone here" in reason(
        snapshot, "current AMKOCluster Validation"
    )


def test_what_is_gone_is_looked_for_before_followers_lose_it() -> None:
    snapshot = leader_snapshot([LEADER], followers(copied(config("lubeck"))))

    assert list_kept(snapshot) == ["gc-1"]
    assert len(plan_federation(snapshot).questions) == 2


def test_what_is_gone_while_its_parents_exist_was_deleted() -> None:
    sites = followers(copied(config("lubeck")))
    snapshot = leader_snapshot(
        [LEADER], sites, facts=answers_to_reads(leader_snapshot([LEADER], sites))
    )

    (removal,) = plan_federation(snapshot).removals

    assert removal.target.ref.name == "gc-1"


def test_a_live_read_finds_a_definition_that_is_terminating() -> None:
    sites = followers(copied(config("lubeck")))
    before = leader_snapshot([LEADER], sites)
    terminating = answers_to_reads(before, definition(GSLBConfig, terminating=True))

    snapshot = leader_snapshot([LEADER], sites, facts=terminating)

    assert list_kept(snapshot) == ["gc-1"]
    assert f"the definition {CRD} is gone here" in reason(snapshot, "GSLBConfig Federation")


def test_a_live_read_finds_a_namespace_that_is_gone() -> None:
    sites = followers(copied(config("lubeck")))
    gone = answers_to_reads(leader_snapshot([LEADER], sites), without="avi-system")

    snapshot = leader_snapshot([LEADER], sites, facts=gone)

    assert list_kept(snapshot) == ["gc-1"]


def test_a_definition_made_anew_does_not_make_a_deletion_of_what_went_before() -> None:
    local: list[Object] = [LEADER, definition(GSLBConfig, "another")]
    sites = followers(copied(config("lubeck")))
    snapshot = leader_snapshot(local, sites, facts=answers_to_reads(leader_snapshot(local, sites)))

    assert list_kept(snapshot) == ["gc-1"]
    message = reason(snapshot, "GSLBConfig Federation")
    assert message.endswith("gc-1, which nobody deleted here: create it here, or delete it there")


def test_an_answer_about_a_definition_that_is_gone_does_not_count_for_the_one_made_anew() -> None:
    sites = followers(copied(config("lubeck")))
    gone = answers_to_reads(leader_snapshot([LEADER], sites), without=CRD)

    snapshot = leader_snapshot([LEADER, definition(GSLBConfig, "another")], sites, facts=gone)

    assert list_kept(snapshot) == ["gc-1"]
    assert len(plan_federation(snapshot).questions) == 2


def test_who_makes_a_configuration_anew_replaces_what_followers_kept() -> None:
    local: list[Object] = [LEADER, system_namespace("another"), config("lubeck", name="new")]
    sites = followers(copied(config("lubeck")))
    snapshot = leader_snapshot(local, sites, facts=answers_to_reads(leader_snapshot(local, sites)))

    plan = plan_federation(snapshot)

    assert [r.target.ref.name for r in plan.removals] == ["gc-1"]
    assert [d.object.metadata.name for d in plan.desired] == ["new"]


def test_copies_without_the_parents_annotation_go_when_they_are_deleted() -> None:
    sites = followers(annotated(config("lubeck"), {LED_BY: MARK}))
    snapshot = leader_snapshot(
        [LEADER], sites, facts=answers_to_reads(leader_snapshot([LEADER], sites))
    )

    assert [r.target.ref.name for r in plan_federation(snapshot).removals] == ["gc-1"]


def test_the_original_of_a_former_leader_is_kept_by_one_that_never_got_a_copy() -> None:
    sites = followers(config("lubeck"), policy("hamburg"))
    snapshot = leader_snapshot(
        [LEADER], sites, facts=answers_to_reads(leader_snapshot([LEADER], sites))
    )

    assert list_kept(snapshot) == []
    for stage in ("GSLBConfig Federation", "GDP Federation"):
        assert "which nobody deleted here: create it here" in reason(snapshot, stage)


def test_hosts_are_served_until_followers_agree_that_there_is_no_policy() -> None:
    service = leader_copy(
        GlobalService(
            metadata=Meta(name=HOST, namespace="avi-system"),
            spec=GlobalServiceSpec(
                host=HOST,
                members=(GlobalMember(cluster="hamburg", address="192.0.2.1"),),
            ),
        ),
        MARK,
    )
    local = [LEADER, config("hamburg"), service]
    with_copy = leader_snapshot(local, followers(copied(policy("hamburg")), service))
    without = leader_snapshot(local, followers(service))

    assert {d.where for d in serving(with_copy).desired} == {"lubeck", HAMBURG}
    assert all(WITHDRAWN in d.object.metadata.annotations for d in serving(without).desired)


def test_a_namespace_of_another_name_may_go() -> None:
    other = Namespace(metadata=Meta(name="shop"))
    snapshot = leader_snapshot([LEADER, config("lubeck"), policy("lubeck"), other], followers())

    assert {type(d.object) for d in plan_federation(snapshot).desired} == {
        GSLBConfig,
        GlobalDeploymentPolicy,
    }
