"""Exporting 300 Services of each of three clusters, against a bare client that writes the same."""

import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

from bench.agents import agents_of, real_fleet
from bench.figures import AtMost, Figure
from bench.measured_load import Load, measure_agents, measure_bare_client
from bench.processes import seconds_of
from bench.row import Effort, Once, Row
from bench.services_load import LEFT, bare_writes, everywhere, exports, is_by_people, looks, prepare
from hanse.local.real.fleet import NAMES, RealFleet

SERVICES = 300


@asynccontextmanager
async def _prepared(effort: Effort) -> AsyncIterator[Once]:
    names = [f"service-{number}" for number in range(effort.of(SERVICES, 50))]
    async with real_fleet() as fleet:
        transports = {name: cluster.connect() for name, cluster in fleet.clusters.items()}
        try:
            await prepare(transports, names)

            def beside() -> float:
                return time.process_time() + servers_cpu(fleet)

            async def once() -> Mapping[str, float]:
                async with agents_of(fleet, NAMES) as agents:
                    shared = await measure_agents(agents, transports, load_of(names), beside)
                bare = await bare_writes(transports)
                by_people = sum(map(is_by_people, bare))
                limit = await measure_bare_client(transports, bare, LEFT, by_people, beside)
                each = {"writes per service": shared["writes"] / len(names)}
                return {**shared, **limit, **each}

            yield once
        finally:
            for way in transports.values():
                await way.close()


def load_of(names: Sequence[str]) -> Load:
    """Each Service exported by each cluster, until all of it is everywhere."""
    return Load(
        [write for name in NAMES for write in exports(name, names)],
        looks(len(NAMES)),
        lambda seen: everywhere(seen, names),
    )


def servers_cpu(fleet: RealFleet) -> float:
    """CPU seconds that all servers of a fleet have taken."""
    servers = [server for cluster in fleet.clusters.values() for server in cluster.servers.values()]
    return sum(seconds_of(server.pid) for server in servers if server.pid is not None)


THROUGHPUT = Row(
    name="throughput",
    about="300 Services exported by each of three real clusters until all have all",
    against="a bare client that writes the same objects, each once, at full concurrency",
    figures=(
        Figure("time", "s", AtMost(1.15), against="bare client"),
        Figure("writes", "", AtMost(1.005), against="objects"),
        Figure("writes per service", ""),
        Figure("refused", "writes"),
        Figure("CPU of everything", "s", against="bare client's"),
        Figure("CPU of an agent", "s"),
    ),
    prepare=_prepared,
)
