"""Whose names replicas have, and which cluster reports."""

import pytest
from msgspec.structs import replace

from hanse.features.statefulsets.collisions import Collision, list_collisions
from hanse.features.statefulsets.names import ACCEPTED
from hanse.model.kinds.apps import StatefulSet
from hanse.model.kinds.core import Namespace
from hanse.model.kinds.stateful import StatefulSetPart
from hanse.model.objects import Meta
from hanse.model.snapshot import Snapshot
from tests.features.statefulsets.given import (
    HERE,
    LOCAL,
    SHOP,
    conditions,
    current_shares,
    lease,
    part,
    plan,
    record,
    sets_in,
    snapshot_of,
    submitted_set,
)
from tests.support.builders import stored
from tinykube.virtual_time import EPOCH


def test_sets_collide_where_the_name_of_one_ends_as_a_cluster_begins() -> None:
    clusters = {"eu-west", "west", "north"}

    assert list(list_collisions("store", clusters)) == [Collision("store-eu", "eu-west", "west")]
    assert Collision("store", "west", "eu-west") in list_collisions("store-eu", clusters)
    assert list(list_collisions("store", {"west", "north"})) == []


@pytest.mark.parametrize("younger", ["store", "store-eu"])
def test_the_younger_of_two_sets_with_colliding_replicas_is_invalid(younger: str) -> None:
    members = [lease(name) for name in ("eu-west", "west", HERE)]
    other = submitted_set(3)
    other = replace(other, metadata=replace(other.metadata, name="store-eu", uid="uid-eu"))
    store = submitted_set(3)
    old, new = EPOCH, EPOCH.replace(year=EPOCH.year + 1)
    times = {"store": (new, old), "store-eu": (old, new)}[younger]
    store = replace(store, metadata=replace(store.metadata, creation_timestamp=times[0]))
    other = replace(other, metadata=replace(other.metadata, creation_timestamp=times[1]))
    snap = snapshot_of(store, other, members=members)

    reason, message = conditions(snap)["Valid"]

    assert reason == ("Invalid" if younger == "store" else "Valid")
    assert ("one of set store-eu" in message) == (younger == "store")


def test_the_report_of_an_earlier_set_counts_for_nothing() -> None:
    old, own = part("hamburg", 3, set_uid="uid-before"), part(HERE, 1, set_uid="uid-store")

    assert current_shares(snapshot_of(submitted_set(3), old, own)) == {
        "bergen": 1,
        "hamburg": 1,
        HERE: 1,
    }


def rebuilt(**report: str) -> Snapshot:
    """This cluster, whose uid is `uid-new`, with a report of the one before it."""
    system = stored(Namespace(metadata=Meta(name="kube-system", uid="uid-new")))
    own = part(HERE, 2, set_uid="uid-store", cluster_uid="uid-old")
    meta = replace(own.metadata, annotations=report)
    return snapshot_of(
        submitted_set(2), record(lubeck=2), replace(own, metadata=meta), here=[system]
    )


def test_a_rebuilt_cluster_is_told_and_starts_nothing_until_it_is_accepted() -> None:
    (report,) = [d.object for d in plan(LOCAL, rebuilt()).desired]

    assert isinstance(report, StatefulSetPart)
    assert f"hanse statefulsets accept {SHOP}/store --cluster {HERE}" in report.spec.trouble
    assert report.spec.cluster_uid == "uid-old"
    (accepted,) = sets_in(rebuilt(**{ACCEPTED: "uid-new"}))
    assert isinstance(accepted, StatefulSet)
    assert accepted.spec.replicas == 2
