"""The admission policies deny with the messages of the set's status."""

import re
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanse.features.statefulsets.admission_policies import READABLE, annotation_policy, name_policy
from hanse.features.statefulsets.preferences import EXAMPLE, parse_preferences
from hanse.features.statefulsets.submitted import ANNOTATION_CHOICES

BROKER_NAMESPACE = "harbour"


def test_every_annotation_with_choices_is_refused_with_any_other_value() -> None:
    policy, binding = (one.wire for one in annotation_policy(BROKER_NAMESPACE))
    refused = policy["spec"]["validations"]

    assert binding["spec"]["policyName"] == policy["metadata"]["name"]
    for mark, choices in ANNOTATION_CHOICES.items():
        expression = f"!('{mark}' in variables.marks) || variables.marks['{mark}'] in "
        (rule,) = [r for r in refused if r["expression"].startswith(expression)]
        assert rule["expression"].endswith(f"in {list(choices)!r}")
        assert f"annotation {mark}: " in rule["messageExpression"]


def test_names_are_measured_by_the_records_of_the_fleet() -> None:
    policy, binding = (one.wire for one in name_policy(BROKER_NAMESPACE))

    assert policy["spec"]["paramKind"] == {
        "apiVersion": "hanse.dev/v1alpha1",
        "kind": "ClusterMember",
    }
    assert binding["spec"]["paramRef"]["namespace"] == BROKER_NAMESPACE
    (rule,) = policy["spec"]["matchConstraints"]["resourceRules"]
    assert rule["operations"] == ["CREATE"], "a name cannot change"


NUMBERS = st.integers(0, 2**31)
WISHES = st.fixed_dictionaries(
    {},
    optional={
        "weight": st.integers(0, 1000),
        "minReplicas": NUMBERS,
        "maxReplicas": st.none() | NUMBERS,
    },
)
READ = st.fixed_dictionaries({}, optional={"clusters": st.dictionaries(st.text(), WISHES)})
ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(("clusters", "weight", "minReplicas", "*")), inner, max_size=2
        )
    ),
    max_leaves=6,
)


@given(READ, st.sampled_from((None, 0, 2)))
def test_what_agents_can_read_is_let_in(preferences: dict[str, Any], indent: int | None) -> None:
    text = msgspec.json.encode(preferences)
    if indent is not None:
        text = msgspec.json.format(text, indent=indent)

    assert re.search(READABLE, text.decode())


@given(ANY | READ)
def test_what_agents_cannot_read_is_refused(preferences: Any) -> None:
    text = msgspec.json.encode(preferences).decode()
    readable = not any("write it as" in fault for fault in parse_preferences(text).errors)

    assert bool(re.search(READABLE, text)) == readable


@pytest.mark.parametrize("text", ["", "lubeck", '{"clusters": }', "{} {}", '{"clusters": {},}'])
def test_what_is_no_json_is_refused(text: str) -> None:
    assert parse_preferences(text).errors
    assert not re.search(READABLE, text)


def test_the_documented_example_is_admitted() -> None:
    assert re.search(READABLE, EXAMPLE)
