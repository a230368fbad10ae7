"""ValidatingAdmissionPolicies: which match a request, and what their expressions say of it."""

from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from tinykube.admission_rules import (
    EXEMPT,
    AdmissionAttributes,
    MatchCache,
    admission_request,
    matching_version,
    rule_matches,
    selectors_match,
)
from tinykube.conversion import to_served
from tinykube.errors import StatusError, internal_error
from tinykube.expressions import CompileError, EvaluationError, Expression, Scope
from tinykube.policies import CompiledPolicy, Validation, compile_policy
from tinykube.resources import Object, Registry, Resource
from tinykube.selectors import matches_labels
from tinykube.storage import Storage

POLICIES = "validatingadmissionpolicies.admissionregistration.k8s.io"
BINDINGS = "validatingadmissionpolicybindings.admissionregistration.k8s.io"
_NO_PARAMETERS = "no params found for policy binding with `Deny` parameterNotFoundAction"
_NO_NAMESPACE = (
    "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
)
_CODES = {"Forbidden": 403, "Invalid": 422, "RequestEntityTooLarge": 413}


class _Bound(Struct, frozen=True):
    """A policy with one of its bindings, and the resource in the version that its rules name."""

    policy: CompiledPolicy
    binding: Object
    resource: Resource


class _Denial(Struct, frozen=True):
    """What a policy has against a request."""

    message: str
    reason: str = "Invalid"


