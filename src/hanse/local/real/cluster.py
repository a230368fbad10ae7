"""One real cluster: its servers, its readiness, and snapshots of its etcd."""

import asyncio
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import assert_never

from hanse.kube.client_config import ClientConfig, StaticCredentials
from hanse.kube.errors import KubeError, Unreachable
from hanse.kube.http_transport import HttpTransport
from hanse.kube.transport import Request, Transport
from hanse.local.kubeconfig import Context
from hanse.local.real.config import (
    ETCD_CLIENTS,
    ETCD_PEERS,
    Broker,
    ClusterConfig,
    Containers,
    Workloads,
    server_commands,
    write_config_files,
)
from hanse.local.real.errors import (
    ClusterNotReady,
    RealClusterError,
    ServerDied,
    SnapshotFailed,
)
from hanse.local.real.kwok import all_schedulable, create_nodes, release_nodes
from hanse.local.real.nodes.cluster_nodes import ClusterNodes, NodeSettings
from hanse.local.real.programs import API_SERVER, ETCD_SERVER, ETCDCTL, ETCDUTL, KWOK_CONTROLLER
from hanse.local.real.provisioning import provision
from hanse.local.real.server import ProcessGroup, Server, proportional_memory

READY_TIMEOUT = timedelta(seconds=120)
"""Enough even for a small, busy machine."""

_CONTROL_PLANE = (ETCD_SERVER.name, API_SERVER.name)


