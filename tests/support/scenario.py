"""One fleet under test, the same on embedded and on real clusters.

A scenario runs on a testbed, which is the clusters of one engine. Agents run in this process and
reach clusters over a network with injected faults; the clients of administrators bypass it. Tests
wait with `eventually` and `always` only, which cost nothing on virtual time.
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

from hanse.app import BROKER, Options
from hanse.app.agent import Agent, AgentParts, AgentSettings
from hanse.features.admission.feature import Admission
from hanse.features.admission.options import AdmissionOptions
from hanse.kube.client import Client
from hanse.kube.clock import Clock
from hanse.kube.errors import AlreadyExists, KubeError, NotFound
from hanse.kube.transport import Transport
from hanse.model.admission import AdmissionHook
from hanse.model.facts import ClusterState, LeaseLiveness, Phase, Role, WriteOutcome
from hanse.model.kinds.coordination import Lease
from hanse.model.kinds.core import Namespace
from hanse.model.kinds.hanse import ClusterSet
from hanse.model.naming import BROKER_NAMESPACE
from hanse.model.objects import ClusterId
from hanse.model.plan import Feature
from hanse.model.rbac import RbacRule, Right
from hanse.model.snapshot import Watch
from hanse.providers.probes import ProbeFunction
from hanse.runtime.questions import Provider
from tests.support.agent_accounts import account_of, rights_at_home
from tests.support.builders import namespace
from tests.support.faults import READ_METHODS, Network, Sent
from tests.support.rights import USED_RIGHTS, uses_at_home
from tests.support.service_accounts import Account
from tests.support.testbed import ClusterTestbed, WebhookEndpoint

T = TypeVar("T")

TIMEOUT = timedelta(seconds=60)
"""Long enough for real clusters on a small busy machine; a check that holds ends the wait."""

LAST_WRITES = 40
"""How many writes are shown where a check fails."""

QUIET_INTERVALS = 20
"""How many quiet intervals in a row make a fleet settled."""

Check = Callable[[], Awaitable[T]]
"""Raises AssertionError while the claim does not hold; returns what it observed."""


Features = Callable[[], Sequence[Feature]]
"""Makes the features of each agent."""


class RunningAgent(Struct, frozen=True):
    """An agent, its name on the network, and the task that runs it."""

    name: str
    agent: Agent
    task: "asyncio.Task[None]"


class Scenario:
    """Agents over the clusters of a testbed, with a namespace of the scenario's own."""

    def __init__(
        self,
        testbed: ClusterTestbed,
        namespace: str,
        features: Features,
        *,
        hooks: Sequence[AdmissionHook] = (),
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
        self.broker: ClusterId = BROKER
        """The cluster whose API server is the broker; a member may be."""
        self.attempt: ProbeFunction | None = None
        """How agents probe addresses; None: over real sockets."""
        self.lookup: Provider | None = None
        """How agents resolve host names; None: the system's resolver."""
        self.extra_watches: tuple[Watch, ...] = ()
        """What agents watch beyond their features, to serve names."""
        self._people: dict[ClusterId, Client] = {}
        self._rights: dict[ClusterId, dict[str, list[Right]]] = {}
        """The rights that were generated for the agents of each cluster, by feature."""
        self.made: set[tuple[ClusterId, str]] = set()
        """The namespaces that are deleted with the scenario."""
        self.closing = AsyncExitStack()
        """Clean-up that runs after all agents have stopped, last pushed first."""

    async def __aenter__(self) -> Self:
        for cluster in (*self.names, BROKER):
            transport = self.testbed.connect(cluster)
            self.closing.push_async_callback(transport.close)
            self._people[cluster] = Client(transport, field_manager="somebody")
        for cluster in self.names:
            # Kept: no other scenario uses it, and deleting it is slow on a real cluster.
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
            if kind is None:
                self.check_rights()

    # -- administrators

    def admin(self, cluster: ClusterId) -> Client:
        """An administrator's client of a cluster, which bypasses the faulty network."""
        return self._people[cluster]

    async def make_namespace(self, cluster: ClusterId, name: str, *, keep: bool = False) -> None:
        """Ensure a namespace exists; it is deleted with the scenario unless `keep` is set."""
        if not keep:
            self.made.add((cluster, name))
        try:
            await self.admin(cluster).create(namespace(name))
        except AlreadyExists:
            return

    async def delete_namespace(self, cluster: ClusterId, name: str) -> None:
        """Delete a namespace if it exists, without waiting for its end."""
        try:
            await self.admin(cluster).delete(Namespace, name, "")
        except NotFound:
            return

    def has_no_namespace(self, cluster: ClusterId, name: str) -> Check[None]:
        """That a namespace and its content are gone."""

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

    async def restart_agents(self) -> None:
        """Kill and start one agent after the other: none is away for long."""
        for cluster in self.names:
            await self.restart_agent(cluster)

    async def restart_agent(self, cluster: ClusterId) -> None:
        """Kill the agent of a cluster, and start it with empty caches."""
        await self.kill_agent(cluster)
        await self.start_agent(cluster)

    async def start_agent(
        self, cluster: ClusterId, replica: str = "", *, home: ClusterId = ""
    ) -> Agent:
        """Start an agent with empty caches; with `replica` it is one of several of its cluster.

        `home` is the cluster whose API server it takes for its own, by mistake.
        """
        name = f"{cluster}/{replica}" if replica else cluster
        assert name not in self.agents, f"{name} runs already"
        own = await self._agent_transport(name, home or cluster, Role.LOCAL)
        broker = await self._agent_transport(name, cluster, Role.BROKER)
        endpoint_for_webhooks = self.testbed.webhook_endpoint(name)
        admission = AdmissionOptions(bool(self.hooks), endpoint_for_webhooks.url, self.system)
        agent = Agent(
            AgentSettings(
                cluster,
                replica or "only",
                namespace=self.system,
                options=Options(admission=admission),
                replicated=bool(replica),
                timings=self.testbed.timings,
            ),
            AgentParts(
                local=own,
                broker=broker,
                probe=self.attempt,
                resolver=self.lookup,
                features=self._with_admission(admission),
                hooks=self.hooks,
                extra_watches=self.extra_watches,
                new_transport=lambda member, credentials: self.network.transport(
                    name, member, self.testbed.dial(member, credentials)
                ),
                clock=self.clock_of(cluster),
                random=self.random,
            ),
        )
        self.testbed.set_webhook_server(endpoint_for_webhooks, agent.webhook_server)
        task = asyncio.create_task(self._run(agent, endpoint_for_webhooks), name=f"agent {name}")
        self.agents[name] = RunningAgent(name, agent, task)
        return agent

    async def lengthen_leases(self, seconds: int = 120) -> None:
        """Lengthen the lease duration of the ClusterSet: who starts slowly is not dead."""
        broker, change = self.admin(self.broker), {"spec": {"leaseDurationSeconds": seconds}}
        await broker.patch(ClusterSet, self.namespace, "", change)

        async def taken_up() -> None:
            leases = (await broker.list(Lease, namespace=BROKER_NAMESPACE)).objects
            assert {lease.spec.lease_duration_seconds for lease in leases} == {seconds}

        await self.eventually(taken_up)

    def clock_of(self, cluster: ClusterId) -> Clock:
        """The clock of an agent."""
        return self.testbed.clock

    def agent(self, name: str) -> Agent:
        """The running agent of a cluster, or a replica by `cluster/replica`."""
        return self.agents[name].agent

    async def stop_agent(self, name: str) -> None:
        """Stop an agent gracefully: it releases its leases."""
        running = self.agents.pop(name)
        running.task.cancel()
        await asyncio.wait({running.task})

    async def end_of(self, name: str) -> str:
        """Wait until an agent ends by itself; returns the reason that it gives."""
        running = self.agents.pop(name)
        async with asyncio.timeout((TIMEOUT + self.testbed.slack).total_seconds()):
            await running.task
        return running.agent.end_reason

    async def kill_agent(self, name: str) -> None:
        """Kill an agent: none of its remaining requests arrives."""
        running = self.agents.pop(name)
        targets = {*self.names, BROKER, *self.network.targets_of(name)}
        await self.network.kill_task(name, sorted(targets), running.task)

    async def allow(
        self, cluster: ClusterId, only: Callable[[RbacRule], bool] = lambda _: True
    ) -> None:
        """Grant an agent its RBAC rules in its own cluster, or a part of them."""
        account = self._account(cluster, Role.LOCAL, only)
        transport = await self.testbed.agent_transport(account, cluster)
        await transport.close()

    async def allow_on_broker(self, cluster: ClusterId) -> None:
        """Grant an agent its RBAC rules on the broker, once more if they were lost."""
        account = self._account(cluster, Role.BROKER)
        transport = await self.testbed.agent_transport(account, self.broker)
        await transport.close()

    def cut_off_from_broker(self, *clusters: ClusterId) -> None:
        """Cut agents off from the broker; none named means all."""
        for cluster in clusters or self.names:
            self.network.cut(cluster, BROKER)

    # -- waiting

    async def eventually(self, check: Check[T], within: timedelta = TIMEOUT) -> T:
        """Wait until a check holds; after the timeout, fail as the check last did.

        Short bounds are proven on virtual time only, which a slow machine does not stretch.
        """
        loop = asyncio.get_running_loop()
        until = loop.time() + (within + self.testbed.slack).total_seconds()
        while True:
            self._fail_if_an_agent_died()
            try:
                return await check()
            except (AssertionError, KubeError) as error:
                if loop.time() >= until:
                    error.add_note(self.describe_agents())
                    raise
            await asyncio.sleep(self.testbed.poll_interval.total_seconds())

    async def always(self, check: Check[object], for_: timedelta) -> None:
        """Require that a check holds all the time."""
        loop = asyncio.get_running_loop()
        until = loop.time() + for_.total_seconds()
        while loop.time() < until:
            self._fail_if_an_agent_died()
            await check()
            await asyncio.sleep(self.testbed.poll_interval.total_seconds())

    async def settled(self, within: timedelta = timedelta(hours=1)) -> None:
        """Wait until every agent has synced all its watches and nobody writes any more."""
        await self.eventually(self._all_synced)
        quiet = 0
        async with asyncio.timeout(within.total_seconds()):
            while quiet < QUIET_INTERVALS:
                writes = await self.writes_during(self.testbed.settle_time / QUIET_INTERVALS)
                quiet = 0 if writes else quiet + 1
                self._fail_if_an_agent_died()

    async def writes_during(self, time: timedelta) -> list[Sent]:
        """What agents write during a time, lease renewals excluded."""
        start = len(self.network.sent)
        await asyncio.sleep(time.total_seconds())
        return self.writes_since(start)

    def writes_since(self, start: int) -> list[Sent]:
        """What agents wrote after so many requests, lease renewals excluded.

        On shared clusters, namespaces of earlier scenarios may still be terminating: what agents
        delete with them is not counted.
        """
        return [
            s
            for s in self.network.sent[start:]
            if _is_counted_write(s) and not self._is_of_another_scenario(s)
        ]

    def _is_of_another_scenario(self, sent: Sent) -> bool:
        named = _SCENARIO_NAMESPACES.findall(f"{sent.request.path} {sent.request.body.decode()}")
        return bool(named) and self.namespace not in named

    def describe_agents(self) -> str:
        """What agents know that is not as it should be, and what was written last."""
        lines = []
        for name, running in self.agents.items():
            reconciler = running.agent.reconciler
            facts = reconciler.informers.facts
            known: list[object] = [
                *(f for f in facts.all(ClusterState) if f.phase is not Phase.SYNCED),
                *facts.all(LeaseLiveness),
                *facts.all(WriteOutcome),
                *reconciler.mass_deletion.holds,
            ]
            state = f"paused: {reconciler.paused!r}, {len(reconciler.queue)} keys due"
            lines += [f"{name}: {state}", *(f"  {one}" for one in known)]
        writes = describe_writes(s for s in self.network.sent if _is_counted_write(s))
        return "\n".join([*lines, "last writes:", *writes[-LAST_WRITES:]])

    async def _all_synced(self) -> None:
        for name, running in self.agents.items():
            for state in running.agent.reconciler.informers.facts.all(ClusterState):
                assert state.phase is Phase.SYNCED, f"{name}: {state}"

    def _fail_if_an_agent_died(self) -> None:
        for name, running in self.agents.items():
            assert not running.task.done(), f"the agent {name} ended: {running.task}"

    async def _agent_transport(self, source: str, cluster: ClusterId, role: Role) -> Transport:
        target = cluster if role is Role.LOCAL else self.broker
        inner = await self.testbed.agent_transport(self._account(cluster, role), target)
        self.closing.push_async_callback(inner.close)  # also if its agent never started
        return self.network.transport(source, target, inner)

    def _account(
        self, cluster: ClusterId, role: Role, only: Callable[[RbacRule], bool] = lambda _: True
    ) -> Account:
        features = self._with_admission(AdmissionOptions(namespace=self.system))
        if role is Role.LOCAL:
            rights = rights_at_home(features, cluster, self.system, self.extra_watches)
            known = self._rights.setdefault(cluster, {})
            known.update({name: [*known.get(name, []), *more] for name, more in rights.items()})
        return account_of(features, cluster, role, self.system, only, self.extra_watches)

    def _with_admission(self, options: AdmissionOptions) -> tuple[Feature, ...]:
        """The features of an agent; with webhooks, also the one that registers them."""
        own = (Admission(self.hooks, options),) if self.hooks else ()
        return (*self.features(), *own)

    def check_rights(self) -> None:
        """Fail if an agent asked its own cluster for what its generated rights do not cover.

        One that hosts the broker is left out: its agent asks it with two accounts.
        """
        for cluster, rights in self._rights.items():
            if cluster == self.broker:
                continue
            sent = (*self.network.sent, *self.network.watched)
            missing = USED_RIGHTS.record(rights, uses_at_home(sent, cluster), self.system)
            assert not missing, f"no right of {cluster} covers: {', '.join(map(str, missing))}"

    async def _run(self, agent: Agent, endpoint_for_webhooks: WebhookEndpoint) -> None:
        try:
            async with agent.running(webhooks=endpoint_for_webhooks.listener):
                await agent.ended.wait()
        finally:
            self.testbed.set_webhook_server(endpoint_for_webhooks, None)
            await agent.close()


_SCENARIO_NAMESPACES = re.compile(r"\bshop-[0-9a-f]{8}\b")
"""Namespaces of scenarios, also where they are part of a longer name."""


def _is_counted_write(sent: Sent) -> bool:
    return sent.request.method not in READ_METHODS and "/leases" not in sent.request.path


def all_of(*checks: Check[object]) -> Check[None]:
    """That several checks hold."""

    async def check() -> None:
        for one in checks:
            await one()

    return check


def describe_writes(writes: Iterable[Sent]) -> list[str]:
    """One line for each write, for assertion messages."""
    return [f"{w.source}: {w.request.method} {w.target}{w.request.path} {w.status}" for w in writes]
