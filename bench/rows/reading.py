"""What reading a large cluster costs: a list of 50,000 Services, and one event of a watch."""

import asyncio
import gc
import json
import multiprocessing
import time
from collections.abc import AsyncIterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from hanse.kube.client import Client
from hanse.kube.errors import Unreachable
from hanse.kube.request import Request, Response
from hanse.kube.store import Store
from hanse.kube.watch_events import Bookmark, event_in
from hanse.kube.watching import follow
from hanse.model.kinds.core import Service
from hanse.model.snapshot import Index

SERVICES = 50_000
PAGE = 500
EVENTS = 20_000
BY_APP: Index[Service] = Index("app", lambda s: [s.metadata.labels["app"]])


def run() -> dict[str, float]:
    """Each number is of a process of its own, so that one does not pay for the other."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context, max_tasks_per_child=1) as processes:
        listed = processes.submit(listing).result()
        return {**listed, **processes.submit(watching).result()}


def listing() -> dict[str, float]:
    """CPU and memory of listing every Service, by pages, into a store with an index."""
    with TemporaryDirectory() as folder:
        write_pages(Path(folder))
        gc.collect()
        before = resident()
        started = time.process_time()
        store = asyncio.run(_listed(Pages(Path(folder))))
        spent = time.process_time() - started
        gc.collect()
        grown = resident() - before
    assert len(store) == SERVICES
    return {"list_50000_cpu_s": spent, "list_50000_mib": grown}


def watching() -> dict[str, float]:
    """One event: from its bytes to the store's transition, alone and through the whole stream."""
    lines = [event_line(n) for n in range(EVENTS)]
    store: Store[Service] = Store([BY_APP])
    started = time.process_time()
    for line in lines:
        event = event_in(line, Service)
        assert not isinstance(event, Bookmark)
        for _ in store.take(event):
            pass
    alone = time.process_time() - started
    started = time.process_time()
    asyncio.run(_followed(Streamed(lines)))
    streamed = time.process_time() - started
    return {
        "event_to_transition_us": alone / EVENTS * 1e6,
        "event_through_stream_us": streamed / EVENTS * 1e6,
    }


async def _listed(pages: "Pages") -> Store[Service]:
    store: Store[Service] = Store([BY_APP])
    for _ in store.take(await Client(pages).list(Service)):
        pass
    return store


async def _followed(way: "Streamed") -> None:
    store: Store[Service] = Store([BY_APP])
    told = 0
    async for event in follow(Client(way), Service, random=Random(1)):
        told += sum(1 for _ in store.take(event))
        if told >= EVENTS:
            return


class Pages:
    """A server whose pages are files."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def send(self, request: Request) -> Response:
        page = dict(request.query).get("continue", "0")
        return Response(200, (self._folder / page).read_bytes())

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        raise Unreachable(f"there are pages only, not {request.target}")

    async def close(self) -> None:
        """Nothing is held."""


class Streamed:
    """A server that streams an empty list and then the lines it was given."""

    def __init__(self, lines: list[bytes]) -> None:
        self._lines = lines

    async def send(self, request: Request) -> Response:
        raise Unreachable(f"there is a stream only, not {request.target}")

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        if dict(request.query).get("sendInitialEvents") != "true":
            raise Unreachable("the stream begins with its list")
        yield self._all()

    async def close(self) -> None:
        """Nothing is held."""

    async def _all(self) -> AsyncIterator[bytes]:
        annotations = {"k8s.io/initial-events-end": "true"}
        end = {"metadata": {"resourceVersion": "1", "annotations": annotations}}
        yield msgspec.json.encode({"type": "BOOKMARK", "object": end})
        for line in self._lines:
            yield line


def write_pages(folder: Path) -> None:
    for first in range(0, SERVICES, PAGE):
        after = first + PAGE
        meta = {"resourceVersion": "9", "continue": str(after) if after < SERVICES else ""}
        items = [service(n) for n in range(first, after)]
        page = {"kind": "ServiceList", "apiVersion": "v1", "metadata": meta, "items": items}
        (folder / str(first)).write_bytes(msgspec.json.encode(page))


def event_line(number: int) -> bytes:
    obj = service(number % 1000)
    obj["metadata"]["resourceVersion"] = str(2_000_000 + number)
    return msgspec.json.encode({"type": "MODIFIED", "object": obj})


def service(number: int) -> dict[str, Any]:
    """A Service as API servers send them, managed fields and all."""
    name = f"service-{number}"
    labels = {
        "app": f"app-{number % 500}",
        "app.kubernetes.io/name": name,
        "app.kubernetes.io/managed-by": "Helm",
    }
    owned: dict[str, dict[str, Any]] = {
        f"f:{key}": {} for key in ("clusterIP", "ports", "selector", "sessionAffinity", "type")
    }
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": name,
            "namespace": f"namespace-{number % 100}",
            "uid": f"6d1c0f6e-2f1b-4b44-9d5e-{number:012}",
            "resourceVersion": str(1_000_000 + number),
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": labels,
            "annotations": {"meta.helm.sh/release-name": name, "note": f"the {number}th of many"},
            "managedFields": [
                {
                    "manager": "helm",
                    "operation": "Update",
                    "apiVersion": "v1",
                    "time": "2026-01-01T00:00:00Z",
                    "fieldsType": "FieldsV1",
                    "fieldsV1": {"f:metadata": {"f:labels": owned}, "f:spec": owned},
                }
            ],
        },
        "spec": {
            "clusterIP": f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}",
            "clusterIPs": [f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}"],
            "type": "ClusterIP",
            "internalTrafficPolicy": "Cluster",
            "ipFamilies": ["IPv4"],
            "ipFamilyPolicy": "SingleStack",
            "ports": [
                {"name": "http", "port": 80, "protocol": "TCP", "targetPort": "http"},
                {"name": "metrics", "port": 9090, "protocol": "TCP", "targetPort": 9090},
            ],
            "selector": {"app": labels["app"], "tier": "web"},
            "sessionAffinity": "None",
        },
        "status": {"loadBalancer": {}},
    }


def resident() -> float:
    """Memory of this process in MiB, as the system counts it."""
    status = Path("/proc/self/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


if __name__ == "__main__":
    print(json.dumps(run(), indent=2))
