"""Admission webhooks in process: which are called, in which order, and their effects."""

import asyncio
from base64 import b64encode
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from tests.tinykube.api_client import (
    CONFIGMAPS,
    CRDS,
    DEPLOYMENTS,
    WIDGETS,
    Cluster,
    configmap,
    deployment,
    widget,
    widget_crd,
)
from tinykube.users import MASTERS, User
from tinykube.virtual_time import ON_VIRTUAL_TIME
from tinykube.webhook_client import (
    WebhookCall,
    WebhookFailed,
    call_over_https,
    no_services,
)

CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1"
Verdict = Callable[[dict[str, Any]], dict[str, Any]]


@pytest.fixture
def anyio_backend() -> object:
    return ON_VIRTUAL_TIME


class FakeWebhooks:
    """Webhooks by URL, and what each was asked."""

    def __init__(self) -> None:
        self.verdicts: dict[str, Verdict] = {}
        self.asked: list[tuple[str, dict[str, Any]]] = []

    async def __call__(self, call: WebhookCall) -> bytes:
        request = msgspec.json.decode(call.body)["request"]
        self.asked.append((call.url, request))
        response = {"uid": request["uid"], **self.verdicts[call.url](request)}
        return msgspec.json.encode({"response": response})

    def names(self) -> list[str]:
        return [url.rpartition("/")[2] for url, _ in self.asked]


def rule(resource: str = "configmaps", group: str = "", **more: Any) -> dict[str, Any]:
    return {
        "apiGroups": [group],
        "apiVersions": ["v1"],
        "operations": ["*"],
        "resources": [resource],
        **more,
    }


def webhook(name: str, *rules: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "name": f"{name}.example.com",
        "clientConfig": {"url": f"https://hooks.example/{name}"},
        "rules": list(rules) or [rule()],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        **more,
    }


class AdmissionCluster:
    """A cluster with webhooks."""

    def __init__(self) -> None:
        self.hooks = FakeWebhooks()
        self.cluster = Cluster(call_webhook=self.hooks)

    async def hook(
        self, kind: str, name: str, verdict: Verdict, *rules: dict[str, Any], **more: Any
    ) -> None:
        self.hooks.verdicts[f"https://hooks.example/{name}"] = verdict
        made = {"metadata": {"name": name}, "webhooks": [webhook(name, *rules, **more)]}
        await self.cluster.create(f"{CONFIGURATIONS}/{kind}webhookconfigurations", made)


def allow(_: dict[str, Any]) -> dict[str, Any]:
    return {"allowed": True}


def deny(_: dict[str, Any]) -> dict[str, Any]:
    return {"allowed": False, "status": {"message": "not on my watch", "code": 403}}


def patching(*operations: dict[str, Any]) -> Verdict:
    patch = b64encode(msgspec.json.encode(list(operations))).decode()
    return lambda _: {"allowed": True, "patch": patch, "patchType": "JSONPatch"}


async def test_mutating_webhooks_come_first_and_see_each_others_work() -> None:
    admitting = AdmissionCluster()
    add = {"op": "add", "path": "/metadata/labels", "value": {"first": "1"}}
    more = {"op": "add", "path": "/metadata/labels/second", "value": "2"}
    await admitting.hook("validating", "c", allow)
    await admitting.hook("mutating", "b", patching(more))
    await admitting.hook("mutating", "a", patching(add))

    made = await admitting.cluster.create(CONFIGMAPS, configmap("x"))

    assert admitting.hooks.names() == ["a", "b", "c"]
    assert made["metadata"]["labels"] == {"first": "1", "second": "2"}
    assert admitting.hooks.asked[2][1]["object"]["metadata"]["labels"]["second"] == "2"


async def test_what_a_webhook_makes_is_checked_like_anything_else() -> None:
    admitting = AdmissionCluster()
    bad = {"op": "add", "path": "/spec/replicas", "value": -1}
    await admitting.hook("mutating", "a", patching(bad), rule("deployments", "apps"))

    answer = await admitting.cluster.send("POST", DEPLOYMENTS, deployment("web"))

    assert answer.status == 422
    assert "spec.replicas: Invalid value: -1" in answer.message


async def test_a_denial_names_the_webhook() -> None:
    admitting = AdmissionCluster()
    await admitting.hook("validating", "guard", deny)

    answer = await admitting.cluster.send("POST", CONFIGMAPS, configmap("x"))

    assert answer.status == 403
    assert answer.message == (
        'admission webhook "guard.example.com" denied the request: not on my watch'
    )
    assert await admitting.cluster.names(CONFIGMAPS) == []


