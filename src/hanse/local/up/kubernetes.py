"""Real clusters on loopback as the local federation sees them."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from shutil import rmtree

from hanse.kube.access import Credentials
from hanse.kube.http import HttpTransport
from hanse.kube.request import Request, Response, Transport
from hanse.local.kubeconfig import Context
from hanse.local.real.binaries import cache_folder, find_programs
from hanse.local.real.cluster import RealCluster
from hanse.local.real.fleet import RealFleet
from hanse.local.real.programs import API_SERVER, CLUSTER
from hanse.local.up.folder import Folder
from hanse.local.up.topology import NODES, Member


@asynccontextmanager
async def real_clusters(
    members: Sequence[Member], folder: Folder, say: Callable[[str], None]
) -> AsyncIterator[dict[str, "KubernetesCluster"]]:
    """All members running as processes, until the block ends, with addresses and volumes."""
    binaries = await find_programs(CLUSTER, cache_folder())
    if not folder.keep:
        rmtree(folder.servers, ignore_errors=True)
    names = [member.name for member in members if member.runs_workloads]
    say(f"starting the servers of {', '.join(names)} and the broker")
    say(f"their logs are in {folder.servers / 'logs'}")
    async with (
        RealFleet(folder.servers, binaries, names, nodes=NODES, say=say) as fleet,
        asyncio.TaskGroup() as group,
    ):
        beside = [
            group.create_task(fleet.run_provisioners(), name="addresses and volumes"),
            group.create_task(_tell_deaths(fleet, say), name="deaths"),
        ]
        try:
            yield {name: KubernetesCluster(cluster) for name, cluster in fleet.clusters.items()}
        finally:
            for task in beside:
                task.cancel()


async def _tell_deaths(fleet: RealFleet, say: Callable[[str], None]) -> None:
    while True:
        say(str(await fleet.next_dead_server()))


class KubernetesCluster:
    """A real cluster; it is slow to agents only, since people talk to its own server."""

    def __init__(self, cluster: RealCluster) -> None:
        self._cluster = cluster
        self._delay = timedelta(0)

    @property
    def url(self) -> str:
        return self._cluster.config.server

    @property
    def context(self) -> Context:
        return self._cluster.context

    @property
    def running(self) -> bool:
        return self._cluster.servers[API_SERVER.name].running

    @property
    def delay(self) -> timedelta:
        return self._delay

    def connect(self) -> Transport:
        return _SlowWay(self, self._cluster.connect())

    def dial(self, credentials: Credentials) -> Transport:
        return _SlowWay(self, HttpTransport(credentials))

    async def kill(self) -> None:
        await self._cluster.kill_server(API_SERVER.name)

    async def start(self) -> None:
        if not self.running:
            await self._cluster.start_server(API_SERVER.name)

    def slow(self, delay: timedelta) -> None:
        self._delay = delay


class _SlowWay:
    """A way over HTTP that is as slow as the cluster was made."""

    def __init__(self, cluster: KubernetesCluster, inner: Transport) -> None:
        self._cluster = cluster
        self._inner = inner

    async def send(self, request: Request) -> Response:
        await asyncio.sleep(self._cluster.delay.total_seconds())
        return await self._inner.send(request)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        await asyncio.sleep(self._cluster.delay.total_seconds())
        async with self._inner.stream(request) as lines:
            yield lines

    async def close(self) -> None:
        await self._inner.close()
