"""The plans for a set, from snapshots."""

import msgspec
import pytest
from msgspec.structs import replace

from hanse.features.statefulsets.names import ORPHANED, name_error, part_name
from hanse.model.facts import Answer, HolderState, LeaseLiveness, Phase, WriteOutcome
from hanse.model.kinds.apps import StatefulSet
from hanse.model.kinds.core import (
    LoadBalancerIngress,
    LoadBalancerStatus,
    Node,
    Service,
    ServiceStatus,
)
from hanse.model.kinds.hanse import ClusterMember, ClusterMemberStatus
from hanse.model.kinds.stateful import (
    Replica,
    StatefulSetPart,
)
from hanse.model.objects import (
    ClusterObjectRef,
    Meta,
    ObjectRef,
    object_ref,
)
from hanse.model.ownership import OWNER
from hanse.model.plan import Plan, Read, Shared
from hanse.model.snapshot import FactChange, Snapshot
from hanse.runtime.actions import Create
from hanse.runtime.diff import diff
from hanse.runtime.ownership import Owner, with_owner
from tests.features.statefulsets.given import (
    BROKER,
    BROKER_NAMESPACE,
    FEATURE,
    HERE,
    LOCAL,
    SHARES,
    SHOP,
    STATUS,
    conditions,
    current_shares,
    lease,
    member,
    part,
    plan,
    record,
    sets_in,
    snapshot_of,
    submitted_set,
)
from tests.scenarios.statefulsets import headless
from tests.support.builders import stored
from tinykube.virtual_time import EPOCH


def test_shares_are_recorded_by_the_first_live_cluster_and_by_others_in_turn() -> None:
    desired = plan(SHARES, snapshot_of(submitted_set(6))).desired

    assert current_shares(snapshot_of(submitted_set(6))) == {"bergen": 2, "hamburg": 2, HERE: 2}
    assert [d.ownership for d in desired] == [Shared(2, awaited=True)], (
        "lubeck is the third by name"
    )


def test_a_cluster_that_was_silent_before_we_looked_gets_nothing_new() -> None:
    members = [lease("bergen"), lease("hamburg", silent=60), lease(HERE)]

    assert current_shares(snapshot_of(submitted_set(6), members=members)) == {"bergen": 3, HERE: 3}


def test_a_cluster_that_died_before_our_eyes_keeps_its_share() -> None:
    dead = LeaseLiveness(BROKER, BROKER_NAMESPACE, "hamburg", "hamburg", HolderState.SILENT, EPOCH)
    snap = snapshot_of(submitted_set(8), record(bergen=2, hamburg=2, lubeck=2), facts=[dead])

    assert current_shares(snap) == {"bergen": 3, "hamburg": 2, HERE: 3}
    assert conditions(snap)["Ready"][0] == "ClustersAway"


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        pytest.param({}, {"bergen": 2, "riga": 2, HERE: 2}, id="kept"),
        pytest.param(
            {"statefulsets.hanse.dev/on-leave": "redistribute"},
            {"bergen": 3, HERE: 3},
            id="redistributed",
        ),
    ],
)
def test_the_share_of_a_cluster_that_left_is_given_away_only_if_the_user_says_so(
    annotations: dict[str, str], expected: dict[str, int]
) -> None:
    snap = snapshot_of(
        submitted_set(6, annotations),
        record(bergen=2, riga=2, lubeck=2),
        member("riga", "Left"),
        members=[lease("bergen"), lease(HERE)],
    )

    assert current_shares(snap) == expected
    assert ("riga left the fleet" in conditions(snap)["Placed"][1]) == ("riga" in expected)


JOINED_AGAIN = replace(member("riga"), status=ClusterMemberStatus(phase="Joining", epoch=2))


