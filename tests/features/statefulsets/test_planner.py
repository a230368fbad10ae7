"""The distribution of replicas: the examples of the design, and its laws."""

import time
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hanse.features.statefulsets.planner import (
    NO_LIMIT,
    Distribution,
    ReplicaPreference,
    distribute,
)

THREE = ("c1", "c2", "c3")


def shares(wanted: int, before: Mapping[str, int], healthy: Sequence[str] = THREE) -> list[int]:
    """The shares of clusters in order."""
    found = distribute(wanted, before, healthy).shares
    return [found.get(cluster, 0) for cluster in healthy]


def clusters(count: int) -> tuple[str, ...]:
    return tuple(f"c{n:03d}" for n in range(count))


@pytest.mark.parametrize(
    ("wanted", "count", "expected"),
    [
        pytest.param(0, 3, [0, 0, 0], id="none"),
        pytest.param(1, 3, [1, 0, 0], id="one over three"),
        pytest.param(2, 3, [1, 1, 0], id="two over three"),
        pytest.param(3, 3, [1, 1, 1], id="three over three"),
        pytest.param(4, 3, [2, 1, 1], id="four over three"),
        pytest.param(11, 3, [4, 4, 3], id="the example of the design"),
        pytest.param(30, 3, [10] * 3, id="thirty over three"),
        pytest.param(11, 10, [2, *[1] * 9], id="eleven over ten"),
        pytest.param(30, 10, [3] * 10, id="local quora in ten"),
        pytest.param(100, 5, [20] * 5, id="a hundred over five"),
    ],
)
def test_replicas_are_shared_out_equally(wanted: int, count: int, expected: list[int]) -> None:
    assert shares(wanted, {}, clusters(count)) == expected


def test_shrinking_takes_from_the_largest_and_moves_no_replica() -> None:
    assert shares(6, {"c1": 4, "c2": 4, "c3": 3}) == [2, 2, 2]
    assert shares(10, {"c1": 4, "c2": 4, "c3": 3}) == [4, 3, 3]


def test_a_dead_cluster_keeps_its_share_and_nothing_is_made_elsewhere() -> None:
    before = {"c1": 4, "c2": 4, "c3": 3}

    same = distribute(11, before, ("c1", "c2"))
    grown = distribute(13, before, ("c1", "c2"))
    shrunk = distribute(2, before, ("c1", "c2"))

    assert same.shares == before
    assert grown.shares == {"c1": 5, "c2": 5, "c3": 3}
    assert shrunk.shares == {"c1": 1, "c2": 1}


def test_a_cluster_that_joins_later_gets_only_what_is_new() -> None:
    assert shares(6, {"c1": 3, "c2": 3}) == [3, 3, 0]
    assert shares(8, {"c1": 3, "c2": 3}) == [3, 3, 2]


def test_weights_minima_and_maxima_follow_one_rule() -> None:
    preferences = {
        "c1": ReplicaPreference(weight=3),
        "c2": ReplicaPreference(weight=1),
        "c3": ReplicaPreference(weight=0, min=1),
    }
    assert distribute(9, {}, THREE, preferences).shares == {"c1": 6, "c2": 2, "c3": 1}

    capped = {
        "c1": ReplicaPreference(max=2),
        "c2": ReplicaPreference(max=2),
        "c3": ReplicaPreference(max=2),
    }
    assert distribute(9, {}, THREE, capped).unplaced == 3

    greedy = {
        "c1": ReplicaPreference(min=3),
        "c2": ReplicaPreference(min=3),
        "c3": ReplicaPreference(min=3),
    }
    found = distribute(5, {}, THREE, greedy)
    assert (sum(found.shares.values()), found.below_min) == (5, THREE)


_names = st.lists(st.sampled_from(clusters(12)), unique=True, min_size=1, max_size=12)
_wishes = st.builds(
    lambda weight, low, more: ReplicaPreference(
        weight, low, low + more if more is not None else NO_LIMIT
    ),
    st.integers(0, 9),
    st.integers(0, 6),
    st.none() | st.integers(0, 9),
)
_preferences = st.dictionaries(st.sampled_from(clusters(12)), _wishes, max_size=12)
_shares = st.dictionaries(st.sampled_from(clusters(12)), st.integers(0, 40), max_size=12)


