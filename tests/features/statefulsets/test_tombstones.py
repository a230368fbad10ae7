"""How long, and of how many sets, tombstones are kept."""

from datetime import timedelta
from typing import Any

from msgspec.structs import replace

from hanse.features.statefulsets.names import part_name
from hanse.features.statefulsets.tombstones import (
    MAX_CREATED_UIDS,
    MAX_TOMBSTONES,
    TOMBSTONE_RETENTION,
    add_created_uid,
)
from hanse.model.kinds.apps import StatefulSet
from hanse.model.kinds.stateful import StatefulSetPart, StatefulSetPartSpec
from hanse.model.objects import Meta
from hanse.model.plan import Key, Plan
from hanse.model.snapshot import ObjectChange
from hanse.runtime.ownership import Owner, with_owner
from tests.features.statefulsets.given import (
    BROKER,
    BROKER_NAMESPACE,
    FEATURE,
    HERE,
    LOCAL,
    SHOP,
    part,
    plan,
    record,
    sets_in,
    snapshot_of,
    submitted_set,
)
from tests.support.builders import stored
from tinykube.virtual_time import EPOCH


def running(uid: str) -> StatefulSet:
    """The StatefulSet that runs here of a set."""
    (own,) = sets_in(snapshot_of(submitted_set(6), record(lubeck=2), part(HERE, 2)))
    return stored(with_owner(own, Owner("statefulsets", LOCAL, HERE)), uid=uid)


def tombstone(days: float, **fields: Any) -> StatefulSetPart:
    return part(HERE, 0, made=("one",), ended=EPOCH - timedelta(days=days), **fields)


def test_an_end_is_remembered_for_a_time_and_then_forgotten() -> None:
    young = plan(LOCAL, snapshot_of(tombstone(days=29)))
    (kept,) = young.desired
    assert isinstance(kept.object, StatefulSetPart)
    assert kept.object.spec == tombstone(days=29).spec, "nothing is written meanwhile"
    assert young.requeue_after == timedelta(days=1)

    assert plan(LOCAL, snapshot_of(tombstone(days=TOMBSTONE_RETENTION.days))) == Plan()


def test_a_part_that_never_ran_anything_leaves_nothing_behind() -> None:
    assert plan(LOCAL, snapshot_of(part(HERE, 2))) == Plan()


def test_of_too_many_ends_the_oldest_are_forgotten() -> None:
    several = [tombstone_of(f"set-{n}", days=n / 10) for n in range(MAX_TOMBSTONES + 2)]
    oldest = Key("local", f"set-{MAX_TOMBSTONES + 1}", SHOP)
    youngest = Key("local", "set-0", SHOP)
    snap = snapshot_of(*several)

    assert plan(oldest, snap) == Plan()
    assert plan(youngest, snap).desired
    woken = FEATURE.keys_for(ObjectChange(BROKER, None, several[0]), snap)
    assert {oldest, Key("local", f"set-{MAX_TOMBSTONES}", SHOP), youngest} == {
        key for key in woken if key.topic == "local"
    }


def test_others_ends_are_theirs_to_forget() -> None:
    theirs = [
        replace(one, spec=replace(one.spec, cluster="bergen"))
        for one in (tombstone_of(f"set-{n}", days=1) for n in range(MAX_TOMBSTONES + 2))
    ]

    assert plan(LOCAL, snapshot_of(*theirs, tombstone(days=9))).desired


def test_a_part_of_a_set_that_lives_names_all_that_it_has_run() -> None:
    snap = snapshot_of(
        submitted_set(6), record(lubeck=2), part(HERE, 2, made=("one",)), here=[running("two")]
    )
    (report,) = [
        d.object for d in plan(LOCAL, snap).desired if isinstance(d.object, StatefulSetPart)
    ]

    assert report.spec.made == ("one", "two")
    many = tuple(str(n) for n in range(MAX_CREATED_UIDS))
    assert add_created_uid(running("new"), many) == (*many[1:], "new")


def test_a_share_that_is_gone_is_remembered_while_the_set_lives() -> None:
    snap = snapshot_of(submitted_set(6), record(bergen=3, hamburg=3), part(HERE, 0, made=("one",)))
    (report,) = [
        d.object for d in plan(LOCAL, snap).desired if isinstance(d.object, StatefulSetPart)
    ]

    assert report.spec.made == ("one",)
    assert report.spec.ended is None


def tombstone_of(name: str, days: float) -> StatefulSetPart:
    spec = StatefulSetPartSpec(
        namespace=SHOP,
        name=name,
        cluster=HERE,
        made=(f"uid-of-{name}",),
        ended=EPOCH - timedelta(days=days),
    )
    meta = Meta(name=part_name(SHOP, name, HERE), namespace=BROKER_NAMESPACE)
    return stored(StatefulSetPart(metadata=meta, spec=spec))
