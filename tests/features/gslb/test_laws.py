"""Laws of global load balancing: plans depend on the snapshot and on nothing else."""

from itertools import permutations

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from hanse.features.gslb.feature import Gslb
from hanse.features.gslb.hosts import decide_host
from hanse.features.gslb.leadership import Leading, leader_state
from hanse.features.gslb.options import GslbOptions
from hanse.model.kinds.globalservice import GlobalService
from hanse.model.kinds.gslb import TrafficOverride, TrafficSplit
from hanse.model.kinds.networking import Ingress
from hanse.model.objects import Object
from hanse.model.plan import Key
from hanse.model.snapshot import Snapshot
from tests.features.gslb.fleet import (
    HOST,
    LOCAL,
    amko,
    config,
    ingress,
    leader_snapshot,
    policy,
    rule,
)

NAMES = ("lubeck", "hamburg", "bergen")
KEY = Key("host", HOST)

ADDRESSES = st.sampled_from(["10.0.0.1", "10.0.0.2", "fd00::1", "fd00::2"])
SOURCES = st.lists(
    st.tuples(st.sampled_from(["a", "b", "c"]), st.lists(ADDRESSES, max_size=3, unique=True)),
    max_size=3,
    unique_by=lambda pair: pair[0],
)
SPLITS = st.dictionaries(
    st.sampled_from(NAMES), st.tuples(st.integers(1, 20), st.integers(0, 100)), max_size=3
)


@st.composite
def fleets(draw: st.DrawFn) -> dict[str, list[Object]]:
    """The objects of three clusters, with a random policy and rule."""
    split = tuple(
        TrafficSplit(cluster=c, weight=w, priority=p) for c, (w, p) in draw(SPLITS).items()
    )
    overrides = tuple(
        TrafficOverride(cluster=c, weight=w, priority=p) for c, (w, p) in draw(SPLITS).items()
    )
    fleet: dict[str, list[Object]] = {
        name: [ingress(*addresses, name=n) for n, addresses in draw(SOURCES)] for name in NAMES
    }
    fleet["lubeck"] += [
        amko("lubeck", *NAMES, leads=True, epoch=1),
        config(*NAMES),
        policy(*NAMES, traffic_split=split),
    ]
    if draw(st.booleans()):
        fleet["lubeck"].append(rule(traffic_split=overrides))
    for name in NAMES[1:]:
        fleet[name].append(amko(name))
    return fleet


def snapshot_of(fleet: dict[str, list[Object]], *more: Object) -> Snapshot:
    return leader_snapshot(
        [*fleet["lubeck"], *more], {name: fleet[name] for name in NAMES if name != LOCAL}
    )


@given(fleets())
@settings(max_examples=60, deadline=None)
def test_the_order_of_objects_decides_nothing(
    fleet: dict[str, list[Object]],
) -> None:
    options, first = GslbOptions(), None
    for order in list(permutations(range(len(fleet["hamburg"]))))[:4]:
        turned = {**fleet, "hamburg": [fleet["hamburg"][n] for n in order]}
        snapshot = snapshot_of(turned)
        leading = leader_state(snapshot)
        assert isinstance(leading, Leading)
        outcome = decide_host(HOST, leading, snapshot, options)
        first = first or outcome
        assert outcome == first


@given(fleets())
@settings(max_examples=60, deadline=None)
def test_planning_again_over_what_was_written_wants_the_same(
    fleet: dict[str, list[Object]],
) -> None:
    planned = Gslb().plan(KEY, snapshot_of(fleet)).desired
    written = [d.object for d in planned if d.where == LOCAL]

    again = Gslb().plan(KEY, snapshot_of(fleet, *written)).desired

    assert [(d.where, d.object) for d in again] == [(d.where, d.object) for d in planned]


@given(fleets())
@settings(max_examples=60, deadline=None)
def test_every_address_is_a_member_once_in_each_cluster(fleet: dict[str, list[Object]]) -> None:
    planned = Gslb().plan(KEY, snapshot_of(fleet)).desired

    expected = {
        (name, entry.ip)
        for name in NAMES
        for obj in fleet[name]
        if isinstance(obj, Ingress)
        for entry in obj.status.load_balancer.ingress
    }
    members = [
        (m.cluster, m.address)
        for d in planned
        if d.where == LOCAL and isinstance(d.object, GlobalService)
        for m in d.object.spec.members
    ]
    assert len(members) == len(set(members))
    assert set(members) == expected


@given(fleets())
@settings(max_examples=40, deadline=None)
def test_a_follower_keeps_everything_as_it_is(fleet: dict[str, list[Object]]) -> None:
    written = [d.object for d in Gslb().plan(KEY, snapshot_of(fleet)).desired if d.where == LOCAL]
    followers = [
        replace(o, spec=replace(o.spec, is_leader=False)) if type(o) is type(amko("x")) else o
        for o in fleet["lubeck"]
    ]

    plan = Gslb().plan(KEY, snapshot_of({**fleet, "lubeck": followers}, *written))

    assert [d.object for d in plan.desired] == written
    assert (plan.removals, plan.patches) == ((), ())