def test_a_share_over_its_max_is_reported_and_shrinks_first() -> None:
    before, capped = {"a": 2, "b": 4}, {"a": ReplicaPreference(max=1)}

    assert distribute(6, before, ["a", "b"], capped) == Distribution(before, above_max=("a",))
    assert distribute(5, before, ["a", "b"], capped) == Distribution({"a": 1, "b": 4})


@given(wanted=st.integers(0, 300), before=_shares, healthy=_names, preferences=_preferences)
def test_the_sum_is_as_desired_but_for_unplaced_replicas(
    wanted: int,
    before: dict[str, int],
    healthy: list[str],
    preferences: dict[str, ReplicaPreference],
) -> None:
    found = distribute(wanted, before, sorted(healthy), preferences)

    assert sum(found.shares.values()) + found.unplaced == wanted


@given(wanted=st.integers(0, 300), before=_shares, healthy=_names, preferences=_preferences)
def test_growing_only_adds_shrinking_only_removes_and_first_from_the_dead(
    wanted: int,
    before: dict[str, int],
    healthy: list[str],
    preferences: dict[str, ReplicaPreference],
) -> None:
    found = distribute(wanted, before, sorted(healthy), preferences).shares
    changes = {c: found.get(c, 0) - before.get(c, 0) for c in before.keys() | found.keys()}

    assert all(change >= 0 for change in changes.values()) or all(c <= 0 for c in changes.values())
    dead = {c for c in changes if c not in healthy}
    assert all(changes[c] <= 0 for c in dead)
    if any(changes[c] < 0 for c in changes.keys() - dead):
        assert not any(found.get(c) for c in dead)


@given(wanted=st.integers(0, 300), before=_shares, healthy=_names, preferences=_preferences)
def test_the_living_never_go_because_the_dead_count(
    wanted: int,
    before: dict[str, int],
    healthy: list[str],
    preferences: dict[str, ReplicaPreference],
) -> None:
    found = distribute(wanted, before, sorted(healthy), preferences).shares
    lived = sum(before.get(c, 0) for c in healthy)

    assert sum(found.get(c, 0) for c in healthy) >= min(wanted, lived)


@given(wanted=st.integers(0, 300), before=_shares, healthy=_names, preferences=_preferences)
def test_distributing_again_changes_nothing(
    wanted: int,
    before: dict[str, int],
    healthy: list[str],
    preferences: dict[str, ReplicaPreference],
) -> None:
    first = distribute(wanted, before, sorted(healthy), preferences)

    assert distribute(wanted, first.shares, sorted(healthy), preferences) == first


@given(steps=st.lists(st.integers(0, 100), min_size=1, max_size=6), count=st.integers(1, 12))
def test_clusters_healthy_since_creation_stay_within_one_of_each_other(
    steps: list[int], count: int
) -> None:
    before: dict[str, int] = {}
    for wanted in steps:
        before = distribute(wanted, before, clusters(count)).shares

        several = [before.get(c, 0) for c in clusters(count)]
        assert max(several) - min(several) <= 1


@given(wanted=st.integers(0, 200), healthy=_names, preferences=_preferences)
def test_one_more_replica_adds_one_to_one_cluster(
    wanted: int, healthy: list[str], preferences: dict[str, ReplicaPreference]
) -> None:
    less = distribute(wanted, {}, sorted(healthy), preferences)
    more = distribute(wanted + 1, {}, sorted(healthy), preferences)

    grown = {c for c in more.shares if more.shares[c] != less.shares.get(c, 0)}
    assert len(grown) + (more.unplaced - less.unplaced) == 1
    assert distribute(wanted + 1, less.shares, sorted(healthy), preferences) == more


@given(wanted=st.integers(0, 300), before=_shares, healthy=_names, data=st.data())
def test_the_order_of_previous_shares_is_irrelevant(
    wanted: int, before: dict[str, int], healthy: list[str], data: st.DataObject
) -> None:
    shuffled = dict(data.draw(st.permutations(list(before.items()))))

    order = sorted(healthy)
    assert distribute(wanted, before, order) == distribute(wanted, shuffled, order)


@given(wanted=st.integers(0, 300), healthy=_names, preferences=_preferences)
def test_minima_and_maxima_are_kept_where_they_can_be(
    wanted: int, healthy: list[str], preferences: dict[str, ReplicaPreference]
) -> None:
    found = distribute(wanted, {}, sorted(healthy), preferences)
    mine = {c: preferences.get(c, ReplicaPreference()) for c in healthy}

    assert all(found.shares.get(c, 0) <= preference.max for c, preference in mine.items())
    if wanted >= sum(preference.min for preference in mine.values()):
        assert found.below_min == ()


