"""The DNS server: supervises worker processes and sends them every change."""

import asyncio
import logging
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import count
from typing import assert_never

from msgspec import Struct
from msgspec.structs import replace

from hanse.dns.compiler import Compiler
from hanse.dns.listeners import Listeners
from hanse.dns.messages import (
    LENGTH_BYTES,
    Barrier,
    BarrierReached,
    ClientViewsDelta,
    Delta,
    DropView,
    ListeningSocket,
    Report,
    SampledQuery,
    StartWorker,
    Stop,
    WorkerStats,
    decode_report,
    encode_frame,
)
from hanse.dns.metrics import DnsMetrics
from hanse.dns.settings import ServerSettings

log = logging.getLogger(__name__)

MAX_BACKLOG = 64 * 1024 * 1024
"""Bytes of unread commands at which a worker is replaced."""
STOP_TIMEOUT = 3.0
RESTART_DELAY = 0.2
"""Seconds between the unexpected exit of a worker and its restart."""


class ServedView(Struct, frozen=True):
    """A view and its listeners, often one for IPv4 and one for IPv6."""

    compiler: Compiler
    listeners: tuple[Listeners, ...]
    by_client: bool = False
    """Whether the address of a client selects its view; this one is for clients that have none."""

    @property
    def view(self) -> str:
        """The name of the view."""
        return self.compiler.view.name


class DnsServer:
    """Workers on the sockets of some views; created by `serving`."""

    def __init__(
        self, served: Sequence[ServedView], settings: ServerSettings, metrics: DnsMetrics
    ) -> None:
        """No worker runs yet; `serving` starts them."""
        self.metrics = metrics
        self._served = {view.view: view for view in served}
        self._client_views: dict[bytes, str] = {}
        self._settings = settings
        self._workers: list[_Worker] = []
        self._barriers = count(1)
        self._group: asyncio.TaskGroup | None = None
        self._changing = asyncio.Lock()

    def update(self, delta: Delta) -> None:
        """Send a change to every worker, without waiting."""
        self._broadcast(delta)

    def add_view(self, compiler: Compiler) -> None:
        """Serve a view without sockets of its own, to clients whose address selects it.

        Every worker gets all its zone data; `set_client_views` says which clients these are.
        """
        self._served[compiler.view.name] = ServedView(compiler, ())
        self._broadcast(compiler.full_delta())

    def drop_view(self, view: str) -> None:
        """Serve a view no longer that was added by `add_view`, and remove its gauge of names.

        Every worker drops its table. Raises KeyError if the view is not served.
        """
        del self._served[view]
        self.metrics.forget_view(view)
        self._broadcast(DropView(view))

    def set_client_views(self, changes: Mapping[bytes, str | None]) -> None:
        """Let packed addresses of clients select other views; None: they select none any more.

        Every worker gets the changes, and so do workers that start later; other addresses stay.
        """
        for address, view in changes.items():
            if view is None:
                self._client_views.pop(address, None)
            else:
                self._client_views[address] = view
        self._broadcast(ClientViewsDelta(tuple(changes.items())))

    def _broadcast(self, command: Delta | DropView | ClientViewsDelta) -> None:
        """Send a command to every worker, without waiting."""
        message = encode_frame(command)
        for worker in self._workers:
            worker.send(message)

    async def wait_applied(self) -> None:
        """Wait until every worker has applied all changes sent so far, or has exited."""
        barrier = next(self._barriers)
        await asyncio.gather(*[worker.wait_for_barrier(barrier) for worker in self._workers])

    async def reload(self, settings: ServerSettings) -> None:
        """Replace the workers by new ones with other settings; no query is lost."""
        async with self._changing:
            self._settings = settings
            await self._replace_workers()

    async def add(self, served: Sequence[ServedView]) -> None:
        """Serve more views, too, by new workers that replace the current ones.

        Returns once they have all zone data and the old ones have exited; no query is lost.
        """
        async with self._changing:
            self._served |= {view.view: view for view in served}
            await self._replace_workers()

    async def _replace_workers(self) -> None:
        """Start new workers, wait until they have all zone data, then stop the old ones."""
        old = list(self._workers)
        await self._start_workers()
        await self.wait_applied()
        self._workers = [worker for worker in self._workers if worker not in old]
        await asyncio.gather(*[worker.stop() for worker in old])

    @property
    def pids(self) -> tuple[int, ...]:
        """The process ids of the current workers."""
        return tuple(worker.pid for worker in self._workers)

    @asynccontextmanager
    async def _run_workers(self, *, wait: bool) -> AsyncIterator[None]:
        """Start all workers, and stop them on exit; a failed task of the group is raised.

        With `wait` they have applied the zone data before the block begins.
        """
        async with asyncio.TaskGroup() as group:
            self._group = group
            await self._start_workers()
            if wait:
                await self.wait_applied()
            try:
                yield
            finally:
                self._group = None
                await asyncio.gather(*[worker.stop() for worker in self._workers])

    async def _start_workers(self) -> None:
        """Launch as many workers as the listener with the fewest UDP sockets has.

        There must be a listener. It does not wait until they answer.
        """
        sockets = [item for served in self._served.values() for item in served.listeners]
        workers = min(len(item.datagrams) for item in sockets)
        for number in range(workers):
            await self._launch(number)

    async def _launch(self, number: int) -> None:
        """Start a worker with the whole zone data of all views, and a task that supervises it.

        If the server ended meanwhile, the worker is stopped again.
        """
        listening = tuple(self._listening(number))
        start = StartWorker(
            listening,
            self._settings.most_connections,
            self._settings.idle_seconds,
            self._settings.log_every,
            self._settings.forward,
        )
        worker = _Worker(number, await _spawn([item.fd for item in listening]), self.metrics)
        if self._group is None:  # the server ended while the process started
            await worker.stop()
            return
        for served in self._served.values():  # from here on it gets every change, like the others
            worker.send(encode_frame(served.compiler.full_delta()), whole=True)
        if self._client_views:
            views = ClientViewsDelta(tuple(self._client_views.items()))
            worker.send(encode_frame(views), whole=True)
        worker.send(encode_frame(start))
        self._workers.append(worker)
        self._group.create_task(self._supervise(worker), name=f"dns worker {number}")

    async def _supervise(self, worker: "_Worker") -> None:
        """Read a worker's reports; if it exits unasked, log, count and restart it after a delay."""
        await worker.read_reports()
        if worker.stopping or worker not in self._workers or self._group is None:
            return
        log.error("dns worker ended unasked", extra={"worker": worker.number, "pid": worker.pid})
        self.metrics.count_restart()
        self._workers.remove(worker)
        await asyncio.sleep(RESTART_DELAY)
        if self._group is not None:
            await self._launch(worker.number)

    def _listening(self, number: int) -> list[ListeningSocket]:
        """The UDP and TCP sockets of a worker, by its number.

        UDP has the configured rate limit, except on loopback; TCP has none.
        """
        found: list[ListeningSocket] = []
        for view, served in self._served.items():
            for listeners in served.listeners:
                limit = 0 if listeners.is_loopback else self._settings.per_second
                udp, tcp = listeners.datagrams[number], listeners.streams[number]
                how = ListeningSocket(view, udp.fileno(), False, limit, served.by_client)
                found += (how, replace(how, fd=tcp.fileno(), stream=True, per_second=0))
        return found


