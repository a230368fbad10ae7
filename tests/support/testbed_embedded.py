"""Embedded clusters as a ground for scenarios: in this process, on virtual time."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta

from hanse.app import BROKER
from hanse.kube.access import Credentials, Endpoint
from hanse.kube.errors import Unreachable
from hanse.kube.lease import Terms
from hanse.kube.request import Transport
from hanse.local.in_process import InProcess, Listener, UrlTransport
from hanse.local.real.fleet import NAMES
from hanse.model.objects import ClusterId
from hanse.web.webhooks.webhook_server import WebhookServer
from tests.support.service_accounts import Account
from tests.support.testbed import WebhookEndpoint
from tests.support.time import LoopClock
from tinykube.api import ApiServer
from tinykube.controllers import suite
from tinykube.controllers.suite import Controllers
from tinykube.request import RequestLike, Response
from tinykube.storage import Snapshot
from tinykube.users import User
from tinykube.webhooks import WebhookCall, WebhookFailed

DOWNTIME = timedelta(seconds=3)
"""What a real API server takes to restart."""


class EmbeddedTestbed:
    """Clusters of one scenario alone; there are no rights, everybody may do everything."""

    poll_interval = timedelta(milliseconds=100)
    settle_time = timedelta(minutes=3)
    slack = timedelta(0)
    terms = Terms()

    def __init__(self, names: Sequence[ClusterId], *, seed: int = 0) -> None:
        self.names = tuple(names)
        self.clock = LoopClock()
        self.servers = {
            n: ApiServer(n, clock=self.clock, seed=seed, call_webhook=self._call_webhook)
            for n in (*names, BROKER)
        }
        self._keepers: dict[str, WebhookServer] = {}
        self._doors = {name: _Door(server) for name, server in self.servers.items()}

    def connect(self, cluster: ClusterId) -> Transport:
        return InProcess(self.servers[cluster])

    async def agent_transport(self, account: Account, cluster: ClusterId) -> Transport:
        return InProcess(self._doors[cluster])

    def endpoint(self, cluster: ClusterId) -> Endpoint:
        return Endpoint(f"https://{cluster}.example:6443", ca_of(cluster))

    def dial(self, cluster: ClusterId, credentials: Credentials) -> Transport:
        return UrlTransport(credentials, self._listed)

    def _listed(self, url: str) -> Listener | None:
        for name, endpoint_for_webhooks in self._doors.items():
            if self.endpoint(name).url == url:
                return Listener(endpoint_for_webhooks, ca_of(name))
        return None

    def webhook_endpoint(self, name: str) -> WebhookEndpoint:
        return WebhookEndpoint(f"https://{name.replace('/', '.')}.webhooks.example")

    def set_webhook_server(
        self, endpoint_for_webhooks: WebhookEndpoint, keeper: WebhookServer | None
    ) -> None:
        self._keepers.pop(endpoint_for_webhooks.url, None)
        if keeper is not None:
            self._keepers[endpoint_for_webhooks.url] = keeper

    async def _call_webhook(self, call: WebhookCall) -> bytes:
        url, _, hook = call.url.rpartition("/")
        keeper = self._keepers.get(url)
        if keeper is None or not call.authority:
            raise WebhookFailed(f'Post "{call.url}": connection refused')
        return await keeper.answer(hook, call.body)

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
async def embedded_testbed(names: Sequence[ClusterId] = NAMES) -> AsyncIterator[EmbeddedTestbed]:
    """New clusters with their controllers, until the block ends."""
    testbed = EmbeddedTestbed(names)
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(
                Controllers(server, which=suite.BROKER if name == BROKER else suite.ALL).run(),
                name=f"controllers {name}",
            )
            for name, server in testbed.servers.items()
        ]
        yield testbed
        for task in tasks:
            task.cancel()


def ca_of(cluster: ClusterId) -> bytes:
    """What stands for a certificate where there is no TLS: each cluster has another one."""
    return f"-----BEGIN CERTIFICATE-----\n{cluster}\n-----END CERTIFICATE-----\n".encode()


class _Door:
    """A cluster as its callers meet it: shut while its server is down."""

    def __init__(self, server: ApiServer) -> None:
        self._server = server
        self._shut = False

    @contextmanager
    def closed(self) -> Iterator[None]:
        self._shut = True
        try:
            yield
        finally:
            self._shut = False

    async def send(self, request: RequestLike, user: User) -> Response:
        self._enter()
        return await self._server.send(request, user)

    @asynccontextmanager
    async def stream(self, request: RequestLike, user: User) -> AsyncIterator[AsyncIterator[bytes]]:
        self._enter()
        async with self._server.stream(request, user) as lines:
            yield lines

    def authenticate(self, token: str) -> User | None:
        return self._server.authenticate(token)

    def _enter(self) -> None:
        if self._shut:
            raise Unreachable("the API server is down")
