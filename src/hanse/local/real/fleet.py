"""Several real clusters and a broker, started and stopped together."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self, TextIO

from hanse.kube.errors import KubeError
from hanse.local.file_lock import LockHeld, lock_file
from hanse.local.kubeconfig import write_kubeconfig
from hanse.local.ranges import AddressRanges, address_ranges
from hanse.local.real.cluster import RealCluster
from hanse.local.real.config import Broker, ClusterConfig, Containers, Role, Workloads
from hanse.local.real.errors import FleetFolderLocked, RealClusterError, ServerDied
from hanse.local.real.nodes.cluster_nodes import NodeSettings, plan_container_nodes
from hanse.local.real.ports import PortReservations
from hanse.local.real.server import ProcessGroup

NAMES = ("lubeck", "hamburg", "bergen")
BROKER = "broker"


class RealFleet:
    """Clusters by name, including the broker; they stop when the fleet or this process ends.

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
        report: Callable[[str], None] = lambda _: None,
        containers: NodeSettings | None = None,
    ) -> None:
        """Prepare the fleet with a broker added; raises `ValueError` if a name is the broker's.

        With `containers`, the nodes are real ones; otherwise `nodes` of them are simulated. `ports`
        are fixed ports of API servers by cluster; the others get free ones.
        """
        if BROKER in names:
            raise ValueError(f"no cluster can be named {BROKER}: that is the broker's own name")
        self.directory = directory.absolute()
        self.clusters: dict[str, RealCluster] = {}
        self._binaries = binaries
        self._names = (*names, BROKER)
        self._simulated = Workloads(nodes)
        self._containers = containers
        self._ports = dict(ports or {})
        self._report = report
        self._dead_servers: asyncio.Queue[ServerDied] = asyncio.Queue()
        self._lock: TextIO | None = None
        self._process_group: ProcessGroup | None = None
        self._reservations = PortReservations()

    @property
    def kubeconfig(self) -> Path:
        """The path of the kubeconfig: a context for each cluster, the first is the current one."""
        return self.directory / "kubeconfig"

    @property
    def broker(self) -> RealCluster:
        return self.clusters[BROKER]

    async def __aenter__(self) -> Self:
        """Start the fleet; stop it again if the start fails."""
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
        """Lock the folder, write the kubeconfig, start all clusters and wait until ready.

        Raises `FleetFolderLocked` if another fleet runs there, else the first `RealClusterError` or
        `KubeError` of a cluster; what has started then runs until `stop`.
        """
        began = time.monotonic()
        self._lock = _lock_folder(self.directory)
        self._process_group = ProcessGroup()
        self.clusters = self._create_clusters(self._process_group)
        contexts = [cluster.context for cluster in self.clusters.values()]
        write_kubeconfig(self.kubeconfig, contexts)
        try:
            async with asyncio.TaskGroup() as group:
                for cluster in self.clusters.values():
                    group.create_task(cluster.start(), name=f"start {cluster.name}")
        except* (RealClusterError, KubeError) as problems:
            raise problems.exceptions[0] from None
        self._report(f"{len(self.clusters)} clusters ready in {time.monotonic() - began:.1f} s")

    async def stop(self) -> None:
        """Stop all servers, killing those too slow; release process group, ports and lock."""
        try:
            await asyncio.gather(*(cluster.stop() for cluster in self.clusters.values()))
        finally:
            if self._process_group is not None:
                self._process_group.close()
                self._process_group = None
            self._reservations.close()
            if self._lock is not None:
                self._lock.close()
                self._lock = None

    async def run_provisioners(self) -> None:
        """Run the load-balancer allocator and volume provisioner of every cluster until cancelled.

        Without a cloud provider, Kubernetes itself runs neither.
        """
        async with asyncio.TaskGroup() as group:
            for cluster in self.clusters.values():
                group.create_task(cluster.run_provisioners(), name=f"provisioners {cluster.name}")

    async def next_dead_server(self) -> ServerDied:
        """Wait until a server exits unexpectedly; each exit is returned once."""
        return await self._dead_servers.get()

    def memory(self) -> dict[str, int]:
        """The memory of each cluster's servers in bytes, without those of nodes."""
        return {name: cluster.memory() for name, cluster in self.clusters.items()}

    def _create_clusters(self, process_group: ProcessGroup) -> dict[str, RealCluster]:
        """Create all clusters, not started, with configured or newly reserved ports.

        Their configuration files are written.
        """
        configured = set(self._ports.values())
        count = 2 * len(self._names)  # some may be configured for other clusters
        free = (port for port in self._reservations.reserve(count) if port not in configured)
        return {
            name: RealCluster(
                self._config(index, name, self._ports.get(name) or next(free)),
                self._binaries,
                process_group,
                self._dead_servers.put_nowait,
                self._report,
                self._containers,
            )
            for index, name in enumerate(self._names)
        }

    def _config(self, index: int, name: str, port: int) -> ClusterConfig:
        """The configuration of a cluster, with folders by its name and ranges by its index."""
        directory, ranges = self.directory / "clusters" / name, address_ranges(index)
        return ClusterConfig(
            name=name,
            role=self._role(name, ranges, directory),
            ranges=ranges,
            port=port,
            directory=directory,
            logs=self.directory / "logs" / name,
        )

    def _role(self, name: str, ranges: AddressRanges, directory: Path) -> Role:
        """Broker by its name; else Containers if there are settings for them, else Workloads."""
        if name == BROKER:
            return Broker()
        if self._containers is None:
            return self._simulated
        return Containers(plan_container_nodes(name, ranges, directory, self._containers))


def _lock_folder(directory: Path) -> TextIO:
    """Create and lock the folder until the file is closed.

    Raises `FleetFolderLocked` if another process holds the lock.
    """
    directory.mkdir(parents=True, exist_ok=True)
    try:
        return lock_file(directory / "lock")
    except LockHeld as held:
        raise FleetFolderLocked(
            f"{directory} is in use by the fleet of process {held.holder}; "
            "stop that one or choose another folder"
        ) from None
