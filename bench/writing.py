"""Writing as fast as a cluster lets a bare client: the load of the rows, and their limit."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from hanse.features.services.feature import BROKER_NAMESPACE
from hanse.kube.client import Client
from hanse.kube.limit import Limit
from hanse.kube.request import MERGE_PATCH, Request, Response, Transport
from hanse.local.real.fleet import BROKER, NAMES
from hanse.testing.toy import HOME, OFFER, OFFERED

WORK = "bench"
"""The namespace of the load in every cluster."""

NAMESPACES = {**dict.fromkeys(NAMES, WORK), BROKER: HOME}
AT_ONCE = 64
_SERVERS_OWN = ("uid", "resourceVersion", "creationTimestamp", "managedFields", "generation")
_NOT_OURS = "kube-root-ca.crt"


class Write(Struct, frozen=True):
    """One request of the load, by the cluster that it goes to."""

    cluster: str
    request: Request


async def write_all(ways: Mapping[str, Transport], writes: Iterable[Write]) -> None:
    """Send everything, in order for each cluster, with as much at once as it takes."""
    by_cluster: dict[str, list[Request]] = {}
    for write in writes:
        by_cluster.setdefault(write.cluster, []).append(write.request)
    await asyncio.gather(
        *(_write_to(ways[cluster], requests) for cluster, requests in by_cluster.items())
    )


async def _write_to(way: Transport, requests: Sequence[Request]) -> None:
    client = Client(way, limit=Limit(first=AT_ONCE, most=AT_ONCE))
    left = iter(requests)

    async def worker() -> None:
        for request in left:
            await client.send(request)

    await asyncio.gather(*(worker() for _ in range(AT_ONCE)))


def offers(cluster: str, names: Iterable[str]) -> list[Write]:
    """The load: each name offered by one cluster."""
    return [Write(cluster, _create(offer(cluster, name))) for name in names]


def offer(cluster: str, name: str) -> dict[str, Any]:
    """What a person creates to have it shared."""
    return configmap(name, WORK, {OFFER: ""}, {"from": cluster, "text": "x" * 100})


def configmap(
    name: str, namespace: str, labels: Mapping[str, str], data: Mapping[str, str]
) -> dict[str, Any]:
    meta = {"name": name, "namespace": namespace, "labels": dict(labels)}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": dict(data)}


def create(cluster: str, obj: Mapping[str, Any]) -> Write:
    return Write(cluster, _create(obj))


async def bare_writes(ways: Mapping[str, Transport]) -> list[Write]:
    """What a client would send that knew the end from the start: each object once, as it stands.

    Offers are created and then told that they are offered, as the feature has to.
    """
    return [
        write
        for cluster in ways
        for write in _in_order(cluster, await _standing(ways[cluster], NAMESPACES[cluster]))
    ]


async def prepare(ways: Mapping[str, Transport]) -> None:
    """The namespaces of the load, and connections that stand: no repeat pays for the first."""
    for cluster, way in ways.items():
        await _namespace(way, NAMESPACES[cluster])
        await _write_to(way, [Request("GET", "/version")] * (4 * AT_ONCE))
    await _namespace(ways[BROKER], BROKER_NAMESPACE)


async def _namespace(way: Transport, name: str) -> None:
    wanted = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    body = msgspec.json.encode(wanted)
    answer = await way.send(Request("POST", "/api/v1/namespaces", body=body))
    assert answer.status in (201, 409), answer.body


async def clear(ways: Mapping[str, Transport]) -> None:
    """Delete everything that a repeat has left."""
    for cluster, way in ways.items():
        for path in _collections(NAMESPACES[cluster]):
            _successful(await way.send(Request("DELETE", path)))
    for cluster, way in ways.items():
        left = await _standing(way, NAMESPACES[cluster])
        assert not left, f"{len(left)} objects are left in {cluster}"


async def _standing(way: Transport, namespace: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for path in _collections(namespace):
        listed = msgspec.json.decode(_successful(await way.send(Request("GET", path))).body)
        kind = listed["kind"].removesuffix("List")
        found += [{"apiVersion": "v1", "kind": kind, **one} for one in listed["items"]]
    return [one for one in found if one["metadata"]["name"] != _NOT_OURS]


def _in_order(cluster: str, standing: Iterable[dict[str, Any]]) -> list[Write]:
    creates: list[Write] = []
    patches: list[Write] = []
    for obj in standing:
        meta = {k: v for k, v in obj["metadata"].items() if k not in _SERVERS_OWN}
        if OFFER in meta.get("labels", {}):
            patches.append(Write(cluster, _told_offered(meta)))
            meta = {k: v for k, v in meta.items() if k != "annotations"}
        creates.append(Write(cluster, _create({**obj, "metadata": meta})))
    return [*creates, *patches]


def _told_offered(meta: Mapping[str, Any]) -> Request:
    change = {"metadata": {"annotations": {OFFERED: meta["annotations"][OFFERED]}}}
    path = f"/api/v1/namespaces/{meta['namespace']}/configmaps/{meta['name']}"
    body = msgspec.json.encode(change)
    return Request("PATCH", path, body=body, content_type=MERGE_PATCH)


def _create(obj: Mapping[str, Any]) -> Request:
    path = f"/api/v1/namespaces/{obj['metadata']['namespace']}/{obj['kind'].lower()}s"
    return Request("POST", path, body=msgspec.json.encode(obj))


def _collections(namespace: str) -> tuple[str, ...]:
    return tuple(f"/api/v1/namespaces/{namespace}/{kind}" for kind in ("configmaps", "events"))


def _successful(answer: Response) -> Response:
    assert answer.status == 200, answer.body
    return answer
