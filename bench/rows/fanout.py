"""What a change costs the broker's API server when many agents watch it.

The watchers only read: what agents do with an event is in other rows. Each has a connection of its
own, as each agent has.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

from msgspec import Struct

from bench.agents import real_fleet
from bench.bare_client import base_of, create, namespace, patch, write_all
from bench.figures import Figure
from bench.processes import seconds_of
from bench.row import Effort, Once, Row
from bench.rows.beside import published_slice
from hanse.kube.transport import Request, Transport
from hanse.local.real.cluster import RealCluster
from hanse.local.real.fleet import BROKER
from hanse.local.real.programs import API_SERVER
from hanse.model.naming import BROKER_NAMESPACE
from hanse.model.objects import to_wire

FEW, MANY = 10, 60
CHANGES = 300
SLICE = to_wire(published_slice("web", "lubeck", 1))


class Spent(Struct, frozen=True):
    """CPU of the API server for one change, in microseconds, and the bytes of an event."""

    cpu: float
    size: float


class Watchers:
    """Connections that watch the slices on the broker, and count what they are told."""

    def __init__(self) -> None:
        self.events = 0
        self.opened = 0
        self.bytes_read = 0

    async def watch(self, transport: Transport) -> None:
        """Count the events of one watch until it is cancelled."""
        path = f"{base_of('discovery.k8s.io/v1', BROKER_NAMESPACE)}/endpointslices"
        query = (("watch", "true"), ("timeoutSeconds", "600"))
        async with transport.stream(Request("GET", path, query)) as lines:
            self.opened += 1
            async for line in lines:
                self.events += 1
                self.bytes_read += len(line)


async def _cost(broker: RealCluster, writer: Transport, count: int, changes: int) -> Spent:
    """What changes cost the API server while so many connections watch."""
    watchers, pid = Watchers(), broker.servers[API_SERVER.name].pid
    assert pid is not None, "the API server runs"
    transports = [broker.connect() for _ in range(count)]
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(watchers.watch(one)) for one in transports]
        await _until(lambda: watchers.opened == count and watchers.events >= count)
        before, seen = seconds_of(pid), watchers.events
        for number in range(changes):
            change = {"endpoints": [{"addresses": [f"10.9.{number // 250}.{number % 250}"]}]}
            await write_all({BROKER: writer}, [patch(BROKER, SLICE, change)])
        await _until(lambda: watchers.events >= seen + count * changes)
        spent = seconds_of(pid) - before
        for task in tasks:
            task.cancel()
    for one in transports:
        await one.close()
    return Spent(spent / changes * 1e6, watchers.bytes_read / watchers.events)


@asynccontextmanager
async def _watched(effort: Effort) -> AsyncIterator[Once]:
    async with real_fleet(()) as fleet:
        broker = fleet.clusters[BROKER]
        writer = broker.connect()
        await namespace(writer, BROKER_NAMESPACE)
        await write_all({BROKER: writer}, [create(BROKER, SLICE)])

        async def once() -> Mapping[str, float]:
            few, many, changes = effort.of(FEW, 2), effort.of(MANY, 6), effort.of(CHANGES, 20)
            small = await _cost(broker, writer, few, changes)
            large = await _cost(broker, writer, many, changes)
            return {
                "CPU of a change, few watchers": small.cpu,
                "CPU of a change, many watchers": large.cpu,
                "CPU of an event": (large.cpu - small.cpu) / (many - few),
                "size of an event": large.size,
            }

        try:
            yield once
        finally:
            await writer.close()


async def _until(holds: Callable[[], bool]) -> None:
    while not holds():  # noqa: ASYNC110 - counted by other tasks
        await asyncio.sleep(0.02)


FANOUT = Row(
    name="fanout",
    about="a real broker's API server with 10 and 60 watchers: CPU of a change, and of each event",
    against="shown: it is the coefficient of the model in docs/scale.md",
    figures=(
        Figure("CPU of a change, few watchers", "µs"),
        Figure("CPU of a change, many watchers", "µs"),
        Figure("CPU of an event", "µs"),
        Figure("size of an event", "B"),
    ),
    prepare=_watched,
)
