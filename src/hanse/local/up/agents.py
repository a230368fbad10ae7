"""The agents of a local federation: all start together, and each can be stopped and started."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from datetime import timedelta
from random import Random

from msgspec import Struct

from hanse.kube.client_config import ClientConfig, Credentials
from hanse.kube.retry import Backoff
from hanse.kube.transport import Transport
from hanse.local.up.errors import UpError, single_error
from hanse.local.up.topology import LocalMember
from hanse.model.facts import Phase

log = logging.getLogger(__name__)

RESTART = Backoff(timedelta(seconds=1), timedelta(seconds=60))
"""How long after it failed an agent is started again."""
STARTED_WITHIN = timedelta(seconds=30)
"""How long an agent may take to start, which is more than it waits for a dead API server."""
REACHED_WITHIN = timedelta(seconds=10)
"""How long agents may take to reach a cluster that is back."""


class RunningAgent(Struct, frozen=True):
    """An agent that runs in this process."""

    cluster_states: Callable[[], Mapping[str, str]]
    """Returns the connection state of each cluster as it knows it now."""
    metrics: str
    """The URL of its metrics."""
    reconnect: Callable[[str], None] = lambda _: None
    """Tries a cluster that it does not reach again, now and not after the time between attempts."""


DialCluster = Callable[[str, Credentials], Transport]
"""Opens a transport to a cluster with the credentials that an agent has read."""
RunAgent = Callable[
    [LocalMember, Mapping[str, ClientConfig], DialCluster],
    AbstractAsyncContextManager[RunningAgent],
]
"""Runs a member's agent until the block ends, given how it connects to its cluster and broker."""
OpenAgent = Callable[[LocalMember], AbstractAsyncContextManager[RunningAgent]]
"""Runs a member's agent until the block ends."""


