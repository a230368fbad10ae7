"""Clusters inside this process: served over HTTPS to people, and directly to agents."""

import asyncio
import secrets
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta

from hanse.kube.access import ClientConfig, Credentials, Endpoint, Identity
from hanse.kube.authority import LOOPBACK, CertificateAuthority, server_context
from hanse.kube.clock import Clock, WallClock
from hanse.kube.errors import Unreachable
from hanse.kube.request import Request, Response, Transport
from hanse.local.in_process import InProcess, Listener, UrlTransport
from hanse.local.kubeconfig import Context
from hanse.local.up.errors import UpError
from hanse.local.up.folder import Folder
from hanse.local.up.topology import Member
from tinykube import request as served
from tinykube.api import ApiServer
from tinykube.controllers.nodes import NodeRanges
from tinykube.controllers.suite import ALL, BROKER, Controllers, Simulation
from tinykube.http import serve
from tinykube.users import ADMIN, User
from tinykube.webhooks import HttpsCaller, WebhookCaller

_HOST = "127.0.0.1"
_GRACE = timedelta(milliseconds=200)
_NO_DELAY = timedelta(0)
SAVE_INTERVAL = timedelta(seconds=2)
"""What a federation that keeps its objects may lose when it is killed."""


@asynccontextmanager
async def embedded_clusters(
    members: Sequence[Member], folder: Folder
) -> AsyncIterator[dict[str, "EmbeddedCluster"]]:
    """All members running, until the block ends; what they hold is kept if the folder does so."""
    clock, caller = WallClock(), HttpsCaller()
    async with asyncio.TaskGroup() as group:  # what dies by itself ends the federation
        clusters = {
            member.name: EmbeddedCluster(member, folder, clock, group, caller) for member in members
        }
        try:
            for cluster in clusters.values():
                await cluster.start()
            yield clusters
        finally:
            for cluster in clusters.values():
                await cluster.end()
            await caller.close()


