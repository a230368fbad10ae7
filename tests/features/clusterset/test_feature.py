"""The record of a cluster on the broker, as its own agent keeps it, and what others make of it."""

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from hanse import app
from hanse.features.clusterset.feature import MEMBER, ClusterSetMember
from hanse.features.publishing.options import PublishingOptions
from hanse.model.clusterset import (
    MemberState,
    agreed_rules,
    clusterset_spec,
    common_state,
    member_state,
    unanswered_clusters,
)
from hanse.model.facts import Fact, HeartbeatState, HolderState, LeaseLiveness, Role
from hanse.model.feature_names import FEATURES
from hanse.model.kinds.core import Namespace, Node, NodeSpec
from hanse.model.kinds.hanse import (
    ClusterMember,
    ClusterMemberSpec,
    ClusterMemberStatus,
    ClusterSetSpec,
    MemberPhase,
)
from hanse.model.kinds.networking import ServiceCIDR, ServiceCIDRSpec
from hanse.model.naming import BROKER_NAMESPACE
from hanse.model.objects import Meta, Object, apply_merge_patch, to_wire
from hanse.model.ownership import OWNER
from hanse.model.plan import Plan
from hanse.model.snapshot import Snapshot
from tests.support.builders import cluster, snapshot, stored
from tinykube.virtual_time import EPOCH

FEATURE = ClusterSetMember(BROKER_NAMESPACE, ("services", "gslb"), "0.2.0")
RENEWED = HeartbeatState("broker", renewed=True, since=EPOCH)
NOW = EPOCH + timedelta(minutes=1)


def record(
    phase: MemberPhase = "Joining", *, uid: str = "here", name: str = "lubeck"
) -> ClusterMember:
    return stored(
        ClusterMember(
            metadata=Meta(name=name, namespace=BROKER_NAMESPACE),
            spec=ClusterMemberSpec(cluster_id=name, uid=uid),
            status=ClusterMemberStatus(phase=phase, epoch=3, since=EPOCH),
        )
    )


def seen(
    *records: ClusterMember, facts: tuple[Fact, ...] = (RENEWED,), local: tuple[Object, ...] = ()
) -> Snapshot:
    own = stored(Namespace(metadata=Meta(name="kube-system")), uid="here")
    clusters = [cluster("lubeck", Role.LOCAL), cluster("broker", Role.BROKER)]
    objects: dict[str, list[Object]] = {"lubeck": [own, *local], "broker": list(records)}
    return snapshot(FEATURE, "lubeck", clusters, objects, facts, NOW)


def patched(plan: Plan, known: ClusterMember) -> dict[str, Any]:
    """The record after the patches of a plan."""
    wire: Any = to_wire(known)
    for patch in plan.patches:
        wire = apply_merge_patch(wire, patch.change)
    found: dict[str, Any] = wire
    return found


def node(name: str, *cidrs: str) -> Node:
    return stored(Node(metadata=Meta(name=name), spec=NodeSpec(pod_cidrs=cidrs)))


def test_a_member_has_the_ranges_of_its_nodes_and_services_in_its_record() -> None:
    known = record("Ready")
    nodes = [node("a", "10.1.0.0/24", "fd00::/64"), node("b", "10.1.1.0/24"), node("c")]
    ours = {OWNER: "networks"}
    services = [
        stored(ServiceCIDR(metadata=Meta(name="kubernetes"), spec=_cidrs("10.96.0.0/12"))),
        stored(ServiceCIDR(metadata=Meta(name="n", labels=ours), spec=_cidrs("10.7.0.0/16"))),
    ]

    after = patched(FEATURE.plan(MEMBER, seen(known, local=(*nodes, *services))), known)

    assert after["spec"]["ranges"] == {
        "pods": ["10.1.0.0/23", "fd00::/64"],
        "services": ["10.96.0.0/12"],
    }


@pytest.mark.parametrize("published", [True, False])
def test_a_record_names_publishing_only_if_its_agent_publishes_names(*, published: bool) -> None:
    known = record("Ready")
    chosen = PublishingOptions("example.org", "dns") if published else PublishingOptions()
    running = app.features(app.Options(publishing=chosen))
    (member,) = [one for one in running if isinstance(one, ClusterSetMember)]

    after = patched(member.plan(MEMBER, seen(known)), known)

    assert ("publishing" in after["spec"]["features"]) is published
    assert {*FEATURES} - {*after["spec"]["features"]} <= {"publishing"}


def _cidrs(*cidrs: str) -> ServiceCIDRSpec:
    return ServiceCIDRSpec(cidrs=cidrs)


def test_a_member_is_ready_with_its_first_renewal() -> None:
    known = record()

    before = patched(FEATURE.plan(MEMBER, seen(known, facts=())), known)
    after = patched(FEATURE.plan(MEMBER, seen(known)), known)

    assert before["status"]["phase"] == "Joining"
    assert after["status"] == {
        "phase": "Ready",
        "epoch": 3,
        "since": NOW.isoformat().replace("+00:00", "Z"),
        "agent": {"version": "0.2.0"},
    }
    assert after["spec"]["features"] == ["gslb", "services"]


