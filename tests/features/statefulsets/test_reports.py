"""What clusters report of a set, what is made of the reports, and which keys they concern."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from hanse.features.statefulsets.names import MAX_UNAVAILABLE, POD_REVISION, REVISION
from hanse.features.statefulsets.submitted import from_stateful_set
from hanse.model.kinds.apps import StatefulSet, StatefulSetStatus
from hanse.model.kinds.core import ObservedCondition, Pod, PodStatus
from hanse.model.kinds.stateful import Permit, Replica, StatefulSetPart, StatefulSetShares
from hanse.model.objects import Meta, Object, OwnerReference
from hanse.model.plan import Key
from hanse.model.snapshot import ObjectChange, Snapshot
from hanse.runtime.ownership import Owner, with_owner
from tests.features.statefulsets.given import (
    BROKER,
    FEATURE,
    HERE,
    LOCAL,
    SHARES,
    SHOP,
    STATUS,
    member,
    part,
    plan,
    record,
    snapshot_of,
    submitted_set,
)
from tests.support.builders import stored
from tinykube.virtual_time import EPOCH

READY = (Replica(name="store-bergen-0", ready=True),)


def running(replicas: int, *, revision: str, generation: int = 1) -> StatefulSet:
    """The StatefulSet of this cluster, whose first version was observed."""
    submitted = submitted_set(replicas)
    marks = {REVISION: revision}
    meta = Meta(name="store-lubeck", namespace=SHOP, annotations=marks, generation=generation)
    labels = {"statefulsets.hanse.dev/set": "store"}
    status = StatefulSetStatus(
        observed_generation=1, current_revision="old", update_revision="old", ready_replicas=2
    )
    made = StatefulSet(metadata=replace(meta, labels=labels), spec=submitted.spec, status=status)
    return stored(with_owner(made, Owner("statefulsets", LOCAL, HERE)))


def pod(ordinal: int, of: StatefulSet, *, ready: bool = True) -> Pod:
    owner = OwnerReference(
        api_version="apps/v1", kind="StatefulSet", name=of.name, uid=of.metadata.uid
    )
    condition = ObservedCondition(type="Ready", status="True" if ready else "False")
    meta = Meta(
        name=f"store-lubeck-{ordinal}",
        namespace=SHOP,
        labels={POD_REVISION: "old"},
        owner_references=(owner,),
    )
    return stored(Pod(metadata=meta, status=PodStatus(conditions=(condition,))))


def report_of(snap: Snapshot) -> StatefulSetPart:
    (found,) = [
        d.object for d in plan(LOCAL, snap).desired if isinstance(d.object, StatefulSetPart)
    ]
    return found


def test_a_replica_without_a_pod_for_the_moment_is_reported_as_not_ready() -> None:
    revision = from_stateful_set(submitted_set(2)).revision
    own = running(2, revision=revision)
    both = tuple(Replica(name=f"store-lubeck-{n}", ready=True) for n in range(2))
    at_broker = (submitted_set(2), record(lubeck=2))

    replaced = snapshot_of(*at_broker, part(HERE, 2, replicas=both), here=[own, pod(0, own)])
    started = snapshot_of(*at_broker, part(HERE, 2), here=[own, pod(0, own)])

    assert report_of(replaced).spec.replicas == (both[0], replace(both[1], ready=False))
    assert report_of(started).spec.replicas == both[:1]


@pytest.mark.parametrize(
    ("age", "counted"),
    [
        pytest.param(timedelta(seconds=1), 1, id="just-created"),
        pytest.param(timedelta(seconds=3), 2, id="late"),
        pytest.param(timedelta(seconds=-60), 2, id="by-a-clock-that-is-ahead"),
    ],
)
def test_a_pod_that_has_just_been_created_is_counted_when_it_is_ready_or_late(
    age: timedelta, counted: int
) -> None:
    own = running(2, revision="same")
    new = pod(1, own, ready=False)
    new = replace(new, metadata=replace(new.metadata, creation_timestamp=EPOCH - age))

    snap = snapshot_of(
        submitted_set(2), record(lubeck=2), part(HERE, 2), here=[own, pod(0, own), new]
    )

    report = report_of(snap).spec
    assert (report.updated_replicas, report.current_replicas) == (counted, counted)
    assert len(report.replicas) == 2
    assert (plan(LOCAL, snap).requeue_after is not None) == (counted == 1)


def _with_permit(shares: StatefulSetShares) -> StatefulSetShares:
    permit = Permit(name=HERE, pods=1, set_uid="uid-store")
    return replace(shares, spec=replace(shares.spec, permits=(permit,)))


@pytest.mark.parametrize(
    ("age", "in_status", "ready"),
    [
        pytest.param(timedelta(seconds=1), 1, False, id="not-in-the-status"),
        pytest.param(timedelta(seconds=1), 2, True, id="in-the-status"),
        pytest.param(timedelta(seconds=3), 1, True, id="late"),
    ],
)
def test_in_a_roll_out_a_replica_is_reported_with_the_write_that_releases_the_next(
    age: timedelta, in_status: int, ready: bool
) -> None:
    submitted = submitted_set(3)
    own = running(3, revision=from_stateful_set(submitted).revision)
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}
    status = replace(
        own.status, update_revision="new", ready_replicas=1 + in_status, updated_replicas=in_status
    )
    own = replace(own, spec=replace(own.spec, update_strategy=strategy), status=status)
    pods = [pod(n, own) for n in range(3)]
    for n in (1, 2):
        meta = replace(
            pods[n].metadata, labels={POD_REVISION: "new"}, creation_timestamp=EPOCH - age
        )
        pods[n] = replace(pods[n], metadata=meta)
    before = tuple(Replica(name=f"store-lubeck-{n}", ready=n != 1) for n in range(3))
    shares = _with_permit(record(lubeck=3))

    snap = snapshot_of(submitted, shares, part(HERE, 3, replicas=before), here=[own, *pods])

    assert [replica.ready for replica in report_of(snap).spec.replicas] == [True, ready, True]
    (released,) = [d.object for d in plan(LOCAL, snap).desired if isinstance(d.object, StatefulSet)]
    assert released.spec.update_strategy["rollingUpdate"]["partition"] == (
        1 if in_status == 1 else 0
    )


@pytest.mark.parametrize(
    ("wanted", "goes_on"), [pytest.param(2, True, id="recorded"), pytest.param(3, False, id="new")]
)
def test_nothing_is_replaced_before_the_shares_of_what_is_wanted_are_recorded(
    wanted: int, goes_on: bool
) -> None:
    own = running(2, revision="older")
    before = part(HERE, 2, applied="older", updated_replicas=2)
    shares = _with_permit(record(lubeck=2))

    snap = snapshot_of(submitted_set(wanted), shares, before, here=[own, pod(0, own), pod(1, own)])

    newest = from_stateful_set(submitted_set(wanted)).revision
    assert report_of(snap).spec.applied == (newest if goes_on else "older")


def test_the_report_of_a_new_template_is_written_with_it() -> None:
    own = running(2, revision="older")
    before = part(HERE, 2, applied="older", revision="older", updated_replicas=2)
    shares = _with_permit(record(lubeck=2))

    snap = snapshot_of(submitted_set(2), shares, before, here=[own, pod(0, own), pod(1, own)])

    newest = from_stateful_set(submitted_set(2)).revision
    report = report_of(snap).spec
    assert (report.applied, report.revision, report.updated_replicas) == (newest, "", 0)


@pytest.mark.parametrize(
    ("applied", "updated"),
    [
        pytest.param("same", 1, id="another-partition"),
        pytest.param("older", 0, id="another-template"),
    ],
)
def test_until_a_version_is_observed_what_is_updated_is_as_reported(
    applied: str, updated: int
) -> None:
    own = running(2, revision="same", generation=2)
    before = part(HERE, 2, applied=applied, updated_replicas=1)

    snap = snapshot_of(
        submitted_set(2), record(lubeck=2), before, here=[own, pod(0, own), pod(1, own)]
    )

    counted = report_of(snap).spec
    assert (counted.updated_replicas, counted.available_replicas) == (updated, 2)


@pytest.mark.parametrize(
    ("cluster", "ready"),
    [
        pytest.param("bergen", 1, id="a-member"),
        pytest.param("riga", 0, id="a-cluster-that-the-broker-does-not-know"),
    ],
)
def test_the_status_counts_reports_of_members_alone(cluster: str, ready: int) -> None:
    snap = snapshot_of(
        submitted_set(2), record(bergen=1, lubeck=1), part(cluster, 1, replicas=READY)
    )

    (status,) = [p for p in plan(STATUS, snap).patches if p.subresource == "status"]

    assert status.change["status"]["readyReplicas"] == ready


def test_a_departure_concerns_the_mirror_of_a_set_that_was_orphaned_at_its_host() -> None:
    orphaned = record(owned=False, bergen=1)
    snap = snapshot_of(here=[orphaned])
    left = ObjectChange(BROKER, member("bergen"), member("bergen", phase="Left"))

    assert Key("mirror", "store", SHOP) in set(FEATURE.keys_for(left, snap))


def report_change(*, cluster: str = "bergen", **fields: object) -> ObjectChange:
    before: Object = part(cluster, 1, replicas=READY)
    return ObjectChange(BROKER, before, part(cluster, 1, **{"replicas": READY, **fields}))


@pytest.mark.parametrize(
    ("change", "keys"),
    [
        pytest.param(report_change(updated_replicas=1), {STATUS}, id="counts"),
        pytest.param(report_change(replicas=()), {LOCAL, STATUS}, id="readiness"),
        pytest.param(report_change(returned=1), {LOCAL, STATUS}, id="a-permit"),
        pytest.param(report_change(most=1), {SHARES, LOCAL, STATUS}, id="what-it-takes"),
        pytest.param(report_change(cluster=HERE, waits="x"), {LOCAL, STATUS}, id="our-own"),
    ],
)
def test_a_report_concerns_the_plans_that_depend_on_what_has_changed_in_it(
    change: ObjectChange, keys: set[Key]
) -> None:
    assert set(FEATURE.keys_for(change, snapshot_of(submitted_set(2)))) == keys


def test_a_budget_of_more_digits_than_can_be_read_is_an_error_and_counts_as_none() -> None:
    submitted = from_stateful_set(submitted_set(2, {MAX_UNAVAILABLE: "9" * 5000}))

    assert submitted.max_unavailable == 1
    assert any("is not a number from 1 to" in error for error in submitted.errors)


def test_shares_are_planned_before_what_follows_from_them() -> None:
    made = ObjectChange(BROKER, None, submitted_set(2))

    first, *others = FEATURE.keys_for(made, snapshot_of(submitted_set(2)))

    assert first.topic == "shares"
    assert {key.topic for key in others} == {"local", "status"}
