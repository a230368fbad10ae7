"""Embedded clusters as a testbed: in this process, on virtual time."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta
from random import Random

from hanse.app import BROKER
from hanse.kube.client_config import ClientConfig, Credentials, ServerEndpoint
from hanse.kube.errors import Unreachable
from hanse.kube.lease import LeaseTimings
from hanse.kube.transport import Transport
from hanse.local.in_process import InProcessTransport, ServedApi, UrlTransport
from hanse.local.ranges import address_ranges
from hanse.local.real.fleet import NAMES
from hanse.model.objects import ClusterId
from hanse.web.webhooks.server import WebhookServer
from tests.support.latency import LatentTransport, draw_timing
from tests.support.service_accounts import Account, grant
from tests.support.testbed import WebhookEndpoint
from tinykube.apiserver import ApiServer
from tinykube.controllers import controller_manager
from tinykube.controllers.controller_manager import ControllerManager, Simulation
from tinykube.controllers.kubelet import PodTiming
from tinykube.controllers.simulated_nodes import NodeRanges
from tinykube.request import RequestLike, Response
from tinykube.storage import Snapshot
from tinykube.users import User
from tinykube.virtual_time import LoopClock
from tinykube.webhook_client import WebhookCall, WebhookFailed

DOWNTIME = timedelta(seconds=3)
"""How long a real API server takes to restart."""


class EmbeddedTestbed:
    """Clusters of a single scenario; RBAC is not enforced."""

    poll_interval = timedelta(milliseconds=100)
    settle_time = timedelta(minutes=3)
    slack = timedelta(0)
    timings = LeaseTimings()

    def __init__(
        self, names: Sequence[ClusterId], *, seed: int = 0, latency: Random | None = None
    ) -> None:
        """Servers without their controllers; requests take no time without a `latency`."""
        self.names = tuple(names)
        self._latency = latency
        self.clock = LoopClock()
        self.clocks = {n: LoopClock() for n in (*names, BROKER)}
        """The clock of each cluster, which a fault may set."""
        self.ranges = {n: address_ranges(index) for index, n in enumerate(self.clocks)}
        self.servers = {
            n: ApiServer(
                n,
                clock=clock,
                service_range=str(self.ranges[n].services),
                seed=seed,
                call_webhook=self._call_webhook,
            )
            for n, clock in self.clocks.items()
        }
        self.keeps_accounts = False
        """Whether an agent that starts again has the account that it had, and nothing is made."""
        self._users: dict[tuple[str, str, ClusterId], User] = {}
        self._webhook_servers: dict[str, WebhookServer] = {}
        self._endpoints = {name: _Server(server) for name, server in self.servers.items()}

    def connect(self, cluster: ClusterId) -> Transport:
        return self._late(InProcessTransport(self.servers[cluster]), watches=False)

    def _late(self, transport: Transport, *, watches: bool = True) -> Transport:
        """A transport with latencies, if this testbed has any."""
        if self._latency is None:
            return transport
        return LatentTransport(transport, self._latency, watches=watches)

    async def agent_transport(self, account: Account, cluster: ClusterId) -> Transport:
        key = (account.namespace, account.name, cluster)
        if self.keeps_accounts and key in self._users:
            return self._late(InProcessTransport(self._endpoints[cluster], self._users[key]))
        admin = InProcessTransport(self.servers[cluster])  # a test starts agents without latency
        access = await grant(admin, ClientConfig(self.endpoint(cluster)), account)
        user = self.servers[cluster].authenticate(access.identity.token)
        assert user is not None, "the token was issued a moment ago"
        self._users[key] = user
        return self._late(InProcessTransport(self._endpoints[cluster], user))

    def endpoint(self, cluster: ClusterId) -> ServerEndpoint:
        return ServerEndpoint(f"https://{cluster}.example:6443", ca_of(cluster))

    def dial(self, cluster: ClusterId, credentials: Credentials) -> Transport:
        return self._late(UrlTransport(credentials, self._listed))

    def _listed(self, url: str) -> ServedApi | None:
        for name, endpoint_for_webhooks in self._endpoints.items():
            if self.endpoint(name).url == url:
                return ServedApi(endpoint_for_webhooks, ca_of(name))
        return None

    def webhook_endpoint(self, name: str) -> WebhookEndpoint:
        return WebhookEndpoint(f"https://{name.replace('/', '.')}.webhooks.example")

    def set_webhook_server(
        self, endpoint_for_webhooks: WebhookEndpoint, server: WebhookServer | None
    ) -> None:
        self._webhook_servers.pop(endpoint_for_webhooks.url, None)
        if server is not None:
            self._webhook_servers[endpoint_for_webhooks.url] = server

    async def _call_webhook(self, call: WebhookCall) -> bytes:
        url, _, hook = call.url.rpartition("/")
        server = self._webhook_servers.get(url)
        if server is None or not call.authority:
            raise WebhookFailed(f'Post "{call.url}": connection refused')
        return await server.answer(hook, call.body)

    async def restart_server(self, cluster: ClusterId, downtime: timedelta = DOWNTIME) -> None:
        with self._endpoints[cluster].down():
            self.servers[cluster].drop_watches()
            await asyncio.sleep(downtime.total_seconds())
        self.servers[cluster].storage.compact()

    async def back_up(self, cluster: ClusterId) -> Snapshot:
        return self.servers[cluster].storage.snapshot()

    async def restore(self, cluster: ClusterId, backup: Snapshot, *, bump: int = 0) -> None:
        with self._endpoints[cluster].down():
            self.servers[cluster].drop_watches()
            await asyncio.sleep(DOWNTIME.total_seconds())
            self.servers[cluster].storage.restore(backup, bump=bump)


@asynccontextmanager
async def embedded_testbed(
    names: Sequence[ClusterId] = NAMES, *, seed: int = 0, latency: Random | None = None
) -> AsyncIterator[EmbeddedTestbed]:
    """Run new clusters with their controllers until the block ends."""
    testbed = EmbeddedTestbed(names, seed=seed, latency=latency)
    timing = draw_timing(latency) if latency is not None else PodTiming()
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(
                ControllerManager(
                    server,
                    enabled=controller_manager.CORE_CONTROLLERS
                    if name == BROKER
                    else controller_manager.ALL_CONTROLLERS,
                    simulation=Simulation(
                        ranges=NodeRanges(pods=(str(testbed.ranges[name].pods),)),
                        pod_timing=timing,
                    ),
                ).run(),
                name=f"controllers {name}",
            )
            for name, server in testbed.servers.items()
        ]
        yield testbed
        for task in tasks:
            task.cancel()


def ca_of(cluster: ClusterId) -> bytes:
    """A stand-in for a cluster's CA certificate, where there is no TLS."""
    return f"-----BEGIN CERTIFICATE-----\n{cluster}\n-----END CERTIFICATE-----\n".encode()


class _Server:
    """An API server that can be down."""

    def __init__(self, server: ApiServer) -> None:
        self._server = server
        self._down = False

    @contextmanager
    def down(self) -> Iterator[None]:
        self._down = True
        try:
            yield
        finally:
            self._down = False

    async def send(self, request: RequestLike, user: User) -> Response:
        self._require_up()
        return await self._server.send(request, user)

    @asynccontextmanager
    async def stream(self, request: RequestLike, user: User) -> AsyncIterator[AsyncIterator[bytes]]:
        self._require_up()
        async with self._server.stream(request, user) as lines:
            yield lines

    def authenticate(self, token: str) -> User | None:
        return self._server.authenticate(token)

    def _require_up(self) -> None:
        if self._down:
            raise Unreachable("the API server is down")
