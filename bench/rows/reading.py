"""What reading costs: a list of 50,000 Services, and one event of a watch up to its queued key."""

import asyncio
import gc
import time
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import uvloop
from tests.support.toy import OFFER, Toy

from bench.figures import AtMost, Figure
from bench.processes import apart, resident
from bench.row import Effort, Once, Row, unprepared
from hanse.kube.client import Client
from hanse.kube.clock import WallClock
from hanse.kube.errors import Unreachable
from hanse.kube.store import Store
from hanse.kube.transport import Request, Response
from hanse.model.facts import Role
from hanse.model.kinds.core import Service
from hanse.model.snapshot import Index
from hanse.runtime.api import ClusterClient
from hanse.runtime.reconciler import Reconciler

SERVICES = 50_000
PAGE = 500
EVENTS = 20_000
OBJECTS = 1_000
BY_APP: Index[Service] = Index(Service, "app", lambda s: [s.metadata.labels["app"]])


@asynccontextmanager
async def _pages_written(effort: Effort) -> AsyncIterator[Once]:
    del effort  # the goal is about this size and no other
    with TemporaryDirectory() as folder:
        await asyncio.to_thread(write_pages, Path(folder))
        yield lambda: apart(listing, folder)


def listing(folder: str) -> dict[str, float]:
    """CPU and memory of listing every Service, by pages, into a store with an index."""
    gc.collect()
    before = resident()
    started = time.process_time()
    store = asyncio.run(_listed(Pages(Path(folder))))
    spent = time.process_time() - started
    gc.collect()
    grown = resident() - before
    assert len(store) == SERVICES
    return {"CPU": spent, "memory": grown}


async def _listed(pages: "Pages") -> Store[Service]:
    store: Store[Service] = Store([BY_APP])
    for _ in store.apply_event(await Client(pages).list(Service)):
        pass
    return store


async def _events_once(effort: Effort) -> dict[str, float]:
    return await apart(queueing, effort.of(EVENTS, 2_000))


def queueing(events: int) -> dict[str, float]:
    """CPU of one event: bytes of a stream, store, owners, wakes of a feature, queued key."""
    lines = [event_line(number) for number in range(events)]
    return {"CPU of an event": uvloop.run(_followed(Streamed(lines))) / events * 1e6}


async def _followed(way: "Streamed") -> float:
    """Follow a cluster as an agent does, but plan nothing: keys stay in the queue."""
    reconciler = Reconciler([Toy()], "lubeck", clock=WallClock(), random=Random(1))
    reconciler.informers.join("lubeck", {Role.LOCAL}, ClusterClient(way, Random(1)))
    async with reconciler.informers.running():
        reconciler.active = True
        await way.started.wait()
        started = time.process_time()
        way.go.set()
        await way.ended.wait()
        spent = time.process_time() - started
    names = {(await reconciler.queue.take()).item[1].name for _ in range(OBJECTS)}
    assert len(names) == OBJECTS, "each object has woken its key"
    return spent


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
    """A server that streams empty lists, and then the lines it was given, of ConfigMaps."""

    def __init__(self, lines: list[bytes]) -> None:
        self._lines = lines
        self.started = asyncio.Event()
        self.go = asyncio.Event()
        self.ended = asyncio.Event()

    async def send(self, request: Request) -> Response:
        raise Unreachable(f"there are streams only, not {request.target}")

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        if dict(request.query).get("sendInitialEvents") != "true":
            raise Unreachable("the stream begins with its list")
        yield self._all(request.path.endswith("/configmaps"))

    async def close(self) -> None:
        """Nothing is held."""

    async def _all(self, configmaps: bool) -> AsyncIterator[bytes]:
        annotations = {"k8s.io/initial-events-end": "true"}
        end = {"metadata": {"resourceVersion": "1", "annotations": annotations}}
        yield msgspec.json.encode({"type": "BOOKMARK", "object": end})
        if configmaps:
            self.started.set()
            await self.go.wait()
            for line in self._lines:
                yield line
            self.ended.set()
        await asyncio.get_running_loop().create_future()


def write_pages(folder: Path) -> None:
    for first in range(0, SERVICES, PAGE):
        after = first + PAGE
        meta = {"resourceVersion": "9", "continue": str(after) if after < SERVICES else ""}
        items = [service(n) for n in range(first, after)]
        page = {"kind": "ServiceList", "apiVersion": "v1", "metadata": meta, "items": items}
        (folder / str(first)).write_bytes(msgspec.json.encode(page))


def event_line(number: int) -> bytes:
    """A change of one of many offers, with the metadata that API servers send along."""
    meta = {
        **service(number % OBJECTS)["metadata"],
        "resourceVersion": str(2_000_000 + number),
        "labels": {OFFER: "", "app": "bench", "app.kubernetes.io/managed-by": "Helm"},
    }
    obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"n": str(number)}}
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


LIST = Row(
    name="list",
    about="decode 50,000 Services from one paged list into an indexed store",
    against="fixed goals",
    figures=(Figure("CPU", "s", AtMost(3.0)), Figure("memory", "MiB", AtMost(150.0))),
    prepare=_pages_written,
)

EVENT = Row(
    name="event",
    about="a watch event from its bytes to the queued key, through the engine with a feature",
    against="a fixed goal",
    figures=(Figure("CPU of an event", "µs", AtMost(100.0)),),
    prepare=unprepared(_events_once),
)
