"""Label selectors: whom they select, and whom several of them leave out."""

from collections.abc import Mapping, Sequence
from itertools import product
from typing import assert_never

from hanse.model.kinds.networking import LabelRequirement, LabelSelector

MOST_TERMS = 64
"""Selectors that one complement may take: beyond it nobody could read them either."""


def selects(selector: LabelSelector, labels: Mapping[str, str]) -> bool:
    """Whether a selector matches labels; an empty one matches everything."""
    return all(labels.get(k) == v for k, v in selector.match_labels.items()) and all(
        _holds(requirement, labels) for requirement in selector.match_expressions
    )


def with_requirements(
    one: LabelSelector, requirements: Sequence[LabelRequirement]
) -> LabelSelector:
    """The selector of what one selects and also fulfils requirements."""
    return LabelSelector(
        match_labels=one.match_labels,
        match_expressions=(*one.match_expressions, *requirements),
    )


def complement(selectors: Sequence[LabelSelector]) -> list[tuple[LabelRequirement, ...]] | None:
    """Requirements that together select whatever none of the selectors does.

    Each entry selects some of it, and all entries all of it. None where it would take too many.
    """
    terms: list[tuple[LabelRequirement, ...]] = [()]
    for selector in selectors:
        others = tuple(dict.fromkeys(_opposite(r) for r in _requirements(selector)))
        grown = [(*term, other) for term, other in product(terms, others)]
        terms = list(dict.fromkeys(tuple(dict.fromkeys(term)) for term in grown))
        if len(terms) > MOST_TERMS:
            return None
    return terms


def _requirements(selector: LabelSelector) -> list[LabelRequirement]:
    pairs = sorted(selector.match_labels.items())
    equal = [LabelRequirement(key=k, operator="In", values=(v,)) for k, v in pairs]
    return [*equal, *selector.match_expressions]


def _opposite(requirement: LabelRequirement) -> LabelRequirement:
    key, values = requirement.key, requirement.values
    match requirement.operator:
        case "In":
            return LabelRequirement(key=key, operator="NotIn", values=values)
        case "NotIn":
            return LabelRequirement(key=key, operator="In", values=values)
        case "Exists":
            return LabelRequirement(key=key, operator="DoesNotExist")
        case "DoesNotExist":
            return LabelRequirement(key=key, operator="Exists")
        case _:
            assert_never(requirement.operator)


def _holds(requirement: LabelRequirement, labels: Mapping[str, str]) -> bool:
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
