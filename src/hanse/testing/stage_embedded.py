"""Embedded clusters as a ground for scenarios: in this process, on virtual time."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta

from hanse.app import BROKER
from hanse.kube.errors import Unreachable
from hanse.kube.lease import Terms
from hanse.kube.request import Request, Response, Transport
from hanse.local.embedded.api import ApiServer, InProcess
from hanse.local.embedded.controllers import suite
from hanse.local.embedded.controllers.suite import Controllers
from hanse.local.embedded.storage import Snapshot
from hanse.local.real.accounts import Account
from hanse.local.real.fleet import NAMES
from hanse.model.objects import ClusterId
from hanse.testing.time import LoopClock

DOWNTIME = timedelta(seconds=3)
"""What a real API server takes to restart."""


class EmbeddedGround:
    """Clusters of one scenario alone; there are no rights, everybody may do everything."""

    look_every = timedelta(milliseconds=100)
    calm = timedelta(minutes=3)
    terms = Terms()

    def __init__(self, names: Sequence[ClusterId], *, seed: int = 0) -> None:
        self.names = tuple(names)
        self.clock = LoopClock()
        self.servers = {n: ApiServer(n, clock=self.clock, seed=seed) for n in (*names, BROKER)}
        self._doors = {name: _Door(InProcess(server)) for name, server in self.servers.items()}

    def connect(self, cluster: ClusterId) -> Transport:
        return InProcess(self.servers[cluster])

    async def admit(self, account: Account, cluster: ClusterId) -> Transport:  # noqa: ARG002
        return self._doors[cluster]

    async def restart_server(self, cluster: ClusterId) -> None:
        with self._doors[cluster].closed():
            self.servers[cluster].drop_watches()
            await asyncio.sleep(DOWNTIME.total_seconds())
        self.servers[cluster].storage.lose_history()

    async def back_up(self, cluster: ClusterId) -> Snapshot:
        return self.servers[cluster].storage.snapshot()

    async def restore(self, cluster: ClusterId, backup: Snapshot) -> None:
        with self._doors[cluster].closed():
            self.servers[cluster].drop_watches()
            await asyncio.sleep(DOWNTIME.total_seconds())
            self.servers[cluster].storage.restore(backup)


@asynccontextmanager
async def embedded_ground(names: Sequence[ClusterId] = NAMES) -> AsyncIterator[EmbeddedGround]:
    """New clusters with their controllers, until the block ends."""
    ground = EmbeddedGround(names)
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(
                Controllers(server, which=suite.BROKER if name == BROKER else suite.ALL).run(),
                name=f"controllers {name}",
            )
            for name, server in ground.servers.items()
        ]
        yield ground
        for task in tasks:
            task.cancel()


class _Door:
    """The way that agents take into a cluster, shut while its server is down."""

    def __init__(self, inner: InProcess) -> None:
        self._inner = inner
        self._shut = False

    @contextmanager
    def closed(self) -> Iterator[None]:
        self._shut = True
        try:
            yield
        finally:
            self._shut = False

    async def send(self, request: Request) -> Response:
        self._enter()
        return await self._inner.send(request)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        self._enter()
        async with self._inner.stream(request) as lines:
            yield lines

    async def close(self) -> None:
        """Nothing is held."""

    def _enter(self) -> None:
        if self._shut:
            raise Unreachable("the API server is down")
