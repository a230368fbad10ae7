"""Names of 10,000 services: time to compile them, their size, how fast a change is seen."""

import asyncio
import gc
import resource
import socket
import time
import tracemalloc
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from random import Random

import dns.message

from bench.figures import AtMost, Figure
from bench.names import NAMESPACE, compiler_of, seen_with, whole_name
from bench.row import Effort, Once, Row
from hanse.dns.compiler import Compiler
from hanse.dns.listeners import bind_listeners
from hanse.dns.server import ServedView, serving
from hanse.dns.table import Table
from hanse.dns.updater import ViewUpdater
from hanse.model.kinds.multicluster import ServiceImport
from hanse.model.snapshot import ObjectChange, Snapshot

SERVICES = 10_000
SETTLED = 0.2
"""Seconds after which whoever asks is well on their way."""


@asynccontextmanager
async def _prepared(effort: Effort) -> AsyncIterator[Once]:
    names = [f"svc-{n}" for n in range(effort.of(SERVICES, 500))]
    seen, before = seen_with(names), seen_with(names[1:])

    async def once() -> Mapping[str, float]:
        compiler = compiler_of()
        gc.collect()
        began = _cpu()
        compiler.enqueue_all(seen)
        compiler.compile(seen)
        seconds = _cpu() - began
        return {
            "compile": seconds * SERVICES / len(names),
            "memory": _bytes_per_name(compiler),
            "change": await _change(before, seen, names[0]),
        }

    yield once


def _cpu() -> float:
    spent = resource.getrusage(resource.RUSAGE_SELF)
    return spent.ru_utime + spent.ru_stime


def _bytes_per_name(compiler: Compiler) -> float:
    """What a name weighs in one worker."""
    full_delta = compiler.full_delta()
    gc.collect()
    tracemalloc.start()
    table = Table("bench", Random(1))
    table.apply(full_delta)
    weight, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return weight / len(table.names)


async def _change(before: Snapshot, after: Snapshot, service: str) -> float:
    """Milliseconds from a watch's event until a client hears of it, of a server that is full."""
    compiler, listeners, seen = compiler_of(), bind_listeners("127.0.0.1", 0, 1), [before]
    new = after.get(after.local, ServiceImport, service, NAMESPACE)
    query = dns.message.make_query(whole_name(service), "A").to_wire()
    try:
        async with serving([ServedView(compiler, (listeners,))]) as server:
            feed = ViewUpdater(compiler, server, lambda: seen[0])
            async with feed.running():
                await feed.wait_applied()
                asking = asyncio.create_task(
                    asyncio.to_thread(_ask_until_known, listeners.address, query)
                )
                await asyncio.sleep(SETTLED)
                seen[0], began = after, time.perf_counter()
                feed.on_change(ObjectChange(after.local, None, new))
                return (await asking - began) * 1000
    finally:
        listeners.close()


def _ask_until_known(server: tuple[str, int], query: bytes) -> float:
    """Ask again and again; gives the moment when the name was there."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.settimeout(10)
        client.connect(server)
        while True:
            client.send(query)
            if client.recv(512)[3] & 0xF == 0:
                return time.perf_counter()


DNS_NAMES = Row(
    name="dns-names",
    about="names of 10,000 services from three clusters each (twelve names a service)",
    against="the goals of the contract",
    figures=(
        Figure("compile", "s CPU", AtMost(1.0)),
        Figure("memory", "bytes per name", AtMost(2048)),
        Figure("change", "ms", AtMost(50)),
    ),
    prepare=_prepared,
)
