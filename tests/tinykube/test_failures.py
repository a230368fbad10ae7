"""Requests on which the server failed with an exception: each has an answer."""

from typing import Any

import pytest

from tests.tinykube.api_client import (
    CONFIGMAPS,
    DEPLOYMENTS,
    SERVICES,
    Cluster,
    Object,
    configmap,
    deployment,
    service,
)
from tinykube.handlers import reads
from tinykube.request import STRATEGIC_MERGE_PATCH

YAML = "application/yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
ADMISSION = "/apis/admissionregistration.k8s.io/v1"


async def test_an_unexpected_exception_is_logged_and_answered_with_500(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: Any) -> None:
        raise KeyError("hull")

    monkeypatch.setattr(reads, "list_objects", fail)

    answer = await Cluster().send("GET", CONFIGMAPS)

    assert (answer.status, answer.body["reason"]) == (500, "InternalError")
    assert "hull" not in answer.message
    assert "KeyError: 'hull'" in caplog.text


@pytest.mark.parametrize("path", ["/api/v1/watch", "/api/v1/watch/", "/apis/apps/v1/watch"])
async def test_a_watch_of_nothing_is_not_found(path: str) -> None:
    answer = await Cluster().send("GET", path)

    assert answer.status == 404


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"{}", "does not appear to be a protobuf message"),
        (b"k8s\0\xff", "unexpected EOF"),
        (b"k8s\0\x0a\x00", 'no kind "" is registered'),
    ],
    ids=["json", "cut off", "no kind"],
)
async def test_a_body_that_is_not_protobuf_is_refused(body: bytes, why: str) -> None:
    cluster = Cluster()
    await cluster.create(CONFIGMAPS, configmap("a"))

    made = await cluster.send("POST", CONFIGMAPS, body, kind=PROTOBUF)
    deleted = await cluster.send("DELETE", f"{CONFIGMAPS}/a", body, kind=PROTOBUF)

    assert (made.status, deleted.status) == (400, 400)
    assert why in made.message
    assert why in deleted.message


async def test_dates_in_yaml_are_text() -> None:
    body = b"metadata: {name: a}\ndata:\n  valid: 2020-01-02\n  not: 2020-13-45\n"

    answer = await Cluster().send("POST", CONFIGMAPS, body, kind=YAML)

    assert answer.body["data"] == {"valid": "2020-01-02", "not": "2020-13-45"}


@pytest.mark.parametrize("value", ["!!int x", "!!int ''", "!!bool x", "!!float x"])
async def test_a_yaml_value_that_is_not_of_its_tag_is_refused(value: str) -> None:
    answer = await Cluster().send("POST", CONFIGMAPS, f"a: {value}".encode(), kind=YAML)

    assert answer.status == 400


@pytest.mark.parametrize("token", ["a.b.ü", "ä.b.c", "a.b.\udcff"])
def test_a_token_that_is_not_ascii_is_of_nobody(token: str) -> None:
    assert Cluster().api.authenticate(token) is None


@pytest.mark.parametrize(
    "patch",
    [
        {"metadata": {"finalizers": [{}]}},
        {"metadata": {"ownerReferences": [{"$patch": "replace"}, 5]}},
        {"spec": {"$deleteFromPrimitiveList/replicas": [1]}},
    ],
    ids=["finalizers", "replaced list", "no list"],
)
async def test_a_patch_with_elements_of_another_type_is_refused(patch: Object) -> None:
    cluster = Cluster()
    await cluster.create(DEPLOYMENTS, deployment("d"))

    answer = await cluster.send("PATCH", f"{DEPLOYMENTS}/d", patch, kind=STRATEGIC_MERGE_PATCH)

    assert answer.status in (400, 422)


def _selecting(operator: str, **more: Any) -> Object:
    return {"matchExpressions": [{"key": "app", "operator": operator, **more}]}


def _webhook(selector: Object) -> Object:
    hook = {
        "name": "a.example.com",
        "clientConfig": {"url": "https://127.0.0.1"},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "objectSelector": selector,
    }
    return {"metadata": {"name": "w"}, "webhooks": [hook]}


@pytest.mark.parametrize(
    ("selector", "why"),
    [
        (_selecting("Likes"), '.operator: Invalid value: "Likes": not a valid selector operator'),
        (_selecting("In"), ".values: Required value: must be specified when `operator` is 'In'"),
        (_selecting("Exists", values=["a"]), ".values: Forbidden: may not be specified when"),
        (_selecting("Exists", key="-"), '.key: Invalid value: "-"'),
        (_selecting("In", values=["-"]), '.values[0]: Invalid value: "-"'),
        ({"matchLabels": {"-": "a"}}, '.matchLabels: Invalid value: "-"'),
    ],
    ids=["operator", "no values", "values", "key", "value", "label"],
)
@pytest.mark.parametrize("kind", ["deployment", "budget", "webhook", "policy", "binding"])
async def test_a_selector_that_is_not_valid_is_refused(
    kind: str, selector: Object, why: str
) -> None:
    path, obj = {
        "deployment": (DEPLOYMENTS, deployment("d", selector=selector)),
        "budget": (BUDGETS, {"metadata": {"name": "b"}, "spec": {"selector": selector}}),
        "webhook": (f"{ADMISSION}/validatingwebhookconfigurations", _webhook(selector)),
        "policy": (
            f"{ADMISSION}/validatingadmissionpolicies",
            {
                "metadata": {"name": "p"},
                "spec": {"matchConstraints": {"namespaceSelector": selector}},
            },
        ),
        "binding": (
            f"{ADMISSION}/validatingadmissionpolicybindings",
            {
                "metadata": {"name": "p"},
                "spec": {"policyName": "p", "paramRef": {"selector": selector}},
            },
        ),
    }[kind]

    answer = await Cluster().send("POST", path, obj)

    assert answer.status == 422
    assert why in answer.message


async def test_without_a_range_no_service_gets_an_address() -> None:
    cluster = Cluster()
    await cluster.send("DELETE", "/apis/networking.k8s.io/v1/servicecidrs/kubernetes")

    answer = await cluster.send("POST", SERVICES, service("s"))

    assert answer.status == 500
    assert "failed to allocate a serviceIP: range is full" in answer.message
