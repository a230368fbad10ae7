"""Which cluster leads, which follow, and the conditions of the AMKOCluster."""

import pytest
from msgspec.structs import replace

from hanse.features.gslb.leadership import (
    Leading,
    NotLeading,
    StartingTerm,
    Undecided,
    leader_state,
    traffic_state,
)
from hanse.features.gslb.names import LEADER_LEASE, site_of
from hanse.features.gslb.replication import plan_federation
from hanse.model.facts import ClusterState, InvalidConnection, Phase, Role
from hanse.model.kinds.coordination import Lease, LeaseMeta
from hanse.model.kinds.gslb import NAMESPACE, AMKOCluster
from hanse.model.objects import Object
from hanse.model.snapshot import Snapshot
from tests.features.gslb.fleet import LOCAL, amko, config, leader_copy, leader_snapshot, policy
from tests.support.builders import cluster, stored

LEADER = amko("lubeck", "lubeck", "hamburg", "bergen", leads=True, epoch=1)
FOLLOWERS = {"hamburg": [amko("hamburg")], "bergen": [amko("bergen")]}
GOOD = [
    ("current AMKOCluster Validation", "valid AMKOCluster object", ""),
    ("member cluster initialisation", "all cluster clients fetched", ""),
    ("member cluster validation", "validated all member clusters", ""),
]


def conditions(snapshot: Snapshot) -> list[tuple[str, str, str]]:
    """The conditions of this cluster's AMKOCluster."""
    (patch,) = [
        p
        for p in plan_federation(snapshot).patches
        if p.subresource == "status"
        and p.target.where == LOCAL
        and p.target.ref.name == "amkocluster"
    ]
    encoded = patch.change["status"]["conditions"]
    return [(c["type"], c["status"], c.get("reason", "")) for c in encoded]


def test_a_leader_without_a_configuration_or_a_policy_does_not_say_that_they_are_federated() -> (
    None
):
    snapshot = leader_snapshot([LEADER], FOLLOWERS)

    assert conditions(snapshot) == [*GOOD]


def test_the_current_cluster_is_ignored_where_it_is_listed() -> None:
    current = leader_state(leader_snapshot([LEADER], FOLLOWERS))

    assert isinstance(current, Leading)
    assert current.followers == (site_of("hamburg"), site_of("bergen"))


def test_a_follower_reports_that_it_will_not_federate() -> None:
    snapshot = leader_snapshot([amko("lubeck", "hamburg")])

    assert conditions(snapshot) == [
        ("current AMKOCluster Validation", "won't federate objects", "AMKO not a leader")
    ]


@pytest.mark.parametrize(
    ("leader", "reason"),
    [
        pytest.param(amko("", leads=True), "clusterContext is empty", id="no context"),
        pytest.param(amko("lubeck", leads=True, version=""), "version is empty", id="no version"),
    ],
)
def test_an_invalid_amkocluster_is_reported(leader: AMKOCluster, reason: str) -> None:
    ((scenario, status, why),) = conditions(leader_snapshot([leader]))

    assert (scenario, status) == ("current AMKOCluster Validation", "invalid AMKOCluster object")
    assert why.startswith(reason)


def test_an_amkocluster_in_another_namespace_is_ignored_and_reported() -> None:
    snapshot = leader_snapshot([amko("lubeck", leads=True, namespace="default")])

    (patch,) = plan_federation(snapshot).patches

    (condition,) = patch.change["status"]["conditions"]
    assert condition["status"] == "invalid AMKOCluster object"
    assert "avi-system" in condition["reason"]


def test_two_objects_here_are_invalid_both() -> None:
    snapshot = leader_snapshot([LEADER, amko("lubeck", leads=True, name="another")])

    plan = plan_federation(snapshot)

    by_name = {p.target.ref.name: p.change["status"]["conditions"][0] for p in plan.patches}
    assert set(by_name) == {"amkocluster", "another"}
    assert {c["status"] for c in by_name.values()} == {"invalid AMKOCluster object"}
    assert isinstance(leader_state(snapshot), NotLeading)


def test_a_context_that_is_not_in_the_secret_leaves_its_cluster_out() -> None:
    bad = InvalidConnection(
        "gslb", site_of("hamburg"), "spec.clusters", "BadCredentials", "no such context"
    )
    snapshot = leader_snapshot([LEADER], {"bergen": [amko("bergen")]}, facts=[bad])

    found = conditions(snapshot)

    assert found[1] == (
        "member cluster initialisation",
        "some member cluster clients couldn't be fetched",
        "cluster hamburg: no such context",
    )
    assert found[2][1] == "validated all member clusters"


