"""Objects for tests of controllers, with only what a test is about."""

from datetime import UTC, datetime, timedelta
from typing import Any

from tinykube.controllers.objects import format_time, owner_reference
from tinykube.resources import Object

NOW = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)


def template(image: str = "web:1", **labels: str) -> Object:
    return {
        "metadata": {"labels": labels or {"app": "web"}},
        "spec": {"containers": [{"name": "web", "image": image}]},
    }


def metadata(name: str, *, age: int = 0, **more: Any) -> Object:
    created = format_time(NOW - timedelta(seconds=age))
    base = {"name": name, "namespace": "shop", "uid": f"uid-{name}", "resourceVersion": "1"}
    return {**base, "creationTimestamp": created, **more}


def deployment(replicas: int = 3, image: str = "web:1", **spec: Any) -> Object:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata("web", generation=1),
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": template(image),
            **spec,
        },
    }


def replica_set(
    name: str = "web-1",
    replicas: int = 3,
    available: int | None = None,
    *,
    image: str = "web:1",
    age: int = 100,
    annotations: dict[str, str] | None = None,
    owner: Object | None = None,
) -> Object:
    good = replicas if available is None else available
    more = {"ownerReferences": [owner_reference(owner)]} if owner is not None else {}
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": metadata(name, age=age, generation=1, annotations=annotations or {}, **more),
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": template(image),
        },
        "status": {
            "replicas": replicas,
            "readyReplicas": good,
            "availableReplicas": good,
            "observedGeneration": 1,
        },
    }


def pod(
    name: str = "web-0",
    *,
    ready: bool = True,
    phase: str = "Running",
    node: str = "node-1",
    age: int = 60,
    labels: dict[str, str] | None = None,
    deleting: bool = False,
    ip: str = "10.1.0.1",
    **more: Any,
) -> Object:
    meta = metadata(name, age=age, labels=labels or {"app": "web"}, **more)
    if deleting:
        meta["deletionTimestamp"] = format_time(NOW)
    ready_condition = {
        "type": "Ready",
        "status": str(ready),
        "lastTransitionTime": format_time(NOW - timedelta(seconds=age)),
    }
    spec: Object = {"containers": [{"name": "web", "image": "web:1"}]}
    if node:
        spec["nodeName"] = node
    status: Object = {"phase": phase, "conditions": [ready_condition]}
    if ip:
        status |= {"podIP": ip, "podIPs": [{"ip": ip}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec, "status": status}


def service(name: str = "web", **spec: Any) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(name, labels={"team": "shop"}),
        "spec": {
            "type": "ClusterIP",
            "clusterIP": "10.0.0.10",
            "ipFamilies": ["IPv4"],
            "selector": {"app": "web"},
            "ports": [{"name": "http", "port": 80, "protocol": "TCP", "targetPort": 8080}],
            **spec,
        },
    }


def node(name: str = "node-1", *, ready: bool = True, zone: str = "a", **spec: Any) -> Object:
    meta: Object = {"name": name, "uid": f"uid-{name}", "resourceVersion": "1"}
    meta["labels"] = {"topology.kubernetes.io/zone": zone, "kubernetes.io/hostname": name}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": meta,
        "spec": spec,
        "status": {"conditions": [{"type": "Ready", "status": str(ready)}]},
    }
