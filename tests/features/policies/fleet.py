"""A federation for policies: supervisors that take part in leader election, and faults."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from copy import deepcopy
from datetime import timedelta
from typing import Any

import msgspec

from hanse.features.policies.content import FEDERATED, KINDS, Policy, is_federated
from hanse.features.policies.feature import Policies
from hanse.features.policies.ledger import (
    LedgerPage,
    LocalState,
    MissingRecord,
    PolicyRecord,
    UnreadableRecord,
    decode_page,
    decode_record,
    record_name,
)
from hanse.features.policies.options import PolicyOptions
from hanse.kube.client import Client
from hanse.kube.errors import NotFound, error_from_response
from hanse.kube.transport import Request, Response, Transport
from hanse.local.in_process import InProcessTransport
from hanse.model.crds import crds, placeholder_crds
from hanse.model.facts import Leadership, Role
from hanse.model.kinds.acceptance import AcceptancePolicy
from hanse.model.kinds.antrea import AntreaClusterNetworkPolicy, AntreaNetworkPolicy
from hanse.model.kinds.apiextensions import CustomResourceDefinition
from hanse.model.kinds.core import ConfigMap, Event, Namespace
from hanse.model.kinds.federation import SYSTEM
from hanse.model.objects import Meta, Wire
from hanse.model.plan import Key
from hanse.runtime.api import ClusterClient
from hanse.runtime.leader_election import LeaderElections
from hanse.runtime.leaving import force_leave, leave
from hanse.runtime.reconciler import Reconciler
from tests.support.world import Agent, World
from tinykube.apiserver import ApiServer
from tinykube.controllers.controller_manager import ControllerManager

LUBECK, HAMBURG, BERGEN = "lubeck", "hamburg", "bergen"
CLUSTERS = (LUBECK, HAMBURG, BERGEN)
SUPERVISORS = (LUBECK, HAMBURG)
SHOP = "shop"
NAMESPACES = frozenset({"namespace"})
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_NEEDED = {
    "clustersets.hanse.dev",
    *(kind.kind.definition for kind in (AcceptancePolicy, *KINDS.values())),
}
DEFINED = [d for d in (*crds(), *placeholder_crds()) if d["metadata"]["name"] in _NEEDED]


class StaticDiscoveryApi(ClusterClient):
    """An API whose kinds never change, so that discovery is not needed."""

    async def discover(self) -> None:
        return


class Supervisor(Reconciler):
    """A supervisor's reconciler, with leader election or an assigned leadership."""

    leaders: LeaderElections | None = None


class RevocableTransport:
    """A transport that answers 403 to agents whose rights were revoked."""

    def __init__(
        self, inner: Transport, who: tuple[str, str], revoked: set[tuple[str, str]]
    ) -> None:
        self._inner, self._who, self._revoked = inner, who, revoked

    async def send(self, request: Request) -> Response:
        return _FORBIDDEN if self._who in self._revoked else await self._inner.send(request)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        if self._who in self._revoked:
            raise error_from_response(_FORBIDDEN)
        async with self._inner.stream(request) as lines:
            yield lines

    async def close(self) -> None:
        await self._inner.close()


_FORBIDDEN = Response(
    403,
    msgspec.json.encode({"kind": "Status", "code": 403, "reason": "Forbidden", "message": "no"}),
    {},
)


class AssignedLeadership:
    """Leadership without elections: cheap, and less safe than a Lease."""

    def __init__(self, holder: str) -> None:
        self.holder = holder
        self.members: set[str] = set()
        """The members that this supervisor may write to, whatever it believes."""

    def may_write(self, member: str | None) -> bool:
        return member is None or member in self.members


