"""What an orphaned set released: a new set of its name adopts it, whatever shares are."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from hanse.features.statefulsets.names import RELEASED
from hanse.model.kinds.acceptance import (
    AcceptancePolicy,
    AcceptancePolicySpec,
    WorkloadAcceptance,
)
from hanse.model.kinds.apps import StatefulSet
from hanse.model.kinds.stateful import StatefulSetPart
from hanse.model.objects import Meta
from hanse.model.plan import Plan, TakeOver
from tests.features.statefulsets.given import (
    HERE,
    LOCAL,
    SHARES,
    SHOP,
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


def released(replicas: int, image: str = "etcd:3.6") -> StatefulSet:
    """What runs here of a set that was orphaned."""
    before = (submitted_set(9, image=image), record(lubeck=replicas), part(HERE, replicas))
    (own,) = sets_in(snapshot_of(*before))
    marks = {**own.metadata.annotations, RELEASED: f"{SHOP}/store"}
    return stored(replace(own, metadata=replace(own.metadata, annotations=marks)))


def tombstone(cluster: str, share: int) -> StatefulSetPart:
    fields = {"made": ("one",), "ended": EPOCH - timedelta(hours=1), "released": True}
    return part(cluster, share, set_uid="uid-before", **fields)


def adopted(planned: Plan) -> StatefulSet:
    """The StatefulSet that a plan takes over."""
    (found,) = [d for d in planned.desired if isinstance(d.object, StatefulSet)]
    assert found.ownership == TakeOver()
    assert isinstance(found.object, StatefulSet)
    return found.object


def reported(planned: Plan) -> StatefulSetPart:
    (report,) = [d.object for d in planned.desired if isinstance(d.object, StatefulSetPart)]
    assert isinstance(report, StatefulSetPart)
    return report


@pytest.mark.parametrize("image", ["etcd:3.6", "etcd:old"])
@pytest.mark.parametrize(("share", "replicas"), [(0, 2), (1, 2), (2, 2), (3, 3)])
def test_a_released_part_is_adopted_with_its_template_and_all_replicas(
    share: int, replicas: int, image: str
) -> None:
    runs = released(2, image)
    shares = record(bergen=3, hamburg=3, lubeck=share)
    at_broker = (submitted_set(6 + share), shares, part("bergen", 3), part("hamburg", 3))

    first = plan(LOCAL, snapshot_of(*at_broker, here=[runs]))
    assert not [d for d in first.desired if isinstance(d.object, StatefulSet)], "reported first"
    report = reported(first)
    assert report.spec.share == replicas

    second = plan(LOCAL, snapshot_of(*at_broker, stored(report), here=[runs]))
    assert adopted(second).spec.replicas == replicas
    assert adopted(second).spec.template == runs.spec.template
    assert second.patches == (), "permits are taken for what is adopted already"


def test_a_cluster_that_refuses_a_set_does_not_adopt_what_another_released() -> None:
    meta = Meta(name="default")
    spec = AcceptancePolicySpec(workloads=WorkloadAcceptance(origins=()))
    policy = stored(AcceptancePolicy(metadata=meta, spec=spec))

    planned = plan(
        LOCAL,
        snapshot_of(
            submitted_set(2), record(bergen=2), part("bergen", 2), here=[policy, released(2)]
        ),
    )

    assert reported(planned).spec.refused is not None
    assert reported(planned).spec.share == 0
    assert f"kubectl -n {SHOP} delete statefulset store-{HERE}" in reported(planned).spec.trouble
    assert not [d for d in planned.desired if isinstance(d.object, StatefulSet)]


def test_a_tombstone_has_what_runs_on_now() -> None:
    ended = tombstone(HERE, 2)

    assert reported(plan(LOCAL, snapshot_of(ended, here=[released(3)]))).spec.share == 3
    assert reported(plan(LOCAL, snapshot_of(ended))).spec.share == 0


@pytest.mark.parametrize(
    ("wanted", "shares"),
    [
        (1, {"bergen": 1}),
        (4, {"bergen": 3, "hamburg": 1}),
        (5, {"bergen": 3, "hamburg": 1, HERE: 1}),
    ],
)
def test_a_set_that_is_submitted_again_starts_from_what_runs(
    wanted: int, shares: dict[str, int]
) -> None:
    ends = (tombstone("bergen", 3), tombstone("hamburg", 1))
    assert current_shares(snapshot_of(submitted_set(wanted), *ends)) == shares

    known = (submitted_set(wanted), record(True, **shares), *ends)
    assert current_shares(snapshot_of(*known)) == shares
    assert plan(SHARES, snapshot_of(*known)).events == (), "nobody disputes them"


def test_what_was_released_in_a_cluster_that_is_away_gives_it_no_share() -> None:
    members = [lease("bergen", silent=60), lease("hamburg"), lease(HERE)]

    shares = current_shares(snapshot_of(submitted_set(2), tombstone("bergen", 2), members=members))

    assert shares == {"hamburg": 1, HERE: 1}


def test_tombstones_keep_no_shares_of_an_orphaned_set() -> None:
    snap = snapshot_of(record(owned=False, bergen=2), tombstone("bergen", 2))

    assert plan(SHARES, snap) == Plan()
