"""Orders of upgrades from Submariner Lighthouse, and roll-backs, of three clusters.

The law is judged all the time in every cluster, with whichever name server it has.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from functools import partial
from typing import Literal, get_args

from msgspec import Struct

from hanse.features.services.feature import Services
from hanse.features.services.legacy import LEGACY_CLUSTER, LIGHTHOUSE_AGENT
from hanse.features.services.zone import ServiceZone
from hanse.kube.client import Client
from hanse.kube.errors import AlreadyExists, NotFound
from hanse.model.kinds.discovery import MANAGED_BY, EndpointSlice
from hanse.model.kinds.hanse import LighthouseVersion
from hanse.model.kinds.multicluster import ServiceImport
from hanse.model.naming import BROKER_NAMESPACE
from hanse.model.objects import ClusterId
from tests.scenarios.services import ServicesScenario
from tests.support.faults import LinkFaults
from tests.support.simulator.exports import NAMES, Exports
from tests.support.simulator.fleet import Fleet
from tests.support.simulator.lighthouse import LighthouseAgent, Lists
from tests.support.simulator.schedule import BROKER, CLUSTERS
from tests.support.testbed import ClusterTestbed
from tests.support.testbed_embedded import EmbeddedTestbed
from tinykube.storage import Change, StorageEvent

Action = Literal["upgrade", "roll_back", "pods", "export", "unexport", "crash"]
ACTIONS: tuple[Action, ...] = get_args(Action)
SYNC = 0.25
"""Seconds between passes of a Lighthouse agent."""
TAKEN_UP = 8.0
"""Seconds after which a change is in all answers, and an agent that starts has taken over."""
PATIENCE = 60.0
"""The most that it may take, on real clusters or while events arrive late."""

LEASE = 12
"""Seconds: shorter than a roll-back takes, so that Leases expire meanwhile."""
LAG = timedelta(seconds=1.5)
LAGGING = ("", "endpointslices", "serviceimports", "leases")

Answers = frozenset[str]
Truth = dict[tuple[ClusterId, str], Answers]
"""What is ready, by cluster and service."""
NameServerOf = Literal["lighthouse", "hanse", "none"]


class Step(Struct, frozen=True):
    """One action in one cluster; `number` is that of its ready pods."""

    action: Action
    cluster: ClusterId
    name: str = "web"
    number: int = 1

    def __str__(self) -> str:
        details = f" {self.name} {self.number}" if self.action == "pods" else f" {self.name}"
        return f"{self.action} {self.cluster}{'' if self.action in _BARE else details}"


_BARE = ("upgrade", "roll_back", "crash")


class Order(Struct, frozen=True):
    """A version of Lighthouse, and what happens then."""

    version: LighthouseVersion
    steps: tuple[Step, ...]
    lags: str = ""
    """The resource whose events from the broker arrive late; empty: none."""


def upgraded_by(steps: Sequence[Step]) -> frozenset[ClusterId]:
    """The clusters that have an agent of Hanse after some steps."""
    upgraded = frozenset[ClusterId]()
    for step in steps:
        upgraded ^= {step.cluster} if step.action in ("upgrade", "roll_back") else set()
    return upgraded


class MigrationFailed(AssertionError):
    """The law does not hold."""


class Migration:
    """Three clusters, each with a Lighthouse agent or one of Hanse."""

    def __init__(self, fleet: Fleet, version: LighthouseVersion) -> None:
        self.fleet, self.version = fleet, version
        fleet.features = lambda: (Services(),)
        fleet.extra_watches = ServiceZone.watches
        fleet.zone_sources = lambda view: (ServiceZone(view),)
        self._users = ServicesScenario(fleet)
        self._exports = Exports(fleet)
        self._agents: dict[ClusterId, LighthouseAgent] = {}
        self._serves: dict[ClusterId, NameServerOf] = {}
        """Whose name server answers in a cluster."""
        self._changes = Counter[ClusterId]()
        """How often objects that Lighthouse reads have changed, by cluster, where that is known."""
        self._lists = Lists(self._version_of)
        self._synced: dict[ClusterId, tuple[int, ...]] = {}
        """The versions of a cluster and the broker after the last pass of a Lighthouse agent."""
        self._answers: dict[tuple[ClusterId, ClusterId, str], tuple[tuple[int, ...], Answers]] = {}
        self._before: Truth = {}
        self._after: Truth = {}

    async def open(self) -> None:
        """Services in two clusters, one of them headless, published by Lighthouse agents."""
        await self._users.open(lease=LEASE)
        self._count_changes()
        await self._users.patch_clusterset({"lighthouse": self.version})
        for number, cluster in enumerate(CLUSTERS):
            for name in NAMES:
                await self._users.serve(cluster, name, headless=name == "db")
                await self._pods(Step("pods", cluster, name, 1))
                if number < 2:
                    await self._users.export(cluster, name)
            self._start_lighthouse(cluster)
            self._serves[cluster] = "lighthouse"
        await self._sync_all()
        await self._sync_all()

    def _start_lighthouse(self, cluster: ClusterId) -> None:
        fleet = self.fleet
        self._agents[cluster] = LighthouseAgent(
            cluster,
            self.version,
            fleet.hand(cluster),
            fleet.hand(BROKER),
            fleet.namespace,
            fleet.system,
            self._lists,
        )

    async def _sync_all(self) -> None:
        for agent in list(self._agents.values()):
            await agent.sync()

    def _count_changes(self) -> None:
        """Count the changes of embedded clusters, but not those of Leases, which come and come."""
        testbed = self.fleet.testbed

        def count(cluster: ClusterId, event: StorageEvent) -> None:
            if not isinstance(event, Change) or event.object.get("kind") != "Lease":
                self._changes[cluster] += 1

        if isinstance(testbed, EmbeddedTestbed):
            for cluster in self.fleet.everywhere:
                self._changes[cluster] = 1
                testbed.servers[cluster].storage.subscribe(partial(count, cluster))

    def _version_of(self, client: Client) -> int | None:
        clusters = (c for c in self._changes if self.fleet.hand(c) is client)
        return next((self._changes[cluster] for cluster in clusters), None)

    def _versions(self, *clusters: ClusterId) -> tuple[int, ...]:
        """The versions of clusters: what is computed from them stands until they change."""
        return tuple(self._changes[cluster] for cluster in clusters if self._changes)

    async def _sync(self, agent: LighthouseAgent) -> bool:
        """One pass of an agent, unless nothing has changed since its last one."""
        before = self._versions(agent.cluster, BROKER)
        if before and self._synced.get(agent.cluster) == before:
            return False
        await agent.sync()
        self._synced[agent.cluster] = self._versions(agent.cluster, BROKER)
        return True

    async def begin(self) -> None:
        """Judge the fleet of Lighthouse agents; raises `MigrationFailed`, as all below do."""
        await self._note_truth()
        self._before = dict(self._after)
        await self._judge(at_rest=True)

    async def play(self, step: Step) -> None:
        """Play a step until its change is in all answers."""
        self.fleet.note(str(step))
        self._before = dict(self._after)
        await self._perform(step)
        await self._note_truth()
        await self._be_taken_up(*self._serves.items())
        self._before = dict(self._after)
        await self._judge(at_rest=True)

    async def finish(self) -> None:
        """End the migration, once all clusters are upgraded."""
        await self._users.patch_clusterset({"lighthouse": None})
        await self._be_taken_up(*self._serves.items())
        await self.fleet.eventually(self._check_leftovers)

    async def _be_taken_up(self, *servers: tuple[ClusterId, NameServerOf]) -> None:
        """Let agents work until these name servers answer what is ready now."""
        until = self.fleet.now + PATIENCE
        await self._pass_time(TAKEN_UP if isinstance(self.fleet.testbed, EmbeddedTestbed) else 0.5)
        while self.fleet.now < until and await self._find_fault(servers, self._after, self._after):
            await self._pass_time(0.5)

    async def _perform(self, step: Step) -> None:
        match step.action:
            case "upgrade":
                await self._upgrade(step.cluster)
            case "roll_back":
                await self._roll_back(step.cluster)
            case "crash":
                await self.fleet.kill_agent(step.cluster)
                self._serves[step.cluster] = "none"
                await self._pass_time(1)
                await self._start_hanse(step.cluster)
            case "pods":
                await self._pods(step)
            case "export":
                with suppress(AlreadyExists):
                    await self._users.export(step.cluster, step.name)
            case "unexport":
                with suppress(NotFound):
                    await self._users.unexport(step.cluster, step.name)

    async def _pods(self, step: Step) -> None:
        slot = "abcdef"[CLUSTERS.index(step.cluster) + len(CLUSTERS) * NAMES.index(step.name)]
        await self._users.pods(step.cluster, step.name, *[True] * step.number, slot=slot)

    async def _upgrade(self, cluster: ClusterId) -> None:
        """Stop the Lighthouse agent, start ours, and let it answer once it has taken over."""
        del self._agents[cluster]
        await self._start_hanse(cluster)

    async def _start_hanse(self, cluster: ClusterId) -> None:
        await self.fleet.start_agent(cluster)
        await self._be_taken_up((cluster, "hanse"))
        self._serves[cluster] = "hanse"

    async def _roll_back(self, cluster: ClusterId) -> None:
        """Stop our agent, start that of Lighthouse, and let it answer once it has taken over."""
        await self.fleet.kill_agent(cluster)
        self._serves[cluster] = "none"
        self._start_lighthouse(cluster)
        self._synced.pop(cluster, None)
        await self._be_taken_up((cluster, "lighthouse"))
        self._serves[cluster] = "lighthouse"

    async def _pass_time(self, seconds: float) -> None:
        """Let agents work for a time, and judge all the time."""
        until = self.fleet.now + seconds
        while self.fleet.now < until:
            for agent in list(self._agents.values()):
                if await self._sync(agent):
                    await self._judge()
            with suppress(TimeoutError):
                async with asyncio.timeout(SYNC):
                    await self.fleet.answers_changed.wait()
            self.fleet.answers_changed.clear()
            await self._judge()

    async def _note_truth(self) -> None:
        for name in NAMES:
            exports = await self._exports.of(name)
            for cluster in CLUSTERS:
                exported = exports.get(cluster)
                addresses = exported.addresses if exported is not None else frozenset[str]()
                self._after[cluster, name] = addresses

    async def _judge(self, *, at_rest: bool = False) -> None:
        """Every answer has what was and is ready, and nothing that neither was nor is."""
        fault = await self._find_fault(tuple(self._serves.items()), self._before, self._after)
        if fault:
            moment = "at rest" if at_rest else "meanwhile"
            raise MigrationFailed("\n".join((f"{moment}: {fault}", *self.fleet.log)))

    async def _find_fault(
        self, servers: Sequence[tuple[ClusterId, NameServerOf]], before: Truth, after: Truth
    ) -> str:
        """An answer of one of these name servers that the law forbids; empty if there is none."""
        for asker, server in servers:
            for (exporter, name), ready in after.items():
                found = await self._answer(asker, server, exporter, name)
                was = before.get((exporter, name), frozenset())
                if found is not None and not was & ready <= found <= was | ready:
                    return (
                        f"{asker}, served by {server}, answers {sorted(found)} for {name} of "
                        f"{exporter}, served by {self._serves[exporter]}; ready was {sorted(was)} "
                        f"and is {sorted(ready)}"
                    )
        return ""

    async def _answer(
        self, asker: ClusterId, server: NameServerOf, exporter: ClusterId, name: str
    ) -> Answers | None:
        """What a cluster's name server says; None while it has none, or is being exchanged."""
        match server:
            case "none":
                return None
            case "lighthouse":
                agent = self._agents.get(asker)
                return None if agent is None else await self._ask(agent, exporter, name)
            case "hanse":
                full = f"{exporter}.{name}.{self.fleet.namespace}.svc.clusterset.local"
                return self.fleet.ask(asker, full).records

    async def _ask(self, agent: LighthouseAgent, exporter: ClusterId, name: str) -> Answers:
        key, versions = (agent.cluster, exporter, name), self._versions(agent.cluster)
        if not versions or self._answers.get(key, ((), frozenset()))[0] != versions:
            self._answers[key] = (versions, await agent.answer(exporter, name))
        return self._answers[key][1]

    async def _check_leftovers(self) -> None:
        """Once all are upgraded, the broker has nothing of Lighthouse."""
        slices = await self.fleet.hand(BROKER).list(EndpointSlice, namespace=BROKER_NAMESPACE)
        imports = await self.fleet.hand(BROKER).list(ServiceImport, namespace=BROKER_NAMESPACE)
        left = [
            o.metadata.name
            for o in slices.objects
            if o.metadata.labels.get(MANAGED_BY) == LIGHTHOUSE_AGENT
        ]
        left += [o.metadata.name for o in imports.objects if LEGACY_CLUSTER in o.metadata.labels]
        if left:
            raise MigrationFailed("\n".join((f"left on the broker: {left}", *self.fleet.log)))


@asynccontextmanager
async def opened(
    testbed: ClusterTestbed, version: LighthouseVersion, space: str = "shop"
) -> AsyncIterator[Migration]:
    """Three clusters on a testbed, all with Lighthouse agents."""
    async with Fleet(testbed, space) as fleet:
        migration = Migration(fleet, version)
        await migration.open()
        yield migration


def set_lag(fleet: Fleet, lags: str) -> None:
    """Let events of a resource arrive late from the broker; empty: of none."""
    for cluster in fleet.names if lags else ():
        fleet.network.link(cluster, BROKER).faults = LinkFaults(lag=LAG, lags=lags)


async def play_order(testbed: ClusterTestbed, order: Order, space: str = "shop") -> None:
    """Play an order on the clusters of a testbed; raises `MigrationFailed`."""
    async with opened(testbed, order.version, space) as migration:
        set_lag(migration.fleet, order.lags)
        await migration.begin()
        for step in order.steps:
            await migration.play(step)
        await finish(migration, order)


async def finish(migration: Migration, order: Order) -> None:
    """End the migration if all clusters are upgraded at the end of an order."""
    if upgraded_by(order.steps) == {*CLUSTERS}:
        await migration.finish()