class RealCluster:
    """The servers of one cluster, which can be stopped and started singly or together."""

    def __init__(
        self,
        config: ClusterConfig,
        binaries: Mapping[str, Path],
        process_group: ProcessGroup,
        on_death: Callable[[ServerDied], None],
        report: Callable[[str], None],
        nodes: NodeSettings | None = None,
    ) -> None:
        """Write the configuration files and prepare the servers; starts none.

        `on_death` is called if a server ends by itself, `report` with lines of progress. `nodes`
        are the settings of nodes with containers, if the fleet has any.
        """
        self.config = config
        self.access: ClientConfig = write_config_files(config)
        """The administrator's access."""
        self.servers = {
            command.program: Server(command, process_group, on_death)
            for command in server_commands(config, binaries)
        }
        self._binaries = binaries
        self._report = report
        self._nodes: ClusterNodes | None = None
        if nodes is not None:
            # A broker has none, but those of other clusters connect to it.
            own = config.role.nodes if isinstance(config.role, Containers) else ()
            self._nodes = ClusterNodes(
                *(own, config.ranges, nodes, config.directory),
                *(binaries, config.logs, on_death),
            )

    @property
    def name(self) -> str:
        return self.config.name

    @property
    def context(self) -> Context:
        """The administrator's kubeconfig context."""
        return Context(self.name, self.access)

    def connect(self) -> Transport:
        """A transport for the administrator; the caller closes it."""
        return HttpTransport(StaticCredentials(self.access))

    async def start(self) -> None:
        """Start every stopped server, create nodes unless a broker, and wait until pods can run.

        Servers that run, and existing nodes, stay. Containers of nodes are prepared while the API
        server starts. Raises the first `RealClusterError` or `KubeError`.
        """
        if self._nodes is not None:
            await self._nodes.connect(
                self.config.ranges.api_server, self.config.port, self.config.directory
            )
        try:
            async with asyncio.TaskGroup() as group:
                if self._nodes is not None:
                    group.create_task(self._nodes.prepare(), name=f"containers of {self.name}")
                await self._start_servers()
        except* (RealClusterError, KubeError) as problems:
            raise problems.exceptions[0] from None
        await self._await_nodes()

    async def _start_servers(self) -> None:
        """Start every stopped server but those of nodes, and wait until the controllers run.

        The others start once the API server answers. Raises `PortInUse`, `ClusterNotReady` at the
        timeout, and `ServerDied` if a server ends.
        """
        await asyncio.gather(*(self.servers[program].start() for program in _CONTROL_PLANE))
        await self._wait_until(_is_api_ready, "its API server answers")
        others = [server for name, server in self.servers.items() if name not in _CONTROL_PLANE]
        await self._release_nodes()
        await asyncio.gather(*(server.start() for server in others))
        await self._wait_until(_is_controller_manager_ready, "its controllers run")

    async def stop(self) -> None:
        """Stop every server, also those of nodes; clients before the servers that they use."""
        if self._nodes is not None:
            await self._nodes.stop()
        others = [name for name in self.servers if name not in _CONTROL_PLANE]
        await asyncio.gather(*(self.servers[name].stop() for name in others))
        await self.servers[API_SERVER.name].stop()
        await self.servers[ETCD_SERVER.name].stop()

    async def start_server(self, program: str) -> None:
        """Start one server; etcd and API server: also wait until it answers, once both run.

        Before kwok starts, the node Leases of an earlier kwok are deleted. Raises `PortInUse`,
        `ClusterNotReady` at the timeout, `ServerDied` if any server of the cluster ends meanwhile,
        and `KubeError`.
        """
        if program == KWOK_CONTROLLER.name:
            await self._release_nodes()
        await self.servers[program].start()
        if program in _CONTROL_PLANE and self._all_running(_CONTROL_PLANE):
            await self._wait_until(_is_api_ready, "its API server answers")

    @property
    def serves(self) -> bool:
        """Whether the processes of etcd and the API server run; not whether they answer."""
        return self._all_running(_CONTROL_PLANE)

    async def start_control_plane(self) -> None:
        """Start etcd and the API server, as far as they do not run, and wait until it answers.

        Raises `PortInUse` if the API server's port stays taken, `ClusterNotReady` at the timeout,
        `ServerDied` if one of them ends.
        """
        await asyncio.gather(*(self.servers[program].start() for program in _CONTROL_PLANE))
        await self._wait_until(_is_api_ready, "its API server answers", _CONTROL_PLANE)

    async def kill_server(self, program: str) -> None:
        """Kill one server without a graceful stop, and wait for its end; it is not reported."""
        await self.servers[program].kill()

    async def save(self, snapshot: Path) -> None:
        """Write an etcd snapshot of the running cluster to a file.

        Raises `SnapshotFailed`.
        """
        await _save_etcd(self._binaries, self.config.directory, snapshot)

    async def restore(self, snapshot: Path, *, bump_revision: int = 0) -> None:
        """Restore an etcd snapshot, including resourceVersions, and restart the cluster.

        New versions begin `bump_revision` after the last one of the snapshot. Raises
        `SnapshotFailed`, and leaves the cluster running as it is, for a snapshot that cannot be
        read; else as `start` does.
        """
        directory = self.config.directory
        restored = await _restore_etcd(self._binaries, directory, snapshot, bump_revision)
        await self.stop()
        shutil.rmtree(directory / "etcd", ignore_errors=True)
        restored.rename(directory / "etcd")
        await self.start()

    async def run_provisioners(self) -> None:
        """Allocate load balancers and volumes until cancelled; a broker returns at once."""
        match self.config.role:
            case Broker():
                return
            case Workloads() | Containers():
                balancers = [str(self.config.ranges.load_balancers)]
                async with self._open_transport() as transport:
                    await provision(transport, balancers)
            case _:
                assert_never(self.config.role)

    def memory(self) -> int:
        """The memory (PSS) of the cluster's running servers in bytes, without those of nodes."""
        pids = (server.pid for server in self.servers.values())
        return sum(proportional_memory(pid) for pid in pids if pid is not None)

    async def _release_nodes(self) -> None:
        """Delete the node Leases of an earlier kwok; no effect without a kwok controller.

        Raises for an error response.
        """
        if self.servers.get(KWOK_CONTROLLER.name) is None:
            return
        async with self._open_transport() as transport:
            await release_nodes(transport)

    async def _await_nodes(self) -> None:
        """Create the nodes and wait until pods can be scheduled; nothing for a broker.

        Raises `ClusterNotReady` at the timeout, `ServerDied` if a server ends. With containers, the
        pod ranges of the nodes are published last.
        """
        match self.config.role:
            case Broker():
                return
            case Workloads(nodes):
                async with self._open_transport() as transport:
                    await create_nodes(transport, self.name, nodes, self.config.ranges)
                await self._wait_until(lambda api: all_schedulable(api, nodes), "pods can run")
            case Containers(container_nodes):
                assert self._nodes is not None, "a cluster with containers has settings for nodes"
                await self._nodes.start()
                count = len(container_nodes)
                await self._wait_until(lambda api: all_schedulable(api, count), "pods can run")
                async with self._open_transport() as transport:
                    await self._nodes.publish_pod_ranges(transport)
            case _:
                assert_never(self.config.role)

    async def _wait_until(
        self,
        is_ready: Callable[[Transport], Awaitable[bool]],
        description: str,
        needed: Iterable[str] = (),
    ) -> None:
        """Poll until `is_ready`, then report the cluster's name with the description.

        A server that cannot be reached is not ready. Raises `ClusterNotReady` after READY_TIMEOUT,
        and `ServerDied` if a needed server ends; all are needed, if none is named.
        """
        needed = tuple(needed)
        loop = asyncio.get_running_loop()
        began = loop.time()
        async with self._open_transport() as transport:
            while not await _poll_ready(is_ready, transport):
                self._raise_if_dead(needed)
                if loop.time() - began > READY_TIMEOUT.total_seconds():
                    raise ClusterNotReady(
                        f"{self.name} is not ready after {READY_TIMEOUT.total_seconds():.0f} s: "
                        f"still waiting until {description}; see the logs in {self.config.logs}"
                    )
                await asyncio.sleep(0.1)
        self._report(f"{self.name}: {description}")

    @asynccontextmanager
    async def _open_transport(self) -> AsyncIterator[Transport]:
        """A transport to the API server, closed at the end of the block."""
        transport = self.connect()
        try:
            yield transport
        finally:
            await transport.close()

    def _raise_if_dead(self, needed: tuple[str, ...]) -> None:
        """Raise the `ServerDied` of the first needed server that ended unexpectedly.

        If none is named, all servers are needed, those of nodes, too.
        """
        for program in needed or self.servers:
            if (death := self.servers[program].unexpected_death) is not None:
                raise death
        if (
            not needed
            and self._nodes is not None
            and (death := self._nodes.unexpected_death()) is not None
        ):
            raise death

    def _all_running(self, programs: Iterable[str]) -> bool:
        return all(self.servers[program].running for program in programs)


