"""Shares and reports with a newer schema are left unchanged."""

from msgspec.structs import replace

from hanse.model.facts import Role
from hanse.model.kinds.stateful import SCHEMA, StatefulSetPart, StatefulSetShares
from hanse.model.objects import ClusterObjectRef, object_ref
from hanse.model.plan import Plan
from hanse.model.snapshot import FactChange
from hanse.runtime.diff import diff
from hanse.runtime.ownership import Owner, with_owner
from tests.features.statefulsets.given import (
    BROKER,
    FEATURE,
    HERE,
    LOCAL,
    SHARES,
    conditions,
    current_shares,
    part,
    plan,
    record,
    sets_in,
    snapshot_of,
    submitted_set,
)
from tests.support.builders import cluster, stored


def newer_part(name: str, share: int) -> StatefulSetPart:
    return part(name, share, schema=SCHEMA + 1)


def newer_record() -> StatefulSetShares:
    shares = record(lubeck=2)
    return replace(shares, spec=replace(shares.spec, schema=SCHEMA + 1))


def test_newer_shares_are_neither_written_nor_followed() -> None:
    (own,) = sets_in(snapshot_of(submitted_set(6), record(lubeck=2), part(HERE, 2)))
    existing = stored(with_owner(own, Owner("statefulsets", LOCAL, HERE)))
    snap = snapshot_of(submitted_set(9), newer_record(), here=[existing])

    assert plan(SHARES, snap) == Plan(kept=(ClusterObjectRef(BROKER, object_ref(newer_record())),))
    assert plan(LOCAL, snap) == Plan(kept=(ClusterObjectRef(HERE, object_ref(existing)),))


def test_a_cluster_with_a_newer_report_gets_its_share_and_counts_as_away() -> None:
    snap = snapshot_of(
        submitted_set(8), record(bergen=2, hamburg=2, lubeck=2), newer_part("hamburg", 2)
    )

    assert current_shares(snap) == {"bergen": 3, "hamburg": 3, HERE: 2}, "as its own agent has it"
    assert conditions(snap)["Ready"][0] == "ClustersAway"


def test_lost_shares_are_not_rebuilt_without_a_report_that_we_cannot_read() -> None:
    assert (
        plan(SHARES, snapshot_of(submitted_set(6), part(HERE, 2), newer_part("hamburg", 4)))
        == Plan()
    )


def test_our_own_newer_report_stays_with_its_objects() -> None:
    (own,) = sets_in(snapshot_of(submitted_set(6), record(lubeck=2), part(HERE, 2)))
    existing = stored(with_owner(own, Owner("statefulsets", LOCAL, HERE)))
    report = stored(with_owner(newer_part(HERE, 2), Owner("statefulsets", LOCAL, HERE)))

    for at_broker in ([submitted_set(6), record(lubeck=1), report], [report]):
        snap = snapshot_of(*at_broker, here=[existing])
        owned = [
            (where, Owner("statefulsets", LOCAL, HERE), obj)
            for where, obj in ((HERE, existing), (BROKER, report))
        ]
        assert diff("statefulsets", LOCAL, plan(LOCAL, snap), owned, snap).actions == ()


def test_what_is_held_of_a_set_that_is_gone_is_looked_at_when_the_broker_was_read() -> None:
    (own,) = sets_in(snapshot_of(submitted_set(6), record(lubeck=2), part(HERE, 2)))
    existing = stored(with_owner(own, Owner("statefulsets", LOCAL, HERE)))
    read = FactChange(None, cluster(BROKER, Role.BROKER))

    assert LOCAL in set(FEATURE.keys_for(read, snapshot_of(here=[existing])))
