from datetime import timedelta

import pytest

from hanse.model.kinds.core import ConfigMap, Service
from hanse.model.kinds.discovery import Endpoint, EndpointConditions, EndpointSlice
from hanse.model.objects import Meta, Object
from hanse.runtime.mass_deletion import DeletionCounter, DeletionLimit, is_in_use


class Time:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def admitted(counter: DeletionCounter, keys: int, in_use: int, feature: str = "toy") -> int:
    """How many of some keys may lose what they have, one after the other."""
    found = 0
    for _ in range(keys):
        left = in_use - found
        found += counter.admits("lubeck", feature, lambda left=left: left)  # type: ignore[misc]
    return found


@pytest.mark.parametrize(
    ("keys", "in_use", "expected"),
    [
        pytest.param(10, 10, 10, id="no more than ten"),
        pytest.param(11, 12, 10, id="over ten and over the share"),
        pytest.param(11, 1000, 11, id="over ten, within the share"),
        pytest.param(150, 1000, 100, id="many of many"),
    ],
)
def test_it_takes_both_number_and_share(keys: int, in_use: int, expected: int) -> None:
    assert admitted(DeletionCounter(Time()), keys, in_use) == expected


def test_what_was_long_ago_does_not_count() -> None:
    time = Time()
    counter = DeletionCounter(time, DeletionLimit(within=timedelta(minutes=1)))
    admitted(counter, 8, 20)

    time.now = 61.0

    assert admitted(counter, 8, 12) == 8


def test_clusters_and_features_are_counted_apart() -> None:
    counter = DeletionCounter(Time())

    assert admitted(counter, 20, 20) == 10
    assert counter.admits("hamburg", "toy", lambda: 20)
    assert admitted(counter, 5, 20, "other") == 5
    assert [(h.where, h.feature) for h in counter.holds] == [("lubeck", "toy")]


def test_a_release_lets_the_rest_go() -> None:
    counter = DeletionCounter(Time())
    admitted(counter, 20, 20)

    counter.release("lubeck", "toy")

    assert admitted(counter, 20, 10) == 20
    assert counter.holds == ()


def _slice(*ready: bool) -> EndpointSlice:
    endpoints = tuple(
        Endpoint(addresses=("10.0.0.1",), conditions=EndpointConditions(ready=one)) for one in ready
    )
    return EndpointSlice(metadata=Meta(name="web"), address_type="IPv4", endpoints=endpoints)


@pytest.mark.parametrize(
    ("obj", "used"),
    [
        pytest.param(_slice(False, True), True, id="endpoints that are ready"),
        pytest.param(_slice(False), False, id="none that is ready"),
        pytest.param(Service(metadata=Meta(name="web")), False, id="its address alone"),
        pytest.param(ConfigMap(metadata=Meta(name="web")), True, id="anything else"),
    ],
)
def test_users_lose_of_a_service_what_answers_behind_it(obj: Object, used: bool) -> None:
    assert is_in_use(obj) is used
