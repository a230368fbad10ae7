"""ValidatingAdmissionPolicies with which the broker's API server validates StatefulSets.

They deny with the messages that the set's status would have. Problems that only an agent can know
(clusters that are not in the fleet, sums that cannot be met) are reported in the status alone.
"""

from hanse.features.statefulsets.names import (
    FORBIDDEN_UPDATE,
    LB_NEEDED,
    MAX_SET_NAME,
    MAX_UNAVAILABLE,
    NO_AUTOSCALER,
    PREFERENCES,
)
from hanse.features.statefulsets.preferences import EXAMPLE
from hanse.features.statefulsets.submitted import (
    ANNOTATION_CHOICES,
    MAX_BALANCERS,
    MAX_BUDGET,
    format_choices,
)
from hanse.model.kinds.admission import (
    ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding,
)
from hanse.model.kinds.apps import StatefulSet
from hanse.model.kinds.hanse import ClusterMember, FederatedStatefulSet
from hanse.model.manifests import Manifest, manifest
from hanse.model.objects import Wire
from hanse.model.write_rules import unchanged_cel

_NOT_TERMINATING = {
    "name": "not-about-to-go",
    "expression": "!has(object.metadata.deletionTimestamp)",
}
_ANNOTATIONS_VARIABLE = {
    "name": "marks",
    "expression": "has(object.metadata.annotations) ? object.metadata.annotations : {}",
}

_SPACE, _TEXT, _NUMBER = r"[ \t\r\n]*", r'"([^"\\]|\\.)*"', r"(0|[1-9][0-9]{0,9})"
MAX_VALIDATED = 16_000
"""The length up to which the API server validates preferences; agents validate longer ones."""


def _json_object(entry: str) -> str:
    """A regular expression for a JSON object of any number of entries, each matching `entry`."""
    return rf"\{{{_SPACE}({entry}{_SPACE}(,{_SPACE}{entry}{_SPACE})*)?\}}"


_FIELD = (
    rf'("weight"{_SPACE}:{_SPACE}(0|[1-9][0-9]{{0,2}}|1000)|"minReplicas"{_SPACE}:{_SPACE}{_NUMBER}'
    rf'|"maxReplicas"{_SPACE}:{_SPACE}({_NUMBER}|null))'
)
_CLUSTER = rf"{_TEXT}{_SPACE}:{_SPACE}{_json_object(_FIELD)}"
_ALL = rf'"clusters"{_SPACE}:{_SPACE}{_json_object(_CLUSTER)}'
_REBALANCE = rf'"rebalance"{_SPACE}:{_SPACE}(true|false)'
READABLE = rf"^{_SPACE}{_json_object(f'({_ALL}|{_REBALANCE})')}{_SPACE}$"
"""The regular expression of valid preferences, which have a fixed depth."""


def set_policies(broker_namespace: str, *, runs_sets: bool) -> tuple[Manifest, ...]:
    """The admission policies of a broker with bindings; fewer if it runs StatefulSets of its own.

    Those about names and autoscalers are left out then.
    """
    plain = (*annotation_policy(broker_namespace), *immutable_fields_policy(broker_namespace))
    if runs_sets:
        return plain
    return (*plain, *name_policy(broker_namespace), *autoscaler_policy(broker_namespace))


def annotation_policy(broker_namespace: str) -> tuple[Manifest, ...]:
    """A policy and its binding that deny StatefulSets with invalid annotations of Hanse.

    Checked at creation and update are those with fixed choices, max-unavailable, preferences, and
    load balancers; others, such as overrides and selectors, pass, and so do terminating sets.
    """
    spec: Wire = {
        "matchConditions": [_NOT_TERMINATING],
        "variables": [_ANNOTATIONS_VARIABLE, *_preference_variables()],
        "validations": [
            *(
                _choice_validation(annotation, choices)
                for annotation, choices in ANNOTATION_CHOICES.items()
            ),
            _budget_validation(),
            *_load_balancer_validations(),
            *_preference_validations(),
        ],
    }
    return _policy_with_binding(
        f"{broker_namespace}-set-annotations", spec, ["CREATE", "UPDATE"], {}
    )


