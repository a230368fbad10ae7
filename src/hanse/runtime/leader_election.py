"""Leadership over members, and of one replica among several: who may write, at this very moment."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from random import Random
from typing import TypeAlias

from hanse.kube.client import Client
from hanse.kube.clock import Clock
from hanse.kube.leader_election import Following, LeaderElector, Leading, Order, Standing
from hanse.kube.lease import LeaseTimings
from hanse.model.facts import Leadership, Role
from hanse.model.kinds.federation import SYSTEM
from hanse.model.naming import AGENT, cluster_of
from hanse.model.objects import ClusterId
from hanse.runtime.informers import ClusterInformers

COURTESY = 0.75
"""The part of a retry for which a free lease is left to each one that goes before us."""


PACE = timedelta(seconds=10)
"""How long after one lease was asked for the next one is."""

Rivals: TypeAlias = Callable[[], tuple[ClusterId, ...]]


class _Turns:
    """The order of supervisors in one member, as far as it comes before us."""

    def __init__(
        self, rivals: Rivals, terms: LeaseTimings, may_request: Callable[[], bool]
    ) -> None:
        self._rivals = rivals
        self._terms = terms
        self.may_request = may_request

    def acquire_delay(self) -> timedelta:
        return self._terms.retry * (COURTESY * len(self._rivals()))

    def prefers(self, candidate: str) -> bool:
        return cluster_of(candidate) in self._rivals()


class LeaderElections:
    """Stands for election in members, and in its own cluster among the agent's replicas.

    Without a lease of its own the agent is taken to be the only one.
    """

    def __init__(
        self,
        informers: ClusterInformers,
        identity: str,
        *,
        clock: Clock,
        random: Random,
        terms: LeaseTimings = LeaseTimings(),  # noqa: B008 - a frozen value
    ) -> None:
        self._informers = informers
        self._identity = identity
        self._clock = clock
        self._random = random
        self._terms = terms
        self._electors: dict[ClusterId, LeaderElector] = {}
        self._tasks: dict[ClusterId, asyncio.Task[None]] = {}
        self._own: LeaderElector | None = None
        self._next_wish = 0.0
        self._group: asyncio.TaskGroup | None = None

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Take part in elections until the block ends; then every lease is given back."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            try:
                yield
            finally:
                self._group = None
                for task in self._tasks.values():
                    task.cancel()

    def may_write(self, member: ClusterId | None) -> bool:
        """Whether a write is ours to send now: as the leader of a member, or as this agent."""
        if self._own is not None and not self._own.may_write():
            return False
        if member is None:
            return True
        elector = self._electors.get(member)
        return elector is not None and elector.may_write()

    def contend(self, member: ClusterId, client: Client, rivals: Rivals | None = None) -> None:
        """Stand for election in a connected member; who stands there already goes on doing so.

        `rivals` says which clusters' agents should rather lead it: they are given a little time
        each, and the lease when they ask for it. Without it whoever leads goes on.
        """
        assert self._group is not None, "elections run while the agent does"
        if member in self._electors:
            return
        order = _Turns(rivals, self._terms, self._may_ask) if rivals is not None else None
        elector = self._elector(client, SYSTEM, member, order)
        self._electors[member] = elector
        if self._informers.facts.get(Leadership, member) is None:
            self._informers.put_fact(Leadership(member, "", 0, ours=False))

        def tell(standing: Standing) -> None:
            if self._electors.get(member) is elector:
                self._stands(member, standing)

        self._tasks[member] = self._group.create_task(elector.run(tell), name=f"stand in {member}")

    @property
    def members(self) -> frozenset[ClusterId]:
        """Where we stand for election."""
        return frozenset(self._electors)

    async def resign(self, member: ClusterId) -> None:
        """Stand no longer in a member; a lease that is ours is given back."""
        task = self._tasks.pop(member, None)
        if task is not None:
            task.cancel()
            await asyncio.wait({task})
        self._electors.pop(member, None)
        self._informers.drop_fact(Leadership, member)

    def contend_among_replicas(
        self, client: Client, namespace: str, tell: Callable[[bool], None]
    ) -> None:
        """Be one of several replicas: `tell` says when this one is to work and when not."""
        assert self._group is not None, "elections run while the agent does"
        self._own = self._elector(client, namespace, AGENT)

        def told(standing: Standing) -> None:
            tell(isinstance(standing, Leading))

        home = self._informers.local
        self._tasks[f"{home} (replicas)"] = self._group.create_task(
            self._own.run(told), name="stand among replicas"
        )

    def _may_ask(self) -> bool:
        """One lease at a time comes back to us: what it brings is taken up before the next."""
        now = asyncio.get_running_loop().time()
        if now < self._next_wish:
            return False
        self._next_wish = now + PACE.total_seconds()
        return True

    def _elector(
        self, client: Client, namespace: str, name: str, order: Order | None = None
    ) -> LeaderElector:
        return LeaderElector(
            client,
            namespace,
            name,
            self._identity,
            clock=self._clock,
            random=self._random,
            terms=self._terms,
            order=order,
        )

    def _stands(self, member: ClusterId, standing: Standing) -> None:
        match standing:
            case Leading(epoch):
                self._informers.put_fact(Leadership(member, self._identity, epoch, ours=True))
            case Following(holder):
                known = self._informers.facts.get(Leadership, member)
                epoch = known.epoch if known is not None else 0
                self._informers.put_fact(Leadership(member, holder, epoch, ours=False))
        connection = self._informers.connections.get(member)
        if connection is not None:
            led = {Role.LED} if isinstance(standing, Leading) else set()
            self._informers.set_roles(member, (connection.roles - {Role.LED}) | led)