class LocalAgents:
    """The agents by cluster, which run while the context of `running` is entered."""

    def __init__(self, members: Sequence[LocalMember]) -> None:
        """No agent runs until `running`; members that run no workloads have none."""
        self._members = {one.name: one for one in members if one.runs_workloads}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._stops: dict[str, asyncio.Event] = {}
        self._agents: dict[str, RunningAgent] = {}
        self._open: OpenAgent | None = None
        self._group: asyncio.TaskGroup | None = None
        self._started = False
        """Whether all agents have started once."""

    @asynccontextmanager
    async def running(self, open_agent: OpenAgent) -> AsyncIterator[None]:
        """Start all agents concurrently, then enter the block; stop them after it.

        An agent that fails before all have started once ends the federation, in an ExceptionGroup;
        one that fails later is started again, as a pod would be.
        """
        async with asyncio.TaskGroup() as self._group:
            self._open = open_agent
            await self.start_all()
            self._started = True
            try:
                yield
            finally:
                for name in tuple(self._tasks):
                    self._end(name)

    def is_running(self, cluster: str) -> bool:
        """Whether a cluster's agent runs; False while it starts, or waits to be started again."""
        return cluster in self._agents

    def states(self, cluster: str) -> dict[str, str]:
        """The connection states of clusters, by name, that a cluster's agent knows.

        Empty while it does not run.
        """
        agent = self._agents.get(cluster)
        return dict(agent.cluster_states()) if agent is not None else {}

    def metrics(self, cluster: str) -> str:
        """The URL of the metrics of a cluster's agent; empty while it does not run."""
        agent = self._agents.get(cluster)
        return agent.metrics if agent is not None else ""

    async def start_all(self) -> None:
        """Start all agents that do not run, concurrently; raises the first error of `start`.

        An error is raised only after all have started or failed.
        """
        starts = (self.start(name) for name in self._members)
        for result in await asyncio.gather(*starts, return_exceptions=True):
            if isinstance(result, BaseException):
                raise result

    async def start(self, cluster: str) -> None:
        """Start a cluster's agent and wait until it runs; no effect if it was started already.

        Once all agents have started, `UpError` is raised if it fails, or does not start within
        STARTED_WITHIN; it is then started again, without limit, until it is stopped. Before that a
        failure ends the federation.
        """
        if cluster in self._tasks:
            return
        assert self._group is not None, "agents start while the context is entered"
        self._stops[cluster] = stop = asyncio.Event()
        started: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        run = self._run(self._members[cluster], started, stop)
        self._tasks[cluster] = self._group.create_task(run, name=f"agent {cluster}")
        seconds = STARTED_WITHIN.total_seconds()
        await asyncio.wait({started}, timeout=seconds if self._started else None)
        again = "it is started again until `hanse local stop agent`"
        if started.cancel():
            raise UpError(f"the agent of {cluster} has not started within {seconds:g} s; {again}")
        if error := started.exception():
            reason = single_error(error)
            raise UpError(f"the agent of {cluster} does not start: {reason}; {again}") from error

    async def stop(self, cluster: str) -> None:
        """Stop a cluster's agent, or its start, and wait for its end; no effect if stopped."""
        if cluster in self._tasks:
            await asyncio.wait({self._end(cluster)})

    def _end(self, cluster: str) -> asyncio.Task[None]:
        """Tell an agent to stop, or cancel its start; returns its task, which ends soon."""
        task = self._tasks.pop(cluster)
        self._stops.pop(cluster).set()
        if not self.is_running(cluster):
            task.cancel()
        return task

    async def reconnect(self, running: Collection[str], cuts: Collection[tuple[str, str]]) -> None:
        """Have agents at once try those `running` clusters again that they cannot reach.

        Pairs in `cuts`, in either order, are left out. Returns when the others are reached, or
        after REACHED_WITHIN.
        """
        cut = {frozenset(pair) for pair in cuts}
        every = ((source, target) for source in self._members for target in running)
        pairs = [pair for pair in every if frozenset(pair) not in cut]
        for source, target in pairs:
            if self._is_cut_off_from(source, target):
                self._agents[source].reconnect(target)
        with suppress(TimeoutError):
            async with asyncio.timeout(REACHED_WITHIN.total_seconds()):
                while any(self._is_cut_off_from(*pair) for pair in pairs):  # noqa: ASYNC110 - facts of agents
                    await asyncio.sleep(0.02)

    def _is_cut_off_from(self, source: str, target: str) -> bool:
        """Whether a cluster's agent runs and has an unreachable connection to another cluster.

        A connection counts by the last part of its name, after any `/`.
        """
        return any(
            state.startswith(Phase.UNREACHABLE)
            for cluster, state in self.states(source).items()
            if cluster.rpartition("/")[2] == target
        )

    async def _run(
        self, member: LocalMember, started: asyncio.Future[None], stop: asyncio.Event
    ) -> None:
        """Run one agent until it is told to stop; one that fails is logged and run again later.

        `started` is done when it has started once, or has failed to. Before all agents have started
        once, its error is raised instead.
        """
        random, failures = Random(), 0  # noqa: S311 - spreads retries, guards nothing
        while not stop.is_set():
            try:
                await self._run_once(member, started, stop)
            except Exception as error:
                if not self._started:
                    raise
                if not started.done():
                    started.set_exception(error)
                log.exception("agent failed; it is started again", extra={"cluster": member.name})
                with suppress(TimeoutError):
                    async with asyncio.timeout(RESTART.delay(failures, random).total_seconds()):
                        await stop.wait()
                failures += 1

    async def _run_once(
        self, member: LocalMember, started: asyncio.Future[None], stop: asyncio.Event
    ) -> None:
        """Run one agent until it is told to stop; raises its error if it fails.

        Sets the result of `started` once it runs, and keeps it among the running agents meanwhile.
        """
        assert self._open is not None, "agents start while the context is entered"
        try:
            async with self._open(member) as self._agents[member.name]:
                if not started.done():
                    started.set_result(None)
                await stop.wait()
        finally:
            self._agents.pop(member.name, None)