def test_no_client_at_all_ends_the_stages_there() -> None:
    bad = [
        InvalidConnection("gslb", site_of(n), "spec.clusters", "NoSecret", "no Secret")
        for n in FOLLOWERS
    ]
    snapshot = leader_snapshot([LEADER], {}, facts=bad)

    found = conditions(snapshot)

    assert found[1][1] == "member cluster clients invalid"
    assert len(found) == 2
    assert isinstance(leader_state(snapshot), Leading)


@pytest.mark.parametrize(
    ("reason", "rejected", "told"),
    [
        ("AMKOCluster: connection refused", False, "connection refused"),
        ("it rejects the token (401: Unauthorized)", True, "it rejects the token (401: Unauth"),
    ],
)
def test_an_unreachable_follower_is_left_out_alone(reason: str, rejected: bool, told: str) -> None:
    state = ClusterState(
        site_of("hamburg"),
        frozenset({Role.SITE}),
        Phase.UNREACHABLE,
        cluster("x").since,
        reason,
        rejected=rejected,
    )
    snapshot = leader_snapshot([LEADER], {"bergen": [amko("bergen")]}, facts=[state])

    found = conditions(snapshot)

    assert found[1][1] == "some member cluster clients couldn't be fetched"
    assert found[1][2].startswith(f"cluster hamburg cannot be reached: {told}")


def test_what_is_not_known_yet_changes_nothing() -> None:
    snapshot = leader_snapshot([LEADER], FOLLOWERS, phases={"hamburg": Phase.CONNECTING})

    assert isinstance(leader_state(snapshot), Undecided)
    assert plan_federation(snapshot).patches == ()


FAULTS = [
    pytest.param(
        [amko("hamburg", version="1.4.2")],
        "version mismatch, current AMKO: 1.5.1, AMKO in cluster hamburg: 1.4.2",
        id="version",
    ),
    pytest.param([], "no AMKOCluster object present in cluster hamburg, can't federate", id="none"),
    pytest.param(
        [amko("hamburg"), amko("hamburg", name="b")],
        "more than one AMKOCluster objects present in cluster hamburg, can't federate",
        id="several",
    ),
]


@pytest.mark.parametrize(("there", "reason"), FAULTS)
def test_a_bad_member_is_left_out_and_the_others_go_on(
    there: list[AMKOCluster], reason: str
) -> None:
    snapshot = leader_snapshot([LEADER], {**FOLLOWERS, "hamburg": there})

    found = conditions(snapshot)

    assert found[2][1:] == ("error in validating some member clusters", reason)
    assert isinstance(state := leader_state(snapshot), Leading)
    assert state.followers == (site_of("bergen"),)


def test_bad_members_alone_are_a_failure() -> None:
    leader = amko("lubeck", "hamburg", leads=True, epoch=1)
    snapshot = leader_snapshot([leader], {"hamburg": []})

    assert conditions(snapshot)[2][1] == "validation of member clusters failed"
    assert len(conditions(snapshot)) == 3


def test_a_wrong_cluster_context_is_reported_with_the_right_one() -> None:
    leader = stored(amko("hamburg", "lubeck", "hamburg", leads=True, epoch=1))
    snapshot = leader_snapshot(
        [leader, config("lubeck")], {"lubeck": [leader], "bergen": [amko("bergen")]}
    )

    assert conditions(snapshot) == [
        (
            "current AMKOCluster Validation",
            "invalid AMKOCluster object",
            "clusterContext is hamburg, but context lubeck leads to this cluster; set it to lubeck",
        )
    ]
    assert plan_federation(snapshot).desired == ()


def test_a_second_leader_stops_federation_for_all() -> None:
    sites = {"hamburg": [amko("hamburg", leads=True)], "bergen": [amko("bergen")]}
    snapshot = leader_snapshot([LEADER, config("lubeck"), policy("lubeck")], sites)

    found = conditions(snapshot)

    assert found[2] == (
        "member cluster validation",
        "validation of member clusters failed",
        "AMKO in cluster hamburg is also a leader, conflicting state",
    )
    assert len(found) == 3
    assert plan_federation(snapshot).desired == ()


# -- terms


