"""Which side of a service is preferred."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanse.model.affinity import MODES, AffinityRule, parse_affinity, preferred_side

sides = st.lists(st.booleans(), max_size=9)
rules = st.builds(AffinityRule, st.sampled_from(MODES), st.integers(0, 100))


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("none", AffinityRule()),
        ("local", AffinityRule("local")),
        ("local:50", AffinityRule("local", 50)),
        ("remote:100", AffinityRule("remote", 100)),
        ("", None),
        ("near", None),
        ("none:50", None),
        ("local:", None),
        ("local:101", None),
        ("local:-1", None),
        ("local:5x", None),
        ("Local", None),
    ],
)
def test_an_annotation_is_a_side_and_maybe_a_percentage(
    text: str, rule: AffinityRule | None
) -> None:
    assert parse_affinity(text) == rule


@given(rule=rules, local=sides, remote=sides)
def test_only_a_side_with_a_ready_endpoint_is_used_alone(
    rule: AffinityRule, local: list[bool], remote: list[bool]
) -> None:
    side = preferred_side(rule, local, remote)

    assert side in (None, rule.mode)
    if side is not None:
        used = local if side == "local" else remote
        assert any(used)
        assert sum(used) * 100 >= rule.min_ready * len(used)


@given(rule=rules, local=st.integers(1, 9), remote=st.integers(1, 9))
def test_a_side_that_is_wholly_ready_is_preferred(
    rule: AffinityRule, local: int, remote: int
) -> None:
    side = preferred_side(rule, [True] * local, [True] * remote)

    assert side == (None if rule.mode == "none" else rule.mode)
