"""Strategies of ValidatingAdmissionPolicies and their bindings."""

from tinykube.policies import policy_errors
from tinykube.resources import Object
from tinykube.strategy import Strategy


def default_policy_constraints(policy: Object) -> None:
    """Default the failurePolicy, and the selectors and scopes of the matchConstraints, in place."""
    spec = policy.get("spec") or {}
    spec.setdefault("failurePolicy", "Fail")
    _default_constraints(spec.get("matchConstraints"))


def default_binding_constraints(binding: Object) -> None:
    """Default the selectors and scopes of the matchResources, if given, in place."""
    _default_constraints((binding.get("spec") or {}).get("matchResources"))


def _default_constraints(constraints: Object | None) -> None:
    """Default matchPolicy, selectors and scopes of constraints, if given, in place."""
    if constraints is None:
        return
    constraints.setdefault("matchPolicy", "Equivalent")
    constraints.setdefault("namespaceSelector", {})
    constraints.setdefault("objectSelector", {})
    for name in ("resourceRules", "excludeResourceRules"):
        for rule in constraints.get(name) or ():
            rule.setdefault("scope", "*")


VALIDATING_POLICY_STRATEGY = Strategy(
    default=default_policy_constraints,
    validate=policy_errors,
    tracks_generation=True,
    allow_unconditional_update=False,
)
POLICY_BINDING_STRATEGY = Strategy(
    default=default_binding_constraints, tracks_generation=True, allow_unconditional_update=False
)