async def test_a_review_has_every_field_of_the_request() -> None:
    admitting = AdmissionCluster()
    await admitting.cluster.create(CONFIGMAPS, configmap("x", a="1"))
    await admitting.hook("validating", "v", allow)

    await admitting.cluster.send(
        "PATCH",
        f"{CONFIGMAPS}/x",
        {"data": {"a": "2"}},
        kind="application/merge-patch+json",
        user=User("hans", ("guild", MASTERS), "u1"),
        dryRun="All",
        fieldManager="hanse",
    )
    _, asked = admitting.hooks.asked[0]

    assert asked["operation"] == "UPDATE"
    assert asked["kind"] == {"group": "", "version": "v1", "kind": "ConfigMap"}
    assert asked["resource"] == {"group": "", "version": "v1", "resource": "configmaps"}
    assert (asked["namespace"], asked["name"]) == ("default", "x")
    assert asked["userInfo"] == {"username": "hans", "uid": "u1", "groups": ["guild", MASTERS]}
    assert (asked["object"]["data"], asked["oldObject"]["data"]) == ({"a": "2"}, {"a": "1"})
    assert asked["dryRun"] is True
    assert asked["options"]["fieldManager"] == "hanse"


@pytest.mark.parametrize(("body", "query"), [({"dryRun": ["All"]}, {}), (None, {"dryRun": "All"})])
async def test_a_review_of_a_deletion_has_its_options(
    body: dict[str, Any] | None, query: dict[str, Any]
) -> None:
    admitting = AdmissionCluster()
    await admitting.cluster.create(CONFIGMAPS, configmap("x"))
    await admitting.hook("validating", "v", allow)

    await admitting.cluster.send("DELETE", f"{CONFIGMAPS}/x", body, **query)
    _, asked = admitting.hooks.asked[0]

    assert asked["dryRun"] is True
    assert asked["options"] == {
        "kind": "DeleteOptions",
        "apiVersion": "meta.k8s.io/v1",
        "dryRun": ["All"],
    }


async def test_impersonation_is_what_webhooks_see() -> None:
    admitting = AdmissionCluster()
    await admitting.hook("validating", "v", allow)
    headers = (("Impersonate-User", "anna"), ("Impersonate-Group", MASTERS))

    await admitting.cluster.send("POST", CONFIGMAPS, configmap("x"), headers=headers)

    user = admitting.hooks.asked[0][1]["userInfo"]
    assert user == {"username": "anna", "groups": [MASTERS, "system:authenticated"]}


@pytest.mark.parametrize(
    ("rules", "more", "asked"),
    [
        pytest.param(rule(), {}, ["CREATE", "DELETE"], id="all operations"),
        pytest.param(rule(operations=["DELETE"]), {}, ["DELETE"], id="one operation"),
        pytest.param(rule("*", "*"), {}, ["CREATE", "DELETE"], id="everything"),
        pytest.param(rule("secrets"), {}, [], id="another resource"),
        pytest.param(rule(group="apps"), {}, [], id="another group"),
        pytest.param(rule(scope="Cluster"), {}, [], id="another scope"),
        pytest.param(rule("configmaps/status"), {}, [], id="an endpoint"),
        pytest.param(
            rule(), {"objectSelector": {"matchLabels": {"a": "b"}}}, [], id="other labels"
        ),
        pytest.param(
            rule(),
            {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "default"}}},
            ["CREATE", "DELETE"],
            id="its namespace",
        ),
        pytest.param(
            rule(),
            {
                "namespaceSelector": {
                    "matchExpressions": [
                        {
                            "key": "kubernetes.io/metadata.name",
                            "operator": "NotIn",
                            "values": ["default"],
                        }
                    ]
                }
            },
            [],
            id="not its namespace",
        ),
    ],
)
async def test_a_webhook_is_called_for_what_its_rules_match(
    rules: dict[str, Any], more: dict[str, Any], asked: list[str]
) -> None:
    admitting = AdmissionCluster()
    await admitting.hook("validating", "v", allow, rules, **more)

    await admitting.cluster.create(CONFIGMAPS, configmap("x"))
    await admitting.cluster.send("DELETE", f"{CONFIGMAPS}/x")

    assert [request["operation"] for _, request in admitting.hooks.asked] == asked


@pytest.mark.parametrize("kind", ["mutating", "validating"])
async def test_webhooks_that_change_are_called_as_they_are_now(kind: str) -> None:
    admitting = AdmissionCluster()
    path = f"{CONFIGURATIONS}/{kind}webhookconfigurations"
    await admitting.hook(kind, "a", allow)
    await admitting.cluster.create(CONFIGMAPS, configmap("x"))

    await admitting.hook(kind, "b", allow)
    await admitting.cluster.create(CONFIGMAPS, configmap("y"))
    await admitting.cluster.merge(f"{path}/a", {"webhooks": [webhook("a", rule("pods"))]})
    await admitting.cluster.create(CONFIGMAPS, configmap("z"))
    await admitting.cluster.send("DELETE", f"{path}/b")
    await admitting.cluster.create(CONFIGMAPS, configmap("last"))

    assert admitting.hooks.names() == ["a", "a", "b", "b"]