class PolicyAdmission:
    """Evaluates the stored policies; they are compiled again only after they change."""

    def __init__(self, storage: Storage, registry: Registry) -> None:
        """Subscribe to changes of policies and bindings, which clear the cache of those bound."""
        self._storage = storage
        self._registry = registry
        self._bound = MatchCache[_Bound](storage, registry, POLICIES, BINDINGS)

    def validate(self, attributes: AdmissionAttributes) -> None:
        """Raise the denial of the first bound policy whose validation fails, by names of bindings.

        The binding's validationActions decide: Deny, the default, raises; Warn adds a warning to
        the call; Audit alone does nothing. Resources in `EXEMPT` (policies, webhook configurations)
        are not checked.
        """
        if not self._storage.count(BINDINGS) or attributes.call.resource.store in EXEMPT:
            return
        scopes: dict[tuple[str, str], Scope] = {}
        for bound in self._bound.matching(attributes, self._find_bound):
            if self._is_in_scope(bound, attributes):
                version = (bound.resource.group, bound.resource.version)
                if version not in scopes:
                    scopes[version] = self._scope(bound.resource, attributes)
                self._enforce(bound, attributes, scopes[version])

    def _find_bound(self, attributes: AdmissionAttributes) -> Iterator[_Bound]:
        """Each binding and policy whose resourceRules match a request, with the version they name.

        resourceNames are not compared. Left out are bindings whose policy is missing; raises 500
        for a policy that does not compile.
        """
        for binding in self._storage.objects(BINDINGS):
            policy = self._storage.get(POLICIES, "", binding["spec"].get("policyName", ""))
            if policy is None:
                continue
            constraints = policy["spec"].get("matchConstraints") or {}
            match_policy, rules = constraints.get("matchPolicy"), constraints.get("resourceRules")
            resource = matching_version(self._registry, match_policy, rules or (), attributes)
            if resource is not None:
                yield _Bound(_compiled(policy), binding, resource)

    def _is_in_scope(self, bound: _Bound, attributes: AdmissionAttributes) -> bool:
        """Whether names and selectors of the policy and of its binding match the request."""
        constraints = (bound.policy.constraints, bound.binding["spec"].get("matchResources"))
        return all(
            self._constraints_match(one, bound.resource, attributes) for one in constraints if one
        )

    def _constraints_match(
        self, constraints: Object, resource: Resource, attributes: AdmissionAttributes
    ) -> bool:
        """Whether constraints select a request: by one of resourceRules, if any, and by selectors.

        False if one of excludeResourceRules matches. Rules match by operation, resource and
        resourceNames.
        """

        def named(rule: Object) -> bool:
            """Whether a rule matches, and its resourceNames, if any, have the object's name."""
            names = rule.get("resourceNames") or ()
            return rule_matches(rule, resource, attributes) and (
                not names or attributes.name in names
            )

        rules = constraints.get("resourceRules")
        if rules and not any(named(rule) for rule in rules):
            return False
        if any(named(rule) for rule in constraints.get("excludeResourceRules") or ()):
            return False
        return selectors_match(self._storage, constraints, attributes)

    def _enforce(self, bound: _Bound, attributes: AdmissionAttributes, scope: Scope) -> None:
        """Evaluate a policy once per parameter object, and act on each denial by validationActions.

        Warn adds a warning to the call, Deny, which is the default, raises the denial; both may be
        given, other actions do nothing.
        """
        for params in self._params(bound, attributes):
            scope.set("params", params)
            scope.set("variables", {})
            denial = _denial(bound.policy, scope)
            if denial is None:
                continue
            policy, binding = bound.policy.name, bound.binding["metadata"]["name"]
            actions = bound.binding["spec"].get("validationActions") or ("Deny",)
            if "Warn" in actions:
                attributes.call.warn(
                    f"Validation failed for ValidatingAdmissionPolicy '{policy}' with binding "
                    f"'{binding}': {denial.message}"
                )
            if "Deny" in actions:
                text = (
                    f"ValidatingAdmissionPolicy '{policy}' with binding '{binding}' denied "
                    f"request: {denial.message}"
                )
                raise _denied(attributes, text, denial.reason)

    def _scope(self, resource: Resource, attributes: AdmissionAttributes) -> Scope:
        """The CEL variables of a request: object, oldObject, request and namespaceObject.

        The objects are in the version of `resource`, which the rules match.
        """
        sides = (attributes.object, attributes.old)
        new, old = (side if side is None else to_served(resource, side) for side in sides)
        namespace = attributes.call.target.namespace
        return Scope(
            {
                "object": new,
                "oldObject": old,
                "request": _without_empty(admission_request(attributes, resource)),
                "namespaceObject": self._storage.get("namespaces", "", namespace),
            }
        )

    def _params(self, bound: _Bound, attributes: AdmissionAttributes) -> Iterator[Object | None]:
        """The stored objects that the binding's paramRef names or selects; without it, one None.

        Of a namespaced kind only those of the paramRef's namespace, else the request's. A denial is
        raised if there is no such namespace, or if none is found and parameterNotFoundAction is not
        Allow; but if the policy ignores failures, nothing is yielded.
        """
        kind, reference = bound.policy.param_kind, bound.binding["spec"].get("paramRef")
        if not kind or not reference:
            yield None
            return
        resource = self._registry.of_kind(kind.get("apiVersion", ""), kind.get("kind", ""))
        found: list[Object] = []
        if resource is not None:
            namespace = reference.get("namespace") or attributes.namespace
            if resource.namespaced and not namespace:
                _refuse_binding(bound, attributes, _NO_NAMESPACE)
                return
            scope = namespace if resource.namespaced else ""
            found = [
                to_served(resource, one)
                for one in self._storage.objects(resource.store, scope)
                if _is_referenced(reference, one)
            ]
        if not found and reference.get("parameterNotFoundAction") != "Allow":
            _refuse_binding(bound, attributes, _NO_PARAMETERS)
        yield from found


class _Variables:
    """The variables of a policy, evaluated when an expression first reads them.

    One whose evaluation fails is absent, so that reading it fails.
    """

    def __init__(self, definitions: dict[str, Expression], scope: Scope) -> None:
        """No variable is evaluated until `provide` for an expression that reads it."""
        self._definitions = definitions
        self._scope = scope
        self._values: dict[str, Any] = {}
        self._known: set[str] = set()

    def provide(self, expression: Expression) -> None:
        """Evaluate the policy's variables that an expression reads into the scope, each once.

        Also those that they read; which ones is decided by `variables.NAME` in the source. One that
        fails is left out.
        """
        for name, definition in self._definitions.items():
            if name in self._known or f"variables.{name}" not in expression.source:
                continue
            self._known.add(name)
            self.provide(definition)
            try:
                self._values[name] = definition.evaluate(self._scope)
            except EvaluationError:
                continue
            self._scope.set("variables", dict(self._values))


