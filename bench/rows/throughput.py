"""Sharing 300 offers of each of three clusters, against a bare client that writes the same."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Protocol

import uvloop
from msgspec.structs import replace

from bench.agent import Told, synced, told_by
from bench.agents import agents_of, real_fleet
from bench.counted import Counted
from bench.figures import AtMost, Figure
from bench.processes import apart, seconds_of
from bench.row import Effort, Once, Row, unprepared
from bench.sight import Sight, sights
from bench.writing import NAMESPACES, bare_writes, clear, offers, prepare, write_all
from hanse.app import Agent, Settings
from hanse.kube.clock import WallClock
from hanse.kube.request import Transport
from hanse.local.embedded.api import ApiServer, InProcess
from hanse.local.real.fleet import BROKER, NAMES, RealFleet
from hanse.testing.toy import Toy

OFFERS = 300


class Telling(Protocol):
    """An agent that tells what it has done, here or in a process of its own."""

    async def ask(self) -> Told: ...

    async def quiet(self) -> Told: ...


@asynccontextmanager
async def _prepared(effort: Effort) -> AsyncIterator[Once]:
    names = [f"offer-{number}" for number in range(effort.of(OFFERS, 50))]
    async with real_fleet() as fleet:
        ways = {name: cluster.connect() for name, cluster in fleet.clusters.items()}
        try:
            await prepare(ways)

            def beside() -> float:
                return time.process_time() + servers_cpu(fleet)

            async def once() -> Mapping[str, float]:
                async with agents_of(fleet, NAMES) as agents:
                    shared = await shared_by(agents, ways, names, beside)
                return {**shared, **await written_barely(ways, beside)}

            yield once
        finally:
            for way in ways.values():
                await way.close()


def servers_cpu(fleet: RealFleet) -> float:
    """CPU seconds that all servers of a fleet have taken."""
    servers = [server for cluster in fleet.clusters.values() for server in cluster.servers.values()]
    return sum(seconds_of(server.pid) for server in servers if server.pid is not None)


async def shared_by(
    agents: Sequence[Telling],
    ways: Mapping[str, Transport],
    names: Sequence[str],
    beside: Callable[[], float],
) -> dict[str, float]:
    """From the first offer to the sight of everything everywhere, and what the agents wrote.

    `beside` tells the CPU seconds so far of all that works besides the agents.
    """
    before, spent_before = [await agent.ask() for agent in agents], beside()
    async with sights(ways, NAMESPACES, len(NAMES)) as seen:
        began = time.perf_counter()
        load = [write for name in NAMES for write in offers(name, names)]
        writing = asyncio.create_task(write_all(ways, load), name="load")
        await everywhere(seen, names)
        seconds = time.perf_counter() - began
        await writing
    after = [await agent.quiet() for agent in agents]
    by_agents = sum(one.cpu for one in after) - sum(one.cpu for one in before)
    return {
        "time": seconds,
        "CPU of everything": beside() - spent_before + by_agents,
        "CPU of an agent": by_agents / len(agents),
        "writes": float(sum(one.sent for one in after) - sum(one.sent for one in before)),
        "refused": float(sum(one.refused for one in after) - sum(one.refused for one in before)),
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


async def written_barely(
    ways: Mapping[str, Transport], beside: Callable[[], float]
) -> dict[str, float]:
    """The same objects by a client that knows them already; both runs begin with nothing."""
    writes = await bare_writes(ways)
    await clear(ways)
    began, spent_before = time.perf_counter(), beside()
    await write_all(ways, writes)
    seconds, spent = time.perf_counter() - began, beside() - spent_before
    await clear(ways)
    made_by_people = sum(b'"toy.hanse.dev/offer"' in w.request.body for w in writes)
    objects = float(len(writes) - made_by_people)
    return {"bare client": seconds, "bare client's": spent, "objects": objects}


class AgentHere:
    """An agent in this process, on embedded clusters of this process."""

    def __init__(self, name: str, clusters: Mapping[str, ApiServer]) -> None:
        self._ways = [Counted(InProcess(clusters[cluster])) for cluster in (name, BROKER)]
        settings = Settings(cluster=name, identity="bench", replicated=False)
        home, broker = self._ways
        self.agent = Agent(settings, home, broker=broker, features=(Toy(),))

    async def ask(self) -> Told:
        return replace(told_by(self.agent, *self._ways), cpu=0.0)  # counted with all the rest

    async def quiet(self) -> Told:
        await self.agent.engine.settled()
        return await self.ask()


async def _in_process_once(effort: Effort) -> Mapping[str, float]:
    return await apart(sharing_in_process, effort.of(OFFERS, 50))


def sharing_in_process(count: int) -> dict[str, float]:
    """Clusters, agents, load and observer on one loop: no network, one core."""
    return uvloop.run(_shared_in_process([f"offer-{number}" for number in range(count)]))


async def _shared_in_process(names: Sequence[str]) -> dict[str, float]:
    clusters = {name: ApiServer(name, clock=WallClock()) for name in (*NAMES, BROKER)}
    ways: dict[str, Transport] = {name: InProcess(api) for name, api in clusters.items()}
    await prepare(ways)
    async with AsyncExitStack() as stack:
        agents = [AgentHere(name, clusters) for name in NAMES]
        for one in agents:
            await stack.enter_async_context(one.agent.running())
            await synced(one.agent)
        shared = await shared_by(agents, ways, names, time.process_time)
    return {**shared, **await written_barely(ways, time.process_time)}


THROUGHPUT = Row(
    name="throughput",
    about="300 offers of each of three real clusters until all copies are everywhere",
    against="a bare client that writes the same objects, each once, at full concurrency",
    figures=(
        Figure("time", "s", AtMost(1.5), against="bare client"),
        Figure("writes", "", AtMost(1.1), against="objects"),
        Figure("refused", "writes"),
        Figure("CPU of everything", "s", against="bare client's"),
        Figure("CPU of an agent", "s"),
    ),
    prepare=_prepared,
)

IN_PROCESS = Row(
    name="in-process",
    about="the same on embedded clusters in one process: what the engine itself costs",
    against="the bare client on the same clusters; there is no network to hide behind",
    figures=(
        Figure("CPU of everything", "s", against="bare client's"),
        Figure("writes", "", AtMost(1.1), against="objects"),
        Figure("refused", "writes"),
    ),
    prepare=unprepared(_in_process_once),
)
