"""What the engine itself costs: the toy feature on embedded clusters, all in one process."""

import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack

import uvloop
from msgspec.structs import replace
from tests.support.toy import Toy

from bench.agent import AgentCounters, counters_of, settled, synced
from bench.counting_transport import CountingTransport
from bench.figures import AtMost, Figure
from bench.measured_load import Load, measure_agents, measure_bare_client
from bench.processes import apart
from bench.row import Effort, Row, unprepared
from bench.toy_load import (
    LEFT,
    bare_writes,
    everywhere,
    is_by_people,
    looks,
    offers,
    prepare,
)
from hanse.app.agent import Agent, AgentParts, AgentSettings
from hanse.kube.clock import WallClock
from hanse.kube.transport import Transport
from hanse.local.in_process import InProcessTransport
from hanse.local.real.fleet import BROKER, NAMES
from tinykube.apiserver import ApiServer

OFFERS = 300


class AgentHere:
    """An agent in this process, on embedded clusters of this process."""

    def __init__(self, name: str, clusters: Mapping[str, ApiServer]) -> None:
        self._ways = [
            CountingTransport(InProcessTransport(clusters[cluster])) for cluster in (name, BROKER)
        ]
        settings = AgentSettings(cluster=name, identity="bench", replicated=False)
        home, broker = self._ways
        self.agent = Agent(settings, AgentParts(local=home, broker=broker, features=(Toy(),)))

    async def ask(self) -> AgentCounters:
        return replace(counters_of(self.agent, *self._ways), cpu=0.0)  # counted with all the rest

    async def quiet(self) -> AgentCounters:
        await settled(self.agent)
        return await self.ask()


async def _once(effort: Effort) -> Mapping[str, float]:
    return await apart(sharing_in_process, effort.of(OFFERS, 50))


def sharing_in_process(count: int) -> dict[str, float]:
    """Clusters, agents, load and observer on one loop: no network, one core."""
    return uvloop.run(_shared_in_process([f"offer-{number}" for number in range(count)]))


async def _shared_in_process(names: Sequence[str]) -> dict[str, float]:
    clusters = {name: ApiServer(name, clock=WallClock()) for name in (*NAMES, BROKER)}
    transports: dict[str, Transport] = {
        name: InProcessTransport(api) for name, api in clusters.items()
    }
    await prepare(transports)
    load = Load(
        [write for name in NAMES for write in offers(name, names)],
        looks(len(NAMES)),
        lambda seen: everywhere(seen, names),
    )
    async with AsyncExitStack() as stack:
        agents = [AgentHere(name, clusters) for name in NAMES]
        for one in agents:
            await stack.enter_async_context(one.agent.running())
            await synced(one.agent)
        shared = await measure_agents(agents, transports, load, time.process_time)
    bare = await bare_writes(transports)
    by_people = sum(map(is_by_people, bare))
    return {
        **shared,
        **await measure_bare_client(transports, bare, LEFT, by_people, time.process_time),
    }


IN_PROCESS = Row(
    name="in-process",
    about="300 offers of the toy feature in each of three embedded clusters: the engine's own cost",
    against="the bare client on the same clusters; there is no network to hide behind",
    figures=(
        Figure("CPU of everything", "s", against="bare client's"),
        Figure("writes", "", AtMost(1.1), against="objects"),
        Figure("refused", "writes"),
    ),
    prepare=unprepared(_once),
)
