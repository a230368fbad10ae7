"""What an API server refuses at the broker's own door before it is stored, without any agent.

A StatefulSet there is refused in the words by which its status would tell the same. What needs an
agent (clusters that are not in the fleet, sums that cannot be met) is told in status alone.
"""

from hanse.features.statefulsets.names import LB_NEEDED, MAX_SET_NAME, PREFERENCES
from hanse.features.statefulsets.preferences import EXAMPLE
from hanse.features.statefulsets.submitted import ANNOTATION_CHOICES, MAX_BALANCERS, format_choices
from hanse.model.kinds.admission import (
    ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding,
)
from hanse.model.kinds.apps import StatefulSet
from hanse.model.kinds.coordination import Lease
from hanse.model.manifests import Manifest, manifest
from hanse.model.objects import Wire

_LIVING = {"name": "not-about-to-go", "expression": "!has(object.metadata.deletionTimestamp)"}
_MARKS = {"name": "marks", "expression": "object.metadata.?annotations.orValue({})"}

_GAP, _TEXT, _NUMBER = r"[ \t\r\n]*", r'"([^"\\]|\\.)*"', r"(0|[1-9][0-9]{0,9})"
MOST_JUDGED = 16_000
"""Characters of preferences that the API server looks at: what is longer is for agents to judge."""


def _listed(entry: str) -> str:
    return rf"\{{{_GAP}({entry}{_GAP}(,{_GAP}{entry}{_GAP})*)?\}}"


_FIELD = (
    rf'("weight"{_GAP}:{_GAP}(0|[1-9][0-9]{{0,2}}|1000)|"minReplicas"{_GAP}:{_GAP}{_NUMBER}'
    rf'|"maxReplicas"{_GAP}:{_GAP}({_NUMBER}|null))'
)
_CLUSTER = rf"{_TEXT}{_GAP}:{_GAP}{_listed(_FIELD)}"
_ALL = rf'"clusters"{_GAP}:{_GAP}{_listed(_CLUSTER)}'
READABLE = rf"^{_GAP}\{{{_GAP}({_ALL}{_GAP})?\}}{_GAP}$"
"""Preferences that an agent can read, as a regular expression: they are never nested deeper."""


def annotation_policy(home: str) -> tuple[Manifest, ...]:
    """Refuses values that our annotations of a StatefulSet cannot have, whoever runs the set."""
    spec: Wire = {
        "matchConditions": [_LIVING],
        "variables": [_MARKS, *_wishes()],
        "validations": [
            *(_chosen(mark, choices) for mark, choices in ANNOTATION_CHOICES.items()),
            *_balanced(),
            *_preferred(),
        ],
    }
    return _bound(f"{home}-set-annotations", spec, ["CREATE", "UPDATE"], {})


def name_policy(home: str) -> tuple[Manifest, ...]:
    """Refuses names that are too long for a cluster of the fleet; only where no node is.

    The clusters are known by their Leases, which the API server hands over one by one.
    """
    kind = Lease.kind
    most = f"object.metadata.name.size() + 1 + params.metadata.name.size() <= {MAX_SET_NAME}"
    member = "params.?spec.?holderIdentity.orValue('') == params.metadata.name"
    local = "object.metadata.name + '-' + params.metadata.name"
    spec: Wire = {
        "paramKind": {"apiVersion": kind.api_version, "kind": kind.name},
        "validations": [
            {
                "expression": f"!({member}) || {most}",
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
    found: Wire = {
        "paramRef": {"namespace": home, "selector": {}, "parameterNotFoundAction": "Allow"}
    }
    return _bound(f"{home}-set-names", spec, ["CREATE"], found)


def _chosen(mark: str, choices: tuple[str, ...]) -> Wire:
    value = f"variables.marks['{mark}']"
    shown = f"({value}.size() > 40 ? {value}.substring(0, 40) : {value})"
    allowed = format_choices(choices)
    return {
        "expression": f"!('{mark}' in variables.marks) || {value} in {list(choices)!r}",
        "messageExpression": f'"annotation {mark}: \'" + {shown} + "\' is not {allowed}"',
        "reason": "Invalid",
    }


def _balanced() -> list[Wire]:
    wanted = f"variables.marks[?'{LB_NEEDED}'].orValue('') == 'true'"
    return [
        {
            "expression": f"!({wanted}) || object.spec.?replicas.orValue(1) <= {MAX_BALANCERS}",
            "messageExpression": (
                f"'annotation {LB_NEEDED}: ' + string(object.spec.?replicas.orValue(1)) + "
                f"' replicas would need as many load balancers; {MAX_BALANCERS} is the most'"
            ),
            "reason": "Invalid",
        },
        {
            "expression": f"!({wanted}) || object.spec.?serviceName.orValue('') != ''",
            "message": (
                f"annotation {LB_NEEDED}: it needs spec.serviceName, whose ports replicas serve"
            ),
            "reason": "Invalid",
        },
    ]


def _cel(text: str) -> str:
    """A text as CEL quotes it."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _number(field: str, of: str) -> str:
    """How few or many replicas one cluster's wishes name; -1 where they do not."""
    pattern = f'"{field}"{_GAP}:{_GAP}[0-9]+'
    named = f"{of}.find({_cel(pattern)})"
    return f"int({named} == '' ? '-1' : {named}.find('[0-9]+$'))"


def _wishes() -> list[Wire]:
    """Variables: the preferences as they were written, and the clusters whose min is over max."""
    fewest, most = _number("minReplicas", "w"), _number("maxReplicas", "w")
    clusters = f"variables.wishes.findAll({_cel(_CLUSTER)})"
    return [
        {"name": "wishes", "expression": f"variables.marks[?'{PREFERENCES}'].orValue('{{}}')"},
        {"name": "judged", "expression": f"variables.wishes.size() <= {MOST_JUDGED}"},
        {
            "name": "crossed",
            "expression": f"{clusters}.filter(w, {most} >= 0 && {fewest} > {most})",
        },
    ]


def _preferred() -> list[Wire]:
    where, first = f"annotation {PREFERENCES}: ", "variables.crossed[0]"
    name = f"{first}.find({_cel('^' + _TEXT)}).replace('\"', '')"
    fewest, most = _number("minReplicas", first), _number("maxReplicas", first)
    return [
        {
            "expression": f"!variables.judged || variables.wishes.matches({_cel(READABLE)})",
            "message": f"{where}it cannot be read; write it as {EXAMPLE}",
            "reason": "Invalid",
        },
        {
            "expression": "!variables.judged || variables.crossed.size() == 0",
            "messageExpression": (
                f"{_cel(where + 'of ')} + {name} + ' it wants at least ' + string({fewest}) + "
                f"' and at most ' + string({most}) + ' replicas; lower one or raise the other'"
            ),
            "reason": "Invalid",
        },
    ]


def _bound(name: str, spec: Wire, operations: list[str], found: Wire) -> tuple[Manifest, ...]:
    kind = StatefulSet.kind
    rule = {
        "apiGroups": [kind.group],
        "apiVersions": ["*"],
        "operations": operations,
        "resources": [kind.plural],
    }
    whole = {"failurePolicy": "Fail", "matchConstraints": {"resourceRules": [rule]}, **spec}
    binding: Wire = {"policyName": name, "validationActions": ["Deny"], **found}
    return (
        manifest(ValidatingAdmissionPolicy.kind, name, body={"spec": whole}, optional=True),
        manifest(
            ValidatingAdmissionPolicyBinding.kind, name, body={"spec": binding}, optional=True
        ),
    )