@given(
    weights=st.lists(st.integers(1, 9), min_size=1, max_size=8),
    wanted=st.integers(0, 500),
)
def test_shares_are_within_one_of_what_weights_say(weights: list[int], wanted: int) -> None:
    names = clusters(len(weights))
    preferences = {c: ReplicaPreference(weight=w) for c, w in zip(names, weights, strict=True)}
    found = distribute(wanted, {}, names, preferences).shares

    ratios = [(found.get(c, 0) - 0.5) / w for c, w in zip(names, weights, strict=True)]
    next_ = [(found.get(c, 0) + 0.5) / w for c, w in zip(names, weights, strict=True)]
    assert max(ratios) <= min(next_) + 1e-9, "one replica moved would be fairer"


@given(
    wanted=st.integers(0, 2_000),
    before=st.dictionaries(st.sampled_from(clusters(4)), st.integers(0, 2_000), max_size=4),
    preferences=_preferences,
)
@settings(max_examples=30, deadline=None)
def test_many_at_once_come_out_as_one_by_one(
    wanted: int, before: dict[str, int], preferences: dict[str, ReplicaPreference]
) -> None:
    names = clusters(4)
    step = dict(before)
    sign = 1 if wanted >= sum(before.values()) else -1
    for so_far in range(sum(before.values()), wanted, sign):
        step = distribute(so_far + sign, step, names, preferences).shares

    assert (
        distribute(wanted, before, names, preferences).shares
        == distribute(wanted, step, names, preferences).shares
    )


def test_ten_thousand_replicas_over_a_hundred_clusters_take_under_50_ms() -> None:
    names = clusters(100)
    preferences = {c: ReplicaPreference(weight=1 + n % 7, min=n % 3) for n, c in enumerate(names)}

    began = time.process_time()
    grown = distribute(10_000, {}, names, preferences)
    shrunk = distribute(5_000, grown.shares, names, preferences)
    took = time.process_time() - began

    assert sum(grown.shares.values()) == 10_000
    assert sum(shrunk.shares.values()) == 5_000
    assert took < 0.05


def test_as_many_replicas_as_an_api_server_takes_are_shared_out_at_once() -> None:
    began = time.process_time()
    found = distribute(2**31 - 1, {}, clusters(100))

    assert sum(found.shares.values()) == 2**31 - 1
    assert max(found.shares.values()) - min(found.shares.values()) <= 1
    assert time.process_time() - began < 0.05


GROUPS = {"c1": "north", "c2": "north", "c3": "south"}


def test_groups_get_equal_parts_before_their_clusters_do() -> None:
    assert distribute(6, {}, THREE, groups=GROUPS).shares == {"c1": 2, "c2": 1, "c3": 3}
    assert distribute(3, {"c1": 2, "c2": 1, "c3": 3}, THREE, groups=GROUPS).shares == {
        "c1": 1,
        "c2": 1,
        "c3": 1,
    }
    limited = {"c3": ReplicaPreference(max=1)}
    assert distribute(6, {}, THREE, limited, GROUPS).shares == {"c1": 3, "c2": 2, "c3": 1}


def test_the_dead_count_for_their_group() -> None:
    grown = distribute(6, {"c3": 2}, ("c1", "c2"), groups=GROUPS).shares
    assert grown == {"c1": 2, "c2": 2, "c3": 2}


@given(
    wanted=st.integers(0, 60),
    then=st.integers(0, 60),
    names=st.lists(st.sampled_from(["north", "south", ""]), min_size=1, max_size=6),
)
def test_groups_differ_by_one_at_most_and_no_replica_moves(
    wanted: int, then: int, names: list[str]
) -> None:
    healthy = clusters(len(names))
    groups = dict(zip(healthy, names, strict=True))
    first = distribute(wanted, {}, healthy, groups=groups).shares
    second = distribute(then, first, healthy, groups=groups).shares

    for shares_now, total in ((first, wanted), (second, then)):
        sums = {g: sum(shares_now.get(c, 0) for c in healthy if groups[c] == g) for g in names}
        assert sum(sums.values()) == total
        assert max(sums.values()) - min(sums.values()) <= 1
    direction = (then > wanted) - (then < wanted)
    assert all((second.get(c, 0) - first.get(c, 0)) * direction >= 0 for c in healthy)
    assert direction or second == first
