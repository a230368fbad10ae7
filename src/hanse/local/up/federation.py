"""One local federation: its clusters, its agents, and the control requests it handles."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, assert_never

from msgspec.structs import replace

from hanse.kube.client_config import Credentials
from hanse.kube.http_transport import HttpTransport
from hanse.kube.transport import Request, Transport
from hanse.local.kubeconfig import Context, write_kubeconfig
from hanse.local.links import Links
from hanse.local.up.access import AgentCredentials, bound_token, create_accounts
from hanse.local.up.agents import DialCluster, LocalAgents, RunAgent, RunningAgent
from hanse.local.up.bootstrap import (
    STALE_WEBHOOK_CONFIGURATIONS,
    acceptance_policy,
    await_heartbeats,
    await_ready,
    base_objects,
    crd_objects,
    create_federation,
    create_if_absent,
    create_objects,
    create_sample,
    install_crds,
    set_profile,
    update_data,
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
    Restore,
    Save,
    Slow,
    Start,
    StartAgent,
    StopAgent,
    serve_control_socket,
)
from hanse.local.up.embedded import embedded_clusters
from hanse.local.up.errors import UnknownCluster, UpError
from hanse.local.up.folder import Folder
from hanse.local.up.options import FederationOptions
from hanse.local.up.sample import (
    contexts_secret,
    gslb_sample_objects,
    sample_objects,
    submitted_objects,
)
from hanse.local.up.topology import BROKER, LocalCluster, LocalMember, Report

if TYPE_CHECKING:  # only nodes with containers need them
    from hanse.local.real.nodes.fabric import Fabric

STARTUP_NOTICE_CLUSTERS = 10
"""Above this number of clusters, startup takes long enough to be announced."""


@asynccontextmanager
async def federation(
    options: FederationOptions, folder: Folder, run_agent: RunAgent, report: Report
) -> AsyncIterator["LocalFederation"]:
    """Run a local federation until the block ends: clusters, agents and the control socket.

    Before the block begins it locks the folder (`FolderLocked` if another runs there), writes the
    kubeconfig, and creates what agents need and the sample, which it waits for, if the options have
    agents and a sample.
    """
    async with AsyncExitStack() as stack:
        stack.enter_context(folder.locked())
        if len(options.members) > STARTUP_NOTICE_CLUSTERS:
            report(f"starting {len(options.members) - 1} clusters and the broker")
        clusters = await stack.enter_async_context(_run_clusters(options, folder, report))
        local = LocalFederation(options, folder, clusters)
        write_kubeconfig(folder.kubeconfig, [cluster.context for cluster in clusters.values()])
        if options.agents:
            await local.bootstrap()
        await stack.enter_async_context(local.running_agents(run_agent))
        await stack.enter_async_context(serve_control_socket(folder.control, local.execute))
        await local.submit_sample()
        await local.await_sample(report)
        yield local


@asynccontextmanager
async def _run_clusters(
    options: FederationOptions, folder: Folder, report: Report
) -> AsyncIterator[Mapping[str, LocalCluster]]:
    """Run the clusters of the chosen engine for as long as the block runs; gives them by name."""
    match options.engine:
        case "embedded":
            async with embedded_clusters(options.members, folder, report) as embedded:
                yield embedded
        case "kubernetes":
            from hanse.local.up.kubernetes import real_clusters

            async with real_clusters(options.members, folder, report, options.containers) as real:
                yield real
        case _:
            assert_never(options.engine)


class LocalFederation:
    """Clusters by name, the links between them, and the faults that can be injected into both."""

    def __init__(
        self, options: FederationOptions, folder: Folder, clusters: Mapping[str, LocalCluster]
    ) -> None:
        """Keep the clusters, which run already; no link is cut, and no agent runs yet."""
        self._options = options
        self._folder = folder
        self._clusters = clusters
        self._links = Links()
        self._credentials: AgentCredentials | None = None
        self._members_with_new_sample: set[LocalMember] = set()
        self._request_lock = asyncio.Lock()
        self._agents = LocalAgents(options.members if options.agents else ())

    @property
    def _fabric(self) -> "Fabric | None":
        """The network between nodes with containers; None if nodes are simulated."""
        nodes = self._options.containers
        return nodes.fabric if nodes is not None else None

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the clusters, the broker last."""
        return tuple(self._clusters)

    def transport_to(self, cluster: str) -> Transport:
        """An administrator's transport to a cluster, not affected by cuts; the caller closes it.

        Raises `UnknownCluster`.
        """
        return self._find_cluster(cluster).connect()

    def context_of(self, cluster: str) -> Context:
        """An administrator's kubeconfig context of a cluster; raises `UnknownCluster`."""
        return self._find_cluster(cluster).context

    def dialer_for(self, member: LocalMember) -> DialCluster:
        """A function that connects a member's agent to clusters named in Federations or Secrets."""
        members = {other.name for other in self._options.members}

        def dial(cluster: str, credentials: Credentials) -> Transport:
            """A transport over the link to a cluster of this federation; HTTP to other clusters."""
            name = cluster.rpartition("/")[2]
            if name not in members:
                return HttpTransport(credentials)  # not a cluster of this federation
            inner = self._clusters[name].dial(credentials)
            return self._links.transport(member.name, name, inner)

        return dial

    def running_agents(self, run_agent: RunAgent) -> AbstractAsyncContextManager[None]:
        """A context that starts the agents of all members, and stops them when the block ends.

        `bootstrap` has to come before, unless there are no agents.
        """

        @asynccontextmanager
        async def open_agent(member: LocalMember) -> AsyncIterator[RunningAgent]:
            """Run a member's agent until the block ends, with new tokens where they are issued."""
            assert self._credentials is not None, "agents run after their accounts are created"
            own = self._clusters[member.name].connect()
            broker = self._clusters[BROKER].connect()
            access = await self._credentials.renewed(member, own, broker, self._options.access)
            async with run_agent(member, access, self.dialer_for(member)) as agent:
                yield agent

        return self._agents.running(open_agent)

    async def bootstrap(self) -> None:
        """Create CRDs, base objects and agents' accounts in all clusters, and keep the credentials.

        Also the sample and the Federation, if they are wanted. CRDs, rights and credentials that
        exist are updated, and so are a chosen profile and the members' servers in a Federation;
        other objects stay. Webhook configurations of an earlier run are deleted.
        """
        crds = crd_objects()

        async def bootstrap_cluster(member: LocalMember, transport: Transport) -> None:
            """Delete old webhook configurations; create CRDs and base objects.

            In a member also the AcceptancePolicy; in the broker set the profile, if one is chosen.
            """
            for stale in STALE_WEBHOOK_CONFIGURATIONS:  # their servers ended with an earlier run
                await transport.send(Request("DELETE", stale))
            await install_crds(transport, crds)
            await create_objects(transport, base_objects(member))
            if member.runs_workloads:
                await create_objects(transport, (acceptance_policy(self._options.members),))
            if self._options.profile is not None and not member.runs_workloads:
                await set_profile(transport, self._options.profile)

        await self._for_each_cluster(bootstrap_cluster)
        options = self._options
        endpoints = {n: c.context.access.endpoint for n, c in self._clusters.items()}
        self._credentials = await create_accounts(
            options.access, options.members, endpoints, self._for_each_cluster
        )
        await self._create_samples(self._credentials.gslb_leader)
        if options.federation:
            await create_federation(
                options.members,
                endpoints,
                options.access.supervisor,
                bound_token,
                self._for_each_cluster,
            )

    async def _create_samples(self, contexts: Sequence[Context]) -> None:
        """Create the sample where it is wanted and new; update the GSLB leader's credentials."""

        async def create_in(member: LocalMember, transport: Transport) -> None:
            """Create the sample of a cluster, also for the GSLB, if it is wanted and new.

            Else, in a member, update the GSLB leader's credentials, if the Secret exists.
            """
            if self._options.sample and await create_sample(transport, sample_objects(member)):
                self._members_with_new_sample.add(member)
                gslb_sample = gslb_sample_objects(member, self._options.members, contexts)
                await create_objects(transport, gslb_sample)
            elif member.runs_workloads:
                await update_data(transport, contexts_secret(self._options.members, contexts))

        await self._for_each_cluster(create_in)

    async def submit_sample(self) -> None:
        """If a sample is wanted and its namespace is new on the broker, create the sample there.

        The namespace first; before the rest it waits, a bounded time, for the heartbeats of all
        members.
        """
        members = {m.name for m in self._options.members if m.runs_workloads}

        async def submit(member: LocalMember, transport: Transport) -> None:
            """On the broker, if the namespace is new: make it, await heartbeats, make the rest."""
            namespace, *rest = submitted_objects()
            if not member.runs_workloads and await create_if_absent(transport, namespace):
                await await_heartbeats(transport, members)
                await create_objects(transport, rest)

        if self._options.sample:
            await self._for_each_cluster(submit)

    async def await_sample(self, report: Report) -> None:
        """Wait a bounded time for each object of a new sample, and report those that are late.

        Each cluster is then reported as ready, also one with late objects or no new sample.
        """

        async def await_objects(member: LocalMember, transport: Transport) -> None:
            """Wait a bounded time until a cluster's new sample objects are ready.

            Reports each that is not, and then in any case the cluster as ready.
            """
            for one in sample_objects(member) if member in self._members_with_new_sample else ():
                if not await await_ready(transport, one):
                    report(f"{member.name}: {one.path} is slow; see `kubectl get events -A`")
            report(f"{member.name} is ready")

        await self._for_each_cluster(await_objects)

    async def _for_each_cluster(
        self, action: Callable[[LocalMember, Transport], Awaitable[None]]
    ) -> None:
        """Run the action in all clusters concurrently, each with an administrator's transport.

        The transport is closed afterwards. Raises the first error.
        """

        async def run(member: LocalMember) -> None:
            """Run the action in one cluster, with a transport that is closed afterwards."""
            transport = self._clusters[member.name].connect()
            try:
                await action(member, transport)
            finally:
                await transport.close()

        await asyncio.gather(*(run(member) for member in self._options.members))

    async def execute(self, request: ControlRequest) -> LocalFederationStatus:
        """Execute a request, one at a time, and return the status after it; raises `UpError`.

        The status for `CreateLoginLink` has the link in place of the dashboard's URL.
        """
        async with self._request_lock:
            await self._apply(request)
        status = self.status()
        if isinstance(request, CreateLoginLink):
            return replace(status, dashboard=self._options.login_link())
        return status

    def status(self) -> LocalFederationStatus:
        """The current status, from this process's own state: no API server is asked."""
        return LocalFederationStatus(
            os.getpid(),
            self._options.engine,
            tuple(self._cluster_status(member) for member in self._options.members),
            tuple(self._links.cuts),
            self._options.dns.get("all", ""),
            self._fabric.namespace.pid if self._fabric is not None else 0,
            self._options.dashboard,
        )

    async def _apply(self, request: ControlRequest) -> None:
        """Execute one request: inject a fault into links, clusters or agents, or undo it.

        Also save or restore a cluster; requests for the status change nothing. Raises `UpError`,
        such as `UnknownCluster`.
        """
        match request:
            case Cut(one, other):
                await self._cut(*self._checked_pair(one, other))
            case Heal(one, other):
                await self._heal(*self._checked_pair(one, other))
            case HealAll():
                await self._heal_all()
            case Kill(name):
                await self._find_cluster(name).kill()
            case Start(name):
                await self._find_cluster(name).start()
                await self._reconnect()
            case StopAgent() | StartAgent():
                await self._apply_to_agent(request)
            case Save() | Restore():
                await self._save_or_restore(request)
            case Slow(name, milliseconds):
                self._find_cluster(name).slow(timedelta(milliseconds=milliseconds))
            case GetStatus() | CreateLoginLink():
                pass
            case _:
                assert_never(request)

    async def _cut(self, one: str, other: str) -> None:
        """Cut the link of two clusters in both directions, for containers too."""
        self._links.cut(one, other)
        if self._fabric is not None:
            await self._fabric.cut(one, other)

    async def _heal(self, one: str, other: str) -> None:
        """Heal the link of two clusters, for containers too, and have agents reconnect."""
        self._links.heal(one, other)
        if self._fabric is not None:
            await self._fabric.heal(one, other)
        await self._reconnect()

    async def _save_or_restore(self, request: Save | Restore) -> None:
        """Save a cluster to a file of the folder, or restore it from one; raises `UpError`."""
        cluster, name = self._find_cluster(request.cluster), request.cluster
        if isinstance(request, Save):
            await cluster.save(self._folder.new_save(name, request.name))
        else:
            saved = self._folder.find_save(name, request.name)
            await cluster.restore(saved, request.bump_revision)

    async def _apply_to_agent(self, request: StopAgent | StartAgent) -> None:
        """Stop or start an agent.

        Raises `UpError` if there is none, as for the broker, or if it does not start.
        """
        self._find_cluster(request.cluster)
        if request.cluster == BROKER:
            raise UpError("the broker has no agent; to stop its API server, kill it")
        if not self._options.agents:
            raise UpError("these clusters run without our agents (--no-agents)")
        change = self._agents.stop if isinstance(request, StopAgent) else self._agents.start
        await change(request.cluster)

    async def _heal_all(self) -> None:
        """Heal all links, end delays, start clusters and agents that are down; agents reconnect.

        Raises `UpError` if a cluster or an agent does not start.
        """
        self._links.heal_all()
        if self._fabric is not None:
            await self._fabric.heal_all()
        for cluster in self._clusters.values():
            cluster.slow(timedelta(0))
            await cluster.start()
        try:
            await self._agents.start_all()
        finally:
            await self._reconnect()

    async def _reconnect(self) -> None:
        """Have agents reach the clusters that run, except over cut links; waits a bounded time."""
        up = [name for name, cluster in self._clusters.items() if cluster.running]
        await self._agents.reconnect(up, self._links.cuts)

    def _checked_pair(self, one: str, other: str) -> tuple[str, str]:
        """The same pair; raises `UpError` for an unknown name or one name twice."""
        _ = self._find_cluster(one), self._find_cluster(other)
        if one == other:
            raise UpError(f"{one} and {other} are the same cluster; to stop it, kill it")
        return one, other

    def _find_cluster(self, name: str) -> LocalCluster:
        """The cluster of the name; raises `UnknownCluster`."""
        found = self._clusters.get(name)
        if found is None:
            known = ", ".join(self._clusters)
            raise UnknownCluster(f"there is no cluster {name!r}; there is: {known}")
        return found

    def _cluster_status(self, member: LocalMember) -> LocalClusterStatus:
        """The status of a cluster: whether it and its agent run, its delay, addresses and DNS.

        Also how its agent sees other clusters, and the URL of its metrics. The broker has no agent,
        and of the ranges only that of Services.
        """
        cluster = self._clusters[member.name]
        return LocalClusterStatus(
            name=member.name,
            standing=member.role,
            url=cluster.url,
            running=cluster.running,
            delay_milliseconds=int(cluster.delay.total_seconds() * 1000),
            services=str(member.ranges.services),
            pods=str(member.ranges.pods) if member.runs_workloads else "",
            nodes=str(member.ranges.nodes) if member.runs_workloads else "",
            load_balancers=str(member.ranges.load_balancers) if member.runs_workloads else "",
            agent=member.runs_workloads and self._options.agents,
            agent_running=self._agents.is_running(member.name),
            dns=self._options.dns.get(member.name, ""),
            network_dns={
                view.partition("/")[2]: address
                for view, address in self._options.dns.items()
                if view.startswith(f"{member.name}/")
            },
            sees=self._agents.states(member.name),
            metrics=self._agents.metrics(member.name),
        )