async def test_an_equivalent_version_is_shown_as_the_webhook_knows_it() -> None:
    admitting = AdmissionCluster()
    await admitting.cluster.create(CRDS, widget_crd())
    await admitting.hook("validating", "v", allow, rule("widgets", "example.com"))
    older = {**widget("w"), "apiVersion": "example.com/v1beta1"}

    await admitting.cluster.create(WIDGETS.replace("/v1/", "/v1beta1/"), older)

    _, asked = admitting.hooks.asked[0]
    assert asked["object"]["apiVersion"] == "example.com/v1"
    assert asked["requestKind"]["version"] == "v1beta1"


@pytest.mark.parametrize(("policy", "status"), [("Fail", 500), ("Ignore", 201)])
async def test_a_webhook_that_fails_refuses_or_is_passed_over(policy: str, status: int) -> None:
    async def broken(_: WebhookCall) -> bytes:
        raise WebhookFailed("connection refused")

    cluster = Cluster(call_webhook=broken)
    made = {"metadata": {"name": "v"}, "webhooks": [webhook("v", failurePolicy=policy)]}
    await cluster.create(f"{CONFIGURATIONS}/validatingwebhookconfigurations", made)

    answer = await cluster.send("POST", CONFIGMAPS, configmap("x"))

    assert answer.status == status
    if status == 500:
        assert answer.message == (
            'Internal error occurred: failed calling webhook "v.example.com": '
            "failed to call webhook: connection refused"
        )


@pytest.mark.parametrize("body", [b"", b"[" * 50_000, b'{"a":' * 50_000 + b"1" + b"}" * 50_000])
async def test_a_webhook_whose_answer_cannot_be_read_has_failed(body: bytes) -> None:
    async def nonsense(_: WebhookCall) -> bytes:
        return body

    cluster = Cluster(call_webhook=nonsense)
    made = {"metadata": {"name": "v"}, "webhooks": [webhook("v")]}
    await cluster.create(f"{CONFIGURATIONS}/validatingwebhookconfigurations", made)

    answer = await cluster.send("POST", CONFIGMAPS, configmap("x"))

    assert answer.status == 500
    assert "failed calling webhook" in answer.message


async def test_a_webhook_that_takes_too_long_has_failed() -> None:
    async def slow(_: WebhookCall) -> bytes:
        await asyncio.sleep(60)
        return b""

    cluster = Cluster(call_webhook=slow)
    made = {"metadata": {"name": "v"}, "webhooks": [webhook("v", timeoutSeconds=3)]}
    await cluster.create(f"{CONFIGURATIONS}/validatingwebhookconfigurations", made)
    started = asyncio.get_running_loop().time()

    answer = await cluster.send("POST", CONFIGMAPS, configmap("x"))

    assert "context deadline exceeded" in answer.message
    assert asyncio.get_running_loop().time() - started == pytest.approx(3)


async def test_a_change_that_came_while_a_webhook_thought_is_not_lost() -> None:
    admitting = AdmissionCluster()
    cluster = admitting.cluster
    await cluster.create(CONFIGMAPS, configmap("x", a="1"))
    meanwhile = [True]

    def interfering(_: dict[str, Any]) -> dict[str, Any]:
        if meanwhile.pop() if meanwhile else False:
            stored = cluster.api.storage.get("configmaps", "default", "x")
            assert stored is not None
            cluster.api.storage.replace("configmaps", {**stored, "data": {"a": "1", "b": "2"}})
        return {"allowed": True}

    await admitting.hook("validating", "v", interfering)

    merged = await cluster.merge(f"{CONFIGMAPS}/x", {"data": {"c": "3"}})

    assert merged["data"] == {"a": "1", "b": "2", "c": "3"}


async def test_service_references_need_someone_who_resolves_them() -> None:
    call = WebhookCall("", b"", b"", timeout=timedelta(seconds=1))

    with pytest.raises(WebhookFailed, match='no endpoints available for service "hook"'):
        no_services({"name": "hook", "namespace": "ns"}, call)


async def test_webhooks_are_called_over_https_only() -> None:
    call = WebhookCall("http://127.0.0.1:1/", b"", b"", timeout=timedelta(seconds=1))

    with pytest.raises(WebhookFailed, match="only https"):
        await call_over_https(call)


async def test_webhooks_are_not_called_for_webhook_configurations() -> None:
    admitting = AdmissionCluster()
    everything = rule("*", "*", apiVersions=["*"])
    await admitting.hook("validating", "v", deny, everything)

    path = f"{CONFIGURATIONS}/validatingwebhookconfigurations/v"
    answer = await admitting.cluster.send("DELETE", path)

    assert answer.status == 200
    assert admitting.hooks.asked == []
