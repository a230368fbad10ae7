"""Malformed requests: status, reason and message, and nothing is written."""

import base64
from typing import Any

import msgspec
import pytest

from tests.tinykube.api_client import CONFIGMAPS, DEPLOYMENTS, Cluster, configmap
from tinykube.request import JSON

UNREADABLE = "the object provided is unrecognized (must be of type ConfigMap): "


@pytest.mark.parametrize(
    ("body", "kind", "status", "message"),
    [
        pytest.param(b"", JSON, 400, "unexpected end of JSON input (<empty>)", id="empty"),
        pytest.param(
            b"{bad",
            JSON,
            400,
            f"{UNREADABLE}couldn't get version/kind; json parse error: invalid character 'b' "
            "looking for beginning of object key string ({bad)",
            id="broken",
        ),
        pytest.param(b'{"a":', JSON, 400, "unexpected end of JSON input", id="cut off"),
        pytest.param(b"[1]", JSON, 400, "cannot unmarshal array into Go value", id="a list"),
        pytest.param(b"a: [", "application/yaml", 400, f"{UNREADABLE}yaml: line", id="yaml"),
        pytest.param(
            b"x",
            "text/plain",
            415,
            "the body of the request was in an unknown format - accepted media types include: "
            "application/json, application/yaml, application/vnd.kubernetes.protobuf",
            id="media type",
        ),
        pytest.param(
            b" " * (3 * 1024 * 1024 + 1),
            JSON,
            413,
            "Request entity too large: limit is 3145728",
            id="oversized",
        ),
        pytest.param(
            b'{"metadata":{"name":5}}',
            JSON,
            400,
            'ConfigMap in version "v1" cannot be handled as a ConfigMap: json: cannot unmarshal '
            "number into Go struct field ObjectMeta.metadata.name of type string",
            id="type",
        ),
        pytest.param(
            b'{"kind":"Wagon","apiVersion":"v1"}',
            JSON,
            400,
            'no kind "Wagon" is registered for version "v1" in scheme',
            id="kind",
        ),
        pytest.param(
            b'{"kind":"ConfigMap","apiVersion":"v9"}',
            JSON,
            400,
            'no kind "ConfigMap" is registered for version "v9" in scheme',
            id="version",
        ),
        pytest.param(
            b'{"a":' * 50_000 + b"1" + b"}" * 50_000,
            JSON,
            400,
            "json parse error: exceeded max depth",
            id="50,000 levels",
        ),
        pytest.param(b"[" * 50_000, JSON, 400, "exceeded max depth", id="50,000 open lists"),
        pytest.param(
            b'{"data":' * 101 + b"1" + b"}" * 101, JSON, 400, "exceeded max depth", id="101 levels"
        ),
        pytest.param(
            b"a: " + b"[" * 50_000, "application/yaml", 400, "exceeded max depth", id="deep yaml"
        ),
        pytest.param(
            b"a: &a [x]\nb: [*a, *a]\n",
            "application/yaml",
            400,
            "yaml: line 2: aliases are not taken; write values out",
            id="aliases",
        ),
    ],
)
async def test_a_body_that_cannot_be_read_is_refused(
    body: bytes, kind: str, status: int, message: str
) -> None:
    cluster = Cluster()
    before = cluster.api.storage.version

    answer = await cluster.send("POST", CONFIGMAPS, body, kind=kind)

    assert answer.status == status
    assert message in answer.message
    assert cluster.api.storage.version == before


@pytest.mark.parametrize(
    ("kind", "body", "status"),
    [
        pytest.param(
            "application/merge-patch+json",
            b'{"data":' * 2_000 + b"1" + b"}" * 2_000,
            400,
            id="a deep merge patch",
        ),
        pytest.param(
            "application/json-patch+json",
            msgspec.json.encode(
                [{"op": "add", "path": "/data/a" + "/a" * n, "value": {}} for n in range(900)]
            ),
            422,
            id="a patch that nests deeper with each operation",
        ),
        pytest.param(
            "application/json-patch+json",
            msgspec.json.encode(
                [
                    {"op": "copy", "from": "/metadata/annotations", "path": f"/metadata/a{n}"}
                    if n % 2
                    else {"op": "copy", "from": "/metadata", "path": "/metadata/annotations"}
                    for n in range(80)
                ]
            ),
            422,
            id="a patch that doubles with each operation",
        ),
    ],
)
async def test_a_patch_that_grows_without_bound_is_refused(
    kind: str, body: bytes, status: int
) -> None:
    cluster = Cluster()
    await cluster.send("POST", CONFIGMAPS, configmap("a"))
    before = cluster.api.storage.version

    answer = await cluster.send("PATCH", f"{CONFIGMAPS}/a", body, kind=kind)

    assert answer.status == status
    assert cluster.api.storage.version == before


async def test_a_continue_token_that_nests_deeply_is_refused() -> None:
    token = base64.urlsafe_b64encode(b'{"start":' * 9_000).decode()

    query: dict[str, Any] = {"continue": token}
    answer = await Cluster().send("GET", CONFIGMAPS, **query)

    assert answer.status == 400


async def test_yaml_bodies_are_read() -> None:
    answer = await Cluster().send(
        "POST", CONFIGMAPS, b"metadata:\n  name: a\ndata:\n  x: y\n", kind="application/yaml"
    )

    assert answer.status == 201
    assert answer.body["data"] == {"x": "y"}


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("PUT", CONFIGMAPS, 405),
        ("PATCH", CONFIGMAPS, 405),
        ("POST", f"{CONFIGMAPS}/a", 405),
        ("DELETE", "/api/v1/namespaces", 405),
        ("GET", "/api/v1/namespaces/default/nodes", 404),
        ("GET", f"{CONFIGMAPS}/a/status", 404),
        ("GET", f"{CONFIGMAPS}/a/b/c", 404),
        ("GET", "/apis/apps/v9/deployments", 404),
        ("GET", "/nowhere", 404),
    ],
)
async def test_paths_and_methods_that_are_not_there(method: str, path: str, status: int) -> None:
    body = configmap("a") if method in ("PUT", "POST") else None

    answer = await Cluster().send(method, path, body, kind=JSON)

    assert answer.status == status


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({"dryRun": "Some"}, 'dryRun: Unsupported value: ["Some"]: supported values: "All"'),
        ({"fieldValidation": "Maybe"}, 'fieldValidation: Unsupported value: "Maybe"'),
    ],
)
async def test_options_that_mean_nothing(query: dict[str, Any], message: str) -> None:
    answer = await Cluster().send("POST", CONFIGMAPS, configmap("a"), **query)

    assert answer.status == 422
    assert message in answer.message


async def test_a_wrong_type_deep_inside_is_named_by_its_path() -> None:
    bad = {"metadata": {"name": "d"}, "spec": {"replicas": "three"}}

    answer = await Cluster().send("POST", DEPLOYMENTS, bad)

    assert answer.message == (
        'Deployment in version "v1" cannot be handled as a Deployment: json: cannot unmarshal '
        "string into Go struct field DeploymentSpec.spec.replicas of type int32"
    )


async def test_protobuf_is_never_demanded_and_never_given() -> None:
    accept = "application/vnd.kubernetes.protobuf,application/json"

    answer = await Cluster().send("GET", CONFIGMAPS, accept=accept)

    assert answer.status == 200
    assert answer.headers["content-type"] == "application/json"
