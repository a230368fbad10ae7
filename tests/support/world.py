"""A fleet in one process: embedded clusters, reconcilers, and a network with faults."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from random import Random

from hanse.kube.client import Client
from hanse.local.in_process import InProcessTransport
from hanse.model.facts import Role
from hanse.model.objects import ClusterId
from hanse.model.plan import Feature
from hanse.runtime.api import ClusterClient
from hanse.runtime.reconciler import Reconciler
from tests.support.faults import Network
from tinykube.apiserver import ApiServer
from tinykube.virtual_time import LoopClock

BROKER = "broker"

Features = Callable[[], Sequence[Feature]]


class Agent:
    """One cluster's reconciler, which can be killed at any await and started again."""

    def __init__(self, reconciler: Reconciler, task: "asyncio.Task[None]") -> None:
        self.reconciler = reconciler
        self.task = task


class World:
    """Clusters by name, each with a reconciler that also connects to the broker."""

    def __init__(
        self,
        names: Iterable[ClusterId],
        features: Features,
        *,
        seed: int = 0,
        skews: Mapping[ClusterId, timedelta] | None = None,
    ) -> None:
        self.random = Random(seed)
        self.network = Network(self.random)
        self.clock = LoopClock()
        self.names = tuple(names)
        self._skews = skews or {}
        self.clusters = {
            n: ApiServer(n, clock=self._clock_of(n), seed=seed) for n in (*self.names, BROKER)
        }
        self.agents: dict[ClusterId, Agent] = {}
        self._features = features

    def client(self, cluster: ClusterId) -> Client:
        """A client that bypasses the faulty network."""
        return Client(InProcessTransport(self.clusters[cluster]))

    def api(self, source: ClusterId, target: ClusterId) -> ClusterClient:
        """An agent's API client, through the faulty network."""
        way = self.network.transport(source, target, InProcessTransport(self.clusters[target]))
        return ClusterClient(way, self.random)

    def reconciler(self, cluster: ClusterId) -> Reconciler:
        """A new reconciler with its connections, not running yet."""
        reconciler = Reconciler(
            self._features(),
            cluster,
            clock=self._clock_of(cluster),
            random=self.random,
        )
        reconciler.informers.join(cluster, {Role.LOCAL}, self.api(cluster, cluster))
        reconciler.informers.join(BROKER, {Role.BROKER}, self.api(cluster, BROKER))
        return reconciler

    def _clock_of(self, cluster: ClusterId) -> LoopClock:
        """The clock of a cluster, for its server and its agent, with its skew."""
        return LoopClock(self._skews.get(cluster, timedelta(0)))

    def start_agent(self, cluster: ClusterId) -> Reconciler:
        """Start a cluster's agent with empty caches."""
        assert cluster not in self.agents, f"{cluster} has an agent already"
        reconciler = self.reconciler(cluster)
        task = asyncio.create_task(_run(reconciler), name=f"agent {cluster}")
        self.agents[cluster] = Agent(reconciler, task)
        return reconciler

    async def kill_agent(self, cluster: ClusterId) -> None:
        """Cancel an agent at whatever it awaits."""
        agent = self.agents.pop(cluster)
        agent.task.cancel()
        await asyncio.wait({agent.task})
        if not agent.task.cancelled() and agent.task.exception() is not None:
            raise agent.task.exception()  # type: ignore[misc]  # just seen not to be None

    @asynccontextmanager
    async def agents_running(self) -> AsyncIterator["World"]:
        """Run the agent of every cluster until the block ends."""
        for name in self.names:
            self.start_agent(name)
        try:
            yield self
        finally:
            await self.stop()

    async def stop(self) -> None:
        """Kill every agent."""
        for name in list(self.agents):
            await self.kill_agent(name)

    async def settle(self, within: timedelta = timedelta(minutes=3)) -> None:
        """Let enough time pass for every agent to converge."""
        await asyncio.sleep(within.total_seconds())
        for name, agent in self.agents.items():
            assert not agent.task.done(), f"the agent of {name} ended: {agent.task}"


async def _run(reconciler: Reconciler) -> None:
    async with reconciler.running():
        await asyncio.get_running_loop().create_future()