def _compiled(policy: Object) -> CompiledPolicy:
    """A policy, compiled; raises 500 if one of its expressions does not compile.

    Writes refuse such policies, but a restored backup may have them.
    """
    try:
        return compile_policy(policy)
    except CompileError as error:
        name = policy["metadata"]["name"]
        raise internal_error(f"ValidatingAdmissionPolicy '{name}': {error}") from error


def _denial(policy: CompiledPolicy, scope: Scope) -> _Denial | None:
    """The denial of the first validation that fails; None if all hold or a matchCondition does not.

    An evaluation error is a denial too, unless the failurePolicy is Ignore.
    """
    ignores = policy.ignores_failures
    try:
        if not _conditions_hold(policy.conditions, scope):
            return None
    except EvaluationError as error:
        return None if ignores else _Denial(str(error))
    variables = _Variables(policy.variables, scope)
    for validation in policy.validations:
        denial = _failure(validation, variables, scope, ignores=ignores)
        if denial is not None:
            return denial
    return None


def _conditions_hold(conditions: tuple[Expression, ...], scope: Scope) -> bool:
    """Whether all matchConditions are true: False if any is evaluated to something else.

    If none is, but one fails to evaluate, raises its `EvaluationError`, of several the last.
    """
    failed: EvaluationError | None = None
    for condition in conditions:
        try:
            if condition.evaluate(scope) is not True:
                return False
        except EvaluationError as error:
            failed = error
    if failed is not None:
        raise failed
    return True


def _failure(
    validation: Validation, variables: _Variables, scope: Scope, *, ignores: bool
) -> _Denial | None:
    """The denial of a validation whose expression is not true; None if it is true.

    One that fails to evaluate is a denial too, with reason Invalid; None if failures are ignored.
    """
    expression = validation.expression
    variables.provide(expression)
    try:
        if expression.evaluate(scope) is True:
            return None
    except EvaluationError as error:
        text = f"expression '{expression.source}' resulted in error: {error}"
        return None if ignores else _Denial(text)
    return _Denial(_message(validation, variables, scope), validation.reason)


def _message(validation: Validation, variables: _Variables, scope: Scope) -> str:
    """The message of a failed validation: messageExpression, else message, else the expression.

    The messageExpression counts only if it evaluates to a text of one line that is not blank.
    """
    dynamic = validation.message_expression
    if dynamic is not None:
        variables.provide(dynamic)
        try:
            text = dynamic.evaluate(scope)
        except EvaluationError:
            text = ""
        if isinstance(text, str) and text.strip() and "\n" not in text:
            return text.strip()
    return validation.message.strip() or f"failed expression: {validation.expression.source}"


def _is_referenced(reference: Object, obj: Object) -> bool:
    """Whether a paramRef names an object or, without a name, its selector matches the labels.

    Without selector every object matches.
    """
    if reference.get("name"):
        return bool(obj["metadata"]["name"] == reference["name"])
    selector = reference.get("selector") or {}
    return matches_labels(selector, obj["metadata"].get("labels") or {})


def _without_empty(request: dict[str, Any]) -> dict[str, Any]:
    """A copy of a request without fields whose value is an empty text."""
    return {key: value for key, value in request.items() if value != ""}


def _refuse_binding(bound: _Bound, attributes: AdmissionAttributes, why: str) -> None:
    """Raise the denial of a binding that cannot be used; return if its policy ignores failures."""
    if bound.policy.ignores_failures:
        return
    policy, binding = bound.policy.name, bound.binding["metadata"]["name"]
    text = (
        f"ValidatingAdmissionPolicy '{policy}' with binding '{binding}' denied request: "
        f"failed to configure binding: {why}"
    )
    raise _denied(attributes, text, "Invalid")


def _denied(attributes: AdmissionAttributes, text: str, reason: str) -> StatusError:
    """The error to raise for a denial with this text; its code is that of the reason.

    422 for unknown reasons; the message says that the object is forbidden.
    """
    resource, name = attributes.call.resource, attributes.name or "Unknown"
    details = {
        "name": name,
        **({"group": resource.group} if resource.group else {}),
        "kind": resource.plural,
        "causes": [{"message": text}],
    }
    message = f'{resource.group_resource} "{name}" is forbidden: {text}'
    return StatusError(_CODES.get(reason, 422), reason, message, details)