class EmbeddedCluster:
    """An API server and its controllers, which live and die together."""

    def __init__(
        self,
        member: Member,
        folder: Folder,
        clock: Clock,
        group: asyncio.TaskGroup,
        call_webhook: WebhookCaller,
    ) -> None:
        self.member = member
        self._folder = folder
        self._group = group
        self._authority = CertificateAuthority.create(f"{member.name}.hanse.local")
        self._token = secrets.token_urlsafe(32)
        self._socket: socket.socket | None = _listener(0)
        self._port: int = self._socket.getsockname()[1]
        ranges = member.ranges
        self.api = ApiServer(
            member.name,
            clock=clock,
            service_range=str(ranges.services),
            advertise=str(ranges.api_server),
            port=self._port,
            snapshot=folder.load(member.name),
            call_webhook=call_webhook,
        )
        hosts = (*LOOPBACK, "kubernetes.default.svc", str(ranges.services[1]))
        self._tls = server_context(self._authority.server(member.name, hosts))
        self._door = _Door(self.api, {self._token: ADMIN})
        self._life: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        return f"https://{_HOST}:{self._port}"

    @property
    def context(self) -> Context:
        endpoint = Endpoint(self.url, ca=self._authority.certificate)
        return Context(self.member.name, ClientConfig(endpoint, Identity(token=self._token)))

    @property
    def running(self) -> bool:
        return self._life is not None and not self._life.done()

    @property
    def delay(self) -> timedelta:
        return self._door.delay

    def connect(self) -> Transport:
        return _Way(self)

    def dial(self, credentials: Credentials) -> Transport:
        return UrlTransport(credentials, self._listed)

    def _listed(self, url: str) -> Listener | None:
        here = self.running and url == self.url
        return Listener(self._door, self._authority.certificate) if here else None

    def slow(self, delay: timedelta) -> None:
        self._door.delay = delay

    async def start(self) -> None:
        if self.running:
            return
        listener, self._socket = self._socket or self._bound(), None
        ready = asyncio.Event()
        self._life = self._group.create_task(
            self._live(listener, ready), name=f"cluster {self.member.name}"
        )
        await ready.wait()

    async def kill(self) -> None:
        life, self._life = self._life, None
        if life is not None:
            life.cancel()
            await asyncio.wait({life})
            self.api.drop_watches()

    async def end(self) -> None:
        """Stop for good."""
        await self.kill()
        if self._socket is not None:
            self._socket.close()
        self._folder.save(self.member.name, self.api.storage.snapshot())

    async def _keep(self) -> None:
        """Save what changed now and then, so that little is lost if this process is killed."""
        kept = -1
        while True:
            if kept != (kept := self.api.storage.version):
                await self._save()
            await asyncio.sleep(SAVE_INTERVAL.total_seconds())

    async def _save(self) -> None:
        """Save beside all else; one that has begun ends, so that none overtakes a later one."""
        held = self.api.storage.snapshot()
        saving = asyncio.create_task(asyncio.to_thread(self._folder.save, self.member.name, held))
        try:
            await asyncio.shield(saving)
        except asyncio.CancelledError:
            await saving
            raise

    async def _live(self, listener: socket.socket, ready: asyncio.Event) -> None:
        controllers = self._controllers()
        tokens = {self._token: ADMIN}
        async with (
            serve(self._door, listener, tokens, self._tls, _GRACE),
            asyncio.TaskGroup() as group,
        ):
            group.create_task(controllers.run(), name=f"controllers {self.member.name}")
            if self._folder.keep:
                group.create_task(self._keep(), name=f"keep {self.member.name}")
            await asyncio.sleep(0)  # so that they have begun
            await controllers.idle()
            ready.set()

    def _controllers(self) -> Controllers:
        ranges = self.member.ranges
        return Controllers(
            self.api,
            which=ALL if self.member.runs_workloads else BROKER,
            simulation=Simulation(
                nodes=self.member.nodes,
                ranges=NodeRanges(
                    pods=(str(ranges.pods),),
                    internal=str(ranges.nodes),
                    external=str(ranges.outside),
                ),
                load_balancers=(str(ranges.load_balancers),),
            ),
            root_ca=self._authority.certificate.decode(),
        )

    def _bound(self) -> socket.socket:
        try:
            return _listener(self._port)
        except OSError as error:
            raise UpError(
                f"{self.member.name} cannot start: port {self._port}: {error.strerror}; "
                "end the process that holds it"
            ) from None


def _listener(port: int) -> socket.socket:
    """A bound socket; it refuses connections until it is served."""
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((_HOST, port))
    except OSError:
        made.close()
        raise
    return made


class _Door:
    """An API as slow as it was made."""

    def __init__(self, api: ApiServer, tokens: dict[str, User]) -> None:
        self._api = api
        self._tokens = tokens
        self.delay = _NO_DELAY

    async def send(self, request: served.RequestLike, user: User) -> served.Response:
        if self.delay:
            await asyncio.sleep(self.delay.total_seconds())
        return await self._api.send(request, user)

    @asynccontextmanager
    async def stream(
        self, request: served.RequestLike, user: User
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        if self.delay:
            await asyncio.sleep(self.delay.total_seconds())
        async with self._api.stream(request, user) as lines:
            yield lines

    def authenticate(self, token: str) -> User | None:
        return self._tokens.get(token) or self._api.authenticate(token)


class _Way:
    """An agent's way to a cluster of this process, while that one lives."""

    def __init__(self, cluster: EmbeddedCluster) -> None:
        self._cluster = cluster
        self._inside = InProcess(cluster.api)

    async def send(self, request: Request) -> Response:
        await self._arrive()
        return await self._inside.send(request)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        await self._arrive()
        async with self._inside.stream(request) as lines:
            yield lines

    async def close(self) -> None:
        """Nothing is held."""

    async def _arrive(self) -> None:
        if self._cluster.delay:
            await asyncio.sleep(self._cluster.delay.total_seconds())
        if not self._cluster.running:
            raise Unreachable(f"cannot connect to {self._cluster.member.name}: connection refused")
