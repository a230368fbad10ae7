"""A federation in one process: supervisors that run for leader of every member."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from functools import partial
from random import Random

from hanse.kube.client import Client
from hanse.kube.lease import LeaseTimings
from hanse.kube.transport import Transport
from hanse.local.in_process import InProcessTransport
from hanse.model.facts import Role
from hanse.model.kinds.federation import SYSTEM
from hanse.model.objects import ClusterId
from hanse.model.plan import Feature
from hanse.runtime.api import ClusterClient
from hanse.runtime.leader_election import LeaderElections
from hanse.runtime.questions import Provider
from hanse.runtime.reconciler import Reconciler
from tests.support.builders import namespace
from tests.support.faults import Network
from tinykube.apiserver import ApiServer
from tinykube.virtual_time import LoopClock

TERMS = LeaseTimings()


class Supervisor:
    """A supervisor's agent: its reconciler and its leader elections."""

    def __init__(
        self, reconciler: Reconciler, elections: LeaderElections, task: "asyncio.Task[None]"
    ) -> None:
        self.reconciler = reconciler
        self.elections = elections
        self.task = task

    @property
    def leads(self) -> frozenset[ClusterId]:
        """The members that it leads now."""
        connections = self.reconciler.informers.connections.values()
        return frozenset(c.cluster for c in connections if Role.LED in c.roles)


class SupervisedWorld:
    """Members by name, the first of them supervisors, on a network with faults."""

    def __init__(
        self,
        names: Sequence[ClusterId],
        supervisors: int,
        features: Callable[[], Sequence[Feature]],
        *,
        seed: int = 0,
        providers: dict[str, Provider] | None = None,
    ) -> None:
        self.random = Random(seed)
        self.network = Network(self.random)
        self.clock = LoopClock()
        self.names = tuple(names)
        self.supervisor_names = self.names[:supervisors]
        self.servers = {n: ApiServer(n, clock=self.clock, seed=seed) for n in self.names}
        self.supervisors: dict[ClusterId, Supervisor] = {}
        self._features = features
        self._providers = providers or {}

    def admin(self, cluster: ClusterId) -> Client:
        """A client that bypasses the faulty network."""
        return Client(InProcessTransport(self.servers[cluster]))

    def way(self, source: ClusterId, target: ClusterId) -> Transport:
        """An agent's transport, through the faulty network."""
        return self.network.transport(source, target, InProcessTransport(self.servers[target]))

    def turns(self, member: ClusterId) -> tuple[ClusterId, ...]:
        """The supervisors in the order in which they should lead a member."""
        number, supervisor_names = self.names.index(member), self.supervisor_names
        return tuple(
            sorted(
                supervisor_names,
                key=lambda c: (number - supervisor_names.index(c)) % len(supervisor_names),
            )
        )

    async def open(self) -> None:
        """Create the federation's namespace in every member."""
        for name in self.names:
            await self.admin(name).create(namespace(SYSTEM))

    def start(self, name: ClusterId) -> Supervisor:
        """Start a supervisor's agent with empty caches."""
        assert name not in self.supervisors, f"{name} has an agent already"
        reconciler = Reconciler(
            self._features(),
            name,
            clock=self.clock,
            random=self.random,
            providers=self._providers,
        )
        elections = LeaderElections(
            reconciler.informers, f"{name}_1", clock=self.clock, random=self.random, timings=TERMS
        )
        reconciler.set_fence(elections)
        for member in self.names:
            roles = {Role.MEMBER} | ({Role.LOCAL} if member == name else set())
            reconciler.informers.join(
                member, roles, ClusterClient(self.way(name, member), self.random)
            )
        task = asyncio.create_task(self._run(name, reconciler, elections), name=f"agent {name}")
        self.supervisors[name] = Supervisor(reconciler, elections, task)
        return self.supervisors[name]

    async def kill(self, name: ClusterId) -> None:
        """Kill a supervisor's agent: it cannot release its leases."""
        supervisor = self.supervisors.pop(name)
        await self.network.kill_task(name, self.names, supervisor.task)

    @asynccontextmanager
    async def running(self) -> AsyncIterator["SupervisedWorld"]:
        """Run every supervisor's agent until the block ends."""
        async with AsyncExitStack() as closing:
            closing.push_async_callback(self.stop)
            for name in self.supervisor_names:
                self.start(name)
            yield self

    async def stop(self) -> None:
        """Kill every agent."""
        for name in list(self.supervisors):
            await self.kill(name)

    async def settle(self, within: timedelta = timedelta(minutes=3)) -> None:
        """Let enough time pass for every agent to converge."""
        await asyncio.sleep(within.total_seconds())
        for name, supervisor in self.supervisors.items():
            assert not supervisor.task.done(), f"the agent of {name} ended: {supervisor.task}"

    async def _run(
        self, name: ClusterId, reconciler: Reconciler, elections: LeaderElections
    ) -> None:
        async with reconciler.running(), elections.running():
            for member in self.names:
                turns = self.turns(member)
                rivals = turns[: turns.index(name)]
                elections.contend(member, Client(self.way(name, member)), partial(tuple, rivals))
            await asyncio.get_running_loop().create_future()
