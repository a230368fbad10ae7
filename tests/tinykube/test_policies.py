"""Admission policies in ways that the differential cases cannot show."""

import pytest

from tests.tinykube.api_client import CONFIGMAPS, SERVICES, Cluster, Object, configmap, service
from tinykube.policies import policy_errors

API = "/apis/admissionregistration.k8s.io/v1"
POLICIES = f"{API}/validatingadmissionpolicies"
BINDINGS = f"{API}/validatingadmissionpolicybindings"
RULE = {
    "apiGroups": [""],
    "apiVersions": ["*"],
    "operations": ["CREATE"],
    "resources": ["configmaps"],
}


def policy(expression: str, **spec: object) -> Object:
    validations = [{"expression": expression, "message": "no"}]
    constraints = {"resourceRules": [RULE]}
    return {
        "metadata": {"name": "p"},
        "spec": {"matchConstraints": constraints, "validations": validations, **spec},
    }


def binding() -> Object:
    return {
        "metadata": {"name": "b"},
        "spec": {"policyName": "p", "validationActions": ["Deny"]},
    }


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("object.", "compilation failed"),
        ("quantity('1').isInteger()", "function isInteger is not available in an embedded cluster"),
        ("authorizer == null", "variable authorizer is not available in an embedded cluster"),
        ("object.?metadata.hasValue()", "unsupported syntax '.?'"),
        ("ship.sails", "variable ship is not available"),
        ("'x' == '" + "x" * 20_000 + "'", "it has more than 16384 characters"),
    ],
    ids=["syntax", "function", "authorizer", "optional", "variable", "length"],
)
async def test_what_cannot_be_evaluated_is_refused_at_creation(expression: str, why: str) -> None:
    cluster = Cluster()

    answer = await cluster.send("POST", POLICIES, policy(expression))

    assert answer.status == 422
    assert answer.message.startswith('ValidatingAdmissionPolicy.admissionregistration.k8s.io "p"')
    assert "spec.validations[0].expression" in answer.message
    assert why in answer.message


async def test_names_that_macros_bind_are_known() -> None:
    expression = "object.data.all(key, object.data[key] != '' && [1].exists(i, i == 1))"

    assert [*policy_errors(policy(expression))] == []


@pytest.mark.parametrize("gone", [f"{POLICIES}/p", f"{BINDINGS}/b"])
async def test_a_policy_ends_at_once(gone: str) -> None:
    cluster = Cluster()
    await cluster.create(POLICIES, policy("false"))
    await cluster.create(BINDINGS, binding())
    denied = await cluster.send("POST", CONFIGMAPS, configmap("c"))

    await cluster.send("DELETE", gone)
    allowed = await cluster.send("POST", CONFIGMAPS, configmap("c"))

    assert (denied.status, allowed.status) == (422, 201)


async def test_a_changed_policy_is_compiled_again() -> None:
    cluster = Cluster()
    made = await cluster.create(POLICIES, policy("true"))
    await cluster.create(BINDINGS, binding())
    await cluster.create(CONFIGMAPS, configmap("c"))

    changed = {**made, "spec": {**made["spec"], **policy("false")["spec"]}}
    await cluster.send("PUT", f"{POLICIES}/p", changed)

    assert (await cluster.send("POST", CONFIGMAPS, configmap("d"))).status == 422


async def test_a_policy_of_a_backup_that_cannot_be_evaluated_lets_nothing_through() -> None:
    cluster = Cluster()
    await cluster.create(POLICIES, policy("true"))
    await cluster.create(BINDINGS, binding())
    backup = cluster.api.storage.snapshot()
    (stored,) = backup.objects["validatingadmissionpolicies.admissionregistration.k8s.io"]
    stored["spec"]["validations"][0]["expression"] = "object.?data.hasValue()"

    cluster.api.storage.restore(backup)
    answer = await cluster.send("POST", CONFIGMAPS, configmap("c"))

    assert answer.status == 500
    assert "ValidatingAdmissionPolicy 'p'" in answer.message


async def test_no_policy_keeps_anyone_from_changing_policies() -> None:
    cluster = Cluster()
    everything = {**RULE, "apiGroups": ["*"], "resources": ["*"], "operations": ["*"]}
    closed = policy("false", matchConstraints={"resourceRules": [everything]})
    await cluster.create(POLICIES, closed)
    await cluster.create(BINDINGS, binding())

    refused = await cluster.send("POST", CONFIGMAPS, configmap("c"))
    removed = await cluster.send("DELETE", f"{BINDINGS}/b")

    assert (refused.status, removed.status) == (422, 200)


PARAMS = {"apiVersion": "v1", "kind": "ConfigMap"}


async def bind_with_params(cluster: Cluster, resource: str, **spec: object) -> None:
    """A policy for the creation of a resource that no parameters satisfy."""
    constraints = {"resourceRules": [{**RULE, "resources": [resource]}]}
    made = policy("params == null", paramKind=PARAMS, matchConstraints=constraints, **spec)
    await cluster.create(POLICIES, made)
    bound = binding()
    bound["spec"]["paramRef"] = {"name": "c", "parameterNotFoundAction": "Deny"}
    await cluster.create(BINDINGS, bound)


async def test_parameters_of_other_namespaces_are_not_read_for_cluster_scoped_objects() -> None:
    cluster = Cluster()
    await cluster.create(CONFIGMAPS, configmap("c"))
    await bind_with_params(cluster, "nodes")

    answer = await cluster.send("POST", "/api/v1/nodes", {"metadata": {"name": "n"}})

    assert answer.status == 422
    assert answer.message.endswith(
        "failed to configure binding: cannot use namespaced paramRef in policy binding that "
        "matches cluster-scoped resources"
    )


async def test_missing_parameters_are_subject_to_the_failure_policy() -> None:
    cluster = Cluster()
    await bind_with_params(cluster, "services", failurePolicy="Ignore")

    await cluster.create(SERVICES, service("s"))
