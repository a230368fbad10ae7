"""The arithmetic of results: medians, ratios, goals."""

import pytest
from bench.figures import (
    AtLeast,
    AtMost,
    Figure,
    Goal,
    Result,
    Shown,
    Verdict,
    percentile,
    results_of,
    spread,
)


def result(goal: Goal, *values: float, limits: tuple[float, ...] = ()) -> Result:
    return Result(Figure("time", "s", goal, "bare client" if limits else ""), values, limits)


@pytest.mark.parametrize(
    ("goal", "value", "verdict"),
    [
        pytest.param(AtMost(3.0), 3.0, Verdict.MET, id="exactly the most"),
        pytest.param(AtMost(3.0), 3.1, Verdict.MISSED, id="more than the most"),
        pytest.param(AtLeast(500), 500, Verdict.MET, id="exactly the least"),
        pytest.param(AtLeast(500), 499, Verdict.MISSED, id="less than the least"),
        pytest.param(AtMost(0), 0, Verdict.MET, id="nothing where nothing is wanted"),
        pytest.param(AtMost(0), 1, Verdict.MISSED, id="something where nothing is wanted"),
        pytest.param(Shown(), 1e9, Verdict.SHOWN, id="no goal"),
    ],
)
def test_a_goal_is_met_up_to_its_value(goal: Goal, value: float, verdict: Verdict) -> None:
    assert result(goal, value).verdict is verdict


def test_one_slow_repeat_does_not_miss_a_goal() -> None:
    measured = result(AtMost(2.0), 1.0, 1.1, 9.0)

    assert measured.judged == 1.1
    assert measured.verdict is Verdict.MET


def test_each_repeat_is_held_against_the_limit_beside_it() -> None:
    measured = result(AtMost(1.5), 2.0, 20.0, 6.0, limits=(2.0, 10.0, 4.0))

    assert measured.ratios == (1.0, 2.0, 1.5)
    assert measured.judged == 1.5
    assert measured.verdict is Verdict.MET


def test_a_limit_of_nothing_meets_no_goal() -> None:
    measured = result(AtMost(1.5), 2.0, limits=(0.0,))

    assert measured.judged is None
    assert measured.verdict is Verdict.MISSED
    assert measured.share_of_goal is None


@pytest.mark.parametrize(
    ("goal", "value", "share"),
    [
        pytest.param(AtMost(4.0), 1.0, 0.25, id="a quarter of the most"),
        pytest.param(AtLeast(500), 1000, 0.5, id="twice the least"),
        pytest.param(AtLeast(500), 250, 2.0, id="half the least"),
        pytest.param(AtMost(0), 0, 0.0, id="nothing where nothing is wanted"),
        pytest.param(AtMost(0), 7, None, id="beyond any measure"),
        pytest.param(Shown(), 7, None, id="no goal"),
    ],
)
def test_a_share_below_the_goal_is_good_for_both_directions(
    goal: Goal, value: float, share: float | None
) -> None:
    assert result(goal, value).share_of_goal == share


def test_figures_take_their_values_and_their_limits_by_name() -> None:
    figures = (Figure("time", "s", AtMost(1.5), "bare client"), Figure("writes", ""))
    repeats = (
        {"time": 3.0, "writes": 7.0, "bare client": 2.0},
        {"time": 4.0, "writes": 8.0, "bare client": 4.0},
    )

    time, writes = results_of(figures, repeats)

    assert (time.values, time.limits) == ((3.0, 4.0), (2.0, 4.0))
    assert (writes.values, writes.limits) == ((7.0, 8.0), ())


def test_the_spread_is_half_of_what_lies_between_the_extremes() -> None:
    assert spread([8.0, 10.0, 12.0]) == pytest.approx(0.2)
    assert spread([0.0, 0.0]) == 0.0


@pytest.mark.parametrize(
    ("share", "value"),
    [(0.5, 100), (0.99, 198), (1.0, 200), (0.0, 1)],
)
def test_a_percentile_is_a_value_that_was_measured(share: float, value: int) -> None:
    assert percentile(range(200, 0, -1), share) == value
