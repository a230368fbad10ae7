"""Whether label selectors match."""

from collections.abc import Mapping
from typing import assert_never

from hanse.model.kinds.networking import LabelRequirement, LabelSelector


def selects(selector: LabelSelector, labels: Mapping[str, str]) -> bool:
    """Whether a selector matches labels; an empty one matches everything."""
    return all(labels.get(k) == v for k, v in selector.match_labels.items()) and all(
        _matches_requirement(requirement, labels) for requirement in selector.match_expressions
    )


def _matches_requirement(requirement: LabelRequirement, labels: Mapping[str, str]) -> bool:
    """Whether labels satisfy a requirement; NotIn also matches if the label is missing."""
    value = labels.get(requirement.key)
    match requirement.operator:
        case "In":
            return value in requirement.values
        case "NotIn":
            return value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case _:
            assert_never(requirement.operator)
