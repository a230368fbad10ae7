"""The fleet of one run: clusters, agents with every feature, their names, and their health."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import cache, cached_property, partial
from typing import Any, cast

import msgspec
from msgspec import Struct

from hanse.app import Options, zone_sources
from hanse.app import features as all_features
from hanse.app.agent import Agent
from hanse.dns.server import DnsServer
from hanse.features.admission.feature import Admission
from hanse.features.networks.options import NetworksOptions
from hanse.kube import requests
from hanse.kube.client import Client
from hanse.kube.clock import Clock
from hanse.kube.errors import NotFound
from hanse.kube.transport import Request, Response, Transport
from hanse.model.dns.zones import View, ZoneSource
from hanse.model.facts import Role
from hanse.model.feature_names import FEATURES
from hanse.model.objects import ClusterId, Object, Wire
from hanse.model.plan import Feature
from tests.scenarios.network_fixtures import agent_users
from tests.support.faults import NO_FAULTS
from tests.support.scenario import Scenario
from tests.support.simulator.loop import PROCESS, SimulationLoop
from tests.support.simulator.names import Answer, NameServer
from tests.support.simulator.schedule import BROKER
from tests.support.simulator.users import Place, UserClient, UserObjects
from tests.support.testbed import ClusterTestbed, WebhookEndpoint
from tests.support.testbed_embedded import EmbeddedTestbed
from tinykube.storage import Change, StorageEvent

LATENCY = timedelta(milliseconds=5)
LEASE = timedelta(seconds=30)
"""How long a cluster that is silent counts as alive: the default of a ClusterSet."""

_ANY, _RESTORED = "any store", "restored"

RENEWAL = LEASE.total_seconds() / 3 + 2
"""Seconds within which a cluster that works renews its Lease on the broker."""


class Backup(Struct, frozen=True):
    """A backup of a cluster, and what users had in it."""

    data: object
    users: dict[Place, tuple[str, Wire]]


class ClusterChanges:
    """The number of the latest change of each embedded cluster, of its stores and restores."""

    def __init__(self, testbed: ClusterTestbed) -> None:
        self._number = 0
        self._latest: dict[tuple[ClusterId, str], int] = {}
        self._is_observed = isinstance(testbed, EmbeddedTestbed)
        if isinstance(testbed, EmbeddedTestbed):
            for cluster, server in testbed.servers.items():
                server.storage.subscribe(partial(self._on_event, cluster))

    def state_of(self, cluster: ClusterId, *stores: str) -> object:
        """What is another value once anything in a cluster, or in these stores, has changed."""
        if not self._is_observed:
            return object()
        return [self._latest.get((cluster, store)) for store in (_RESTORED, *(stores or (_ANY,)))]

    def _on_event(self, cluster: ClusterId, event: StorageEvent) -> None:
        self._number += 1
        store = event.store if isinstance(event, Change) else _RESTORED
        self._latest[cluster, store] = self._latest[cluster, _ANY] = self._number


class Fleet(Scenario):
    """Agents with all or some features on a testbed; users' objects are recorded."""

    clocks_jumped = False
    namespace_lost_at = -60.0
    """When the broker's namespace was last deleted."""
    namespace_back_at = -60.0
    """When it was made again, with the rights and records of members."""
    broker_was_ahead = False
    """Whether the broker's clock was ever ahead by about an hour: `FIRST_PUBLICATIONS`."""

    def __init__(
        self,
        testbed: ClusterTestbed,
        namespace: str,
        *,
        seed: int = 0,
        features: tuple[str, ...] = FEATURES,
    ) -> None:
        options = Options(features, networks=NetworksOptions(agents=agent_users(namespace)))
        super().__init__(testbed, namespace, lambda: product_features(options), seed=seed)
        self.network.latency = LATENCY
        self.extra_watches = tuple(w for s in zone_sources(View(""), options) for w in s.watches)
        self.zone_sources: Callable[[View], Sequence[ZoneSource]] = partial(
            zone_sources, options=options
        )
        """What name servers answer."""
        self.users = UserObjects()
        self.answers_changed = asyncio.Event()
        self._answers_version = 0
        self.name_servers: dict[ClusterId, NameServer] = {}
        self.backups: dict[ClusterId, list[Backup]] = {}
        self.restored_at: dict[ClusterId, float] = {}
        self.started_at: dict[ClusterId, float] = {}
        """When the agent of a cluster was last started."""
        self.clock_set_back: dict[ClusterId, float] = {}
        self.left: set[ClusterId] = set()
        """The clusters that an administrator has let leave the broker."""
        self.membership_changed: dict[ClusterId, float] = {}
        self.log: list[str] = []
        self._user_clients: dict[ClusterId, UserClient] = {}
        self._read: dict[tuple[ClusterId, type[Object], str], tuple[object, list[Wire]]] = {}
        """What laws have read, and the state of the cluster in which they did."""
        self._changes = ClusterChanges(testbed)
        self._transports: dict[tuple[str, ClusterId, Role], Transport] = {}
        self._disturbed: dict[str, float] = {}
        """When a link, a server or an agent was last seen disturbed."""
        self._silent: dict[ClusterId, float] = {}
        self._mute: dict[ClusterId, float] = {}
        self.acting = asyncio.Lock()
        """Held while a user acts: what is read meanwhile may be half done."""

    @cached_property
    def restored_forward_at(self) -> dict[ClusterId, float]:
        """When a cluster was last restored so that its versions went forward."""
        return {}

    @property
    def everywhere(self) -> tuple[ClusterId, ...]:
        return (*self.names, BROKER)

    @property
    def now(self) -> float:
        return asyncio.get_running_loop().time()

    @property
    def loop(self) -> SimulationLoop | None:
        """The loop whose processes can be stopped, on virtual time."""
        loop = asyncio.get_running_loop()
        return loop if isinstance(loop, SimulationLoop) else None

    def admin(self, cluster: ClusterId) -> Client:
        """A user's client: what it creates is the user's own."""
        if cluster not in self._user_clients:
            transport = self.hand(cluster)._transport
            self._user_clients[cluster] = UserClient(transport, cluster, self.users)
        return self._user_clients[cluster]

    def hand(self, cluster: ClusterId) -> Client:
        """A client of somebody who edits objects that are not their own."""
        return super().admin(cluster)

    def note(self, text: str) -> None:
        """Log what happens, for the report of a failure."""
        self.log.append(f"{self.now:9.2f}  {text}")

    # -- what laws read

    def state_of(self, cluster: ClusterId, *kinds: type[Object]) -> object:
        """What is another value once anything in a cluster, or of these kinds, has changed."""
        return self._changes.state_of(cluster, *map(_store, kinds))

    @property
    def answers_state(self) -> object:
        """What is another value once any answer may have changed."""
        running = [self.is_running(c) and c in self.name_servers for c in self.names]
        return self._answers_version, running

    def _on_answers_changed(self) -> None:
        self._answers_version += 1
        self.answers_changed.set()

    async def objects(self, cluster: ClusterId, kind: type[Object], space: str = "") -> list[Wire]:
        """The objects of a kind as they are stored, without a fault in between."""
        testbed = self.testbed
        if isinstance(testbed, EmbeddedTestbed):
            key, state = (cluster, kind, space), self.state_of(cluster, kind)
            kept = self._read.get(key)
            if kept is None or kept[0] != state:
                found = list(testbed.servers[cluster].storage.objects(_store(kind), space))
                kept = self._read[key] = (state, found)
            return kept[1]
        try:
            client = self.hand(cluster)
            path = requests.resource_path(client.rest_mapper.served_kind(kind), space)
            return _items(await client.send(Request("GET", path)))
        except NotFound:
            return []

    async def get(
        self, cluster: ClusterId, kind: type[Object], space: str, name: str
    ) -> Wire | None:
        """One object as it is stored."""
        testbed = self.testbed
        if isinstance(testbed, EmbeddedTestbed):
            return testbed.servers[cluster].storage.get(_store(kind), space, name)
        return next(
            (o for o in await self.objects(cluster, kind, space) if o["metadata"]["name"] == name),
            None,
        )

    def ask(self, cluster: ClusterId, name: str, rtype: str = "A") -> Answer:
        """What the name server of a cluster answers; SERVFAIL while its agent does not run."""
        if not self.is_running(cluster) or cluster not in self.name_servers:
            return Answer("SERVFAIL", frozenset())
        return self.name_servers[cluster].ask(name, rtype)

    def is_running(self, cluster: ClusterId) -> bool:
        """Whether an agent runs, and is not stopped."""
        stopped = self.loop is not None and cluster in self.loop.stopped
        return cluster in self.agents and not stopped

    # -- health

    def disturb(self, *parties: str) -> None:
        """Note that a server or an agent was disturbed just now."""
        for party in parties:
            self._disturbed[party] = self.now

    def is_disputed(self, cluster: ClusterId) -> bool:
        """Whether a restored broker may not know what was decided about a member."""
        changed = self.membership_changed.get(cluster)
        return changed is not None and self.restored_at.get(BROKER, -1.0) >= changed

    def observe_health(self) -> None:
        """Note what is disturbed at this moment; to be called often."""
        for name in self.names:
            if not self.is_running(name):
                self.disturb(agent_party(name))
        for link in self.network.links:
            if link.cut or link.faults != NO_FAULTS or not link.answers.is_set():
                self.disturb(link_party(link.source, link.target))

        for name in self.names:
            link = self.network.link(name, BROKER)
            mute = not self.is_running(name) or link.cut or not link.answers.is_set()
            mute |= bool(link.faults.forbids)
            _note_episode(self._mute, name, self.now, mute)
            worked = self.now - self.calm_since(
                agent_party(name), link_party(name, BROKER), server_party(BROKER)
            )
            _note_episode(self._silent, name, self.now, worked < RENEWAL)

    def silent_for(self, cluster: ClusterId) -> float:
        """For how long others may not have heard of a cluster: 0 if it surely renews its Lease."""
        return self.now - self._silent.get(cluster, self.now)

    def mute_for(self, cluster: ClusterId) -> float:
        """For how long a cluster surely did not renew its Lease: 0 if it may have."""
        return self.now - self.mute_since(cluster)

    def mute_since(self, cluster: ClusterId) -> float:
        """Since when a cluster surely did not renew its Lease: now if it may have."""
        return self._mute.get(cluster, self.now)

    def calm_since(self, *parties: str) -> float:
        """Since when all of these have been undisturbed; at the moment of a disturbance: now."""
        disturbed = self._disturbed
        return max([disturbed[party] for party in parties if party in disturbed], default=0.0)

    def works_since(self, cluster: ClusterId, *targets: ClusterId) -> float:
        """Since when an agent has run with good links to its own cluster and to others."""
        return self.calm_since(*_parties(cluster, targets))

    def all_calm_since(self) -> float:
        """Since when nothing at all has been disturbed."""
        return max(self._disturbed.values(), default=0.0)

    # -- agents

    def clock_of(self, cluster: ClusterId) -> Clock:
        testbed = self.testbed
        return testbed.clocks[cluster] if isinstance(testbed, EmbeddedTestbed) else testbed.clock

    async def kill_agent(self, name: str) -> None:
        self.disturb(agent_party(name))
        self.name_servers.pop(name, None)  # what it does while it dies nobody asks
        links = [self.network.link(name, target) for target in self.everywhere]
        were_cut = [link.cut for link in links]
        if self.loop is not None and name in self.loop.stopped:
            for link in links:
                link.cut = True
            self.loop.continue_process(name)
        await super().kill_agent(name)
        for link, was_cut in zip(links, were_cut, strict=True):
            link.cut = was_cut

    async def restart_agent(self, name: str) -> None:
        """Kill an agent, if it runs, and start it with empty caches."""
        if name in self.agents:
            await self.kill_agent(name)
        await self.start_agent(name)

    async def _agent_transport(self, source: str, cluster: ClusterId, role: Role) -> Transport:
        """What an agent connects by: an embedded cluster keeps its account when it restarts."""
        if not isinstance(self.testbed, EmbeddedTestbed):
            return await super()._agent_transport(source, cluster, role)
        key = (source, cluster, role)
        if key not in self._transports:
            self._transports[key] = await super()._agent_transport(source, cluster, role)
        return self._transports[key]

    async def _run(self, agent: Agent, endpoint_for_webhooks: WebhookEndpoint) -> None:
        cluster = agent.settings.cluster
        PROCESS.set(cluster)
        self.started_at[cluster] = self.now
        names = self.name_servers[cluster] = NameServer(
            cluster, self._on_answers_changed, self.zone_sources
        )
        self._answers_version += 1
        try:
            async with agent.running(), agent.serving_names(names.compiler, cast(DnsServer, names)):
                await asyncio.get_running_loop().create_future()
        finally:
            self.testbed.set_webhook_server(endpoint_for_webhooks, None)
            await agent.close()


