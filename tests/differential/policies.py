"""ValidatingAdmissionPolicies: what they match, what they deny, and in which words."""

from typing import Any

from tests.differential.access import ANNA, asked, given, rule
from tests.differential.cases import (
    CONFIGMAPS,
    CORE,
    DEPLOYMENTS,
    POLICIES,
    POLICY_BINDINGS,
    Case,
    Step,
    case,
    configmap,
    create,
    delete,
    deployment,
    get,
    grouped,
    merge,
    obj,
    put,
    service,
)

API = "admissionregistration.k8s.io/v1"
HERE = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "$ns"}}}
ALL = ["CREATE", "UPDATE", "DELETE"]

C = f"{CONFIGMAPS}/c"
MAP = create(CONFIGMAPS, configmap(data={"a": "1"}), setup=True)
NEW = create(CONFIGMAPS, configmap(data={"a": "1"}))


def resources(plural: str = "configmaps", group: str = "", **more: Any) -> dict[str, Any]:
    rule = {"apiGroups": [group], "apiVersions": ["*"], "operations": ALL, "resources": [plural]}
    return {**rule, **more}


def policy(*validations: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """A policy for configmaps of the case's namespace, unless the spec says otherwise."""
    constraints = {"resourceRules": [resources()], **HERE}
    fields = {"matchConstraints": constraints, "validations": list(validations), **spec}
    return obj(API, "ValidatingAdmissionPolicy", "$ns-p", spec=fields)


def binding(**spec: Any) -> dict[str, Any]:
    fields = {"policyName": "$ns-p", "validationActions": ["Deny"], **spec}
    return obj(API, "ValidatingAdmissionPolicyBinding", "$ns-b", spec=fields)


def check(expression: str, **more: Any) -> dict[str, Any]:
    return {"expression": expression, **more}


def enforced(policy: dict[str, Any], **spec: Any) -> tuple[Step, ...]:
    """A policy and its binding."""
    return (
        create(POLICIES, policy, setup=True),
        create(POLICY_BINDINGS, binding(**spec), setup=True),
    )


def denies(expression: str, **more: Any) -> tuple[Step, ...]:
    return enforced(policy(check(expression, **more)))


NO = check("false", message="no")
NO_MAPS = resources("configmaps", resourceNames=["d"])

_VERDICTS = (
    case("allowed", *denies("true"), NEW),
    case("denied", *denies("false"), NEW),
    case("a message", *denies("object.data.a != '1'", message="a must not be 1"), NEW),
    case(
        "an expression as message",
        *denies("false", message="no", messageExpression="'a is ' + object.data.a"),
        NEW,
    ),
    case(
        "a message that fails",
        *denies("false", message="no", messageExpression="'a is ' + object.data.b"),
        NEW,
    ),
    case("forbidden", *denies("false", reason="Forbidden"), NEW),
    case("an unknown reason", create(POLICIES, policy(check("false", reason="Sunk")))),
    case("too large", *denies("false", reason="RequestEntityTooLarge"), NEW),
    case("the first of two", *enforced(policy(NO, check("false", message="nor this"))), NEW),
    case(
        "a dry run",
        *denies("!request.dryRun"),
        create(CONFIGMAPS, configmap(), query={"dryRun": "All"}),
        create(CONFIGMAPS, configmap()),
    ),
    case("nothing else", *denies("false"), create(f"{CORE}/services", service())),
    case(
        "an update",
        MAP,
        *denies("object.data.a == oldObject.data.a"),
        put(C, configmap(data={"a": "2"})),
    ),
    case(
        "a patch", MAP, *denies("object.data.a == oldObject.data.a"), merge(C, {"data": {"a": "2"}})
    ),
    case("a patch that changes nothing", MAP, *denies("false"), merge(C, {"data": {"a": "1"}})),
    case("a delete", MAP, *denies("request.operation != 'DELETE'"), delete(C), get(C)),
    case("what a delete has", MAP, *denies("object == null && oldObject.data.a == '2'"), delete(C)),
    case("a warning", *enforced(policy(NO), validationActions=["Warn"]), NEW),
    case("a warning and a denial", *enforced(policy(NO), validationActions=["Warn", "Audit"]), NEW),
    case("without a binding", create(POLICIES, policy(NO), setup=True), NEW),
)

_ERRORS = (
    case("a missing key is denied", *denies("object.data.none == '1'"), NEW),
    case(
        "a missing key is ignored",
        *enforced(policy(check("object.data.none == '1'"), failurePolicy="Ignore")),
        NEW,
    ),
    case("an error that does not matter", *denies("true || object.data.none == '1'"), NEW),
    case("a missing map", *denies("'x' in object.metadata.labels"), NEW),
    case("has", *denies("has(object.metadata.labels) && has(object.data.a)"), NEW),
)

_MATCHES = (
    case(
        "a condition",
        *enforced(
            policy(NO, matchConditions=[{"name": "x", "expression": "object.data.a == '2'"}])
        ),
        NEW,
        create(CONFIGMAPS, configmap("d", data={"a": "2"})),
    ),
    case(
        "a condition that fails",
        *enforced(
            policy(
                check("true"),
                matchConditions=[{"name": "x", "expression": "object.data.b == '2'"}],
                failurePolicy="Ignore",
            )
        ),
        NEW,
    ),
    case(
        "a user",
        *given(rule("create")),
        *denies(f"request.userInfo.username != '{ANNA}'", reason="Forbidden"),
        NEW,
        asked(create(CONFIGMAPS, configmap("d"))),
    ),
    case(
        "groups",
        *given(rule("create")),
        *denies("request.userInfo.groups.exists(g, g == 'system:masters')"),
        NEW,
        asked(create(CONFIGMAPS, configmap("d"))),
    ),
    case(
        "names",
        *enforced(policy(NO, matchConstraints={"resourceRules": [NO_MAPS], **HERE})),
        NEW,
        create(CONFIGMAPS, configmap("d")),
    ),
    case(
        "excluded names",
        *enforced(
            policy(
                NO,
                matchConstraints={
                    "resourceRules": [resources()],
                    "excludeResourceRules": [NO_MAPS],
                    **HERE,
                },
            )
        ),
        NEW,
        create(CONFIGMAPS, configmap("d")),
    ),
    case(
        "labels",
        *enforced(
            policy(
                NO,
                matchConstraints={
                    "resourceRules": [resources()],
                    "objectSelector": {"matchLabels": {"a": "b"}},
                    **HERE,
                },
            )
        ),
        NEW,
        create(CONFIGMAPS, configmap("d", metadata={"labels": {"a": "b"}})),
    ),
    case(
        "another namespace",
        *enforced(policy(NO), matchResources={"namespaceSelector": {"matchLabels": {"x": "y"}}}),
        NEW,
    ),
    case(
        "a status",
        create(DEPLOYMENTS, deployment(), setup=True),
        *enforced(
            policy(
                check("object.status == oldObject.status", message="no"),
                matchConstraints={
                    "resourceRules": [resources("deployments/status", "apps")],
                    **HERE,
                },
            )
        ),
        merge(f"{DEPLOYMENTS}/d", {"spec": {"replicas": 2}}),
        merge(f"{DEPLOYMENTS}/d/status", {"status": {"replicas": 2}}),
    ),
    case(
        "a token",
        create(f"{CORE}/serviceaccounts", obj("v1", "ServiceAccount", "r"), setup=True),
        *enforced(
            policy(
                check("object.spec.expirationSeconds <= 3600 && request.name == 'r'", message="no"),
                matchConstraints={"resourceRules": [resources("serviceaccounts/token")], **HERE},
            )
        ),
        create(f"{CORE}/serviceaccounts/r/token", {"spec": {"expirationSeconds": 7200}}),
    ),
    case("a namespace", *denies("namespaceObject.metadata.name != '$ns'"), NEW),
    case(
        "the request",
        *denies(
            "request.operation == 'CREATE' && request.namespace == '$ns' && request.name == 'c' && "
            "request.resource.resource == 'configmaps' && request.kind.kind == 'ConfigMap' && "
            "!has(request.subResource) && !request.dryRun"
        ),
        NEW,
    ),
)

_VARIABLES = [
    {"name": "data", "expression": "has(object.data) ? object.data : {}"},
    {"name": "a", "expression": "'a' in variables.data ? variables.data['a'] : ''"},
    {"name": "broken", "expression": "object.data.none"},
]

FUNCTIONS = (
    "'a:b:c'.split(':')[1] == 'b' && 'a:b:c'.split(':', 2) == ['a', 'b:c']",
    "'abc'.substring(1) == 'bc' && 'abc'.substring(0, 2) == 'ab'",
    ("'abc'.replace('b', 'x') == 'axc' && 'abc'.indexOf('c') == 2 && 'aa'.lastIndexOf('a') == 1"),
    ("'abc'.matches('^a.c$') && 'abcabc'.find('b.') == 'bc' && 'abab'.findAll('a') == ['a', 'a']"),
    "'ABC'.lowerAscii() == 'abc' && ' a '.trim() == 'a' && ['a', 'b'].join('-') == 'a-b'",
    "[1, 2, 3].sum() == 6 && [1, 2].max() == 2 && [2, 1].min() == 1 && [1, 2].isSorted()",
    "isIP('10.0.0.1') && !isIP('10.0.0.256') && isCIDR('10.0.0.0/8')",
    "cidr('10.0.0.0/8').containsIP('10.1.2.3') && !cidr('10.0.0.0/8').containsIP('11.0.0.1')",
    "[1, 2, 3].filter(i, i > 1).map(i, i * 2) == [4, 6] && [1, 2].exists_one(i, i == 1)",
    (
        "{'a': 1}.all(k, k == 'a') && size({'a': 1}) == 1 && string(1) + '2' == '12' && "
        "int('7') == 7"
    ),
    "object.data.all(k, object.data[k] == '1') && object.metadata.name.startsWith('c')",
    "timestamp('2026-01-02T03:04:05Z') > timestamp('2025-01-02T03:04:05Z')",
    "duration('1h') > duration('59m') && type(1) == int && 1.5 < 2.0 && 'a' < 'b'",
    "(object.metadata.name == 'c' ? 'x' : 'y') == 'x' && !(object.data.a in ['2', '3'])",
)

_EXPRESSIONS = (
    case(
        "variables",
        *enforced(
            policy(
                check("variables.a == '2'", messageExpression="'a is ' + variables.a"),
                variables=_VARIABLES,
            )
        ),
        NEW,
        create(CONFIGMAPS, configmap("d", data={"a": "2"})),
    ),
    case(
        "a broken variable that nobody needs",
        *enforced(
            policy(check("variables.a == '1' || variables.broken == ''"), variables=_VARIABLES)
        ),
        NEW,
    ),
    *(case(f"functions {at}", *denies(expression), NEW) for at, expression in enumerate(FUNCTIONS)),
)

_PARAMS = {"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}}
_LIMIT = create(
    CONFIGMAPS, configmap("limit", data={"a": "2"}, metadata={"labels": {"p": "q"}}), setup=True
)
_BY_PARAMS = policy(check("object.data.a == params.data.a", message="other"), **_PARAMS)

_PARAMETERS = (
    case(
        "by name",
        _LIMIT,
        *enforced(_BY_PARAMS, paramRef={"name": "limit", "parameterNotFoundAction": "Deny"}),
        NEW,
    ),
    case(
        "by selector",
        _LIMIT,
        *enforced(
            _BY_PARAMS,
            paramRef={
                "selector": {"matchLabels": {"p": "q"}},
                "namespace": "$ns",
                "parameterNotFoundAction": "Deny",
            },
        ),
        NEW,
    ),
    case(
        "missing and allowed",
        *enforced(_BY_PARAMS, paramRef={"name": "none", "parameterNotFoundAction": "Allow"}),
        NEW,
    ),
    case(
        "missing and denied",
        *enforced(_BY_PARAMS, paramRef={"name": "none", "parameterNotFoundAction": "Deny"}),
        NEW,
    ),
)

CASES: list[Case] = [
    *grouped("policy", _VERDICTS),
    *grouped("policy error", _ERRORS),
    *grouped("policy match", _MATCHES),
    *grouped("policy expression", _EXPRESSIONS),
    *grouped("policy parameters", _PARAMETERS),
]
