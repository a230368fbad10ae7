"""Writes of controllers pass admission webhooks."""

import asyncio

import msgspec
import pytest

from tinykube.resources import Object
from tinykube.webhook_client import WebhookCall, WebhookFailed

from .scenario import ClusterClient, ready_pods, run_cluster, workload
from .test_workloads import condition, is_rolled_out

pytestmark = pytest.mark.anyio

HOOK = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "ValidatingWebhookConfiguration",
    "metadata": {"name": "webhook"},
    "webhooks": [
        {
            "name": "webhook.hanse.dev",
            "clientConfig": {"url": "https://webhook.example/pods"},
            "rules": [
                {
                    "apiGroups": [""],
                    "apiVersions": ["v1"],
                    "operations": ["CREATE"],
                    "resources": ["pods"],
                }
            ],
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "timeoutSeconds": 10,
        }
    ],
}


class FakeWebhook:
    """A webhook that allows or denies, with a delay."""

    def __init__(self) -> None:
        self.allows = False
        self.takes = 0.0
        self.calls = 0

    async def __call__(self, call: WebhookCall) -> bytes:
        self.calls += 1
        await asyncio.sleep(self.takes)
        if self.takes > call.timeout.total_seconds():
            raise WebhookFailed("too late")
        review = msgspec.json.decode(call.body)
        answer: Object = {"uid": review["request"]["uid"], "allowed": self.allows}
        if not self.allows:
            answer["status"] = {"message": "not today"}
        response_review = {
            "apiVersion": review["apiVersion"],
            "kind": review["kind"],
            "response": answer,
        }
        return msgspec.json.encode(response_review)


def failure(cluster: ClusterClient) -> Object:
    (found,) = cluster.all("replicasets.apps")
    return condition(found, "ReplicaFailure")


async def test_denied_pods_are_reported_and_created_once_allowed() -> None:
    webhook = FakeWebhook()
    async with run_cluster(webhook=webhook) as cluster:
        await cluster.create(HOOK)
        await cluster.create(workload("Deployment"))
        await cluster.writes_during(60)
        assert "not today" in failure(cluster)["message"]
        assert condition(cluster.require("deployments.apps", "web"), "ReplicaFailure")
        assert webhook.calls < 20

        webhook.allows = True
        await cluster.wait_until(lambda: is_rolled_out(cluster))
        await cluster.writes_during()

        (found,) = cluster.all("replicasets.apps")
        assert "conditions" not in found["status"]


async def test_a_slow_webhook_delays_only_its_own_requests() -> None:
    webhook = FakeWebhook()
    webhook.allows = True
    webhook.takes = 5.0
    async with run_cluster(webhook=webhook) as cluster:
        await cluster.create(HOOK)
        await cluster.create(workload("Deployment"))
        await cluster.writes_during(1)

        space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}
        await cluster.create(space)
        await cluster.delete("namespaces", "shop")
        await cluster.writes_during(1)

        assert cluster.get("namespaces", "shop") is None
        assert ready_pods(cluster) == []
        await cluster.wait_until(lambda: is_rolled_out(cluster))
