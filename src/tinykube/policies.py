"""ValidatingAdmissionPolicies, compiled; what cannot be evaluated is refused when it is written."""

from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from tinykube.errors import FieldError, invalid, unsupported
from tinykube.expressions import CompileError, Expression, compile_expression
from tinykube.resources import Object

_CONDITION_VARIABLES = frozenset(("object", "oldObject", "request", "params", "namespaceObject"))
_VARIABLES = _CONDITION_VARIABLES | {"variables"}


REASONS = ("Forbidden", "Invalid", "RequestEntityTooLarge")
"""The reasons that a validation may give."""


class Validation(Struct, frozen=True):
    """One validation of a policy."""

    expression: Expression
    message: str
    message_expression: Expression | None
    reason: str


class CompiledPolicy(Struct, frozen=True):
    """A policy whose expressions are compiled."""

    name: str
    constraints: Object
    param_kind: Object
    ignores_failures: bool
    conditions: tuple[Expression, ...]
    variables: dict[str, Expression]
    validations: tuple[Validation, ...]


def compile_policy(policy: Object) -> CompiledPolicy:
    """Compile a policy as stored; raises `CompileError`, which validation at the write prevents.

    auditAnnotations are not compiled.
    """
    spec = policy["spec"]
    return CompiledPolicy(
        policy["metadata"]["name"],
        spec.get("matchConstraints") or {},
        spec.get("paramKind") or {},
        spec.get("failurePolicy") == "Ignore",
        tuple(
            compile_expression(one["expression"], _CONDITION_VARIABLES)
            for one in spec.get("matchConditions") or ()
        ),
        {
            one["name"]: compile_expression(one["expression"], _VARIABLES)
            for one in spec.get("variables") or ()
        },
        tuple(_compile_validation(one) for one in spec.get("validations") or ()),
    )


def _compile_validation(validation: dict[str, Any]) -> Validation:
    """One compiled validation, with reason Invalid by default; raises `CompileError`."""
    dynamic = validation.get("messageExpression")
    return Validation(
        compile_expression(validation["expression"], _VARIABLES),
        validation.get("message") or "",
        compile_expression(dynamic, _VARIABLES) if dynamic else None,
        validation.get("reason") or "Invalid",
    )


def policy_errors(policy: Object) -> Iterator[FieldError]:
    """Errors of expressions that do not compile here, and of reasons that are not supported."""
    spec = policy.get("spec") or {}
    for field, source, variables in _expressions(spec):
        try:
            compile_expression(source, variables)
        except CompileError as error:
            yield invalid(field, source, str(error))
    for at, one in enumerate(spec.get("validations") or ()):
        if one.get("reason") and one["reason"] not in REASONS:
            yield unsupported(f"spec.validations[{at}].reason", one["reason"], REASONS)


def _expressions(spec: Object) -> Iterator[tuple[str, str, frozenset[str]]]:
    """The field, source and allowed variables of each expression, auditAnnotations included."""
    for list_name, fields, variables in (
        ("matchConditions", ("expression",), _CONDITION_VARIABLES),
        ("variables", ("expression",), _VARIABLES),
        ("validations", ("expression", "messageExpression"), _VARIABLES),
        ("auditAnnotations", ("valueExpression",), _VARIABLES),
    ):
        for at, one in enumerate(spec.get(list_name) or ()):
            for field in fields:
                if one.get(field):
                    yield f"spec.{list_name}[{at}].{field}", one[field], variables
