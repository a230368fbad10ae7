"""Embedded clusters in this process: HTTPS for kubectl, in-process transports for agents."""

import asyncio
import secrets
import socket
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import msgspec

from hanse.kube.certificates import LOOPBACK, CertificateAuthority
from hanse.kube.client_config import ClientConfig, Credentials, Identity, ServerEndpoint
from hanse.kube.clock import Clock, WallClock
from hanse.kube.errors import Unreachable
from hanse.kube.server_tls import server_context
from hanse.kube.transport import Request, Response, Transport
from hanse.local.in_process import InProcessTransport, ServedApi, UrlTransport
from hanse.local.kubeconfig import Context, write_private_file
from hanse.local.up.errors import CorruptSnapshot, NotSaved, UpError
from hanse.local.up.folder import Folder
from hanse.local.up.journal import Journal
from hanse.local.up.topology import LocalMember, Report
from tinykube import request as served
from tinykube.apiserver import ApiServer
from tinykube.controllers.controller_manager import (
    ALL_CONTROLLERS,
    CORE_CONTROLLERS,
    ControllerManager,
    Simulation,
)
from tinykube.controllers.simulated_nodes import NodeRanges
from tinykube.http import serve
from tinykube.serving import bind
from tinykube.storage import Snapshot
from tinykube.users import ADMIN, User
from tinykube.webhook_client import HttpsCaller, WebhookCaller

_HOST = "127.0.0.1"
_GRACE = timedelta(milliseconds=200)
_NO_DELAY = timedelta(0)
SNAPSHOT_INTERVAL = timedelta(seconds=2)
"""How often it is checked whether a snapshot is due."""


@asynccontextmanager
async def embedded_clusters(
    members: Sequence[LocalMember], folder: Folder, report: Report = lambda _: None
) -> AsyncIterator[dict[str, "EmbeddedCluster"]]:
    """Run all members until the block ends; their objects are saved if the folder keeps them.

    Gives the clusters by name, all started. One that fails ends the block, in an ExceptionGroup.
    Raises `NotSaved` at the end if some could not be saved.
    """
    clock, caller = WallClock(), HttpsCaller()
    clusters: dict[str, EmbeddedCluster] = {}
    try:
        async with asyncio.TaskGroup() as group:  # a cluster that fails ends the federation
            try:
                for member in members:
                    clusters[member.name] = EmbeddedCluster(
                        member, folder, clock, group, caller, report
                    )
                for cluster in clusters.values():
                    await cluster.start()
                yield clusters
            finally:
                for cluster in clusters.values():
                    await cluster.shut_down()
                await caller.close()
    finally:
        _require_saved(clusters.values())


def _require_saved(clusters: Iterable["EmbeddedCluster"]) -> None:
    """Raise `NotSaved` with the first `save_error` of the clusters, if one has any."""
    for cluster in clusters:
        if cluster.save_error:
            raise NotSaved(f"{cluster.save_error}; make room, or give another folder with --dir")