async def _poll_ready(
    is_ready: Callable[[Transport], Awaitable[bool]], transport: Transport
) -> bool:
    """What `is_ready` returns; False if the server is unreachable."""
    try:
        return await is_ready(transport)
    except Unreachable:
        return False


async def _is_api_ready(transport: Transport) -> bool:
    """Whether `/readyz` answers 200, with a limit of 5 seconds."""
    response = await transport.send(Request("GET", "/readyz", timeout=timedelta(seconds=5)))
    return response.status == 200


async def _is_controller_manager_ready(transport: Transport) -> bool:
    """Whether the default ServiceAccount exists, which the controller manager creates once it runs.

    Pods need this account; and a controller manager that is still starting exits when its API
    server stops.
    """
    account = Request("GET", "/api/v1/namespaces/default/serviceaccounts/default")
    return (await transport.send(account)).status == 200


async def _save_etcd(binaries: Mapping[str, Path], directory: Path, snapshot: Path) -> None:
    """Write a snapshot of a running etcd to a file atomically; raises `SnapshotFailed`."""
    await _run_tool(
        binaries[ETCDCTL.name],
        *(f"--endpoints={ETCD_CLIENTS}", "snapshot", "save", _absolute(snapshot)),
        directory=directory,
    )


async def _restore_etcd(
    binaries: Mapping[str, Path], directory: Path, snapshot: Path, bump_revision: int
) -> Path:
    """Restore a snapshot into the folder `etcd.restored` of a cluster, and return that folder.

    Raises `SnapshotFailed`. That folder is replaced. With `bump_revision` all versions up to the
    bump count as compacted.
    """
    restored = directory / "etcd.restored"
    shutil.rmtree(restored, ignore_errors=True)
    bump = (f"--bump-revision={bump_revision}", "--mark-compacted") if bump_revision else ()
    await _run_tool(
        binaries[ETCDUTL.name],
        *("snapshot", "restore", _absolute(snapshot)),
        *bump,
        f"--data-dir={restored}",
        "--name=default",
        f"--initial-advertise-peer-urls={ETCD_PEERS}",
        f"--initial-cluster=default={ETCD_PEERS}",
        directory=directory,
    )
    return restored


def _absolute(snapshot: Path) -> str:
    """An absolute path, since etcdctl and etcdutl run in the cluster's folder."""
    return str(snapshot.absolute())


async def _run_tool(executable: Path, *arguments: str, directory: Path) -> None:
    """Run etcdctl or etcdutl in a folder, and wait for its end.

    Raises `SnapshotFailed` with the last line of its output if its status is not 0.
    """
    process = await asyncio.create_subprocess_exec(
        executable,
        *arguments,
        cwd=directory,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    if process.returncode != 0:
        last = output.decode("utf-8", "replace").strip().splitlines()[-1:]
        raise SnapshotFailed(f"{executable.name} {arguments[1]} failed: {''.join(last)}")
