"""ValidatingAdmissionPolicies and their bindings, generated from write rules."""

from collections.abc import Iterable

from msgspec import Struct

from hanse.model.kinds.admission import (
    ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding,
)
from hanse.model.manifests import Manifest, manifest
from hanse.model.objects import Wire
from hanse.model.write_rules import (
    ANYWHERE,
    HOME,
    Requirement,
    WriteRule,
    metadata_requirements,
)


class PolicyScope(Struct, frozen=True):
    """The names of one cluster's policies, whom they hold, and its namespaces."""

    prefix: str
    """The start of the policies' names."""
    accounts: tuple[str, ...]
    """The starts of the names of accounts that every rule holds."""
    home_accounts: tuple[str, ...] = ()
    """The starts of further names, held in the broker's own namespace only."""
    values: dict[str, str] = {}
    """The values of HOME, ACCOUNTS and CLUSTER, as far as the rules name them."""


def policy_manifests(rules: Iterable[WriteRule], scope: PolicyScope) -> tuple[Manifest, ...]:
    """The policy and the binding of each rule, those of the first rule last.

    API servers take policies into use in the order of writes: once the first rule holds, all do.
    """
    return tuple(
        made
        for rule in reversed(tuple(rules))
        for made in (_policy(rule, scope), _policy_binding(rule, scope))
    )


def _policy(rule: WriteRule, scope: PolicyScope) -> Manifest:
    """The optional policy that holds requests for a rule's resource to its requirements.

    These include, but for tokens, those on metadata (`metadata_requirements`). Unless the rule is
    for anybody, only requests of the scope's ServiceAccounts are held to it. A rule with params
    restricts it to the rule's namespace here; the binding does so in any case.
    """
    requirements = (*rule.requirements, *metadata_requirements(rule.sets))
    if rule.subresource == "token":
        requirements = rule.requirements  # a TokenRequest is stored nowhere
    spec: Wire = {
        "failurePolicy": "Ignore" if rule.ignores_failures else "Fail",
        "matchConstraints": {
            "resourceRules": [
                {
                    "apiGroups": [rule.kind.group],
                    "apiVersions": ["*"],
                    "operations": ["CREATE", "UPDATE", "DELETE"],
                    "resources": [rule.resource],
                }
            ]
        },
        "variables": [{"name": "me", "expression": "request.userInfo.username.split(':')[3]"}],
        "validations": [_validation(each, scope) for each in requirements],
    }
    if not rule.anybody:
        spec["matchConditions"] = [
            {"name": "by-an-account", "expression": _account_expression(rule, scope)}
        ]
    if rule.params is not None:
        spec["paramKind"] = {"apiVersion": rule.params.api_version, "kind": rule.params.name}
        # Where that kind is not served, the binding's selector is not asked before a refusal.
        spec["matchConstraints"] |= _in_namespace(rule, scope)
    name = f"{scope.prefix}-{rule.name}"
    return manifest(ValidatingAdmissionPolicy.kind, name, body={"spec": spec}, optional=True)


def _account_expression(rule: WriteRule, scope: PolicyScope) -> str:
    """CEL: whether the requester is a ServiceAccount whose name begins with a prefix of the scope.

    The prefixes in `home_accounts` count only for a rule in HOME.
    """
    at_home = scope.home_accounts if rule.namespace == HOME else ()
    return " || ".join(
        f"request.userInfo.username.startsWith('system:serviceaccount:{start}')"
        for start in (*scope.accounts, *at_home)
    )


def _validation(requirement: Requirement, scope: PolicyScope) -> Wire:
    """A requirement as a validation, placeholders of its expression replaced by the scope's values.

    Its message is that in CEL, if it has one, else its words.
    """
    expression = requirement.expression
    for placeholder, value in scope.values.items():
        expression = expression.replace(placeholder, value)
    said: Wire = (
        {"messageExpression": requirement.message}
        if requirement.message
        else {"message": requirement.words}
    )
    return {"expression": expression, **said, "reason": "Forbidden"}


def _policy_binding(rule: WriteRule, scope: PolicyScope) -> Manifest:
    """The binding of a rule's policy, which denies: in its namespace, unless it holds anywhere.

    A rule with params is held to every object of that kind, in `params_in` if that is set; without
    any it allows.
    """
    name = f"{scope.prefix}-{rule.name}"
    spec: Wire = {"policyName": name, "validationActions": ["Deny"]}
    if selector := _in_namespace(rule, scope):
        spec["matchResources"] = selector
    if rule.params is not None:
        spec["paramRef"] = {"selector": {}, "parameterNotFoundAction": "Allow"}
        if rule.params_in:
            spec["paramRef"]["namespace"] = scope.values.get(rule.params_in, rule.params_in)
    return manifest(ValidatingAdmissionPolicyBinding.kind, name, body={"spec": spec}, optional=True)


def _in_namespace(rule: WriteRule, scope: PolicyScope) -> Wire:
    """The selector of a rule's namespace; empty if it holds anywhere."""
    if rule.namespace == ANYWHERE:
        return {}
    where = scope.values.get(rule.namespace, rule.namespace)
    return {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": where}}}