class EmbeddedCluster:
    """An API server and its controllers, which start and stop together."""

    def __init__(
        self,
        member: LocalMember,
        folder: Folder,
        clock: Clock,
        group: asyncio.TaskGroup,
        call_webhook: WebhookCaller,
        report: Report,
    ) -> None:
        """Bind the port, create a CA and a token of an administrator; it does not serve yet.

        If the folder keeps objects, the saved ones are loaded, and written anew. Raises
        `CorruptSnapshot` or `NotSaved`.
        """
        self.member = member
        self._journal = folder.journal(member.name)
        self._report = report
        self._group = group
        self._authority = CertificateAuthority.create(f"{member.name}.hanse.local")
        self._token = secrets.token_urlsafe(32)
        self._socket: socket.socket | None = bind(0)
        self._port: int = self._socket.getsockname()[1]
        ranges = member.ranges
        self.api = ApiServer(
            member.name,
            clock=clock,
            service_range=str(ranges.services),
            advertise=str(ranges.api_server),
            port=self._port,
            snapshot=self._journal.load() if self._journal is not None else None,
            call_webhook=call_webhook,
        )
        hosts = (*LOOPBACK, "kubernetes.default.svc", str(ranges.services[1]))
        self._tls = server_context(self._authority.server(member.name, hosts))
        self._delayed_api = _DelayedApi(self.api, {self._token: ADMIN})
        self._task: asyncio.Task[None] | None = None
        if self._journal is not None:
            self.api.storage.subscribe(self._journal.append)
            self._journal.write_snapshot(self._journal.begin_snapshot(self.api.storage))
            _require_saved([self])

    @property
    def save_error(self) -> str:
        """Why the objects are not on disk as they are; empty if they are, or need not be."""
        if self._journal is None or self._journal.error is None:
            return ""
        why = self._journal.error.strerror
        return f"what {self.member.name} holds cannot be saved to {self._journal.file}: {why}"

    @property
    def url(self) -> str:
        """The URL of the API server, on loopback."""
        return f"https://{_HOST}:{self._port}"

    @property
    def context(self) -> Context:
        """The administrator's kubeconfig context."""
        endpoint = ServerEndpoint(self.url, ca=self._authority.certificate)
        return Context(self.member.name, ClientConfig(endpoint, Identity(token=self._token)))

    @property
    def running(self) -> bool:
        """Whether its API server and controllers run."""
        return self._task is not None and not self._task.done()

    @property
    def delay(self) -> timedelta:
        """How long each request is delayed, as set by `slow`."""
        return self._delayed_api.delay

    def connect(self) -> Transport:
        """A transport in this process as administrator; it fails while the cluster is stopped."""
        return _AdministratorTransport(self)

    def dial(self, credentials: Credentials) -> Transport:
        """A transport in this process as the user of a token; URL and CA must be this cluster's."""
        return UrlTransport(credentials, self._find_listener)

    def _find_listener(self, url: str) -> ServedApi | None:
        """This cluster's API if it runs and has this URL; else None."""
        here = self.running and url == self.url
        return ServedApi(self._delayed_api, self._authority.certificate) if here else None

    def slow(self, delay: timedelta) -> None:
        """Delay each later request by this time; zero ends the delay."""
        self._delayed_api.delay = delay

    async def start(self) -> None:
        """Serve on the same port as before; wait until controllers idle. No effect if it runs.

        Raises `UpError` if the port is taken meanwhile.
        """
        if self.running:
            return
        listener, self._socket = self._socket or self._listen_again(), None
        ready = asyncio.Event()
        self._task = self._group.create_task(
            self._run(listener, ready), name=f"cluster {self.member.name}"
        )
        await ready.wait()

    async def kill(self) -> None:
        """Cancel the server, wait for its end and drop watches; the objects stay in memory.

        No effect if it does not run.
        """
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait({task})
            self.api.drop_watches()

    async def save(self, file: Path) -> None:
        """Write all objects, with their versions, to a file; raises `NotSaved`."""
        try:
            write_private_file(file, msgspec.json.encode(self.api.storage.snapshot()))
        except OSError as error:
            raise NotSaved(f"{file} cannot be written: {error.strerror}; make room") from None

    async def restore(self, file: Path, bump_revision: int) -> None:
        """Stop, replace all objects by those of a file, and start.

        New versions begin `bump_revision` after the saved ones. Raises `CorruptSnapshot` for a file
        that cannot be read; the cluster then runs on as it is.
        """
        try:
            read = await asyncio.to_thread(file.read_bytes)
            saved = msgspec.json.decode(read, type=Snapshot)
        except (OSError, msgspec.DecodeError) as error:
            raise CorruptSnapshot(f"{file} cannot be read: {error}; save it again") from None
        await self.kill()
        self.api.storage.restore(saved, bump=bump_revision)
        if self._journal is not None:
            self._journal.write_snapshot(self._journal.begin_snapshot(self.api.storage))
        await self.start()

    async def shut_down(self) -> None:
        """Stop for good, release the port, and save the objects if the folder keeps them.

        If that fails, nothing is raised, and `save_error` says why.
        """
        await self.kill()
        if self._socket is not None:
            self._socket.close()
        if self._journal is not None:
            self._journal.write_snapshot(self._journal.begin_snapshot(self.api.storage))
            self._journal.close()

    async def _write_snapshots(self, journal: Journal) -> None:
        """Write a snapshot whenever one is due; report once when that fails, and when it works.

        It looks every `SNAPSHOT_INTERVAL`, and never returns.
        """
        reported = False
        while True:
            if journal.is_snapshot_due:
                await self._write_snapshot(journal)
            if bool(self.save_error) != reported:
                reported = not reported
                name, lost = self.member.name, "later changes are lost when this process ends"
                self._report(f"{self.save_error}; {lost}" if reported else f"{name} is saved again")
            await asyncio.sleep(SNAPSHOT_INTERVAL.total_seconds())

    async def _write_snapshot(self, journal: Journal) -> None:
        """Write a snapshot in a thread; if this is cancelled it still waits for the thread.

        So no snapshot is written after a later one. A failure becomes the journal's `error`.
        """
        snapshot = journal.begin_snapshot(self.api.storage)
        saving = asyncio.create_task(asyncio.to_thread(journal.write_snapshot, snapshot))
        try:
            await asyncio.shield(saving)
        except asyncio.CancelledError:
            await saving
            raise

    async def _run(self, listener: socket.socket, ready: asyncio.Event) -> None:
        """Serve the API and run the controllers until cancelled; sets `ready` once they idle.

        With a journal it also writes snapshots.
        """
        controllers = self._new_controller_manager()
        tokens = {self._token: ADMIN}
        async with (
            serve(self._delayed_api, listener, tokens, self._tls, _GRACE),
            asyncio.TaskGroup() as group,
        ):
            group.create_task(controllers.run(), name=f"controllers {self.member.name}")
            if self._journal is not None:
                group.create_task(
                    self._write_snapshots(self._journal), name=f"save {self.member.name}"
                )
            await asyncio.sleep(0)  # lets the controllers start
            await controllers.idle()
            ready.set()

    def _new_controller_manager(self) -> ControllerManager:
        """The controllers of the cluster, not running; a broker has only core ones and no nodes.

        Nodes, pods and load balancers are simulated, with addresses of the cluster's ranges.
        """
        ranges = self.member.ranges
        return ControllerManager(
            self.api,
            enabled=ALL_CONTROLLERS if self.member.runs_workloads else CORE_CONTROLLERS,
            simulation=Simulation(
                nodes=self.member.nodes,
                ranges=NodeRanges(
                    pods=(str(ranges.pods),),
                    internal=str(ranges.nodes),
                    external=str(ranges.external),
                ),
                load_balancers=(str(ranges.load_balancers),),
            ),
            root_ca=self._authority.certificate.decode(),
        )

    def _listen_again(self) -> socket.socket:
        """A listener on the old port; raises `UpError` if it is taken."""
        try:
            return bind(self._port)
        except OSError as error:
            raise UpError(
                f"{self.member.name} cannot start: port {self._port}: {error.strerror}; "
                "end the process that holds it"
            ) from None


