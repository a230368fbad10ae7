"""Real clusters on loopback as members of a local federation."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from pathlib import Path
from random import Random
from shutil import rmtree

from hanse.kube.client_config import Credentials
from hanse.kube.errors import KubeError
from hanse.kube.http_transport import HttpTransport
from hanse.kube.retry import Backoff
from hanse.kube.transport import Request, Response, Transport
from hanse.local.kubeconfig import Context
from hanse.local.real.binaries import cache_folder, find_programs
from hanse.local.real.cluster import RealCluster
from hanse.local.real.errors import RealClusterError
from hanse.local.real.fleet import RealFleet
from hanse.local.real.nodes.cluster_nodes import NodeSettings
from hanse.local.real.programs import API_SERVER, CLUSTER, NODE
from hanse.local.up.errors import UpError
from hanse.local.up.folder import Folder
from hanse.local.up.topology import NODES_PER_CLUSTER, LocalMember, Report

RESTART = Backoff(timedelta(seconds=1), timedelta(seconds=60))
"""How long after its death a server is started again."""

RECOVERED = timedelta(minutes=2)
"""How long a server has run when its next death counts as the first one."""


@asynccontextmanager
async def real_clusters(
    members: Sequence[LocalMember],
    folder: Folder,
    report: Report,
    containers: NodeSettings | None = None,
) -> AsyncIterator[dict[str, "KubernetesCluster"]]:
    """Run all members as processes with provisioners; deletes old data unless it is kept.

    Gives the clusters by name. Servers that die are started again. Raises `ProgramMissing`, or the
    first failure of a start.
    """
    programs = CLUSTER if containers is None else (*CLUSTER, *NODE)
    binaries = await find_programs(programs, cache_folder())
    if not folder.keep:
        rmtree(folder.servers, ignore_errors=True)
    names = [member.name for member in members if member.runs_workloads]
    report(f"starting the servers of {', '.join(names)} and the broker")
    report(f"their logs are in {folder.servers / 'logs'}")
    async with (
        RealFleet(
            *(folder.servers, binaries, names),
            nodes=NODES_PER_CLUSTER,
            report=report,
            containers=containers,
        ) as fleet,
        asyncio.TaskGroup() as group,
    ):
        background_tasks = [
            group.create_task(fleet.run_provisioners(), name="provisioners"),
            group.create_task(_restart_dead_servers(fleet, report), name="dead servers"),
        ]
        try:
            yield {name: KubernetesCluster(cluster) for name, cluster in fleet.clusters.items()}
        finally:
            for task in background_tasks:
                task.cancel()


async def _restart_dead_servers(fleet: RealFleet, report: Report) -> None:
    """Report each server that dies, and start it again unless it is a node's; until cancelled.

    The more deaths in a row, each within RECOVERED of the one before, the longer the delay.
    """
    deaths: dict[tuple[str, str], tuple[int, float]] = {}
    async with asyncio.TaskGroup() as restarts:
        while True:
            died = await fleet.next_dead_server()
            cluster = fleet.clusters.get(died.cluster)
            if cluster is None or died.program not in cluster.servers:  # it is a node's
                report(str(died))
                continue
            server, now = (died.cluster, died.program), asyncio.get_running_loop().time()
            count, last = deaths.get(server, (0, now))
            count = count + 1 if now - last < RECOVERED.total_seconds() else 1
            deaths[server] = (count, now)
            report(f"{died}\nit is started again")
            restarts.create_task(
                _restart(cluster, died.program, count - 1, report),
                name=f"restart {died.program} of {died.cluster}",
            )


async def _restart(cluster: RealCluster, program: str, attempt: int, report: Report) -> None:
    """Start a dead server again, after a delay that grows with the attempts, until it runs.

    Failures to start are ignored; that it runs is reported. It ends, and reports nothing, if the
    server is stopped on purpose meanwhile.
    """
    random = Random()  # noqa: S311 - spreads retries, guards nothing
    server = cluster.servers[program]
    while server.unexpected_death is not None:
        await asyncio.sleep(RESTART.delay(attempt, random).total_seconds())
        if server.unexpected_death is not None:
            with suppress(RealClusterError, KubeError):  # what it needs may be dead, too
                await cluster.start_server(program)
        attempt += 1
    if server.running:
        report(f"{program} of {cluster.name} runs again")


class KubernetesCluster:
    """A real cluster; a delay affects agents only, since kubectl connects directly."""

    def __init__(self, cluster: RealCluster) -> None:
        self._cluster = cluster
        self._delay = timedelta(0)

    @property
    def url(self) -> str:
        return self._cluster.config.server

    @property
    def context(self) -> Context:
        """The administrator's kubeconfig context."""
        return self._cluster.context

    @property
    def running(self) -> bool:
        """Whether the processes of etcd and the API server run."""
        return self._cluster.serves

    @property
    def delay(self) -> timedelta:
        """How long requests of this process are delayed, as set by `slow`."""
        return self._delay

    def connect(self) -> Transport:
        """An HTTP transport as administrator, with the configured delay."""
        return _DelayedTransport(self, self._cluster.connect())

    def dial(self, credentials: Credentials) -> Transport:
        """An HTTP transport to the server that the credentials name, with this cluster's delay."""
        return _DelayedTransport(self, HttpTransport(credentials))

    async def kill(self) -> None:
        """Kill the API server only, without a graceful stop; the other servers go on."""
        await self._cluster.kill_server(API_SERVER.name)

    async def start(self) -> None:
        """Start what does not run of etcd and the API server, and wait until it answers.

        Raises `UpError` if it does not, or a process dies.
        """
        try:
            await self._cluster.start_control_plane()
        except RealClusterError as error:
            raise UpError(str(error)) from None

    async def save(self, file: Path) -> None:
        """Write an etcd snapshot to a file; raises `UpError` if that fails."""
        try:
            await self._cluster.save(file)
        except RealClusterError as error:
            raise UpError(str(error)) from None

    async def restore(self, file: Path, bump_revision: int) -> None:
        """Restart the cluster on an etcd snapshot; raises `UpError` if that fails.

        New versions begin `bump_revision` after the saved ones.
        """
        try:
            await self._cluster.restore(file, bump_revision=bump_revision)
        except (RealClusterError, KubeError) as error:
            raise UpError(str(error)) from None

    def slow(self, delay: timedelta) -> None:
        """Delay later requests of this process and its agents by this time; zero ends the delay.

        Those of other processes, such as kubectl, are not delayed.
        """
        self._delay = delay


class _DelayedTransport:
    """An HTTP transport that waits for the configured delay before each request."""

    def __init__(self, cluster: KubernetesCluster, inner: Transport) -> None:
        self._cluster = cluster
        self._inner = inner

    async def send(self, request: Request) -> Response:
        """Sleep for the cluster's delay, then send."""
        await asyncio.sleep(self._cluster.delay.total_seconds())
        return await self._inner.send(request)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        """Sleep for the cluster's delay once, then stream; later lines are not delayed."""
        await asyncio.sleep(self._cluster.delay.total_seconds())
        async with self._inner.stream(request) as lines:
            yield lines

    async def close(self) -> None:
        await self._inner.close()