@pytest.mark.parametrize(
    ("known", "placed"),
    [
        pytest.param([member("riga")], "bergen 2, lubeck 2, riga 2", id="lease missing"),
        pytest.param([member("riga", "Joining")], "bergen 2, lubeck 2, riga 2", id="made anew"),
        pytest.param([JOINED_AGAIN], "bergen 2, lubeck 2, riga 2", id="joined again"),
        pytest.param([], "neither a ClusterMember nor a Lease of riga", id="record missing, too"),
    ],
)
def test_a_cluster_without_a_lease_keeps_its_share_unless_its_record_says_that_it_left(
    known: list[ClusterMember], placed: str
) -> None:
    snap = snapshot_of(
        submitted_set(6, {"statefulsets.hanse.dev/on-leave": "redistribute"}),
        record(bergen=2, riga=2, lubeck=2),
        *known,
        *(part(c, 2) for c in ("bergen", "riga", HERE)),
        members=[lease("bergen"), lease(HERE)],
    )

    assert current_shares(snap) == {"bergen": 2, "riga": 2, HERE: 2}
    assert placed in conditions(snap)["Placed"][1]
    assert "left the fleet" not in conditions(snap)["Placed"][1]
    assert conditions(snap)["Ready"][0] == "ClustersAway"


def test_a_cluster_that_is_leaving_gets_nothing_new() -> None:
    snap = snapshot_of(submitted_set(6), member("bergen", "Leaving"))

    assert current_shares(snap) == {"hamburg": 3, HERE: 3}


def test_a_cluster_that_joins_gets_replicas_by_a_rebalance_once() -> None:
    before, parts = record(bergen=3, lubeck=3), (part("bergen", 3), part(HERE, 3))
    assert current_shares(snapshot_of(submitted_set(6), before, *parts)) == {"bergen": 3, HERE: 3}

    asked = submitted_set(6, {"statefulsets.hanse.dev/rebalance": "monday"})
    anew = {"bergen": 2, "hamburg": 2, HERE: 2}
    assert current_shares(snapshot_of(asked, before, *parts)) == anew
    on_the_way = replace(
        record(bergen=2, hamburg=2, lubeck=2),
        spec=replace(record(True, **anew).spec, rebalanced="monday"),
    )
    followed = part("bergen", 2, rebalanced="monday")
    assert current_shares(snapshot_of(asked, on_the_way, followed, part(HERE, 3))) == anew
    done = replace(before, spec=replace(before.spec, rebalanced="monday"))
    assert current_shares(snapshot_of(asked, done, *parts)) == {"bergen": 3, HERE: 3}
    again = (part("bergen", 3, rebalanced="monday"), part(HERE, 3, rebalanced="monday"))
    assert current_shares(snapshot_of(asked, before, *again)) == {"bergen": 3, HERE: 3}


def test_shares_that_the_reports_do_not_explain_are_not_followed_and_told() -> None:
    parts = (part("bergen", 2), part("hamburg", 2), part(HERE, 2))
    forged = record(bergen=6)
    snap = snapshot_of(submitted_set(6), forged, *parts)

    assert current_shares(snap) == {"bergen": 2, "hamburg": 2, HERE: 2}
    assert [s.spec.replicas for s in sets_in(snap)] == [2]
    assert conditions(snap)["ShareDisputed"][0] == "ShareDisputed"
    assert [e.reason for e in plan(SHARES, snap).events] == ["ShareDisputed"]
    agreed = snapshot_of(submitted_set(6), record(bergen=2, hamburg=2, lubeck=2), *parts)
    assert "ShareDisputed" not in conditions(agreed)
    assert plan(SHARES, agreed).events == ()


def test_lost_shares_are_rebuilt_from_what_clusters_report() -> None:
    snap = snapshot_of(submitted_set(6), part("bergen", 1), part("hamburg", 1), part(HERE, 4))

    assert current_shares(snap) == {"bergen": 1, "hamburg": 1, HERE: 4}


def test_stateful_sets_of_an_api_server_with_nodes_are_left_to_its_controllers() -> None:
    node = stored(Node(metadata=Meta(name="worker")))

    assert plan(SHARES, snapshot_of(submitted_set(6), node)) == Plan()


def test_a_share_above_a_new_maximum_is_reported_with_the_remedy() -> None:
    wish = '{"clusters": {"*": {}, "lubeck": {"maxReplicas": 1}}}'
    annotations = {"federation.kubernetes.io/statefulset-preferences": wish}
    reason, message = conditions(
        snapshot_of(
            submitted_set(6, annotations),
            record(bergen=2, hamburg=2, lubeck=2),
            *(part(c, 2) for c in ("bergen", "hamburg", HERE)),
        )
    )["Placed"]

    assert reason == "NotAsWished"
    assert "lubeck have more than their max, and replicas do not move" in message
    assert "annotate statefulsets.hanse.dev/rebalance" in message