def test_a_new_leader_takes_the_next_term_before_it_writes_anything() -> None:
    leader = amko("lubeck", "bergen", leads=True)
    snapshot = leader_snapshot(
        [leader, config("lubeck")], {"bergen": [amko("bergen", follows="4/paris")]}
    )

    assert leader_state(snapshot) == StartingTerm(5)
    (patch,) = plan_federation(snapshot).patches
    assert patch.change == {"metadata": {"annotations": {"gslb.hanse.dev/epoch": "5"}}}


def test_an_old_leader_that_returns_sees_that_it_was_superseded() -> None:
    sites = {"bergen": [amko("bergen"), leader_copy(config("paris"), "2/hamburg")]}
    snapshot = leader_snapshot(
        [amko("lubeck", "bergen", leads=True, epoch=1), config("lubeck")], sites
    )

    current = leader_state(snapshot)

    assert isinstance(current, NotLeading)
    assert "cluster hamburg leads since epoch 2" in current.conditions[-1].reason
    assert not plan_federation(snapshot).removals


def test_a_term_that_somebody_forges_in_another_namespace_stops_nobody() -> None:
    forged = {"gslb.hanse.dev/leader": "99/evil"}
    objects = [
        replace(o, metadata=replace(o.metadata, namespace="evil", annotations=forged))
        for o in (policy("lubeck"), config("lubeck"))
    ]
    leader = amko("lubeck", leads=True, epoch=1)
    stray = amko("lubeck", follows="99/evil", namespace="evil", name="stray")
    snapshot = leader_snapshot([leader, stray, config("lubeck"), policy("lubeck"), *objects])

    assert isinstance(leader_state(snapshot), Leading)
    assert isinstance(traffic_state(snapshot), Leading)


def test_two_leaders_of_one_epoch_stop_each_other() -> None:
    leader = amko("lubeck", "bergen", leads=True, epoch=2)
    snapshot = leader_snapshot([leader], {"bergen": [amko("bergen", follows="2/hamburg")]})

    assert isinstance(leader_state(snapshot), NotLeading)


def test_who_was_superseded_leads_again_when_the_other_has_stepped_down() -> None:
    leader = amko("lubeck", "hamburg", "bergen", leads=True, epoch=1)
    sites = {"hamburg": [amko("hamburg")], "bergen": [amko("bergen", follows="2/hamburg")]}

    assert leader_state(leader_snapshot([leader], sites)) == StartingTerm(3)


def test_a_leader_that_was_restored_from_before_its_term_begins_another() -> None:
    leader = amko("lubeck", "hamburg", leads=True, epoch=1)
    sites = {"hamburg": [amko("hamburg", follows="2/lubeck")]}

    assert leader_state(leader_snapshot([leader], sites)) == StartingTerm(3)


LEADER_WORD = Lease(metadata=LeaseMeta(name=LEADER_LEASE, namespace=NAMESPACE))


@pytest.mark.parametrize(
    ("leads", "epoch", "expected"),
    [
        pytest.param(False, 1, StartingTerm(3), id="it has stepped down"),
        pytest.param(True, 0, StartingTerm(3), id="somebody promotes this cluster"),
    ],
)
def test_a_term_of_which_only_the_leaders_lease_is_left_is_followed_by_another(
    leads: bool, epoch: int, expected: StartingTerm
) -> None:
    """What it replicated was restored to a state before it."""
    leader = amko("lubeck", "bergen", "hamburg", leads=True, epoch=epoch)
    sites: dict[str, list[Object]] = {
        "bergen": [amko("bergen"), leader_copy(LEADER_WORD, "2/hamburg")],
        "hamburg": [] if leads else [amko("hamburg")],
    }

    assert leader_state(leader_snapshot([leader], sites)) == expected


def test_a_leader_goes_on_beside_the_lease_of_one_that_cannot_be_asked() -> None:
    leader = amko("lubeck", "bergen", leads=True, epoch=1)
    sites = {"bergen": [amko("bergen"), leader_copy(LEADER_WORD, "2/hamburg")]}

    assert isinstance(leader_state(leader_snapshot([leader], sites)), Leading)


def test_a_leader_that_is_made_a_follower_ends_its_term() -> None:
    snapshot = leader_snapshot([amko("lubeck", "hamburg", epoch=3)])

    changes = [p.change for p in plan_federation(snapshot).patches]

    assert {"metadata": {"annotations": {"gslb.hanse.dev/epoch": None}}} in changes
