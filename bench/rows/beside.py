"""An agent beside a large fleet: what others publish on the broker, which does not concern it.

The broker is a script of lines, so that nothing but the agent's caches is in the process: what the
slices of services in namespaces that this cluster does not have take, and what each change costs.
"""

import asyncio
import gc
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from itertools import islice
from random import Random
from typing import Any

import msgspec
import uvloop

from bench.figures import AtMost, Figure
from bench.processes import apart, resident
from bench.row import Effort, Row, unprepared
from hanse.app import BROKER, Options, features
from hanse.features.services.records import ExportRecord
from hanse.features.services.slices import ExportBackends, build_published_slices
from hanse.kube.clock import WallClock
from hanse.kube.errors import Unreachable
from hanse.kube.transport import Request, Response
from hanse.model.facts import Role
from hanse.model.feature_names import FEATURES
from hanse.model.kinds.discovery import EndpointSlice
from hanse.model.kinds.multicluster import ImportedPort
from hanse.model.naming import BROKER_NAMESPACE
from hanse.model.objects import to_wire
from hanse.runtime.api import ClusterClient
from hanse.runtime.reconciler import Reconciler

CLUSTERS = 10
SERVICES = 5_000
CHANGES = 2_000
HERE = "lubeck"
_BOOKMARK = msgspec.json.encode(
    {
        "type": "BOOKMARK",
        "object": {
            "metadata": {
                "resourceVersion": "1",
                "annotations": {"k8s.io/initial-events-end": "true"},
            }
        },
    }
)


class ScriptedServer:
    """An API server with no objects but the slices of many services; they change when told."""

    def __init__(self, services: int = 0) -> None:
        self._services = services
        self.ready = asyncio.Event()
        self.change = asyncio.Event()
        self.ended = asyncio.Event()

    async def send(self, request: Request) -> Response:
        if request.path.startswith("/api"):
            items: dict[str, Any] = {"kind": "List", "metadata": {"resourceVersion": "1"}}
            return Response(200, msgspec.json.encode({**items, "items": []}))
        raise Unreachable(f"there are streams only, not {request.target}")

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        if dict(request.query).get("sendInitialEvents") != "true":
            raise Unreachable("the stream begins with its list")
        many = self._services if request.path.endswith("/endpointslices") else 0
        yield self._lines(many)

    async def close(self) -> None:
        """Nothing is held."""

    async def _lines(self, services: int) -> AsyncIterator[bytes]:
        for line in slice_lines(services, "ADDED", 1):
            yield line
        yield _BOOKMARK
        if services:
            changes = list(islice(slice_lines(services, "MODIFIED", 10**6), CHANGES))
            self.ready.set()
            await self.change.wait()
            for line in changes:
                yield line
                await asyncio.sleep(0)  # one at a time, as they come from a calm fleet
            self.ended.set()
        await asyncio.get_running_loop().create_future()


def slice_lines(services: int, event: str, version: int) -> Iterator[bytes]:
    """A line for each slice that the agents of other clusters have published."""
    for number in range(services):
        for cluster in range(CLUSTERS):
            wire = to_wire(published_slice(f"service-{number}", f"c{cluster}", number))
            wire["metadata"] |= {
                "uid": f"6d1c0f6e-2f1b-4b44-{cluster:04}-{number:012}",
                "resourceVersion": str(version + number * CLUSTERS + cluster),
                "creationTimestamp": "2026-01-01T00:00:00Z",
            }
            yield msgspec.json.encode({"type": event, "object": wire})


def published_slice(service: str, cluster: str, number: int) -> EndpointSlice:
    """The slice of one service that a cluster publishes, as its agent writes it."""
    record = ExportRecord(
        cluster=cluster,
        namespace=f"team-{number % 100}",
        name=service,
        exported_at=datetime(2026, 1, 1, tzinfo=UTC),
        type="ClusterSetIP",
        ports=(ImportedPort(port=80, name="http"),),
        ip_families=("IPv4",),
    )
    address = f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}"
    backends = ExportBackends(addresses=(address,))
    (piece,) = build_published_slices(record, backends, BROKER_NAMESPACE, as_pods=False)
    return piece


async def _once(effort: Effort) -> dict[str, float]:
    return await apart(beside, effort.of(SERVICES, 100))


def beside(services: int) -> dict[str, float]:
    """Memory of an agent beside so many services of ten clusters, and CPU of a change of one."""
    return uvloop.run(_beside(services))


async def _beside(services: int) -> dict[str, float]:
    broker, home = ScriptedServer(services), ScriptedServer()
    reconciler = Reconciler(features(Options(FEATURES)), HERE, clock=WallClock(), random=Random(1))
    informers = reconciler.informers
    gc.collect()
    before = resident()
    started = time.process_time()
    informers.join(HERE, {Role.LOCAL}, ClusterClient(home, Random(1)))
    informers.join(BROKER, {Role.BROKER}, ClusterClient(broker, Random(1)))
    async with reconciler.running():
        reconciler.active = True
        wanted = services * CLUSTERS
        await broker.ready.wait()
        await _planned(reconciler, wanted)
        read = time.process_time() - started
        gc.collect()
        memory = resident()
        idle = time.process_time()
        broker.change.set()
        await broker.ended.wait()
        await _planned(reconciler, wanted)
        changed = (time.process_time() - idle) / min(CHANGES, wanted)
    return {
        "memory": memory,
        "memory of a slice": (memory - before) * 1024 * 1024 / wanted,
        "CPU until all is read and planned": read,
        "CPU of a change": changed * 1000,
    }


async def _planned(reconciler: Reconciler, slices: int) -> None:
    """Wait until so many slices are cached, and nothing is left to plan."""
    stores = reconciler.informers.stores_of(BROKER, EndpointSlice.kind)
    queue = reconciler.queue
    while sum(map(len, stores)) < slices or not queue.is_settled:  # noqa: ASYNC110 - no event
        await asyncio.sleep(0.01)


BESIDE = Row(
    name="beside",
    about="an agent beside 50,000 slices on the broker, of 5,000 services that do not concern it",
    against="fixed goals",
    figures=(
        Figure("memory", "MiB", AtMost(250.0)),
        Figure("memory of a slice", "B"),
        Figure("CPU until all is read and planned", "s"),
        Figure("CPU of a change", "ms", AtMost(0.2)),
    ),
    prepare=unprepared(_once),
)
