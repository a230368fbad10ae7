"""One local federation: its clusters, its agents, and the orders it takes while it runs."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from datetime import timedelta
from typing import Literal, assert_never

from msgspec import Struct
from msgspec.structs import replace

from hanse.kube.access import Credentials
from hanse.kube.http import HttpTransport
from hanse.kube.request import Request, Transport
from hanse.local.kubeconfig import write_kubeconfig
from hanse.local.links import Links, UnreachableTransport
from hanse.local.up.bootstrap import (
    FORMER_WEBHOOKS,
    await_ready,
    await_signs_of_life,
    crd_objects,
    create_if_absent,
    follow_profile,
    form,
    foundation,
    install,
    install_crds,
    mark,
    place_of,
    renew,
    uid_of,
)
from hanse.local.up.control import (
    ControlRequest,
    CreateLoginLink,
    Cut,
    GetStatus,
    Heal,
    HealAll,
    Kill,
    LocalClusterStatus,
    LocalFederationStatus,
    Slow,
    Start,
    serve_control_socket,
)
from hanse.local.up.embedded import embedded_clusters
from hanse.local.up.errors import UnknownCluster, UpError
from hanse.local.up.folder import Folder
from hanse.local.up.sample import contexts_secret, global_sample, sample, submitted
from hanse.local.up.topology import Cluster, Member
from hanse.model.rights import Rule

MANY = 10
"""Clusters that take long enough to start for a word about it."""

EngineName = Literal["embedded", "kubernetes"]
Say = Callable[[str], None]

ClusterStateReader = Callable[[], Mapping[str, str]]
"""How each cluster stands for one agent, as of now."""
DialCluster = Callable[[str, Credentials], Transport]
"""Makes the way to a cluster by credentials that an agent was given."""
RunAgent = Callable[
    [Member, Mapping[str, Transport], DialCluster], AbstractAsyncContextManager[ClusterStateReader]
]
"""Runs a member's agent until the block ends, given its ways to the clusters that it reaches."""


class FederationOptions(Struct, frozen=True):
    """What kind of federation is wanted."""

    members: tuple[Member, ...]
    engine: EngineName = "embedded"
    profile: str | None = None
    """Asked for by name; else what stands on the broker, and for a new one the default."""
    sample: bool = True
    dns: dict[str, str] = {}
    """Where names are answered, by view: a cluster's name, or `all`."""
    dashboard: str = ""
    """The address of the dashboard."""
    federation: bool = True
    """Whether the clusters are members of one Federation from the start."""
    rules_for: Callable[[str], tuple[Rule, ...]] = lambda _: ()
    """What supervisors may do in a member."""
    login_link: Callable[[], str] = str
    """Makes a link to the dashboard that lets a browser in, once."""


@asynccontextmanager
async def federation(
    wishes: FederationOptions, folder: Folder, run_agent: RunAgent, say: Say
) -> AsyncIterator["LocalFederation"]:
    """A whole federation, ready, until the block ends; then nothing of it runs any more."""
    async with AsyncExitStack() as stack:
        stack.enter_context(folder.held())
        if len(wishes.members) > MANY:
            say(f"starting {len(wishes.members) - 1} clusters and the broker")
        clusters = await stack.enter_async_context(_clusters(wishes, folder, say))
        whole = LocalFederation(wishes, clusters)
        write_kubeconfig(folder.kubeconfig, [cluster.context for cluster in clusters.values()])
        await whole.furnish()
        await stack.enter_async_context(_agents(whole, wishes.members, run_agent))
        await stack.enter_async_context(serve_control_socket(folder.control, whole.execute))
        await whole.submit()
        await whole.shown(say)
        yield whole


@asynccontextmanager
async def _clusters(
    wishes: FederationOptions, folder: Folder, say: Say
) -> AsyncIterator[Mapping[str, Cluster]]:
    match wishes.engine:
        case "embedded":
            async with embedded_clusters(wishes.members, folder) as embedded:
                yield embedded
        case "kubernetes":
            from hanse.local.up.kubernetes import real_clusters

            async with real_clusters(wishes.members, folder, say) as real:
                yield real
        case _:
            assert_never(wishes.engine)