@asynccontextmanager
async def serving(
    served: Sequence[ServedView],
    settings: ServerSettings | None = None,
    metrics: DnsMetrics | None = None,
    *,
    wait: bool = True,
) -> AsyncIterator[DnsServer]:
    """Serve some views until the block ends; the caller closes the sockets.

    The block starts once all workers answer; without `wait`, while they start.
    """
    server = DnsServer(served, settings or ServerSettings(), metrics or DnsMetrics())
    async with server._run_workers(wait=wait):  # noqa: SLF001 - the other half of the server
        yield server


class _Worker:
    """One worker process, as the server sees it."""

    def __init__(
        self, number: int, process: asyncio.subprocess.Process, metrics: DnsMetrics
    ) -> None:
        """Wrap a process that was started with pipes; `number` names it in metrics."""
        self.number = number
        self.pid = process.pid
        self.stopping = False
        self._max_backlog = MAX_BACKLOG
        self._process = process
        self._metrics = metrics
        self._waiting: dict[int, asyncio.Future[None]] = {}

    def send(self, message: bytes, *, whole: bool = False) -> None:
        """Send a command, unless the pipe is closing; a worker too far behind is killed.

        With `whole` the limit grows by the message: else a large zone would kill every worker.
        """
        if whole:
            self._max_backlog += len(message)
        pipe = self._process.stdin
        assert pipe is not None, "workers have a pipe"
        if pipe.is_closing():
            return
        pipe.write(message)
        if pipe.transport.get_write_buffer_size() > self._max_backlog:
            self._process.kill()

    async def wait_for_barrier(self, barrier: int) -> None:
        """Wait until all commands sent so far are applied, or the process has exited.

        It sends the barrier, whose number must be new.
        """
        done = self._waiting.setdefault(barrier, asyncio.get_running_loop().create_future())
        self.send(encode_frame(Barrier(barrier)))
        if self._process.returncode is None:
            await done

    async def read_reports(self) -> None:
        """Handle reports until the process has exited; then all waiting barriers are released."""
        pipe = self._process.stdout
        assert pipe is not None, "workers have a pipe"
        try:
            while True:
                front = await pipe.readexactly(LENGTH_BYTES)
                self._on_report(decode_report(await pipe.readexactly(int.from_bytes(front))))
        except asyncio.IncompleteReadError:
            await self._process.wait()
        finally:
            for done in self._waiting.values():
                if not done.done():
                    done.set_result(None)

    async def stop(self) -> None:
        """Stop gracefully and wait for the exit; kill the process after `STOP_TIMEOUT`."""
        self.stopping = True
        self.send(encode_frame(Stop()))
        try:
            async with asyncio.timeout(STOP_TIMEOUT):
                await self._process.wait()
        except TimeoutError:
            self._process.kill()
            await self._process.wait()

    def _on_report(self, report: Report) -> None:
        """Add statistics to metrics, log a sampled query, or release who waits for a barrier."""
        match report:
            case BarrierReached(number):
                done = self._waiting.pop(number, None)
                if done is not None and not done.done():
                    done.set_result(None)
            case WorkerStats():
                self._metrics.add_stats(self.number, report)
            case SampledQuery(view, client, name, rtype, rcode, size):
                query = {"view": view, "client": client, "question": name}
                log.info("dns query", extra={**query, "type": rtype, "rcode": rcode, "size": size})
            case _:
                assert_never(report)


async def _spawn(fds: Sequence[int]) -> asyncio.subprocess.Process:
    """Start a worker process with pipes for stdin and stdout that inherits the sockets."""
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-P",
        "-m",
        "hanse.dns.worker",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        pass_fds=tuple(fds),
    )
