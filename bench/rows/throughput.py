"""Sharing 300 offers of each of three clusters, against a bare client that writes the same."""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

from bench.agents import AgentProcess, agents_of, real_fleet
from bench.figures import AtMost, Figure
from bench.row import Effort, Once, Row
from bench.sight import Sight, sights
from bench.writing import NAMESPACES, bare_writes, clear, offers, prepare, write_all
from hanse.kube.request import Transport
from hanse.local.real.fleet import BROKER, NAMES

OFFERS = 300


@asynccontextmanager
async def _prepared(effort: Effort) -> AsyncIterator[Once]:
    names = [f"offer-{number}" for number in range(effort.of(OFFERS, 50))]
    async with real_fleet() as fleet:
        ways = {name: cluster.connect() for name, cluster in fleet.clusters.items()}
        try:
            await prepare(ways)

            async def once() -> Mapping[str, float]:
                async with agents_of(fleet, NAMES) as agents:
                    shared = await shared_by(agents, ways, names)
                return {**shared, **await written_barely(ways)}

            yield once
        finally:
            for way in ways.values():
                await way.close()


async def shared_by(
    agents: Sequence[AgentProcess], ways: Mapping[str, Transport], names: Sequence[str]
) -> dict[str, float]:
    """From the first offer to the sight of everything everywhere, and what the agents wrote."""
    before = [await agent.ask() for agent in agents]
    async with sights(ways, NAMESPACES, len(NAMES)) as seen:
        began = time.perf_counter()
        load = [write for name in NAMES for write in offers(name, names)]
        writing = asyncio.create_task(write_all(ways, load), name="load")
        await everywhere(seen, names)
        seconds = time.perf_counter() - began
        await writing
    after = [await agent.quiet() for agent in agents]
    return {
        "time": seconds,
        "writes": float(sum(a.sent - b.sent for a, b in zip(after, before, strict=True))),
        "refused": float(sum(a.refused - b.refused for a, b in zip(after, before, strict=True))),
        "CPU of an agent": sum(a.cpu - b.cpu for a, b in zip(after, before, strict=True))
        / len(after),
    }


async def everywhere(seen: Mapping[str, Sight], names: Sequence[str]) -> None:
    """Wait until each cluster has each copy and receipt, and each record, sum and answer stands."""
    at_home = {f"{made}{name}" for made in ("", "copy-of-", "receipt-of-") for name in names}
    work = NAMESPACES[NAMES[0]]
    records = {f"{work}.{name}.{cluster}" for name in names for cluster in NAMES}
    sums = {f"sum.{work}.{name}" for name in names}
    await asyncio.gather(
        *(seen[name].until(at_home) for name in NAMES), seen[BROKER].until(records | sums)
    )


async def written_barely(ways: Mapping[str, Transport]) -> dict[str, float]:
    """The same objects by a client that knows them already; both runs begin with nothing."""
    writes = await bare_writes(ways)
    await clear(ways)
    began = time.perf_counter()
    await write_all(ways, writes)
    seconds = time.perf_counter() - began
    await clear(ways)
    made_by_people = sum(b'"toy.hanse.dev/offer"' in w.request.body for w in writes)
    return {"bare client": seconds, "objects": float(len(writes) - made_by_people)}


THROUGHPUT = Row(
    name="throughput",
    about="300 offers of each of three real clusters until all copies are everywhere",
    against="a bare client that writes the same objects, each once, at full concurrency",
    figures=(
        Figure("time", "s", AtMost(1.5), against="bare client"),
        Figure("writes", "", AtMost(1.1), against="objects"),
        Figure("refused", "writes"),
        Figure("CPU of an agent", "s"),
    ),
    prepare=_prepared,
)