def product_features(options: Options) -> Sequence[Feature]:
    """The features of the product that are on; webhooks are not called."""
    return [f for f in all_features(options) if not isinstance(f, Admission)]


def _note_episode(episodes: dict[str, float], name: str, now: float, goes_on: bool) -> None:
    """Keep when an episode began, or that it ended."""
    if goes_on:
        episodes.setdefault(name, now)
    else:
        episodes.pop(name, None)


@cache
def _store(kind: type[Object]) -> str:
    own = kind.kind
    return own.definition if own.group else own.plural


def _items(response: Response) -> list[Wire]:
    items: list[Wire] = msgspec.json.decode(response.body)["items"]
    return items


@cache
def agent_party(cluster: ClusterId) -> str:
    return f"agent {cluster}"


@cache
def server_party(cluster: ClusterId) -> str:
    return f"server {cluster}"


@cache
def link_party(source: str, target: str) -> str:
    return f"link {source} {target}"


@cache
def _parties(cluster: ClusterId, targets: tuple[ClusterId, ...]) -> tuple[str, ...]:
    """An agent, its links to its own cluster and others, and their servers."""
    reached = (cluster, *targets)
    links = [link_party(cluster, target) for target in reached]
    return (agent_party(cluster), *links, *map(server_party, reached))


def find(items: Sequence[Wire], name: str) -> Wire | None:
    """The object of a name, if it is not being deleted."""
    return next((o for o in items if o["metadata"]["name"] == name and is_live(o)), None)


def is_live(obj: Any) -> bool:
    return "deletionTimestamp" not in obj["metadata"]
