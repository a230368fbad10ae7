"""Several real clusters and a broker, started and stopped as one."""

import asyncio
import fcntl
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self, TextIO

from hanse.local.kubeconfig import write_kubeconfig
from hanse.local.ranges import address_ranges
from hanse.local.real.cluster import RealCluster
from hanse.local.real.config import Broker, ClusterConfig, Role, Workloads
from hanse.local.real.errors import FleetFolderLocked, RealClusterError, ServerDied
from hanse.local.real.ports import PortReservations
from hanse.local.real.server import ProcessGroup

NAMES = ("lubeck", "hamburg", "bergen")
BROKER = "broker"


class RealFleet:
    """Clusters by name, the broker among them; all end when the fleet does, or this process.

    async with RealFleet(directory, binaries) as fleet:
        transport = fleet.clusters["lubeck"].connect()
    """

    def __init__(
        self,
        directory: Path,
        binaries: Mapping[str, Path],
        names: Sequence[str] = NAMES,
        *,
        nodes: int = 3,
        ports: Mapping[str, int] | None = None,
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        if BROKER in names:
            raise ValueError(f"no cluster can be named {BROKER}: that is the broker's own name")
        self.directory = directory.absolute()
        self.clusters: dict[str, RealCluster] = {}
        self._binaries = binaries
        self._roles: dict[str, Role] = {**dict.fromkeys(names, Workloads(nodes)), BROKER: Broker()}
        self._ports = dict(ports or {})
        self._say = say
        self._deaths: asyncio.Queue[ServerDied] = asyncio.Queue()
        self._lock: TextIO | None = None
        self._keeper: ProcessGroup | None = None
        self._claims = PortReservations()

    @property
    def kubeconfig(self) -> Path:
        """A context for each cluster; the first is the current one."""
        return self.directory / "kubeconfig"

    @property
    def broker(self) -> RealCluster:
        return self.clusters[BROKER]

    async def __aenter__(self) -> Self:
        try:
            await self.start()
        except BaseException:
            await self.stop()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.stop()

    async def start(self) -> None:
        """Start every cluster at once, and wait until all are ready."""
        began = time.monotonic()
        self._lock = _lock(self.directory)
        self._keeper = ProcessGroup()
        self.clusters = self._laid_out(self._keeper)
        contexts = [cluster.context for cluster in self.clusters.values()]
        write_kubeconfig(self.kubeconfig, contexts)
        try:
            async with asyncio.TaskGroup() as group:
                for cluster in self.clusters.values():
                    group.create_task(cluster.start(), name=f"start {cluster.name}")
        except* RealClusterError as problems:
            raise problems.exceptions[0] from None
        self._say(f"{len(self.clusters)} clusters ready in {time.monotonic() - began:.1f} s")

    async def stop(self) -> None:
        """End every server; what does not end in time is killed."""
        try:
            await asyncio.gather(*(cluster.stop() for cluster in self.clusters.values()))
        finally:
            if self._keeper is not None:
                self._keeper.close()
                self._keeper = None
            self._claims.close()
            if self._lock is not None:
                self._lock.close()
                self._lock = None

    async def run_provisioners(self) -> None:
        """Give Services their load balancers and claims their volumes, until cancelled.

        No controller of Kubernetes does, where there is no cloud.
        """
        async with asyncio.TaskGroup() as group:
            for cluster in self.clusters.values():
                group.create_task(cluster.run_provisioners(), name=f"provide for {cluster.name}")

    async def next_dead_server(self) -> ServerDied:
        """Wait until a server ends that nobody stopped; each death is given once."""
        return await self._deaths.get()

    def memory(self) -> dict[str, int]:
        """What each cluster's servers take, in bytes."""
        return {name: cluster.memory() for name, cluster in self.clusters.items()}

    def _laid_out(self, keeper: ProcessGroup) -> dict[str, RealCluster]:
        given = set(self._ports.values())
        wanted = 2 * len(self._roles)
        chosen = (port for port in self._claims.take(wanted) if port not in given)
        return {
            name: RealCluster(
                ClusterConfig(
                    name=name,
                    role=role,
                    ranges=address_ranges(index),
                    port=self._ports.get(name) or next(chosen),
                    directory=self.directory / "clusters" / name,
                    logs=self.directory / "logs" / name,
                ),
                self._binaries,
                keeper,
                self._deaths.put_nowait,
                self._say,
            )
            for index, (name, role) in enumerate(self._roles.items())
        }


def _lock(directory: Path) -> TextIO:
    """Take the folder for ourselves; it says whose it is."""
    directory.mkdir(parents=True, exist_ok=True)
    lock = (directory / "lock").open("a+")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.seek(0)
        holder = lock.read().strip()
        lock.close()
        raise FleetFolderLocked(
            f"{directory} is in use by the fleet of process {holder or 'unknown'}; "
            "stop that one or choose another folder"
        ) from None
    with suppress(OSError):
        lock.truncate(0)
    lock.write(str(os.getpid()))
    lock.flush()
    return lock
