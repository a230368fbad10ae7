from datetime import timedelta

import pytest

from hanse.runtime.mass_deletion import DeletionCounter, DeletionLimit


class Time:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(
    ("deletions", "owned", "admitted"),
    [
        pytest.param(50, 60, True, id="no more than fifty"),
        pytest.param(51, 60, False, id="over fifty and over the share"),
        pytest.param(51, 1000, True, id="over fifty, within the share"),
        pytest.param(301, 1000, False, id="many of many"),
    ],
)
def test_it_takes_both_number_and_share(deletions: int, owned: int, admitted: bool) -> None:
    counter = DeletionCounter(Time(), DeletionLimit(objects=50, share=0.3))

    assert counter.admits("lubeck", "toy", deletions, owned) is admitted


def test_deletions_one_by_one_count_together() -> None:
    counter = DeletionCounter(Time(), DeletionLimit(objects=50, share=0.3))

    admitted = sum(counter.admits("lubeck", "toy", 1, 60 - n) for n in range(60))

    assert admitted == 50
    assert [h.feature for h in counter.holds] == ["toy"]


def test_what_was_long_ago_does_not_count() -> None:
    time = Time()
    counter = DeletionCounter(
        time, DeletionLimit(objects=50, share=0.3, within=timedelta(minutes=1))
    )
    counter.admits("lubeck", "toy", 40, 100)

    time.now = 61.0

    assert counter.admits("lubeck", "toy", 40, 60)


def test_clusters_and_features_are_counted_apart() -> None:
    counter = DeletionCounter(Time())

    assert not counter.admits("lubeck", "toy", 60, 60)
    assert counter.admits("hamburg", "toy", 10, 60)
    assert counter.admits("lubeck", "other", 10, 60)


def test_a_release_lets_the_rest_go() -> None:
    counter = DeletionCounter(Time())
    counter.admits("lubeck", "toy", 60, 60)

    counter.release("lubeck", "toy")

    assert counter.admits("lubeck", "toy", 60, 60)
    assert counter.holds == ()
