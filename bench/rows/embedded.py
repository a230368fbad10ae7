"""An embedded cluster in process: creates per second, and what idle ones weigh."""

import asyncio
import gc
import time
from contextlib import AsyncExitStack
from typing import Any

import msgspec
import uvloop

from bench.figures import AtLeast, AtMost, Figure
from bench.processes import apart, resident
from bench.row import Effort, Row, unprepared
from hanse.kube.clock import WallClock
from hanse.kube.transport import Request, Transport
from hanse.local.in_process import InProcessTransport
from tinykube.apiserver import ApiServer
from tinykube.controllers.controller_manager import ALL_CONTROLLERS, ControllerManager

IDLE = 100
NODES = 3
CREATES = 5_000


async def _once(effort: Effort) -> dict[str, float]:
    created = await apart(creating, effort.of(CREATES, 1_000))
    return {**created, "100 idle clusters": await apart(idling)}


def creating(count: int) -> dict[str, float]:
    """Creates of two kinds by one caller, each as bytes to bytes through the whole API."""
    return {
        "ConfigMaps": uvloop.run(_created("configmaps", [config_map(n) for n in range(count)])),
        "Services": uvloop.run(_created("services", [service(n) for n in range(count)])),
    }


async def _created(resource: str, bodies: list[bytes]) -> float:
    way = InProcessTransport(ApiServer("bench", clock=WallClock()))
    started = time.perf_counter()
    await create_all(way, f"/api/v1/namespaces/default/{resource}", bodies)
    return len(bodies) / (time.perf_counter() - started)


async def create_all(way: Transport, path: str, bodies: list[bytes], at_once: int = 1) -> None:
    """Create every object, a few at a time."""
    left = iter(bodies)

    async def worker() -> None:
        for body in left:
            answer = await way.send(Request("POST", path, body=body))
            assert answer.status == 201, answer.body

    await asyncio.gather(*(worker() for _ in range(at_once)))


def idling() -> float:
    """MiB of a process that runs a hundred clusters with nodes and every controller, at rest."""
    return uvloop.run(_idle_clusters())


async def _idle_clusters() -> float:
    async with AsyncExitStack() as stack:
        clusters = [ApiServer(f"c{number}", clock=WallClock()) for number in range(IDLE)]
        for api in clusters:
            controllers = ControllerManager(api, enabled=ALL_CONTROLLERS)
            task = asyncio.create_task(controllers.run(), name=f"cluster {api.name}")
            stack.callback(task.cancel)
            await controllers.idle()
        gc.collect()
        assert all(len([*api.storage.objects("nodes", "")]) == NODES for api in clusters)
        return resident()


def config_map(number: int) -> bytes:
    """A small object."""
    return _body("ConfigMap", number, data={"sent": repr(time.time()), "text": "x" * 200})


def service(number: int) -> bytes:
    """An object that the server gives an address."""
    ports = [{"name": "http", "port": 80, "targetPort": 8080}]
    return _body("Service", number, spec={"selector": {"app": "bench"}, "ports": ports})


def _body(kind: str, number: int, **fields: Any) -> bytes:
    meta = {"name": f"bench-{number}", "labels": {"app": "bench"}}
    return msgspec.json.encode({"apiVersion": "v1", "kind": kind, "metadata": meta, **fields})


EMBEDDED = Row(
    name="embedded",
    about="embedded clusters in process: creates by one caller, and memory of a hundred at rest",
    against="fixed goals",
    figures=(
        Figure("ConfigMaps", "creates/s", AtLeast(2_000)),
        Figure("Services", "creates/s", AtLeast(2_000)),
        Figure("100 idle clusters", "MiB", AtMost(500)),
    ),
    prepare=unprepared(_once),
)
