"""The desired replicas of each ReplicaSet in rollouts and scaling."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinykube.controllers.deployment_rollout import (
    DESIRED_REPLICAS,
    MAX_REPLICAS,
    RolloutBounds,
    is_scaling,
    max_pods,
    rolling_targets,
    rollout_bounds,
    scaling_targets,
)
from tinykube.controllers.objects import desired_replicas, name_of
from tinykube.resources import Object

from .builders import deployment, replica_set


def rolling(surge: int | str, unavailable: int | str) -> dict[str, Any]:
    limits = {"maxSurge": surge, "maxUnavailable": unavailable}
    return {"strategy": {"type": "RollingUpdate", "rollingUpdate": limits}}


@pytest.mark.parametrize(
    ("replicas", "surge", "unavailable", "expected"),
    [
        pytest.param(10, "25%", "25%", RolloutBounds(3, 2), id="surge rounds up, unavailable down"),
        pytest.param(
            1, "25%", "25%", RolloutBounds(1, 0), id="one replica is replaced before it goes"
        ),
        pytest.param(4, 0, 0, RolloutBounds(0, 1), id="both zero would never move"),
        pytest.param(3, 2, 5, RolloutBounds(2, 3), id="no more can be missing than there are"),
    ],
)
def test_bounds_are_resolved_to_numbers_of_pods(
    replicas: int, surge: int | str, unavailable: int | str, expected: RolloutBounds
) -> None:
    assert rollout_bounds(deployment(replicas, **rolling(surge, unavailable))) == expected


def test_the_new_replica_set_is_scaled_up_before_the_old_one_down() -> None:
    new, old = replica_set("web-2", 0), replica_set("web-1", 4)

    (target,) = rolling_targets(deployment(4, **rolling(1, 0)), new, [old])

    assert (name_of(target.replica_set), target.replicas) == ("web-2", 1)


def test_unhealthy_old_pods_are_removed_first() -> None:
    new = replica_set("web-3", 1, available=0)
    broken, good = replica_set("web-1", 2, available=0), replica_set("web-2", 2, age=50)

    targets = rolling_targets(deployment(4, **rolling(1, 2)), new, [broken, good])

    assert {name_of(one.replica_set): one.replicas for one in targets} == {"web-1": 0}


@given(
    replicas=st.integers(1, 12),
    surge=st.integers(0, 4),
    unavailable=st.integers(0, 4),
)
def test_a_rollout_completes_within_its_bounds(replicas: int, surge: int, unavailable: int) -> None:
    wanted = deployment(replicas, **rolling(surge, unavailable))
    limits = rollout_bounds(wanted)
    sizes = {"web-1": replicas, "web-2": 0}

    for _ in range(100):
        new = replica_set("web-2", sizes["web-2"])
        old = replica_set("web-1", sizes["web-1"])
        targets = rolling_targets(wanted, new, [old])
        if not targets:
            break
        sizes |= {name_of(one.replica_set): one.replicas for one in targets}
        assert replicas - limits.unavailable <= sum(sizes.values()) <= replicas + limits.surge

    assert sizes == {"web-1": 0, "web-2": replicas}


def annotated_replica_set(
    name: str, replicas: int, desired: int, maximum: int, age: int = 100
) -> Object:
    notes = {DESIRED_REPLICAS: str(desired), MAX_REPLICAS: str(maximum)}
    return replica_set(name, replicas, age=age, annotations=notes)


def test_a_changed_number_of_replicas_is_a_scaling() -> None:
    assert is_scaling(deployment(5), [annotated_replica_set("web-1", 3, 3, 4)])
    assert not is_scaling(deployment(3), [annotated_replica_set("web-1", 3, 3, 4)])


def test_a_single_replica_set_takes_the_whole_change() -> None:
    targets = scaling_targets(deployment(7), annotated_replica_set("web-1", 3, 3, 4), [])

    assert [one.replicas for one in targets] == [7]


def test_scaling_during_a_rollout_keeps_the_proportions() -> None:
    old, new = (
        annotated_replica_set("web-1", 8, 10, 13),
        annotated_replica_set("web-2", 5, 10, 13, age=5),
    )
    wanted = deployment(20, **rolling(6, 5))

    targets = scaling_targets(wanted, new, [old])

    sizes = {name_of(one.replica_set): one.replicas for one in targets}
    assert sizes == {"web-1": 16, "web-2": 10}
    assert sum(sizes.values()) == max_pods(wanted)


@given(first=st.integers(1, 20), second=st.integers(1, 20), wanted=st.integers(0, 60))
def test_scaling_distributes_exactly_the_allowed_pods(first: int, second: int, wanted: int) -> None:
    total = first + second
    replica_sets = [
        annotated_replica_set("web-1", first, total, total),
        annotated_replica_set("web-2", second, total, total, 1),
    ]
    changed = deployment(wanted, **rolling(1, 1))

    targets = scaling_targets(changed, replica_sets[1], [replica_sets[0]])

    assert sum(one.replicas for one in targets) == max_pods(changed)
    assert all(one.replicas >= 0 for one in targets)
    assert sum(map(desired_replicas, replica_sets)) == total
