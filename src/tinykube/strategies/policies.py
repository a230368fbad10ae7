"""Strategies of ValidatingAdmissionPolicies and their bindings."""

from collections.abc import Iterator

from tinykube.errors import FieldError
from tinykube.policies import policy_errors
from tinykube.resources import Object
from tinykube.strategies.label_selectors import label_selector_errors
from tinykube.strategy import Strategy


def default_policy_constraints(policy: Object) -> None:
    """Default a policy in place: failurePolicy Fail, and its matchConstraints, if given.

    Of these matchPolicy Equivalent, empty selectors, and the scope `*` of rules.
    """
    spec = policy.get("spec") or {}
    spec.setdefault("failurePolicy", "Fail")
    _default_constraints(spec.get("matchConstraints"))


def default_binding_constraints(binding: Object) -> None:
    """Default the matchResources of a binding, if given, in place.

    matchPolicy Equivalent, empty selectors, and the scope `*` of rules.
    """
    _default_constraints((binding.get("spec") or {}).get("matchResources"))


def _default_constraints(constraints: Object | None) -> None:
    """Default constraints, if given, in place.

    matchPolicy Equivalent, empty selectors, and the scope `*` of including and excluding rules.
    """
    if constraints is None:
        return
    constraints.setdefault("matchPolicy", "Equivalent")
    constraints.setdefault("namespaceSelector", {})
    constraints.setdefault("objectSelector", {})
    for name in ("resourceRules", "excludeResourceRules"):
        for rule in constraints.get(name) or ():
            rule.setdefault("scope", "*")


def validate_policy(policy: Object) -> Iterator[FieldError]:
    """Errors of the expressions, reasons and selectors of a policy."""
    yield from policy_errors(policy)
    constraints = (policy.get("spec") or {}).get("matchConstraints")
    yield from _selector_errors(constraints, "spec.matchConstraints")


def validate_policy_binding(binding: Object) -> Iterator[FieldError]:
    """Errors of the selectors of a binding: those of matchResources and of paramRef."""
    spec = binding.get("spec") or {}
    selector = (spec.get("paramRef") or {}).get("selector")
    yield from label_selector_errors(selector, "spec.paramRef.selector")
    yield from _selector_errors(spec.get("matchResources"), "spec.matchResources")


def _selector_errors(constraints: Object | None, field: str) -> Iterator[FieldError]:
    """Errors of the selectors of constraints, if given."""
    for name in ("namespaceSelector", "objectSelector"):
        yield from label_selector_errors((constraints or {}).get(name), f"{field}.{name}")


VALIDATING_POLICY_STRATEGY = Strategy(
    default=default_policy_constraints,
    validate=validate_policy,
    tracks_generation=True,
    allow_unconditional_update=False,
)
POLICY_BINDING_STRATEGY = Strategy(
    default=default_binding_constraints,
    validate=validate_policy_binding,
    tracks_generation=True,
    allow_unconditional_update=False,
)