class PolicyFleet(World):
    """Members, some of which are supervisors whose agents lead all members."""

    def __init__(
        self,
        names: Iterable[str] = CLUSTERS,
        supervisors: Iterable[str] = SUPERVISORS,
        *,
        seed: int = 0,
        options: PolicyOptions = PolicyOptions(),  # noqa: B008 - a frozen value
        skews: dict[str, timedelta] | None = None,
        elections: bool = True,
        discovers: bool = True,
    ) -> None:
        super().__init__(names, lambda: (Policies(options),), seed=seed, skews=skews)
        self.supervisors = tuple(supervisors)
        self.members: dict[str, set[str]] = {s: set(self.names) for s in self.supervisors}
        self._controllers: dict[str, asyncio.Task[None]] = {}
        self._starts = 0
        self.revoked: set[tuple[str, str]] = set()
        self._elections = elections
        self._way = ClusterClient if discovers else StaticDiscoveryApi
        self.crowns: dict[str, AssignedLeadership] = {}
        self.epochs: dict[str, int] = {}

    def api(self, source: str, target: str) -> ClusterClient:
        inner = RevocableTransport(
            InProcessTransport(self.clusters[target]), (source, target), self.revoked
        )
        return self._way(self.network.transport(source, target, inner), self.random)

    # -- clusters

    async def prepare_cluster(self, cluster: str, *namespaces: str) -> None:
        """Give a cluster its definitions, namespaces, and the controller that ends namespaces."""
        client = self.client(cluster)
        for definition in DEFINED:
            await client.send(Request("POST", DEFINITIONS, body=msgspec.json.encode(definition)))
        for name in (SYSTEM, *namespaces):
            await client.create(Namespace(metadata=Meta(name=name)))
        controllers = ControllerManager(self.clusters[cluster], enabled=NAMESPACES)
        self._controllers[cluster] = asyncio.create_task(controllers.run())

    async def define(self, cluster: str, name: str, spec: Wire | None = None) -> None:
        """Teach a cluster a kind, or teach it anew with another schema of its spec."""
        definition = deepcopy(next(d for d in DEFINED if d["metadata"]["name"] == name))
        if spec is not None:
            schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
            schema["properties"] = {"spec": spec}
        client = self.client(cluster)
        try:
            known = await client.read(CustomResourceDefinition, name)
        except NotFound:
            await client.send(Request("POST", DEFINITIONS, body=msgspec.json.encode(definition)))
            return
        definition["metadata"]["resourceVersion"] = known.metadata.resource_version
        body = msgspec.json.encode(definition)
        answer = await client.send(Request("PUT", f"{DEFINITIONS}/{name}", body=body))
        assert answer.status == 200, answer.body

    async def replace_cluster(self, cluster: str, *namespaces: str) -> None:
        """Let an empty cluster stand where another of the same id stood."""
        self._controllers.pop(cluster).cancel()
        self.clusters[cluster] = ApiServer(
            cluster, clock=self.clock, seed=self.random.randint(1, 99)
        )
        await self.prepare_cluster(cluster, *namespaces)

    # -- supervisors

    def reconciler(self, cluster: str) -> Supervisor:
        self._starts += 1
        reconciler = Supervisor(self._features(), cluster, clock=self.clock, random=self.random)
        for member in sorted(self.members[cluster] | {cluster}):
            reconciler.informers.join(
                member, self._roles(cluster, member), self.api(cluster, member)
            )
        if not self._elections:
            self.crowns[cluster] = AssignedLeadership(cluster)
            reconciler.set_fence(self.crowns[cluster])
            return reconciler
        identity = f"{cluster}_{self._starts}"
        reconciler.leaders = LeaderElections(
            reconciler.informers, identity, clock=self.clock, random=self.random
        )
        reconciler.set_fence(reconciler.leaders)
        return reconciler

    def assign_leader(self, supervisor: str, member: str) -> None:
        """Let a supervisor lead a member; its previous leader does not notice."""
        informers = self.agents[supervisor].reconciler.informers
        self.epochs[member] = self.epochs.get(member, 0) + 1
        self.crowns[supervisor].members.add(member)
        informers.put_fact(Leadership(member, supervisor, self.epochs[member], ours=True))
        informers.set_roles(member, informers.connections[member].roles | {Role.LED})

    def revoke_leader(self, supervisor: str, member: str) -> None:
        """Let a supervisor know that it does not lead a member any more."""
        self.crowns[supervisor].members.discard(member)
        informers = self.agents[supervisor].reconciler.informers
        if member in informers.connections and Role.LED in informers.connections[member].roles:
            informers.put_fact(Leadership(member, "another", self.epochs[member], ours=False))
            informers.set_roles(member, informers.connections[member].roles - {Role.LED})

    def _roles(self, cluster: str, member: str) -> set[Role]:
        roles = {Role.LOCAL} if member == cluster else set()
        return roles | ({Role.MEMBER} if member in self.members[cluster] else set())

    def start_agent(self, cluster: str) -> Reconciler:

        assert cluster not in self.agents, f"{cluster} has an agent already"
        reconciler = self.reconciler(cluster)
        task = asyncio.create_task(self._run(cluster, reconciler), name=f"agent {cluster}")
        self.agents[cluster] = Agent(reconciler, task)
        return reconciler

    async def _run(self, cluster: str, reconciler: Supervisor) -> None:
        if reconciler.leaders is None:
            async with reconciler.running():
                await asyncio.get_running_loop().create_future()
            return
        async with reconciler.running(), reconciler.leaders.running():
            for member in sorted(self.members[cluster]):
                self._stand(cluster, reconciler, member)
            await asyncio.get_running_loop().create_future()

    def _stand(self, cluster: str, reconciler: Supervisor, member: str) -> None:
        way = self.network.transport(cluster, member, InProcessTransport(self.clusters[member]))
        if reconciler.leaders is not None:
            reconciler.leaders.contend(member, Client(way))

    @asynccontextmanager
    async def agents_running(self) -> AsyncIterator["PolicyFleet"]:
        for name in self.supervisors:
            self.start_agent(name)
        try:
            yield self
        finally:
            await self.stop()
            await self.close()

    async def close(self) -> None:
        """End the controllers."""
        for task in self._controllers.values():
            task.cancel()
        await asyncio.gather(*self._controllers.values(), return_exceptions=True)

    def leader_of(self, member: str) -> str:
        """The supervisor that leads a member."""
        for name, agent in self.agents.items():
            lead = agent.reconciler.informers.facts.get(Leadership, member)
            if lead is not None and lead.ours:
                return name
        raise AssertionError(f"nobody leads {member}")

    async def remove(self, member: str, *, force: bool = False) -> None:
        """Let every supervisor leave a member."""
        for name in self.supervisors:
            self.members[name].discard(member)
        for agent in list(self.agents.values()):
            reconciler = agent.reconciler
            assert isinstance(reconciler, Supervisor)
            if not force:
                await leave(reconciler, member)
        for agent in list(self.agents.values()):
            reconciler = agent.reconciler
            assert isinstance(reconciler, Supervisor)
            if reconciler.leaders is not None:
                await reconciler.leaders.resign(member)
            if member in reconciler.informers.connections:
                await force_leave(reconciler, member)

    def add(self, member: str) -> None:
        """Let every supervisor take a member in."""
        for name in self.supervisors:
            self.members[name].add(member)
        for name, agent in self.agents.items():
            reconciler = agent.reconciler
            assert isinstance(reconciler, Supervisor)
            reconciler.informers.join(member, {Role.MEMBER}, self.api(name, member))
            self._stand(name, reconciler, member)

    # -- people

    async def create(self, cluster: str, policy: Policy) -> Policy:
        return await self.client(cluster).create(policy)

    async def edit(self, cluster: str, policy: Policy, change: Wire) -> Policy:
        meta = policy.metadata
        return await self.client(cluster).patch(type(policy), meta.name, meta.namespace, change)

    async def delete(self, cluster: str, policy: Policy) -> None:
        meta = policy.metadata
        await self.client(cluster).delete(type(policy), meta.name, meta.namespace)

    async def find(self, cluster: str, policy: Policy) -> Policy | None:
        meta = policy.metadata
        try:
            return await self.client(cluster).read(type(policy), meta.name, meta.namespace)
        except NotFound:
            return None

    async def priorities(self, policy: Policy) -> dict[str, Any]:
        """What each member's copy says, None where there is none."""
        found = {name: await self.find(name, policy) for name in self.names}
        return {n: p.spec.get("priority") if p is not None else None for n, p in found.items()}

    async def record(self, cluster: str, policy: Policy) -> PolicyRecord | None:
        list_event_reasons = await self._read_record(cluster, policy)
        assert list_event_reasons is None or isinstance(list_event_reasons, PolicyRecord), (
            list_event_reasons
        )
        return list_event_reasons

    async def is_being_written(self, cluster: str, policy: Policy) -> bool:
        """Whether a leader has not acknowledged yet what it wrote there, or cannot know where."""
        list_event_reasons = await self._read_record(cluster, policy)
        if not isinstance(list_event_reasons, PolicyRecord):
            return False
        return list_event_reasons.here.phase == "Pending" or self._is_misplaced(
            cluster, policy, list_event_reasons.here
        )

    def _is_misplaced(self, cluster: str, policy: Policy, here: LocalState) -> bool:
        """Whether its own namespace, unlike the acknowledged one, has been seen by no leader."""
        name = policy.metadata.namespace
        home = self.clusters[cluster].storage.get("namespaces", "", name) if name else None
        if home is None or home["metadata"]["uid"] == here.home:
            return False
        if policy.metadata.uid not in (here.uid, here.former):
            return False
        leaders = [
            n for n, assign_leader in self.crowns.items() if cluster in assign_leader.members
        ]
        views = [
            self.agents[n].reconciler.informers.snapshot() for n in leaders if n in self.agents
        ]
        seen = [view.get(cluster, Namespace, name) for view in views]
        return not any(s is not None and s.metadata.uid == home["metadata"]["uid"] for s in seen)

    async def _read_record(
        self, cluster: str, policy: Policy
    ) -> PolicyRecord | UnreadableRecord | MissingRecord | None:
        topic = next(t for t, kind in KINDS.items() if type(policy) is kind)
        name = record_name(Key(topic, policy.metadata.name, policy.metadata.namespace))
        try:
            return decode_record(await self.client(cluster).read(ConfigMap, name, SYSTEM))
        except NotFound:
            return None

    async def page(self, cluster: str) -> LedgerPage | None:
        try:
            list_event_reasons = decode_page(
                await self.client(cluster).read(ConfigMap, "policies-ledger", SYSTEM)
            )
        except NotFound:
            return None
        assert isinstance(list_event_reasons, LedgerPage), list_event_reasons
        return list_event_reasons

    async def list_event_reasons(self, cluster: str) -> set[str]:
        """The reasons of all events of a cluster."""
        return {e.reason for e in (await self.client(cluster).list(Event)).objects}


def acnp(
    name: str = "deny", priority: int = 5, *, federated: bool = True
) -> AntreaClusterNetworkPolicy:
    """A policy of the whole cluster."""
    marks = {FEDERATED: "true"} if federated else {}
    return AntreaClusterNetworkPolicy(
        metadata=Meta(name=name, annotations=marks), spec={"priority": priority}
    )


def anp(name: str = "deny", priority: int = 5, *, federated: bool = True) -> AntreaNetworkPolicy:
    """A policy of the shop's namespace."""
    marks = {FEDERATED: "true"} if federated else {}
    return AntreaNetworkPolicy(
        metadata=Meta(name=name, namespace=SHOP, annotations=marks), spec={"priority": priority}
    )


def is_plain(policy: Policy | None) -> bool:
    """Whether nothing on a policy is of the federation."""
    if policy is None:
        return False
    marks = policy.metadata.annotations
    return not is_federated(policy) and not any("hanse.dev" in name for name in marks)


def summarize(policy: Policy) -> str:
    """What a policy says, in short."""
    label = policy.metadata.labels.get("edit", "")
    return f"{policy.spec.get('priority')}{'/' + label if label else ''}"
