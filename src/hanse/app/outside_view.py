"""Which agent feeds the view of clients outside all clusters: one at a time, the first that can."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from hanse.dns.compiler import Compiler
from hanse.dns.updater import DeltaReceiver
from hanse.model.facts import ClusterState, Phase
from hanse.model.objects import ClusterId
from hanse.model.snapshot import Change, FactChange

if TYPE_CHECKING:  # `hanse dns` runs no agent
    from hanse.app.agent import Agent


class OutsideView:
    """A view that outlives any one cluster, its API server and its agent.

    The first agent, in the order of the clusters, whose own API server answers feeds it. While none
    does, whoever fed it last goes on, with what it knew.
    """

    def __init__(self, compiler: Compiler, order: Sequence[ClusterId]) -> None:
        """Nobody feeds the view yet; of the agents that can, the first in `order` does."""
        self._compiler = compiler
        self._order = tuple(order)
        self._agents: dict[ClusterId, Agent] = {}
        self._chosen: ClusterId | None = None
        self._changed = asyncio.Event()
        self._feeding = asyncio.Lock()
        """Held by the one that feeds."""

    @asynccontextmanager
    async def feeding_from(self, agent: "Agent", server: DeltaReceiver) -> AsyncIterator[None]:
        """Let an agent feed the view whenever it is the one to do so, until the block ends.

        Then another agent is chosen.
        """
        cluster = agent.settings.cluster

        def on_change(change: Change) -> None:
            """Choose the agent that feeds anew when the `ClusterState` of a cluster changes."""
            if isinstance(change, FactChange) and isinstance(change.fact, ClusterState):
                self._choose()

        self._agents[cluster] = agent
        agent.reconciler.event_handlers.append(on_change)
        self._choose()
        try:
            async with asyncio.TaskGroup() as group:
                feeding = group.create_task(
                    self._feed_by_turns(agent, server), name=f"outside view of {cluster}"
                )
                try:
                    yield
                finally:
                    feeding.cancel()
        finally:
            agent.reconciler.event_handlers.remove(on_change)
            del self._agents[cluster]
            self._choose()

    async def _feed_by_turns(self, agent: "Agent", server: DeltaReceiver) -> None:
        """Feed the view while this agent is chosen, again and again, until it is cancelled.

        It waits until the agent before has ended to feed.
        """
        cluster = agent.settings.cluster
        while True:
            await self._until(cluster, chosen=True)
            async with self._feeding, agent.serving_names(self._compiler, server):
                await self._until(cluster, chosen=False)

    async def _until(self, cluster: ClusterId, *, chosen: bool) -> None:
        """Wait until a cluster is chosen, or, with `chosen` False, until it is not."""
        while (self._chosen == cluster) != chosen:
            await self._changed.wait()

    def _choose(self) -> None:
        """Choose the first cluster in order whose API server answers, and wake those who wait.

        If none answers, the one chosen last stays if its agent runs, else the first that does.
        """
        running = [cluster for cluster in self._order if cluster in self._agents]
        able = [cluster for cluster in running if _api_answers(self._agents[cluster])]
        if able:
            chosen: ClusterId | None = able[0]
        elif self._chosen in running:
            chosen = self._chosen
        else:
            chosen = running[0] if running else None
        if chosen != self._chosen:
            self._chosen = chosen
            self._changed.set()
            self._changed = asyncio.Event()


def _api_answers(agent: "Agent") -> bool:
    """Whether an agent's own API server answers and was listed: its `ClusterState` is SYNCED."""
    state = agent.reconciler.informers.facts.get(ClusterState, agent.settings.cluster)
    return state is not None and state.phase is Phase.SYNCED
