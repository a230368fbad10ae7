"""One federation for a scenario, the same on embedded and on real clusters.

A stage stands on a ground, which is clusters of one engine. Agents run in this process and reach
clusters through a network that can fail; people's ways always work. Scenarios wait by `eventually`
and `always` alone, which cost nothing on virtual time.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AsyncExitStack
from datetime import timedelta
from random import Random
from types import TracebackType
from typing import Self, TypeVar

from msgspec import Struct

from hanse.app import BROKER, Agent, Options, Settings
from hanse.features.admission.feature import Admission
from hanse.features.admission.options import AdmissionOptions
from hanse.kube.client import Client
from hanse.kube.errors import AlreadyExists, KubeError, NotFound
from hanse.kube.request import Transport
from hanse.model.facts import ClusterState, Phase, Role
from hanse.model.kinds.core import Namespace
from hanse.model.objects import ClusterId, Meta
from hanse.model.plan import Feature
from hanse.model.rights import Rule
from hanse.model.verdict import Hook
from hanse.providers.probes import ProbeFunction
from hanse.runtime.questions import Provider
from tests.support.agent_accounts import account_of
from tests.support.faults import READ_METHODS, Network, Sent
from tests.support.service_accounts import Account
from tests.support.testbed import ClusterTestbed, WebhookEndpoint

T = TypeVar("T")

TIMEOUT = timedelta(seconds=60)
"""Ample for real clusters on a small busy machine; what comes true sooner ends the wait."""

MOMENTS = 20
"""In how many parts calm is looked at: it counts from the last write, not from the last look."""

Check = Callable[[], Awaitable[T]]
"""Raises AssertionError for as long as something does not hold, and gives what it looked at."""


Features = Callable[[], Sequence[Feature]]
"""What each agent is started with."""


class RunningAgent(Struct, frozen=True):
    """A running agent: its name on the network, and the task to end it by."""

    name: str
    agent: Agent
    task: "asyncio.Task[None]"


class Scenario:
    """The clusters of a ground with agents, people, and a namespace of the scenario's own."""

    def __init__(
        self,
        testbed: ClusterTestbed,
        namespace: str,
        features: Features,
        *,
        hooks: Sequence[Hook] = (),
        seed: int = 0,
    ) -> None:
        self.testbed = testbed
        self.hooks = tuple(hooks)
        self.names = testbed.names
        self.namespace = namespace
        self.system = f"{namespace}-system"
        self.random = Random(seed)
        self.network = Network(self.random)
        self.agents: dict[str, RunningAgent] = {}
        self.features = features
        self.attempt: ProbeFunction | None = None
        """How agents find out whether something answers; None: over real sockets."""
        self.lookup: Provider | None = None
        """Who tells agents the addresses of host names; None: the system's resolver."""
        self._people: dict[ClusterId, Client] = {}
        self.made: set[tuple[ClusterId, str]] = set()
        """The namespaces that go with the scenario."""
        self.closing = AsyncExitStack()
        """What is done when no agent runs any more, last things first."""

    async def __aenter__(self) -> Self:
        for cluster in (*self.names, BROKER):
            transport = self.testbed.connect(cluster)
            self.closing.push_async_callback(transport.close)
            self._people[cluster] = Client(transport, field_manager="somebody")
        for cluster in self.names:
            # It stays: nobody else looks into it, and its end costs a real cluster much.
            await self.make_namespace(cluster, self.system, keep=True)
            await self.make_namespace(cluster, self.namespace)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        async with self.closing:
            for name in list(self.agents):
                await self.kill_agent(name)
            for cluster, namespace in self.made:
                await self.delete_namespace(cluster, namespace)

    # -- people

    def admin(self, cluster: ClusterId) -> Client:
        """A person's way to a cluster, which works whatever happens on the network."""
        return self._people[cluster]

    async def make_namespace(self, cluster: ClusterId, name: str, *, keep: bool = False) -> None:
        """Make sure that there is a namespace; unless it is kept it goes with the scenario."""
        if not keep:
            self.made.add((cluster, name))
        try:
            await self.admin(cluster).create(Namespace(metadata=Meta(name=name)))
        except AlreadyExists:
            return

    async def delete_namespace(self, cluster: ClusterId, name: str) -> None:
        """Ask for the end of a namespace, if it is there."""
        try:
            await self.admin(cluster).delete(Namespace, name, "")
        except NotFound:
            return

    def has_no_namespace(self, cluster: ClusterId, name: str) -> Check[None]:
        """That a namespace and all that was in it is gone."""

        async def check() -> None:
            try:
                await self.admin(cluster).read(Namespace, name)
            except NotFound:
                return
            raise AssertionError(f"namespace {name} is still in {cluster}")

        return check

    # -- agents

    async def start_agents(self) -> None:
        """Start the agent of every cluster that has none."""
        for cluster in self.names:
            if cluster not in self.agents:
                await self.start_agent(cluster)

    async def start_agent(self, cluster: ClusterId, replica: str = "") -> Agent:
        """Start an agent with an empty memory; one that is named is a replica among others."""
        name = f"{cluster}/{replica}" if replica else cluster
        assert name not in self.agents, f"{name} runs already"
        home, broker = [await self._way(name, cluster, where) for where in (cluster, BROKER)]
        endpoint_for_webhooks = self.testbed.webhook_endpoint(name)
        admission = AdmissionOptions(bool(self.hooks), endpoint_for_webhooks.url, self.system)
        agent = Agent(
            Settings(
                cluster,
                replica or "only",
                namespace=self.system,
                options=Options(admission=admission),
                replicated=bool(replica),
                terms=self.testbed.terms,
            ),
            home,
            broker=broker,
            attempt=self.attempt,
            lookup=self.lookup,
            features=self._with_admission(admission),
            hooks=self.hooks,
            dial=lambda member, credentials: self.network.transport(
                name, member, self.testbed.dial(member, credentials)
            ),
            clock=self.testbed.clock,
            random=self.random,
        )
        self.testbed.set_webhook_server(endpoint_for_webhooks, agent.webhook_server)
        task = asyncio.create_task(self._run(agent, endpoint_for_webhooks), name=f"agent {name}")
        self.agents[name] = RunningAgent(name, agent, task)
        return agent

    def agent(self, name: str) -> Agent:
        """The running agent of a cluster, or a replica by `cluster/replica`."""
        return self.agents[name].agent

    async def stop_agent(self, name: str) -> None:
        """End an agent as it likes to be ended: what it holds is given back."""
        running = self.agents.pop(name)
        running.task.cancel()
        await asyncio.wait({running.task})

    async def kill_agent(self, name: str) -> None:
        """End an agent wherever it is: nothing that it still says is heard."""
        running = self.agents.pop(name)
        await self.network.kill_task(name, (*self.names, BROKER), running.task)

    async def allow(
        self, cluster: ClusterId, only: Callable[[Rule], bool] = lambda _: True
    ) -> None:
        """Let a cluster's agent do at home what its features need, or only some of it."""
        account = self._account(cluster, Role.LOCAL, only)
        transport = await self.testbed.agent_transport(account, cluster)
        await transport.close()

    def cut_off_from_broker(self, *clusters: ClusterId) -> None:
        """Let agents lose their way to the broker; none named means all."""
        for cluster in clusters or self.names:
            self.network.cut(cluster, BROKER)

    # -- waiting

    async def eventually(self, check: Check[T], within: timedelta = TIMEOUT) -> T:
        """Wait until a check holds; at the end of patience it fails as the check last did.

        That it holds within a short time is proven on virtual time, which no machine stretches.
        """
        loop = asyncio.get_running_loop()
        until = loop.time() + (within + self.testbed.slack).total_seconds()
        while True:
            self._fail_if_an_agent_died()
            try:
                return await check()
            except (AssertionError, KubeError):
                if loop.time() >= until:
                    raise
            await asyncio.sleep(self.testbed.poll_interval.total_seconds())

    async def always(self, check: Check[object], for_: timedelta) -> None:
        """Fail as soon as a check does not hold within a time."""
        loop = asyncio.get_running_loop()
        until = loop.time() + for_.total_seconds()
        while loop.time() < until:
            self._fail_if_an_agent_died()
            await check()
            await asyncio.sleep(self.testbed.poll_interval.total_seconds())

    async def settled(self, within: timedelta = timedelta(hours=1)) -> None:
        """Wait until every agent sees all it wants to see and nobody writes any more."""
        await self.eventually(self._all_synced)
        quiet = 0
        async with asyncio.timeout(within.total_seconds()):
            while quiet < MOMENTS:
                writes = await self.writes_during(self.testbed.settle_time / MOMENTS)
                quiet = 0 if writes else quiet + 1
                self._fail_if_an_agent_died()

    async def writes_during(self, time: timedelta) -> list[Sent]:
        """What agents write while a time passes, the renewal of leases aside."""
        start = len(self.network.sent)
        await asyncio.sleep(time.total_seconds())
        return self.writes_since(start)

    def writes_since(self, start: int) -> list[Sent]:
        """What agents wrote after so many requests, the renewal of leases aside.

        On clusters that scenarios share, namespaces of earlier ones may still be going: whatever
        agents clear away with them is not this scenario's.
        """
        return [s for s in self.network.sent[start:] if _is_work(s) and not self._is_past(s)]

    def _is_past(self, sent: Sent) -> bool:
        return bool(set(_SHOPS.findall(sent.request.path)) - {self.namespace})

    async def _all_synced(self) -> None:
        for name, running in self.agents.items():
            for state in running.agent.reconciler.informers.facts.all(ClusterState):
                assert state.phase is Phase.SYNCED, f"{name}: {state}"

    def _fail_if_an_agent_died(self) -> None:
        for name, running in self.agents.items():
            assert not running.task.done(), f"the agent {name} ended: {running.task}"

    async def _way(self, source: str, cluster: ClusterId, target: ClusterId) -> Transport:
        role = Role.LOCAL if target == cluster else Role.BROKER
        inner = await self.testbed.agent_transport(self._account(cluster, role), target)
        self.closing.push_async_callback(inner.close)  # also if its agent never came to run
        return self.network.transport(source, target, inner)

    def _account(
        self, cluster: ClusterId, role: Role, only: Callable[[Rule], bool] = lambda _: True
    ) -> Account:
        features = self._with_admission(AdmissionOptions(namespace=self.system))
        return account_of(features, cluster, role, self.system, only)

    def _with_admission(self, options: AdmissionOptions) -> tuple[Feature, ...]:
        """What agents do; with hooks they also see to it that they are asked."""
        own = (Admission(self.hooks, options),) if self.hooks else ()
        return (*self.features(), *own)

    async def _run(self, agent: Agent, endpoint_for_webhooks: WebhookEndpoint) -> None:
        try:
            async with agent.running(webhooks=endpoint_for_webhooks.listener):
                await asyncio.get_running_loop().create_future()
        finally:
            self.testbed.set_webhook_server(endpoint_for_webhooks, None)
            await agent.close()


_SHOPS = re.compile(r"\bshop-[0-9a-f]{8}\b")
"""Scenarios' own namespaces, also where they are part of a longer name."""


def _is_work(sent: Sent) -> bool:
    return sent.request.method not in READ_METHODS and "/leases" not in sent.request.path


def all_of(*checks: Check[object]) -> Check[None]:
    """That several things hold."""

    async def check() -> None:
        for one in checks:
            await one()

    return check


def told(writes: Iterable[Sent]) -> list[str]:
    """Writes in a few words each, for messages."""
    return [f"{w.source}: {w.request.method} {w.target}{w.request.path}" for w in writes]