def name_policy(broker_namespace: str) -> tuple[Manifest, ...]:
    """A policy and its binding that deny new StatefulSets with names too long for some member.

    Its parameters are the ClusterMembers, of which those that have left do not count. The caller
    installs it only at a broker without nodes.
    """
    kind = ClusterMember.kind
    high = f"object.metadata.name.size() + 1 + params.metadata.name.size() <= {MAX_SET_NAME}"
    phase = "params.status.phase"
    left = f"has(params.status) && has({phase}) && {phase} in ['Left', 'Replaced']"
    local = "object.metadata.name + '-' + params.metadata.name"
    spec: Wire = {
        "paramKind": {"apiVersion": kind.api_version, "kind": kind.name},
        "validations": [
            {
                "expression": f"({left}) || {high}",
                "messageExpression": (
                    "'metadata.name: in cluster ' + params.metadata.name + \" it becomes '\" + "
                    f'{local} + "\', " + string(({local}).size()) + '
                    f"' characters; {MAX_SET_NAME} leave room for the revision in its pods\\' "
                    "labels, so the name may have ' + "
                    f"string({MAX_SET_NAME} - 1 - params.metadata.name.size()) + ' here'"
                ),
                "reason": "Invalid",
            }
        ],
    }
    binding_params: Wire = {
        "paramRef": {
            "namespace": broker_namespace,
            "selector": {},
            "parameterNotFoundAction": "Allow",
        }
    }
    return _policy_with_binding(f"{broker_namespace}-set-names", spec, ["CREATE"], binding_params)


def immutable_fields_policy(broker_namespace: str) -> tuple[Manifest, ...]:
    """A policy and its binding that deny updates of immutable fields of a FederatedStatefulSet.

    These are serviceName, selector, podManagementPolicy and volumeClaimTemplates. Terminating sets
    pass.
    """
    immutable = ("serviceName", "selector", "podManagementPolicy", "volumeClaimTemplates")
    expression = " && ".join(unchanged_cel(f"spec.template.spec.{field}") for field in immutable)
    spec: Wire = {
        "matchConditions": [_NOT_TERMINATING],
        "validations": [
            {
                "expression": expression,
                "message": f"spec.template.spec: Forbidden: {FORBIDDEN_UPDATE}",
                "reason": "Invalid",
            }
        ],
    }
    kind = FederatedStatefulSet.kind
    name = f"{broker_namespace}-set-fields"
    return _policy_with_binding(name, spec, ["UPDATE"], {}, (kind.group, kind.plural))


def autoscaler_policy(broker_namespace: str) -> tuple[Manifest, ...]:
    """A policy and its binding that deny autoscalers of any StatefulSet or FederatedStatefulSet.

    Terminating HorizontalPodAutoscalers pass. The caller installs it only at a broker without
    nodes.
    """
    target = "object.spec.scaleTargetRef.kind"
    kinds = [StatefulSet.kind.name, FederatedStatefulSet.kind.name]
    expression = f"!({target} in {kinds!r})"
    spec: Wire = {
        "matchConditions": [_NOT_TERMINATING],
        "validations": [{"expression": expression, "message": NO_AUTOSCALER, "reason": "Invalid"}],
    }
    name = f"{broker_namespace}-set-autoscalers"
    autoscalers = ("autoscaling", "horizontalpodautoscalers")
    return _policy_with_binding(name, spec, ["CREATE", "UPDATE"], {}, autoscalers)


def _choice_validation(annotation: str, choices: tuple[str, ...]) -> Wire:
    """The CEL validation that an annotation, if present, has one of its allowed values."""
    value = f"variables.marks['{annotation}']"
    shown = f"({value}.size() > 40 ? {value}.substring(0, 40) : {value})"
    allowed = format_choices(choices)
    return {
        "expression": f"!('{annotation}' in variables.marks) || {value} in {list(choices)!r}",
        "messageExpression": f'"annotation {annotation}: \'" + {shown} + "\' is not {allowed}"',
        "reason": "Invalid",
    }


def _budget_validation() -> Wire:
    """The CEL validation that max-unavailable is absent or a number from 1 to MAX_BUDGET."""
    value = f"variables.marks['{MAX_UNAVAILABLE}']"
    digits = len(str(MAX_BUDGET)) - 1
    pattern = f"^([1-9][0-9]{{0,{digits - 1}}}|{MAX_BUDGET})$"
    return {
        "expression": f"!('{MAX_UNAVAILABLE}' in variables.marks) || {value}.matches('{pattern}')",
        "message": f"annotation {MAX_UNAVAILABLE}: it is not a number from 1 to {MAX_BUDGET}",
        "reason": "Invalid",
    }


