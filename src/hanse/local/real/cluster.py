"""One real cluster: its servers, its readiness, and snapshots of its etcd."""

import asyncio
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import assert_never

from hanse.kube.access import ClientConfig, StaticCredentials
from hanse.kube.errors import Unreachable
from hanse.kube.http import HttpTransport
from hanse.kube.request import Request, Transport
from hanse.local.kubeconfig import Context
from hanse.local.real.config import (
    ETCD_CLIENTS,
    ETCD_PEERS,
    Broker,
    ClusterConfig,
    Workloads,
    commands,
    prepare,
)
from hanse.local.real.errors import ClusterNotReady, ServerDied, SnapshotFailed
from hanse.local.real.kwok import all_schedulable, create_nodes, release_nodes
from hanse.local.real.programs import API_SERVER, ETCD_SERVER, ETCDCTL, ETCDUTL, KWOK_CONTROLLER
from hanse.local.real.provisioning import provision
from hanse.local.real.server import ProcessGroup, Server, proportional_memory

READY_PATIENCE = timedelta(seconds=120)
"""Ample even for a small machine that is busy with something else."""

_FOUNDATION = (ETCD_SERVER.name, API_SERVER.name)


class RealCluster:
    """The servers of one cluster, which can be stopped and started alone or all together."""

    def __init__(
        self,
        config: ClusterConfig,
        binaries: Mapping[str, Path],
        keeper: ProcessGroup,
        on_death: Callable[[ServerDied], None],
        say: Callable[[str], None],
    ) -> None:
        self.config = config
        self.access: ClientConfig = prepare(config)
        """How the cluster's administrator reaches it."""
        self.servers = {
            command.program: Server(command, keeper, on_death)
            for command in commands(config, binaries)
        }
        self._binaries = binaries
        self._say = say

    @property
    def name(self) -> str:
        return self.config.name

    @property
    def context(self) -> Context:
        """The administrator's part of a kubeconfig."""
        return Context(self.name, self.access)

    def connect(self) -> Transport:
        """A transport for the administrator; the caller closes it."""
        return HttpTransport(StaticCredentials(self.access))

    async def start(self) -> None:
        """Start every server that does not run, and wait until pods could run."""
        await asyncio.gather(*(self.servers[program].start() for program in _FOUNDATION))
        await self._await(_serves, "its API server answers")
        others = [server for name, server in self.servers.items() if name not in _FOUNDATION]
        await self._release_nodes()
        await asyncio.gather(*(server.start() for server in others))
        await self._await(_has_controllers, "its controllers run")
        await self._await_workloads()

    async def stop(self) -> None:
        """Stop every server, each before those that it needs."""
        others = [name for name in self.servers if name not in _FOUNDATION]
        await asyncio.gather(*(self.servers[name].stop() for name in others))
        await self.servers[API_SERVER.name].stop()
        await self.servers[ETCD_SERVER.name].stop()

    async def start_server(self, program: str) -> None:
        """Start one server again; an API server is waited for until it answers."""
        if program == KWOK_CONTROLLER.name:
            await self._release_nodes()
        await self.servers[program].start()
        if program in _FOUNDATION and self._all_running(_FOUNDATION):
            await self._await(_serves, "its API server answers")

    async def stop_server(self, program: str) -> None:
        """Stop one server and leave the others to cope."""
        await self.servers[program].stop()

    async def kill_server(self, program: str) -> None:
        """Kill one server without a word, on purpose."""
        await self.servers[program].kill()

    async def save(self, snapshot: Path) -> None:
        """Write all that the cluster holds now to a file, while it goes on."""
        await _save_etcd(self._binaries, self.config.directory, snapshot)

    async def restore(self, snapshot: Path) -> None:
        """Go back to what a snapshot holds, resourceVersions included, and start from there."""
        await self.stop()
        await _restore_etcd(self._binaries, self.config.directory, snapshot)
        await self.start()

    async def run_provisioners(self) -> None:
        """Give Services load-balancer addresses and claims volumes, until cancelled."""
        match self.config.role:
            case Broker():
                return
            case Workloads():
                balancers = [str(self.config.ranges.load_balancers)]
                async with self._connected() as transport:
                    await provision(transport, balancers)
            case _:
                assert_never(self.config.role)

    def memory(self) -> int:
        """What the cluster's servers take, in bytes."""
        running = (server.pid for server in self.servers.values())
        return sum(proportional_memory(pid) for pid in running if pid is not None)

    async def _release_nodes(self) -> None:
        if self.servers.get(KWOK_CONTROLLER.name) is None:
            return
        async with self._connected() as transport:
            await release_nodes(transport)

    async def _await_workloads(self) -> None:
        match self.config.role:
            case Broker():
                return
            case Workloads(nodes):
                async with self._connected() as transport:
                    await create_nodes(transport, self.name, nodes, self.config.ranges)
                await self._await(lambda api: all_schedulable(api, nodes), "pods can run")
            case _:
                assert_never(self.config.role)

    async def _await(self, ready: Callable[[Transport], Awaitable[bool]], what: str) -> None:
        """Ask until the answer is yes; a server that dies meanwhile, or patience, ends it."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        async with self._connected() as transport:
            while not await _asked(ready, transport):
                self._fail_if_dead()
                if loop.time() - began > READY_PATIENCE.total_seconds():
                    raise ClusterNotReady(
                        f"{self.name} is not ready after {READY_PATIENCE.total_seconds():.0f} s: "
                        f"still waiting until {what}; see the logs in {self.config.logs}"
                    )
                await asyncio.sleep(0.1)
        self._say(f"{self.name}: {what}")

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[Transport]:
        transport = self.connect()
        try:
            yield transport
        finally:
            await transport.close()

    def _fail_if_dead(self) -> None:
        for server in self.servers.values():
            if (death := server.unexpected_death) is not None:
                raise death

    def _all_running(self, programs: Iterable[str]) -> bool:
        return all(self.servers[program].running for program in programs)


async def _asked(ready: Callable[[Transport], Awaitable[bool]], transport: Transport) -> bool:
    try:
        return await ready(transport)
    except Unreachable:
        return False


async def _serves(transport: Transport) -> bool:
    response = await transport.send(Request("GET", "/readyz", timeout=timedelta(seconds=5)))
    return response.status == 200


async def _has_controllers(transport: Transport) -> bool:
    """Whether a controller has done something: none does before all are set up.

    A controller manager that is still setting up ends when its API server goes away; and pods need
    the account that is looked for here.
    """
    account = Request("GET", "/api/v1/namespaces/default/serviceaccounts/default")
    return (await transport.send(account)).status == 200


async def _save_etcd(binaries: Mapping[str, Path], directory: Path, snapshot: Path) -> None:
    """Write the state of a running etcd to a file, whole or not at all."""
    await _run(
        binaries[ETCDCTL.name],
        *(f"--endpoints={ETCD_CLIENTS}", "snapshot", "save", _absolute(snapshot)),
        directory=directory,
    )


async def _restore_etcd(binaries: Mapping[str, Path], directory: Path, snapshot: Path) -> None:
    """Replace the state of a stopped etcd by that of a snapshot."""
    restored = directory / "etcd.restored"
    shutil.rmtree(restored, ignore_errors=True)
    await _run(
        binaries[ETCDUTL.name],
        *("snapshot", "restore", _absolute(snapshot)),
        f"--data-dir={restored}",
        "--name=default",
        f"--initial-advertise-peer-urls={ETCD_PEERS}",
        f"--initial-cluster=default={ETCD_PEERS}",
        directory=directory,
    )
    shutil.rmtree(directory / "etcd", ignore_errors=True)
    restored.rename(directory / "etcd")


def _absolute(snapshot: Path) -> str:
    """The tools run in the cluster's folder, which is not where the caller is."""
    return str(snapshot.absolute())


async def _run(executable: Path, *arguments: str, directory: Path) -> None:
    running = await asyncio.create_subprocess_exec(
        executable,
        *arguments,
        cwd=directory,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await running.communicate()
    if running.returncode != 0:
        last = said.decode("utf-8", "replace").strip().splitlines()[-1:]
        raise SnapshotFailed(f"{executable.name} {arguments[1]} failed: {''.join(last)}")