def test_a_phase_that_lasts_keeps_its_beginning() -> None:
    known = record("Ready")

    after = patched(FEATURE.plan(MEMBER, seen(known)), known)

    assert after["status"]["since"] == EPOCH.isoformat().replace("+00:00", "Z")


@pytest.mark.parametrize(
    "known",
    [
        pytest.param(record(uid="another"), id="of another cluster"),
        pytest.param(record("Left"), id="that has left"),
        pytest.param(record("Replaced"), id="that was replaced"),
    ],
)
def test_a_record_is_left_alone(known: ClusterMember) -> None:
    assert FEATURE.plan(MEMBER, seen(known)) == Plan()


def test_without_a_record_nothing_is_written() -> None:
    assert FEATURE.plan(MEMBER, seen()) == Plan()


READY = LeaseLiveness("broker", BROKER_NAMESPACE, "bergen", "bergen", HolderState.READY, EPOCH)


@pytest.mark.parametrize(
    ("phase", "state"),
    [
        ("Joining", MemberState.READY),
        ("Ready", MemberState.READY),
        ("Leaving", MemberState.READY),
        ("Left", MemberState.GONE),
        ("Replaced", MemberState.GONE),
    ],
)
def test_who_has_left_is_gone_although_its_lease_is_renewed(
    phase: MemberPhase, state: MemberState
) -> None:
    known = seen(record(phase, name="bergen"), facts=(READY,))

    judged = common_state("bergen", known, "broker", BROKER_NAMESPACE)

    assert judged is state
    assert unanswered_clusters(known) == ({"bergen"} if state is MemberState.GONE else set())


def test_a_cluster_that_moves_to_another_broker_is_never_silent() -> None:
    bergen = record("Ready", name="bergen")
    moving = replace(bergen, status=replace(bergen.status, moving=True))
    silent = replace(READY, state=HolderState.SILENT)

    for known, state, unanswered in (
        (bergen, MemberState.SILENT, {"bergen"}),
        (moving, MemberState.UNKNOWN, set()),
    ):
        found = seen(known, facts=(silent,))
        assert common_state("bergen", found, "broker", BROKER_NAMESPACE) is state
        assert unanswered_clusters(found) == unanswered


@pytest.mark.parametrize(
    ("phase", "state"), [("Joining", MemberState.UNKNOWN), ("Ready", MemberState.READY)]
)
def test_a_cluster_that_moves_is_unknown_until_it_has_published_everything(
    phase: MemberPhase, state: MemberState
) -> None:
    bergen = record(phase, name="bergen")
    moving = replace(bergen, status=replace(bergen.status, moving=True))

    found = seen(moving, facts=(READY,))

    assert common_state("bergen", found, "broker", BROKER_NAMESPACE) is state


def test_a_cluster_is_ready_to_itself() -> None:
    known = seen(record("Left"))

    assert member_state("lubeck", known, "broker", BROKER_NAMESPACE) is MemberState.READY
    assert common_state("lubeck", known, "broker", BROKER_NAMESPACE) is MemberState.GONE


TRUE_RULES, FORGED = ClusterSetSpec(profile="kep-1645"), ClusterSetSpec(paused=True)


def _with_rules(name: str, rules: ClusterSetSpec | None) -> ClusterMember:
    known = record("Ready", name=name)
    return replace(known, status=replace(known.status, rules=rules))


@pytest.mark.parametrize(
    ("kept", "agreed"),
    [
        ((), None),
        ((None, None), None),
        ((FORGED, TRUE_RULES), None),
        ((FORGED, TRUE_RULES, TRUE_RULES), TRUE_RULES),
        ((TRUE_RULES, None), TRUE_RULES),
    ],
    ids=["no member", "none kept", "one against one", "a forger alone", "one of two"],
)
def test_no_member_alone_decides_about_the_rules_of_a_lost_clusterset(
    kept: tuple[ClusterSetSpec | None, ...], agreed: ClusterSetSpec | None
) -> None:
    records = [_with_rules(f"m{number}", rules) for number, rules in enumerate(kept)]

    assert agreed_rules(records) == agreed


def test_a_cluster_follows_the_rules_that_it_kept_itself() -> None:
    known = seen(
        _with_rules("aachen", FORGED), _with_rules("lubeck", TRUE_RULES), _with_rules("x", FORGED)
    )

    assert clusterset_spec(known, "broker") == TRUE_RULES


@pytest.mark.parametrize("own", [(), (_with_rules("lubeck", None),)], ids=["no record", "no rules"])
def test_a_cluster_without_rules_of_its_own_follows_those_of_most_members(
    own: tuple[ClusterMember, ...],
) -> None:
    known = seen(_with_rules("aachen", TRUE_RULES), *own, _with_rules("x", TRUE_RULES))

    assert clusterset_spec(known, "broker") == TRUE_RULES