def _load_balancer_validations() -> list[Wire]:
    """Validations of sets with load balancers: not too many replicas, and a serviceName is given.

    Sets whose annotation statefulset-lb-needed is not `true` pass.
    """
    wanted = f"'{LB_NEEDED}' in variables.marks && variables.marks['{LB_NEEDED}'] == 'true'"
    replicas = "(has(object.spec.replicas) ? object.spec.replicas : 1)"
    return [
        {
            "expression": f"!({wanted}) || {replicas} <= {MAX_BALANCERS}",
            "messageExpression": (
                f"'annotation {LB_NEEDED}: ' + string({replicas}) + "
                f"' replicas would need as many load balancers; {MAX_BALANCERS} is the most'"
            ),
            "reason": "Invalid",
        },
        {
            "expression": (
                f"!({wanted}) || (has(object.spec.serviceName) && object.spec.serviceName != '')"
            ),
            "message": (
                f"annotation {LB_NEEDED}: it needs spec.serviceName, whose ports replicas serve"
            ),
            "reason": "Invalid",
        },
    ]


def _quote_cel(text: str) -> str:
    """A text as a quoted CEL string."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _number_expression(field: str, of: str) -> str:
    """The CEL expression of a number in one cluster's preferences; -1 if it is missing."""
    pattern = f'"{field}"{_SPACE}:{_SPACE}[0-9]+'
    named = f"{of}.find({_quote_cel(pattern)})"
    return f"int({named} == '' ? '-1' : {named}.find('[0-9]+$'))"


def _preference_variables() -> list[Wire]:
    """CEL variables about preferences: `wishes` (the annotation), `judged` and `crossed`.

    `judged` if it is short enough to validate; `crossed` are clusters with min over max.
    """
    low, high = _number_expression("minReplicas", "w"), _number_expression("maxReplicas", "w")
    clusters = f"variables.wishes.findAll({_quote_cel(_CLUSTER)})"
    return [
        {
            "name": "wishes",
            "expression": (
                f"'{PREFERENCES}' in variables.marks ? variables.marks['{PREFERENCES}'] : '{{}}'"
            ),
        },
        {"name": "judged", "expression": f"variables.wishes.size() <= {MAX_VALIDATED}"},
        {
            "name": "crossed",
            "expression": f"{clusters}.filter(w, {high} >= 0 && {low} > {high})",
        },
    ]


def _preference_validations() -> list[Wire]:
    """CEL validations: preferences are readable, with min up to max; too long ones or none pass."""
    where, first = f"annotation {PREFERENCES}: ", "variables.crossed[0]"
    name = f"{first}.find({_quote_cel('^' + _TEXT)}).replace('\"', '')"
    low, high = _number_expression("minReplicas", first), _number_expression("maxReplicas", first)
    return [
        {
            "expression": f"!variables.judged || variables.wishes.matches({_quote_cel(READABLE)})",
            "message": f"{where}it cannot be read; write it as {EXAMPLE}",
            "reason": "Invalid",
        },
        {
            "expression": "!variables.judged || variables.crossed.size() == 0",
            "messageExpression": (
                f"{_quote_cel(where + 'of ')} + {name} + ' it wants at least ' + string({low}) + "
                f"' and at most ' + string({high}) + ' replicas; lower one or raise the other'"
            ),
            "reason": "Invalid",
        },
    ]


def _policy_with_binding(
    name: str,
    spec: Wire,
    operations: list[str],
    binding_params: Wire,
    resource: tuple[str, str] = (StatefulSet.kind.group, StatefulSet.kind.plural),
) -> tuple[Manifest, ...]:
    """A ValidatingAdmissionPolicy that fails closed, for StatefulSets or others, and its binding.

    `resource` is the group and plural.
    """
    group, plural = resource
    rule = {
        "apiGroups": [group],
        "apiVersions": ["*"],
        "operations": operations,
        "resources": [plural],
    }
    policy_spec = {"failurePolicy": "Fail", "matchConstraints": {"resourceRules": [rule]}, **spec}
    binding: Wire = {"policyName": name, "validationActions": ["Deny"], **binding_params}
    return (
        manifest(ValidatingAdmissionPolicy.kind, name, body={"spec": policy_spec}, optional=True),
        manifest(
            ValidatingAdmissionPolicyBinding.kind, name, body={"spec": binding}, optional=True
        ),
    )
