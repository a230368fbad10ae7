"""Thirty agents on one real broker: how soon a change is everywhere, and what the broker takes."""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

from bench.agents import AgentProcess, agent_process, real_fleet
from bench.embedded_agent import address_of
from bench.figures import AtMost, Figure, percentile
from bench.processes import seconds_of
from bench.row import Effort, Once, Row
from bench.services_load import prepare
from hanse.local.real.fleet import BROKER, RealFleet
from hanse.local.real.programs import API_SERVER, ETCD_SERVER

AGENTS = 30
SERVICES = 1_000
SECONDS = 20
PER_SECOND = 20
LATEST = 60.0
"""Seconds after which a change that is not everywhere counts as lost."""


@asynccontextmanager
async def _prepared(effort: Effort) -> AsyncIterator[Once]:
    clusters = [f"c{number:02}" for number in range(effort.of(AGENTS, 4))]
    services = range(effort.of(SERVICES, 40))
    seconds = effort.of(SECONDS, 5)
    async with real_fleet(()) as fleet:
        broker = fleet.broker.connect()
        try:
            await prepare({BROKER: broker}, ())
        finally:
            await broker.close()
        async with _agents(fleet, clusters, services) as agents:
            await _everywhere(agents, services)
            number = len(services)

            async def once() -> Mapping[str, float]:
                nonlocal number
                numbers = range(number, number + PER_SECOND * seconds)
                number = numbers.stop
                begun = _spent(fleet, agents)
                await asyncio.sleep(seconds)
                rested = _spent(fleet, agents)
                changed = await _change(agents, services, numbers)
                ended = _spent(fleet, agents)
                lags = await _lags(agents, changed)
                idle, _, _ = _cores(begun, rested, seconds)
                server, etcd, all_agents = _cores(rested, ended, seconds)
                memory = [(await agent.ask()).resident for agent in agents]
                return {
                    "p50": 1000 * percentile(lags, 0.5),
                    "p99": 1000 * percentile(lags, 0.99),
                    "API server": server,
                    "API server at rest": idle,
                    "API server, an event": 1000 * (server - idle) / PER_SECOND / len(agents),
                    "etcd": etcd,
                    "an agent and its cluster": all_agents / len(agents),
                    "most memory of an agent and its cluster": max(memory),
                }

            yield once


@asynccontextmanager
async def _agents(
    fleet: RealFleet, clusters: Sequence[str], services: Sequence[int]
) -> AsyncIterator[list[AgentProcess]]:
    """An agent of each cluster, all started together; service by service is another's."""
    async with AsyncExitStack() as stack:
        starting = [
            stack.enter_async_context(
                agent_process(
                    cluster,
                    fleet.kubeconfig,
                    *(f"{n}:service-{n}" for n in services[place :: len(clusters)]),
                    module="bench.embedded_agent",
                )
            )
            for place, cluster in enumerate(clusters)
        ]
        yield list(await asyncio.gather(*starting))


async def _everywhere(agents: Sequence[AgentProcess], numbers: Sequence[int]) -> None:
    """Wait until each cluster has imported the addresses of these numbers, and all is quiet."""
    wanted = {address_of(number) for number in numbers}
    for agent in agents:
        while not wanted <= (await agent.seen()).keys():  # noqa: ASYNC110 - it tells when asked
            await asyncio.sleep(0.2)
    for agent in agents:
        await agent.quiet()


async def _change(
    agents: Sequence[AgentProcess], services: Sequence[int], numbers: Sequence[int]
) -> dict[int, float]:
    """Let one endpoint after the other change, at a steady rate; returns when each did."""
    began, changed = time.monotonic(), dict[int, float]()
    for place, number in enumerate(numbers):
        await asyncio.sleep(began + place / PER_SECOND - time.monotonic())
        service = services[number % len(services)]
        changed[number] = time.monotonic()
        agents[service % len(agents)].tell(f"{number}:service-{service}")
    await asyncio.sleep(began + len(numbers) / PER_SECOND - time.monotonic())
    return changed


async def _lags(agents: Sequence[AgentProcess], changed: Mapping[int, float]) -> list[float]:
    """Seconds from each change until the last cluster had it."""
    async with asyncio.timeout(LATEST):
        await _everywhere(agents, [*changed])
    seen = [await agent.seen() for agent in agents]
    return [
        max(one[address_of(number)] for one in seen) - moment for number, moment in changed.items()
    ]


def _spent(fleet: RealFleet, agents: Sequence[AgentProcess]) -> dict[str, float]:
    """CPU seconds so far of the broker's servers, and of all agents with their clusters."""
    servers = {name: fleet.broker.servers[name].pid for name in (API_SERVER.name, ETCD_SERVER.name)}
    spent = {name: seconds_of(pid) for name, pid in servers.items() if pid is not None}
    return {**spent, "agents": sum(seconds_of(agent.pid) for agent in agents)}


def _cores(before: Mapping[str, float], after: Mapping[str, float], seconds: int) -> list[float]:
    return [(after[name] - before[name]) / seconds for name in before]


FLEET = Row(
    name="fleet",
    about="30 agents on one real broker, 1,000 services, 20 changes of endpoints a second: from a "
    "change until every cluster has it; cores that the broker takes",
    against="fixed goals; agents, with an embedded cluster in each process, are on the same cores",
    figures=(
        Figure("p50", "ms"),
        Figure("p99", "ms", AtMost(1_000.0)),
        Figure("API server", "cores", AtMost(1.0)),
        Figure("API server at rest", "cores"),
        Figure("API server, an event", "ms"),
        Figure("etcd", "cores"),
        Figure("an agent and its cluster", "cores"),
        Figure("most memory of an agent and its cluster", "MiB"),
    ),
    prepare=_prepared,
)
