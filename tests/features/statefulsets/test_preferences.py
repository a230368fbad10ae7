"""Preferences about clusters, from an annotation and from a placement."""

import pytest

from hanse.features.statefulsets.planner import DEFAULT_PREFERENCE, NO_LIMIT, ReplicaPreference
from hanse.features.statefulsets.preferences import parse_preferences, placement_preferences
from hanse.features.statefulsets.submitted import from_stateful_set
from hanse.model.kinds.hanse import ClusterPreference, Placement
from tests.features.statefulsets.given import submitted_set


def test_an_annotation_names_the_clusters_that_get_replicas() -> None:
    parsed = parse_preferences('{"clusters": {"lubeck": {"weight": 2, "minReplicas": 1}}}')

    assert parsed.of(("lubeck", "bergen")) == {
        "lubeck": ReplicaPreference(weight=2, min=1, max=NO_LIMIT),
        "bergen": ReplicaPreference(weight=0),
    }
    assert parsed.errors == ()


def test_a_star_matches_all_other_clusters() -> None:
    parsed = parse_preferences('{"clusters": {"lubeck": {"maxReplicas": 1}, "*": {"weight": 3}}}')

    assert parsed.of(("bergen",)) == {"bergen": ReplicaPreference(weight=3)}


def test_no_preferences_mean_equal_shares() -> None:
    assert parse_preferences("{}").of(("lubeck",)) == {"lubeck": DEFAULT_PREFERENCE}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("lubeck", "malformed", id="no JSON"),
        pytest.param('{"clusters": []}', "Expected `object`, got `array`", id="a list"),
        pytest.param('{"clusters": {"a": {"weight": -1}}}', ">= 0", id="negative"),
        pytest.param('{"clusters": {"a": {"weight": "2"}}}', "Expected `int`", id="text"),
        pytest.param('{"clusters": {"a": {"wait": 2}}}', "unknown field `wait`", id="unknown"),
        pytest.param('{"rebalance": 1}', "Expected `bool`", id="rebalance"),
        pytest.param(
            '{"clusters": {"a": {"minReplicas": 3, "maxReplicas": 1}}}',
            "of a it wants at least 3 and at most 1 replicas",
            id="min over max",
        ),
    ],
)
def test_an_invalid_annotation_is_reported_with_its_remedy(text: str, words: str) -> None:
    (fault,) = parse_preferences(text).errors

    assert fault.startswith("annotation federation.kubernetes.io/statefulset-preferences: ")
    assert words in fault


def test_a_placement_leaves_clusters_that_it_does_not_name_their_part() -> None:
    parsed = placement_preferences(
        Placement(clusters=(ClusterPreference(name="lubeck", weight=2, min=1, max=4),))
    )

    assert parsed.of(("lubeck", "bergen")) == {
        "lubeck": ReplicaPreference(2, 1, 4),
        "bergen": DEFAULT_PREFERENCE,
    }


def test_the_classic_key_makes_every_change_of_preferences_a_wish_to_rebalance() -> None:
    def wish(text: str, **notes: str) -> str:
        annotations = {"federation.kubernetes.io/statefulset-preferences": text, **notes}
        return from_stateful_set(submitted_set(3, annotations)).rebalance

    assert wish('{"rebalance": false, "clusters": {"lubeck": {}}}') == ""
    first = wish('{"rebalance": true, "clusters": {"lubeck": {}}}')
    assert first
    assert wish('{"clusters": {"lubeck": {"weight": 2}}, "rebalance": true}') != first
