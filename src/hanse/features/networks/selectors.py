"""Label selectors: conjunction and complement; types of NetworkPolicies."""

from collections.abc import Sequence
from itertools import product
from typing import assert_never

from hanse.model.kinds.networking import LabelRequirement, LabelSelector, NetworkPolicy

MAX_TERMS = 64
"""Maximum number of selectors in a complement, so that policies stay readable."""


def with_requirements(
    one: LabelSelector, requirements: Sequence[LabelRequirement]
) -> LabelSelector:
    """The selector with additional requirements."""
    return LabelSelector(
        match_labels=one.match_labels,
        match_expressions=(*one.match_expressions, *requirements),
    )


def complement(selectors: Sequence[LabelSelector]) -> list[tuple[LabelRequirement, ...]] | None:
    """Alternative requirements that together select what none of the selectors matches.

    None if there would be more than `MAX_TERMS` alternatives.
    """
    terms: list[tuple[LabelRequirement, ...]] = [()]
    for selector in selectors:
        negations = tuple(dict.fromkeys(_negate_requirement(r) for r in _requirements(selector)))
        combined = [(*term, other) for term, other in product(terms, negations)]
        terms = list(dict.fromkeys(tuple(dict.fromkeys(term)) for term in combined))
        if len(terms) > MAX_TERMS:
            return None
    return terms


def policy_types(policy: NetworkPolicy) -> frozenset[str]:
    """The policy types of a NetworkPolicy, with the defaults of the API."""
    if policy.spec.policy_types:
        return frozenset(policy.spec.policy_types)
    return frozenset({"Ingress", "Egress"} if policy.spec.egress else {"Ingress"})


def _requirements(selector: LabelSelector) -> list[LabelRequirement]:
    """All requirements of a selector: matchLabels as In, sorted, then matchExpressions."""
    pairs = sorted(selector.match_labels.items())
    equal = [LabelRequirement(key=k, operator="In", values=(v,)) for k, v in pairs]
    return [*equal, *selector.match_expressions]


def _negate_requirement(requirement: LabelRequirement) -> LabelRequirement:
    """The requirement with the opposite operator, which matches exactly the other labels."""
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