def test_a_name_too_long_for_one_cluster_leaves_that_one_out_and_says_so() -> None:
    long = "a-cluster-by-the-sea-with-a-long-name-and-more-of-it"
    snap = snapshot_of(submitted_set(4), members=[lease(HERE), lease(long)])

    assert current_shares(snap) == {HERE: 4}
    assert "is too long for a-cluster-by-the-sea" in conditions(snap)["Placed"][1]


@pytest.mark.parametrize(
    ("length", "good"), [pytest.param(45, True, id="52"), pytest.param(46, False, id="53")]
)
def test_a_name_leaves_room_for_the_revision(length: int, good: bool) -> None:
    assert (name_error("a" * length, (HERE,)) == "") == good


def test_a_name_too_long_for_any_cluster_names_none() -> None:
    assert name_error("a" * 50, ()) == ""
    assert name_error("a" * 51, ()).startswith(f"metadata.name: '{'a' * 51}' has 51 characters;")


def test_a_cluster_with_a_share_runs_the_set_under_its_own_name() -> None:
    (own,) = sets_in(snapshot_of(submitted_set(6), record(lubeck=2), part(HERE, 2)))

    assert own.metadata.name == "store-lubeck"
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}
    assert own.spec == replace(submitted_set(6).spec, replicas=2, update_strategy=strategy)


def test_a_cluster_without_a_share_has_the_headless_service_alone() -> None:
    desired = plan(LOCAL, snapshot_of(submitted_set(6), record(bergen=6))).desired

    assert [(type(d.object), d.object.name) for d in desired] == [(Service, "etcd")]


def test_claims_that_would_go_with_the_object_keep_it_at_zero() -> None:
    policy = {"whenDeleted": "Delete", "whenScaled": "Retain"}
    submitted = submitted_set(3, persistent_volume_claim_retention_policy=policy)
    (own,) = sets_in(snapshot_of(submitted, record(lubeck=2), part(HERE, 2)))
    existing = stored(with_owner(own, Owner("statefulsets", LOCAL, HERE)))

    none = submitted_set(0, persistent_volume_claim_retention_policy=policy)
    drained = replace(existing, spec=replace(existing.spec, replicas=0))
    (kept,) = sets_in(snapshot_of(none, record(), here=[drained]))

    assert kept.spec.replicas == 0


def test_nothing_is_decided_before_the_broker_was_read_whole() -> None:
    for key, at_broker in (
        (SHARES, [submitted_set(6)]),
        (LOCAL, [submitted_set(6), record(lubeck=2)]),
    ):
        assert plan(key, snapshot_of(*at_broker, phase=Phase.CONNECTING)) == Plan()


def test_a_cluster_reports_before_it_runs_anything() -> None:
    desired = plan(LOCAL, snapshot_of(submitted_set(6), record(lubeck=2))).desired

    made = {type(d.object) for d in desired}
    assert (StatefulSetPart in made, StatefulSet in made) == (True, False)


def test_of_a_set_that_is_gone_with_its_shares_our_report_goes_last() -> None:
    report = part(HERE, 2)
    service = stored(headless("etcd", SHOP))
    annotations = {"statefulsets.hanse.dev/set": "store"}
    service = replace(service, metadata=replace(service.metadata, labels=annotations))
    copy = stored(with_owner(service, Owner("statefulsets", LOCAL, HERE)))

    assert plan(LOCAL, snapshot_of(report, here=[copy])) == Plan(
        kept=(ClusterObjectRef(BROKER, object_ref(report)),)
    )
    assert plan(LOCAL, snapshot_of(report)) == Plan()
    assert plan(LOCAL, snapshot_of(here=[copy])) == Plan(), "nothing runs there"


def test_a_set_that_runs_here_and_the_broker_never_had_is_kept_and_reported() -> None:
    (own,) = sets_in(snapshot_of(submitted_set(6), record(lubeck=2), part(HERE, 2)))
    existing = stored(with_owner(own, Owner("statefulsets", LOCAL, HERE)))

    lost = plan(LOCAL, snapshot_of(here=[existing]))
    (again,) = [d.object for d in lost.desired if isinstance(d.object, StatefulSetPart)]

    assert lost.kept == (ClusterObjectRef(HERE, object_ref(existing)),)
    assert (again.spec.share, [n.reason for n in lost.events]) == (2, ["Lost"])
    still = plan(LOCAL, snapshot_of(stored(again), here=[existing]))
    assert (still.desired, still.kept) == (lost.desired, lost.kept)
    assert current_shares(snapshot_of(submitted_set(3), stored(again))) == {"bergen": 1, HERE: 2}


