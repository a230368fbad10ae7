"""Our server beside Knot with the same names: few and many, on one core and on all, changing."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import cast

from tests.support.builders import stored
from tests.support.ports import free_ports

from bench.dns_servers import (
    knot_command,
    latencies,
    on_cores,
    p99,
    packages,
    program_running,
    queries_per_second,
    serves,
)
from bench.figures import AtLeast, AtMost, Figure
from bench.names import (
    CLUSTERS,
    WORKERS,
    ZONE,
    OwnServer,
    imported_slice,
    seen_with,
    served,
    whole_name,
)
from bench.row import Effort, Once, Row, Skip
from bench.rows.dns import rotates
from hanse.kube.store import Store
from hanse.kube.watch_events import Applied
from hanse.model.kinds.discovery import EndpointSlice
from hanse.model.snapshot import ObjectChange, Snapshot

NAMES_OF_SERVICE = 12
"""The service's and each of three clusters', each with an SRV record and the name between."""
SECONDS = 4
CHANGES = 1_000
"""In a second."""
_TICK = 0.01


@asynccontextmanager
async def _prepared(names: int, effort: Effort) -> AsyncIterator[Once]:
    await packages()
    server_core, *cores = sorted(os.sched_getaffinity(0))
    if not cores:
        raise Skip("there is one core; a server needs one, and dnsperf another")
    seconds = effort.of(SECONDS, 1)
    services = [f"svc-{n}" for n in range(effort.of(names, 1_200) // NAMES_OF_SERVICE)]
    addresses = dict(_addresses(services))
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="hanse-bench-dns-")))
        queries = folder / "queries"
        queries.write_text("".join(f"{name}. A\n" for name in addresses))
        knot_all, knot_one = free_ports(2)
        for port, workers, before in (
            (knot_all, WORKERS, ()),
            (knot_one, 1, on_cores([server_core])),
        ):
            command = knot_command(folder / str(port), ZONE, _records(addresses), port, workers)
            log = folder / f"{port}.log"
            await stack.enter_async_context(program_running((*before, *command), log))
            await serves("Knot", port, addresses)
        seen = seen_with(services)
        own_all = await stack.enter_async_context(served(seen))
        own_one = await stack.enter_async_context(served(seen, workers=1))
        for pid in own_one.pids:
            os.sched_setaffinity(pid, {server_core})
        for own in (own_all, own_one):
            await rotates(own.port, services)

        async def once() -> Mapping[str, float]:
            found = {
                "Knot, all cores": await queries_per_second(knot_all, queries, seconds),
                "all cores": await queries_per_second(own_all.port, queries, seconds),
                "Knot, one core": await queries_per_second(knot_one, queries, seconds, cores),
                "one core": await queries_per_second(own_one.port, queries, seconds, cores),
            }
            rate = int(min(found["Knot, one core"], found["one core"]) / 2)
            found["Knot p99"] = p99(await latencies(knot_one, queries, seconds, rate, cores))
            found["p99"] = p99(await latencies(own_one.port, queries, seconds, rate, cores))
            with _pinned(cores):
                async with _changing(own_one, seen, services):
                    found["changing"] = await queries_per_second(
                        own_one.port, queries, seconds, cores
                    )
            return {**found, "rate": rate}

        yield once


def _addresses(services: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Each name that has an address, with one that we answer, too."""
    for number, service in enumerate(services):
        name = whole_name(service)
        yield name, f"10.0.{number >> 8}.{number & 255}"
        for place, source in enumerate(CLUSTERS):
            yield f"{source}.{name}", f"10.{place}.{number >> 8}.{number & 255}"


def _records(addresses: Mapping[str, str]) -> Iterator[str]:
    for name, address in addresses.items():
        yield f"{name}. 5 A {address}\n_http._tcp.{name}. 5 SRV 0 50 80 {name}.\n"


@contextmanager
def _pinned(cores: Sequence[int]) -> Iterator[None]:
    """Keep this thread on some cores until the block ends."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@asynccontextmanager
async def _changing(own: OwnServer, seen: Snapshot, services: Sequence[str]) -> AsyncIterator[None]:
    """Let a cluster's address of one service after the other change until the block ends."""
    began, stop = time.perf_counter(), asyncio.Event()
    changing = asyncio.create_task(_change(own, seen, services, stop), name="changes")
    try:
        yield
    finally:
        stop.set()
        changes, seconds = await changing, time.perf_counter() - began
    assert changes >= 0.95 * CHANGES * seconds, f"only {changes} changes in {seconds:.1f} s"


async def _change(
    own: OwnServer, seen: Snapshot, services: Sequence[str], stop: asyncio.Event
) -> int:
    """Change addresses as fast as wanted until told to stop; returns how many are served."""
    stores = seen._stores[seen.local, EndpointSlice.kind]  # noqa: SLF001 - an informer has it
    store, done, began = cast("Store[EndpointSlice]", stores[0]), 0, time.perf_counter()
    while not stop.is_set():
        due = int((time.perf_counter() - began) * CHANGES)
        for number in range(done, due):
            address = f"10.{9 + (number >> 16)}.{number >> 8 & 255}.{number & 255}"
            service = services[number % len(services)]
            new = stored(imported_slice(service, CLUSTERS[0], address))
            for change in store.apply_event(Applied(new)):
                own.feed.on_change(ObjectChange(seen.local, change.before, change.after))
        done = due
        await asyncio.sleep(_TICK)
    await own.feed.wait_applied()
    return done


def _row(name: str, names: int) -> Row:
    return Row(
        name=name,
        about=f"queries per second over {names:,} names, ours rotate: on one core and on all, "
        f"with {CHANGES:,} changes a second; p99 at half load",
        against="Knot with the same names from a file; for the changes, the same without them",
        figures=(
            Figure("all cores", "queries/s", AtLeast(1.0), against="Knot, all cores"),
            Figure("one core", "queries/s", AtLeast(1.0), against="Knot, one core"),
            Figure("rate", "queries/s"),
            Figure("p99", "ms", AtMost(1.0), against="Knot p99"),
            Figure("changing", "queries/s", AtLeast(0.95), against="one core"),
        ),
        prepare=partial(_prepared, names),
    )


DNS_KNOT = _row("dns-knot", 5_000)
DNS_KNOT_MANY = _row("dns-knot-many", 500_000)
