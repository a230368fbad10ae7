"""One agent as a process: its restart over much that stands, and what it takes to do much."""

import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from bench.agents import agent_process, agents_of, real_fleet
from bench.figures import AtMost, Figure
from bench.row import Effort, Once, Row
from bench.rows.throughput import shared_by
from bench.sight import sights
from bench.writing import NAMESPACES, WORK, clear, configmap, create, prepare, write_all
from hanse.local.real.fleet import BROKER, NAMES
from hanse.testing.toy import FROM, HOME, RECORD

IMPORTS = 5_000
OFFERS = 600
HERE, ELSEWHERE = NAMES[0], "visby"
"""The agent's cluster, and one that offers everything and has no agent here."""


@asynccontextmanager
async def _imported(effort: Effort) -> AsyncIterator[Once]:
    names = [f"offer-{number}" for number in range(effort.of(IMPORTS, 300))]
    async with real_fleet() as fleet:
        ways = {name: fleet.clusters[name].connect() for name in (HERE, BROKER)}
        try:
            await prepare(ways)
            async with (
                sights(ways, NAMESPACES, 1) as seen,
                agent_process(HERE, fleet.kubeconfig) as first,
            ):
                await write_all(ways, [create(BROKER, _record(name)) for name in names])
                copies = {f"{made}-of-{name}" for made in ("copy", "receipt") for name in names}
                await seen[HERE].until(copies)
                await seen[BROKER].until({f"sum.{WORK}.{name}" for name in names})
                await first.quiet()

            async def once() -> Mapping[str, float]:
                async with agent_process(HERE, fleet.kubeconfig) as agent:
                    told = await agent.quiet()
                assert told.objects >= 4 * len(names), "it has read them all"
                return {
                    "writes": float(told.sent),
                    "renewals of Leases": float(told.leases),
                    "until everything is read": agent.synced_after,
                    "until everything is planned": agent.settled_after,
                    "memory": told.most_resident,
                }

            yield once
        finally:
            for way in ways.values():
                await way.close()


def _record(name: str) -> dict[str, object]:
    labels = {RECORD: f"{WORK}.{name}", FROM: ELSEWHERE}
    return configmap(f"{WORK}.{name}.{ELSEWHERE}", HOME, labels, {"text": "x" * 100})


@asynccontextmanager
async def _at_work(effort: Effort) -> AsyncIterator[Once]:
    names = [f"offer-{number}" for number in range(effort.of(OFFERS, 100))]
    async with real_fleet() as fleet:
        ways = {name: cluster.connect() for name, cluster in fleet.clusters.items()}
        try:
            await prepare(ways)

            async def once() -> Mapping[str, float]:
                async with agents_of(fleet, NAMES) as agents:
                    await shared_by(agents, ways, names, time.process_time)
                    told = [await agent.quiet() for agent in agents]
                await clear(ways)
                return {
                    "most memory": max(one.most_resident for one in told),
                    "CPU": max(one.cpu for one in told),
                }

            yield once
        finally:
            for way in ways.values():
                await way.close()


RESTART = Row(
    name="restart",
    about="an agent's restart over 5,000 imports in a real cluster, from nothing to all planned",
    against="fixed goals",
    figures=(
        Figure("writes", "", AtMost(0)),
        Figure("renewals of Leases", ""),
        Figure("until everything is read", "s", AtMost(5.0)),
        Figure("until everything is planned", "s", AtMost(5.0)),
        Figure("memory", "MiB"),
    ),
    prepare=_imported,
)

FOOTPRINT = Row(
    name="footprint",
    about="the agents of three real clusters that share 600 offers each: the largest of the three",
    against="fixed goals; a peer's agent in Go took 170 to 236 MiB and 29 to 39 s CPU",
    figures=(Figure("most memory", "MiB", AtMost(100)), Figure("CPU", "s", AtMost(10.0))),
    prepare=_at_work,
)