class _DelayedApi:
    """An API server that answers after the configured delay."""

    def __init__(self, api: ApiServer, tokens: dict[str, User]) -> None:
        self._api = api
        self._tokens = tokens
        self.delay = _NO_DELAY

    async def send(self, request: served.RequestLike, user: User) -> served.Response:
        """Sleep for the delay, then send."""
        if self.delay:
            await asyncio.sleep(self.delay.total_seconds())
        return await self._api.send(request, user)

    @asynccontextmanager
    async def stream(
        self, request: served.RequestLike, user: User
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Sleep for the delay once, then stream; later lines are not delayed."""
        if self.delay:
            await asyncio.sleep(self.delay.total_seconds())
        async with self._api.stream(request, user) as lines:
            yield lines

    def authenticate(self, token: str) -> User | None:
        """The user of one of the given tokens, else as the API server knows it; None if unknown."""
        return self._tokens.get(token) or self._api.authenticate(token)


class _AdministratorTransport:
    """An administrator's transport to a cluster in this process; it fails while that is stopped."""

    def __init__(self, cluster: EmbeddedCluster) -> None:
        self._cluster = cluster
        self._api = InProcessTransport(cluster.api)

    async def send(self, request: Request) -> Response:
        """Simulate the connection (delay, refusal), then send in process.

        Raises `Unreachable` if the simulated connection is refused.
        """
        await self._simulate_connect()
        return await self._api.send(request)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        """Simulate the connection (delay, refusal), then stream in process.

        Raises `Unreachable` if the simulated connection is refused.
        """
        await self._simulate_connect()
        async with self._api.stream(request) as lines:
            yield lines

    async def close(self) -> None:
        """Do nothing: requests to the embedded cluster stay in this process."""

    async def _simulate_connect(self) -> None:
        """Sleep for the delay; raises `Unreachable` if the cluster is down."""
        if self._cluster.delay:
            await asyncio.sleep(self._cluster.delay.total_seconds())
        if not self._cluster.running:
            raise Unreachable(f"cannot connect to {self._cluster.member.name}: connection refused")