@asynccontextmanager
async def _agents(
    whole: "LocalFederation", members: Sequence[Member], run_agent: RunAgent
) -> AsyncIterator[None]:
    """An agent in each cluster, all there, until the block ends: they start and end side by side.

    One that fails ends the federation, as if it ran in its place.
    """
    over = asyncio.Event()

    async def live(member: Member, there: asyncio.Event) -> None:
        agent = run_agent(member, whole.ways_of(member), whole.dial_of(member))
        async with agent as whole.eyes[member.name]:
            there.set()
            await over.wait()

    async with asyncio.TaskGroup() as group:
        started: list[asyncio.Event] = []
        for member in members:
            if member.runs_workloads:
                started.append(asyncio.Event())
                group.create_task(live(member, started[-1]), name=f"agent {member.name}")
        for there in started:
            await there.wait()
        try:
            yield
        finally:
            over.set()


async def _install_sample(transport: Transport, member: Member) -> bool:
    """Set the sample up, unless its namespace is there: what a person kept is not touched."""
    namespace, *rest = sample(member) or (None,)
    if namespace is None or not await create_if_absent(transport, namespace):
        return False
    await install(transport, rest)
    return True


class LocalFederation:
    """Clusters by name, the links between them, and what may be done to both."""

    def __init__(self, wishes: FederationOptions, clusters: Mapping[str, Cluster]) -> None:
        self._wishes = wishes
        self._clusters = clusters
        self._links = Links()
        self._fresh: set[Member] = set()
        self._orders = asyncio.Lock()
        self.eyes: dict[str, ClusterStateReader] = {}
        """Of the agents that run, by their cluster."""

    @property
    def names(self) -> tuple[str, ...]:
        """The clusters, the broker last."""
        return tuple(self._clusters)

    def transport_to(self, cluster: str) -> Transport:
        """A person's own way to a cluster, which nothing cuts."""
        return self._cluster(cluster).connect()

    def ways_of(self, member: Member) -> dict[str, Transport]:
        """Where a member's agent can go; each way can be cut, the one to its own home too."""
        return {
            other.name: self._links.transport(
                member.name, other.name, self._clusters[other.name].connect()
            )
            for other in self._wishes.members
            if member.reaches(other)
        }

    def dial_of(self, member: Member) -> DialCluster:
        """How a member's agent gets to clusters that it reads of: by Federations, by contexts."""
        standing = {other.name: other for other in self._wishes.members}

        def dial(cluster: str, credentials: Credentials) -> Transport:
            name = cluster.rpartition("/")[2]
            other = standing.get(name)
            if other is None:
                return HttpTransport(credentials)  # somewhere outside
            if not member.reaches(other):
                return UnreachableTransport(f"{member.name} cannot reach {name}")
            inner = self._clusters[name].dial(credentials)
            return self._links.transport(member.name, name, inner)

        return dial

    async def furnish(self) -> None:
        """Fill every cluster with what it holds from the start."""
        kinds = crd_objects()
        contexts = [self._clusters[m.name].context for m in self._wishes.members]

        async def fill(member: Member, transport: Transport) -> None:
            for former in FORMER_WEBHOOKS:  # nobody answers those of an earlier run
                await transport.send(Request("DELETE", former))
            await install_crds(transport, kinds)
            await install(transport, foundation(member))
            if self._wishes.profile is not None and not member.runs_workloads:
                await follow_profile(transport, self._wishes.profile)
            if self._wishes.sample and await _install_sample(transport, member):
                self._fresh.add(member)
                shared = global_sample(member, self._wishes.members, contexts)
                await install(transport, shared)
            elif member.runs_workloads:
                await renew(transport, contexts_secret(self._wishes.members, contexts))

        await self._in_each(fill)
        await self._give_places()
        if not self._wishes.federation:
            return
        endpoints = {n: c.context.access.endpoint for n, c in self._clusters.items()}
        await form(self._wishes.members, endpoints, self._wishes.rules_for, self._in_each)

    async def _give_places(self) -> None:
        """Write down on the broker which cluster each id belongs to, so that no other takes it."""
        uids: dict[Member, str] = {}

        async def tell(member: Member, transport: Transport) -> None:
            if member.runs_workloads:
                uids[member] = await uid_of(transport)

        async def note(member: Member, transport: Transport) -> None:
            if not member.runs_workloads:
                await asyncio.gather(*(mark(transport, place_of(m, u)) for m, u in uids.items()))

        await self._in_each(tell)
        await self._in_each(note)

    async def submit(self) -> None:
        """Ask the federation itself for the rest of a new sample, once every agent is there."""
        members = {m.name for m in self._wishes.members if m.runs_workloads}

        async def send_request(member: Member, transport: Transport) -> None:
            namespace, *rest = submitted()
            if not member.runs_workloads and await create_if_absent(transport, namespace):
                await await_signs_of_life(transport, members)
                await install(transport, rest)

        if self._wishes.sample:
            await self._in_each(send_request)

    async def shown(self, say: Say) -> None:
        """Wait until a new sample is there to be looked at, and tell of each cluster."""

        async def show(member: Member, transport: Transport) -> None:
            for one in sample(member) if member in self._fresh else ():
                if not await await_ready(transport, one):
                    say(f"{member.name}: {one.path} is slow; see `kubectl get events -A`")
            say(f"{member.name} is ready")

        await self._in_each(show)

    async def _in_each(self, act: Callable[[Member, Transport], Awaitable[None]]) -> None:
        async def visit(member: Member) -> None:
            transport = self._clusters[member.name].connect()
            try:
                await act(member, transport)
            finally:
                await transport.close()

        await asyncio.gather(*(visit(member) for member in self._wishes.members))

    async def execute(self, order: ControlRequest) -> LocalFederationStatus:
        """Do as status, one order at a time; raises `UpError` for what cannot be done."""
        async with self._orders:
            await self._do(order)
        status = self.status()
        return (
            replace(status, dashboard=self._wishes.login_link())
            if isinstance(order, CreateLoginLink)
            else status
        )

    def status(self) -> LocalFederationStatus:
        """How things are."""
        return LocalFederationStatus(
            os.getpid(),
            self._wishes.engine,
            tuple(self._describe(member) for member in self._wishes.members),
            tuple(self._links.cuts),
            self._wishes.dns.get("all", ""),
            self._wishes.dashboard,
        )

    async def _do(self, order: ControlRequest) -> None:
        match order:
            case Cut(one, other):
                self._links.cut(*self._pair(one, other))
            case Heal(one, other):
                self._links.heal(*self._pair(one, other))
            case HealAll():
                await self._heal_all()
            case Kill(name):
                await self._cluster(name).kill()
            case Start(name):
                await self._cluster(name).start()
            case Slow(name, milliseconds):
                self._cluster(name).slow(timedelta(milliseconds=milliseconds))
            case GetStatus() | CreateLoginLink():
                pass
            case _:
                assert_never(order)

    async def _heal_all(self) -> None:
        self._links.heal_all()
        for cluster in self._clusters.values():
            cluster.slow(timedelta(0))
            await cluster.start()

    def _pair(self, one: str, other: str) -> tuple[str, str]:
        for name in (one, other):
            self._cluster(name)
        if one == other:
            raise UpError(f"{one} and {other} are the same cluster; to stop it, kill it")
        return one, other

    def _cluster(self, name: str) -> Cluster:
        found = self._clusters.get(name)
        if found is None:
            raise UnknownCluster(
                f"there is no cluster {name!r}; there is: {', '.join(self._clusters)}"
            )
        return found

    def _describe(self, member: Member) -> LocalClusterStatus:
        cluster = self._clusters[member.name]
        return LocalClusterStatus(
            name=member.name,
            standing=member.standing,
            url=cluster.url,
            running=cluster.running,
            delay_milliseconds=int(cluster.delay.total_seconds() * 1000),
            services=str(member.ranges.services),
            pods=str(member.ranges.pods) if member.runs_workloads else "",
            nodes=str(member.ranges.nodes) if member.runs_workloads else "",
            load_balancers=str(member.ranges.load_balancers) if member.runs_workloads else "",
            agent=member.runs_workloads,
            dns=self._wishes.dns.get(member.name, ""),
            network_dns={
                view.partition("/")[2]: address
                for view, address in self._wishes.dns.items()
                if view.startswith(f"{member.name}/")
            },
            sees=dict(self.eyes[member.name]()) if member.name in self.eyes else {},
        )