def test_what_the_broker_lost_runs_on_if_the_set_of_its_name_goes_before_it_had_shares() -> None:
    (own,) = sets_in(snapshot_of(submitted_set(6), record(lubeck=2), part(HERE, 2)))
    existing = stored(with_owner(own, Owner("statefulsets", LOCAL, HERE)))

    submitted_again = plan(LOCAL, snapshot_of(submitted_set(3), here=[existing]))
    (report,) = [d.object for d in submitted_again.desired]
    gone = plan(LOCAL, snapshot_of(stored(report), here=[existing]))

    assert gone.kept == (ClusterObjectRef(HERE, object_ref(existing)),)
    assert [n.reason for n in gone.events] == ["Lost"]


def test_while_the_garbage_collector_decides_everything_stays() -> None:
    (own,) = sets_in(snapshot_of(submitted_set(6), record(lubeck=2), part(HERE, 2)))
    existing = stored(with_owner(own, Owner("statefulsets", LOCAL, HERE)))

    stays = plan(LOCAL, snapshot_of(record(lubeck=2), here=[existing]))
    assert stays == Plan(kept=(ClusterObjectRef(HERE, object_ref(existing)),))
    released = plan(LOCAL, snapshot_of(record(owned=False, lubeck=2), here=[existing]))
    (freed,) = released.patches
    assert freed.change["metadata"]["labels"] == {OWNER: None}


def test_each_replica_of_this_cluster_gets_its_balancer_and_a_stand_in() -> None:
    annotations = {"federation.kubernetes.io/statefulset-lb-needed": "true"}
    snap = snapshot_of(submitted_set(3, annotations), record(bergen=1, lubeck=2), part(HERE, 2))
    planned = plan(LOCAL, snap)

    balancers = [d for d in planned.desired if d.object.name.startswith("store-lubeck-")]
    places = sorted((d.where, d.object.name) for d in balancers if isinstance(d.object, Service))
    assert places == [(w, f"store-lubeck-{n}") for w in (BROKER, HERE) for n in (0, 1)]
    created = diff("statefulsets", LOCAL, planned, [], snap).actions
    assert all(isinstance(action, Create) for action in created)


def test_an_address_that_comes_late_or_changes_is_reported_to_the_broker() -> None:
    annotations = {"federation.kubernetes.io/statefulset-lb-needed": "true"}
    at_broker = (submitted_set(1, annotations), record(lubeck=1), part(HERE, 1))
    (made,) = [
        d.object
        for d in plan(LOCAL, snapshot_of(*at_broker)).desired
        if isinstance(d.object, Service) and d.where == HERE and d.object.name != "etcd"
    ]
    owned = with_owner(made, Owner("statefulsets", LOCAL, HERE))

    def reported(*addresses: str) -> list[tuple[str, ...]]:
        ingress = tuple(LoadBalancerIngress(ip=a) for a in addresses)
        status = ServiceStatus(load_balancer=LoadBalancerStatus(ingress=ingress))
        planned = plan(LOCAL, snapshot_of(*at_broker, here=[stored(replace(owned, status=status))]))
        return [
            tuple(i.ip for i in d.object.status.load_balancer.ingress)
            for d in planned.desired
            if isinstance(d.object, Service) and d.where == BROKER
        ]

    assert reported() == [()]
    assert reported("198.19.0.1") == [("198.19.0.1",)]
    assert reported("198.19.0.7") == [("198.19.0.7",)]


MAYBE = {"federation.kubernetes.io/statefulset-lb-needed": "maybe"}


def own_set(snap: Snapshot) -> StatefulSet:
    (found,) = [
        d.object
        for d in plan(LOCAL, snap).desired
        if isinstance(d.object, StatefulSet) and d.where == HERE
    ]
    assert isinstance(found, StatefulSet)
    return found


