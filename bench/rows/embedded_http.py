"""An embedded cluster over HTTPS: creates per second on one core, and how far a watch lags."""

import asyncio
import os
import time
from statistics import median

import msgspec
import uvloop

from bench.figures import AtLeast, AtMost, Figure
from bench.processes import apart
from bench.row import Effort, Row, unprepared
from bench.rows.embedded import config_map, create_all
from bench.served import a_server, connected
from hanse.kube.client_config import ClientConfig
from hanse.kube.transport import Request, Transport

CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
AT_ONCE = 8
WRITERS = 4


async def _once(effort: Effort) -> dict[str, float]:
    created = await apart(creating, effort.of(2_000, 500))
    lagged = await apart(lagging, effort.of(10_000, 1_000))
    return {**created, **lagged}


def creating(count: int) -> dict[str, float]:
    """Creates per second while client and server together have one core."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    with a_server() as access:
        return {"creates on one core": uvloop.run(_creates(access, count))}


def lagging(events: int) -> dict[str, float]:
    """From the sending of each create to its sight on a watch, in milliseconds."""
    with a_server() as access:
        lags = uvloop.run(_watch_lags(access, events))
    return {"largest watch lag": 1000 * max(lags), "median watch lag": 1000 * median(lags)}


async def _creates(access: ClientConfig, count: int) -> float:
    async with connected(access) as way:
        started = time.perf_counter()
        await create_all(way, CONFIGMAPS, [config_map(n) for n in range(count)], AT_ONCE)
        return count / (time.perf_counter() - started)


async def _watch_lags(access: ClientConfig, events: int) -> list[float]:
    query = (("watch", "true"), ("timeoutSeconds", "600"), ("labelSelector", "app=bench"))
    lags: list[float] = []
    async with connected(access) as way, way.stream(Request("GET", CONFIGMAPS, query)) as lines:
        writing = asyncio.create_task(_write(way, events))
        async for line in lines:
            event = msgspec.json.decode(line)
            lags.append(time.time() - float(event["object"]["data"]["sent"]))
            if len(lags) == events:
                break
        await writing
    return lags


async def _write(way: Transport, events: int) -> None:
    numbers = iter(range(events))

    async def worker() -> None:
        for number in numbers:
            await create_all(way, CONFIGMAPS, [config_map(number)])

    await asyncio.gather(*(worker() for _ in range(WRITERS)))


EMBEDDED_HTTP = Row(
    name="embedded-http",
    about="an embedded cluster over HTTPS: creates by eight callers, and the lag of a watch",
    against="fixed goals",
    figures=(
        Figure("creates on one core", "creates/s", AtLeast(500)),
        Figure("largest watch lag", "ms", AtMost(100)),
        Figure("median watch lag", "ms"),
    ),
    prepare=unprepared(_once),
)
