"""Messages of kubectl for invalid input, which come from the API server."""

from typing import Any

import pytest

from tests.tinykube.kubectl.command import Kubectl
from tests.tinykube.kubectl.objects import configmap, crd, deployment, ship


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        pytest.param(
            ["get", "ships"],
            'the server doesn\'t have a resource type "ships"',
            id="a kind unknown",
        ),
        pytest.param(
            ["get", "cm", "none"],
            'Error from server (NotFound): configmaps "none" not found',
            id="not there",
        ),
        pytest.param(
            ["create", "configmap", "Bad_Name"],
            'ConfigMap "Bad_Name" is invalid: metadata.name: Invalid value: "Bad_Name"',
            id="a bad name",
        ),
        pytest.param(
            ["create", "configmap", "c", "-n", "none"],
            'error: failed to create configmap: namespaces "none" not found',
            id="a namespace unknown",
        ),
        pytest.param(
            ["get", "cm", "-l", "a=b=c"], "Error from server (BadRequest)", id="a bad selector"
        ),
        pytest.param(
            ["get", "cm", "--field-selector=data.x=1"],
            '"data.x" is not a known field selector',
            id="a bad field selector",
        ),
        pytest.param(
            ["patch", "ns/default", "-p", '{"metadata":{"labels":{"a":"b c"}}}'],
            'metadata.labels: Invalid value: "b c": a valid label must be an empty string',
            id="a bad label",
        ),
    ],
)
async def test_a_mistake_on_the_command_line(
    kubectl: Kubectl, arguments: list[str], complaint: str
) -> None:
    assert complaint in await kubectl.fails(*arguments)


def changed(obj: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return obj | fields


@pytest.mark.parametrize(
    ("stdin", "complaint"),
    [
        pytest.param(changed(configmap("c"), dat={}), 'unknown field "dat"', id="an unknown field"),
        pytest.param(
            changed(configmap("c"), kind="Ship"),
            'no matches for kind "Ship" in version "v1"',
            id="a kind unknown",
        ),
        pytest.param(
            changed(configmap("c"), apiVersion="v9"),
            'no matches for kind "ConfigMap" in version "v9"',
            id="a version unknown",
        ),
        pytest.param(
            changed(deployment("d"), spec={"replicas": "many"}),
            "json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of"
            " type int32",
            id="a wrong type",
        ),
        pytest.param(
            deployment("d", replicas=-1),
            'The Deployment "d" is invalid: spec.replicas: Invalid value: -1: must be greater than'
            " or equal to 0",
            id="a wrong value",
        ),
        pytest.param(
            ship(masts=0),
            'The Ship "anna" is invalid: spec.masts: Invalid value: 0: spec.masts in body should be'
            " greater than or equal to 1",
            id="a value against the schema",
        ),
        pytest.param(
            ship(masts="three"),
            'spec.masts in body must be of type integer: "string"',
            id="a type against the schema",
        ),
        pytest.param(
            ship(sails=3), 'unknown field "spec.sails"', id="a field that the schema does not know"
        ),
        pytest.param(
            ship(rig="steam"),
            'spec.rig: Unsupported value: "steam": supported values: "square", "gaff"',
            id="a value that is not in the list",
        ),
    ],
)
async def test_a_mistake_in_a_file(kubectl: Kubectl, stdin: dict[str, Any], complaint: str) -> None:
    await kubectl("apply", "-f", "-", stdin=crd())
    await kubectl("wait", "--for=condition=Established", "crd/ships.sea.example.com")

    assert complaint in await kubectl.fails("apply", "-f", "-", stdin=stdin)


async def test_an_unknown_field_may_be_warned_about(kubectl: Kubectl) -> None:
    stdin = changed(configmap("c"), dat={})

    output = await kubectl.warns("create", "--validate=warn", "-f", "-", stdin=stdin)

    assert 'Warning: unknown field "dat"' in output


async def test_a_stale_version_is_a_conflict(kubectl: Kubectl) -> None:
    await kubectl("create", "-f", "-", stdin=configmap("c"))
    stale = configmap("c")
    stale["metadata"]["resourceVersion"] = "1"

    output = await kubectl.fails("replace", "-f", "-", stdin=stale)

    assert "the object has been modified; please apply your changes to the latest version" in output


@pytest.mark.parametrize("arguments", [["logs", "p"], ["exec", "p", "--", "date"]], ids=str)
async def test_what_only_real_pods_can_do_is_not_found(
    kubectl: Kubectl, arguments: list[str]
) -> None:
    await kubectl("run", "p", "--image=nginx")

    output = await kubectl.fails(*arguments)

    assert "the server could not find the requested resource" in output


async def test_an_unserved_kind_is_unknown(kubectl: Kubectl) -> None:
    output = await kubectl.fails("create", "quota", "q", "--hard=pods=1")

    assert "the server could not find the requested resource" in output
    assert 'doesn\'t have a resource type "resourcequotas"' in await kubectl.fails(
        "get", "resourcequotas"
    )