def test_replicas_that_were_placed_are_created_though_the_set_is_invalid_by_now() -> None:
    made = own_set(snapshot_of(submitted_set(1), record(lubeck=1), part(HERE, 1)))
    existing = stored(with_owner(made, Owner("statefulsets", LOCAL, HERE)))
    changed = submitted_set(9, MAYBE, image="etcd:9")

    grown = own_set(snapshot_of(changed, record(lubeck=3), part(HERE, 3), here=[existing]))
    anew = own_set(snapshot_of(submitted_set(9, MAYBE), record(lubeck=2), part(HERE, 2)))

    assert (grown.spec.replicas, anew.spec.replicas) == (3, 2)
    assert grown.spec.template == made.spec.template
    assert grown.metadata.annotations == made.metadata.annotations


def test_an_invalid_set_says_that_nothing_changes_until_it_is_corrected() -> None:
    (condition,) = [
        c
        for p in plan(STATUS, snapshot_of(submitted_set(9, MAYBE), record(lubeck=3))).patches
        for c in p.change.get("status", {}).get("conditions", ())
        if c["type"] == "Valid"
    ]

    assert condition["message"].endswith(
        "until that is mended no share, template or load balancer changes"
    )


def test_a_report_of_a_cluster_that_has_left_does_not_count() -> None:
    snap = snapshot_of(
        submitted_set(2),
        record(bergen=1, riga=1),
        part("riga", 1, replicas=(Replica(name="store-riga-0", ready=True),)),
        member("riga", "Left"),
        members=[lease("bergen"), lease(HERE)],
    )
    (status,) = [p for p in plan(STATUS, snap).patches if p.subresource == "status"]

    assert status.change["status"]["readyReplicas"] == 0


@pytest.mark.parametrize(
    ("where", "words"),
    [
        pytest.param(HERE, "it is taken", id="here"),
        pytest.param(BROKER, "on the broker: it is taken", id="on the broker"),
    ],
)
def test_a_foreign_object_of_a_replicas_name_is_reported(where: str, words: str) -> None:
    annotations = {"federation.kubernetes.io/statefulset-lb-needed": "true"}
    ref = ObjectRef(Service.kind, "store-lubeck-0", SHOP)
    taken = WriteOutcome(ClusterObjectRef(where, ref), "Foreign", "it is taken", EPOCH)
    at_broker = (submitted_set(1, annotations), record(lubeck=1), part(HERE, 1))
    snap = snapshot_of(*at_broker, facts=[taken])

    (report,) = [
        d.object for d in plan(LOCAL, snap).desired if isinstance(d.object, StatefulSetPart)
    ]

    assert report.spec.trouble == words
    assert LOCAL in set(FEATURE.keys_for(FactChange(None, taken), snap))


def test_the_record_of_a_set_that_is_gone_stays_while_a_member_reports() -> None:
    shares = record(owned=False, bergen=2, lubeck=2)
    stays = plan(SHARES, snapshot_of(shares, part("bergen", 2)))

    assert stays.kept == (ClusterObjectRef(BROKER, object_ref(shares)),)


@pytest.mark.parametrize(
    ("begun", "stays"),
    [
        pytest.param((), False, id="nobody has"),
        pytest.param(("bergen",), True, id="one that is not observed yet"),
    ],
)
def test_the_record_of_a_set_that_is_gone_stays_until_nobody_has_begun_to_report(
    begun: tuple[str, ...], stays: bool
) -> None:
    shares = record(owned=False, bergen=2, lubeck=2)
    parts = {part_name(SHOP, "store", c): part(c, 2) for c in begun}
    kept = (ClusterObjectRef(BROKER, object_ref(shares)),)

    asking = plan(SHARES, snapshot_of(shares))
    reads = [q.ask for q in asking.questions if isinstance(q.ask, Read)]
    answers = [
        Answer(
            read.id,
            msgspec.to_builtins(parts.get(read.target.ref.name), str_keys=True),
            "",
            EPOCH,
        )
        for read in reads
    ]
    answered = plan(SHARES, snapshot_of(shares, facts=answers))

    assert [read.target.ref.name for read in reads] == [
        part_name(SHOP, "store", cluster) for cluster in ("bergen", "lubeck")
    ]
    assert asking.kept == kept
    assert answered.kept == (kept if stays else ())


def test_shares_of_an_orphaned_set_are_not_decided_anew() -> None:
    orphaned = submitted_set(9, annotations={ORPHANED: "true"})
    shares = record(owned=False, bergen=2, lubeck=2)

    found = plan(SHARES, snapshot_of(orphaned, shares, part("bergen", 2)))

    assert found.desired == ()
    assert found.kept == (ClusterObjectRef(BROKER, object_ref(shares)),)
