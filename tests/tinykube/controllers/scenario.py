"""One embedded cluster with its controllers, in process, on virtual time."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from tinykube.apiserver import ApiServer
from tinykube.controllers.controller_manager import ALL_CONTROLLERS, ControllerManager, Simulation
from tinykube.errors import StatusError
from tinykube.request import MERGE_PATCH, Request
from tinykube.resources import Object
from tinykube.storage import Snapshot
from tinykube.virtual_time import LoopClock
from tinykube.webhook_client import WebhookCaller, call_over_https

_TIMEOUT = 120.0
_CLUSTER_SCOPED = ("nodes", "namespaces", "persistentvolumes")


class ClusterClient:
    """Reads and writes objects of an embedded cluster, as kubectl would."""

    def __init__(self, api: ApiServer) -> None:
        self.api = api

    async def send(self, method: str, path: str, body: Object | None = None, **more: Any) -> Object:
        request = Request(method, path, body=msgspec.json.encode(body) if body else b"", **more)
        response = await self.api.send(request)
        decoded: Object = msgspec.json.decode(response.body)
        if response.status >= 300:
            raise StatusError(response.status, decoded.get("reason", ""), decoded["message"])
        return decoded

    async def create(self, obj: Object, namespace: str = "default") -> Object:
        resource = self.api.registry.of_kind(obj["apiVersion"], obj["kind"])
        assert resource is not None
        return await self.send("POST", resource.path(namespace), obj)

    async def patch(
        self, store: str, name: str, body: Object, namespace: str = "default", sub: str = ""
    ) -> Object:
        path = self.path(store, name, namespace, sub)
        return await self.send("PATCH", path, body, content_type=MERGE_PATCH)

    async def delete(
        self, store: str, name: str, namespace: str = "default", **options: Any
    ) -> Object:
        body = {"apiVersion": "v1", "kind": "DeleteOptions", **options}
        return await self.send("DELETE", self.path(store, name, namespace), body)

    def path(self, store: str, name: str, namespace: str, sub: str = "") -> str:
        (resource,) = [one for one in self.api.registry.stored() if one.store == store]
        return resource.path(namespace, name, sub)

    def get(self, store: str, name: str, namespace: str = "default") -> Object | None:
        return self.api.storage.get(store, "" if store in _CLUSTER_SCOPED else namespace, name)

    def require(self, store: str, name: str, namespace: str = "default") -> Object:
        """Like `get`, for an object that must exist."""
        found = self.get(store, name, namespace)
        assert found is not None
        return found

    def all(self, store: str, namespace: str = "default") -> list[Object]:
        namespace_key = "" if store in _CLUSTER_SCOPED else namespace
        return list(self.api.storage.objects(store, namespace_key))

    def names(self, store: str, namespace: str = "default") -> list[str]:
        return [one["metadata"]["name"] for one in self.all(store, namespace)]

    async def wait_until(self, holds: Callable[[], object]) -> None:
        """Wait until a condition holds; it is checked after every change."""
        changed = asyncio.Event()
        stop = self.api.storage.subscribe(lambda _: changed.set())
        try:
            async with asyncio.timeout(_TIMEOUT):
                while not holds():
                    changed.clear()
                    await changed.wait()
        finally:
            stop()

    async def writes_during(self, seconds: float = 5.0) -> int:
        """Let time pass; returns the number of writes in that time."""
        before = self.api.storage.version
        await asyncio.sleep(seconds)
        return self.api.storage.version - before


@asynccontextmanager
async def run_cluster(
    *,
    enabled: frozenset[str] = ALL_CONTROLLERS,
    simulation: Simulation | None = None,
    snapshot: Snapshot | None = None,
    service_range: str = "10.0.0.0/16",
    webhook: WebhookCaller = call_over_https,
) -> AsyncIterator[ClusterClient]:
    """A cluster with running controllers until the block ends."""
    api = ApiServer(
        "lubeck",
        clock=LoopClock(),
        seed=7,
        snapshot=snapshot,
        service_range=service_range,
        call_webhook=webhook,
    )
    controllers = ControllerManager(api, enabled=enabled, simulation=simulation)
    running = asyncio.create_task(controllers.run(), name="controllers")
    try:
        yield ClusterClient(api)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def ready_pods(cluster: ClusterClient, namespace: str = "default", **labels: str) -> list[str]:
    """The names of ready pods with the given labels that are not terminating."""
    return [
        one["metadata"]["name"]
        for one in cluster.all("pods", namespace)
        if labels.items() <= one["metadata"].get("labels", {}).items()
        and not one["metadata"].get("deletionTimestamp")
        and any(
            condition["type"] == "Ready" and condition["status"] == "True"
            for condition in one.get("status", {}).get("conditions", ())
        )
    ]


def workload(kind: str, name: str = "web", replicas: int = 3, **spec: Any) -> Object:
    """A Deployment, ReplicaSet or StatefulSet of one container."""
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "web", "image": "web:1"}]},
            },
            **spec,
        },
    }
