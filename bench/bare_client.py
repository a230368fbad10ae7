"""Writing as fast as a cluster lets a bare client: the load of the rows, and their limit."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from hanse.kube.client import Client
from hanse.kube.concurrency_limit import AdaptiveConcurrencyLimit
from hanse.kube.transport import MERGE_PATCH, Request, Response, Transport
from hanse.model.kinds.acceptance import ACCEPT
from hanse.model.objects import Kind

WORK = "bench"
"""The namespace of the load in every cluster."""

AT_ONCE = 64
_SERVERS_OWN = ("uid", "resourceVersion", "creationTimestamp", "managedFields", "generation")
_NOT_OURS = "kube-root-ca.crt"


class Write(Struct, frozen=True):
    """One request of the load, by the cluster that it goes to."""

    cluster: str
    request: Request


async def write_all(transports: Mapping[str, Transport], writes: Iterable[Write]) -> None:
    """Send everything, in order for each cluster, with as much at once as it takes."""
    by_cluster: dict[str, list[Request]] = {}
    for write in writes:
        by_cluster.setdefault(write.cluster, []).append(write.request)
    await asyncio.gather(
        *(_write_to(transports[cluster], requests) for cluster, requests in by_cluster.items())
    )


async def _write_to(way: Transport, requests: Sequence[Request]) -> None:
    client = Client(way, limit=AdaptiveConcurrencyLimit(first=AT_ONCE, most=AT_ONCE))
    left = iter(requests)

    async def worker() -> None:
        for request in left:
            await client.send(request)

    await asyncio.gather(*(worker() for _ in range(AT_ONCE)))


def configmap(
    name: str, namespace: str, labels: Mapping[str, str], data: Mapping[str, str]
) -> dict[str, Any]:
    meta = {"name": name, "namespace": namespace, "labels": dict(labels)}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": dict(data)}


def create(cluster: str, obj: Mapping[str, Any]) -> Write:
    """The create of any object in a namespace, of a kind with a regular plural."""
    path = f"{base_of(obj['apiVersion'], obj['metadata']['namespace'])}/{obj['kind'].lower()}s"
    return Write(cluster, Request("POST", path, body=msgspec.json.encode(obj)))


def patch(
    cluster: str, obj: Mapping[str, Any], change: Mapping[str, Any], subresource: str = ""
) -> Write:
    """The merge patch of any object in a namespace."""
    meta = obj["metadata"]
    base = base_of(obj["apiVersion"], meta["namespace"])
    path = f"{base}/{obj['kind'].lower()}s/{meta['name']}{subresource}"
    body = msgspec.json.encode(change)
    return Write(cluster, Request("PATCH", path, body=body, content_type=MERGE_PATCH))


def base_of(api_version: str, namespace: str) -> str:
    start = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
    return f"{start}/namespaces/{namespace}"


async def warm(transports: Mapping[str, Transport]) -> None:
    """Connections that stand: no repeat pays for the first."""
    for way in transports.values():
        await _write_to(way, [Request("GET", "/version")] * (4 * AT_ONCE))


async def namespace(way: Transport, name: str) -> None:
    """A namespace that is there, and takes the workloads of others."""
    meta = {"name": name, "labels": {ACCEPT: "true"}}
    wanted = {"apiVersion": "v1", "kind": "Namespace", "metadata": meta}
    body = msgspec.json.encode(wanted)
    answer = await way.send(Request("POST", "/api/v1/namespaces", body=body))
    assert answer.status in (201, 409), answer.body


class Collection(Struct, frozen=True):
    """Objects of one kind that a load leaves behind."""

    kind: Kind
    namespace: str
    labels: str = ""

    @property
    def path(self) -> str:
        return f"{base_of(self.kind.api_version, self.namespace)}/{self.kind.plural}"

    @property
    def query(self) -> tuple[tuple[str, str], ...]:
        return (("labelSelector", self.labels),) if self.labels else ()


async def clear(
    transports: Mapping[str, Transport], left: Mapping[str, Sequence[Collection]]
) -> None:
    """Delete everything that a repeat has left."""
    for cluster, way in transports.items():
        for one in left[cluster]:
            _successful(await way.send(Request("DELETE", one.path, one.query)))
    for cluster, way in transports.items():
        standing = await standing_in(way, left[cluster])
        assert not standing, f"{len(standing)} objects are left in {cluster}"


async def standing_in(way: Transport, wanted: Iterable[Collection]) -> list[dict[str, Any]]:
    """Everything there is of some collections, without what a server says of it by itself."""
    found: list[dict[str, Any]] = []
    for one in wanted:
        answer = _successful(await way.send(Request("GET", one.path, one.query)))
        listed = msgspec.json.decode(answer.body)
        head = {"apiVersion": one.kind.api_version, "kind": one.kind.name}
        found += [{**obj, **head, "metadata": _own(obj["metadata"])} for obj in listed["items"]]
    return [one for one in found if one["metadata"]["name"] != _NOT_OURS]


def _own(meta: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in meta.items() if name not in _SERVERS_OWN}


def _successful(answer: Response) -> Response:
    assert answer.status == 200, answer.body
    return answer
