"""What the API server is told to refuse says the same as the set's status."""

from hanse.features.statefulsets.door import CHOICES
from hanse.features.statefulsets.policies import annotation_policy, name_policy

HOME = "harbour"


def test_every_annotation_with_choices_is_refused_with_any_other_value() -> None:
    policy, binding = (one.wire for one in annotation_policy(HOME))
    refused = policy["spec"]["validations"]

    assert binding["spec"]["policyName"] == policy["metadata"]["name"]
    for mark, choices in CHOICES.items():
        (rule,) = [r for r in refused if r["expression"].endswith(f"in {list(choices)!r}")]
        assert f"annotation {mark}: " in rule["messageExpression"]


def test_names_are_measured_by_the_leases_of_the_fleet() -> None:
    policy, binding = (one.wire for one in name_policy(HOME))

    assert policy["spec"]["paramKind"] == {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
    assert binding["spec"]["paramRef"]["namespace"] == HOME
    (rule,) = policy["spec"]["matchConstraints"]["resourceRules"]
    assert rule["operations"] == ["CREATE"], "a name cannot change"
