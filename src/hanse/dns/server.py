"""The server as its owner sees it: worker processes, kept alive and told of every change."""

import asyncio
import logging
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import count
from typing import assert_never

from msgspec import Struct

from hanse.dns.compiler import Compiler
from hanse.dns.listeners import Listeners
from hanse.dns.messages import (
    LENGTH_BYTES,
    Barrier,
    BarrierReached,
    Delta,
    ListeningSocket,
    Report,
    SampledQuery,
    Start,
    Stop,
    WorkerStats,
    decode_report,
    encode_frame,
)
from hanse.dns.metrics import Metrics

log = logging.getLogger(__name__)

LONGEST_BACKLOG = 64 * 1024 * 1024
"""Bytes of changes that a worker may be behind before it is replaced."""
FAREWELL = 3.0
BREATH = 0.2
"""Seconds between the end of a worker that nobody stopped and the start of the next."""


class ServerSettings(Struct, frozen=True):
    """How a server works."""

    per_second: int = 20_000
    """Answers per second to one network, except on loopback; 0: no limit."""
    most_connections: int = 256
    idle_seconds: float = 10.0
    log_every: int = 0
    """One question in so many is logged; 0: none is."""
    forward: tuple[tuple[str, int], ...] = ()
    """Name servers that are asked about other zones; none: those are refused."""


class ServedView(Struct, frozen=True):
    """A view's names, and where they are asked for: often by IPv4 and by IPv6."""

    compiler: Compiler
    listeners: tuple[Listeners, ...]

    @property
    def view(self) -> str:
        return self.compiler.view.name


class DnsServer:
    """Workers on the sockets of some views. Made by `serving`."""

    def __init__(
        self, served: Sequence[ServedView], settings: ServerSettings, metrics: Metrics
    ) -> None:
        self.metrics = metrics
        self._served = {one.view: one for one in served}
        self._settings = settings
        self._workers: list[_Worker] = []
        self._marks = count(1)
        self._group: asyncio.TaskGroup | None = None
        self._changing = asyncio.Lock()

    def update(self, delta: Delta) -> None:
        """Tell every worker of a change; none of them is waited for."""
        message = encode_frame(delta)
        for worker in self._workers:
            worker.tell(message)

    async def wait_applied(self) -> None:
        """Wait until every worker has taken in all changes told so far."""
        mark = next(self._marks)
        await asyncio.gather(*[worker.reach(mark) for worker in self._workers])

    async def reload(self, settings: ServerSettings) -> None:
        """Go on with other settings: new workers take over, and no question is lost."""
        async with self._changing:
            self._settings = settings
            await self._renew()

    async def add(self, served: Sequence[ServedView]) -> None:
        """Answer for more views, by workers that take over as after a reload."""
        async with self._changing:
            self._served |= {one.view: one for one in served}
            await self._renew()

    async def _renew(self) -> None:
        old = list(self._workers)
        await self._start()
        self._workers = [worker for worker in self._workers if worker not in old]
        await asyncio.gather(*[worker.stop() for worker in old])

    @property
    def pids(self) -> tuple[int, ...]:
        """The processes of the workers that run now."""
        return tuple(worker.pid for worker in self._workers)

    @asynccontextmanager
    async def _running(self) -> AsyncIterator[None]:
        async with asyncio.TaskGroup() as group:
            self._group = group
            await self._start()
            try:
                yield
            finally:
                self._group = None
                await asyncio.gather(*[worker.stop() for worker in self._workers])

    async def _start(self) -> None:
        sockets = [one for served in self._served.values() for one in served.listeners]
        each = min(len(one.datagrams) for one in sockets)
        for number in range(each):
            await self._launch(number)
        await self.wait_applied()

    async def _launch(self, number: int) -> None:
        assert self._group is not None, "workers live while the server runs"
        listening = tuple(self._listening(number))
        start = Start(
            listening,
            self._settings.most_connections,
            self._settings.idle_seconds,
            self._settings.log_every,
            self._settings.forward,
        )
        worker = _Worker(number, await _spawn([one.fd for one in listening]), self.metrics)
        for served in self._served.values():  # from here on it hears every change, like the others
            worker.tell(encode_frame(served.compiler.full_delta()))
        worker.tell(encode_frame(start))
        self._workers.append(worker)
        self._group.create_task(self._look_after(worker), name=f"dns worker {number}")

    async def _look_after(self, worker: "_Worker") -> None:
        await worker.listen()
        if worker.stopping or self._group is None:
            return
        log.error("dns worker ended unasked", extra={"worker": worker.number, "pid": worker.pid})
        self.metrics.restarted()
        self._workers.remove(worker)
        await asyncio.sleep(BREATH)
        if self._group is not None:
            await self._launch(worker.number)

    def _listening(self, number: int) -> list[ListeningSocket]:
        found: list[ListeningSocket] = []
        for view, served in self._served.items():
            for listeners in served.listeners:
                limit = 0 if listeners.is_loopback else self._settings.per_second
                udp, tcp = listeners.datagrams[number], listeners.streams[number]
                found.append(ListeningSocket(view, udp.fileno(), stream=False, per_second=limit))
                found.append(ListeningSocket(view, tcp.fileno(), stream=True))
        return found


@asynccontextmanager
async def serving(
    served: Sequence[ServedView],
    settings: ServerSettings | None = None,
    metrics: Metrics | None = None,
) -> AsyncIterator[DnsServer]:
    """Answer on the sockets of some views until the block ends; sockets stay their owner's."""
    server = DnsServer(served, settings or ServerSettings(), metrics or Metrics())
    async with server._running():  # noqa: SLF001 - the other half of the server
        yield server


class _Worker:
    """One process, as seen from outside."""

    def __init__(self, number: int, process: asyncio.subprocess.Process, metrics: Metrics) -> None:
        self.number = number
        self.pid = process.pid
        self.stopping = False
        self._process = process
        self._metrics = metrics
        self._waiting: dict[int, asyncio.Future[None]] = {}

    def tell(self, message: bytes) -> None:
        """Send an order; a worker that is too far behind is ended, and begun anew."""
        pipe = self._process.stdin
        assert pipe is not None, "workers have a pipe"
        if pipe.is_closing():
            return
        pipe.write(message)
        if pipe.transport.get_write_buffer_size() > LONGEST_BACKLOG:
            self._process.kill()

    async def reach(self, mark: int) -> None:
        """Wait until everything told so far is done, or the process has ended."""
        done = self._waiting.setdefault(mark, asyncio.get_running_loop().create_future())
        self.tell(encode_frame(Barrier(mark)))
        if self._process.returncode is None:
            await done

    async def listen(self) -> None:
        """Take in reports until the process has ended."""
        pipe = self._process.stdout
        assert pipe is not None, "workers have a pipe"
        try:
            while True:
                front = await pipe.readexactly(LENGTH_BYTES)
                self._heard(decode_report(await pipe.readexactly(int.from_bytes(front))))
        except asyncio.IncompleteReadError:
            await self._process.wait()
        finally:
            for done in self._waiting.values():
                if not done.done():
                    done.set_result(None)

    async def stop(self) -> None:
        """Let it answer what has come in, then end; what does not end in time is killed."""
        self.stopping = True
        self.tell(encode_frame(Stop()))
        try:
            async with asyncio.timeout(FAREWELL):
                await self._process.wait()
        except TimeoutError:
            self._process.kill()
            await self._process.wait()

    def _heard(self, report: Report) -> None:
        match report:
            case BarrierReached(number):
                done = self._waiting.pop(number, None)
                if done is not None and not done.done():
                    done.set_result(None)
            case WorkerStats():
                self._metrics.counted(self.number, report)
            case SampledQuery(view, client, name, rtype, rcode, size):
                told = {"view": view, "client": client, "question": name}
                log.info("dns query", extra={**told, "type": rtype, "rcode": rcode, "size": size})
            case _:
                assert_never(report)


async def _spawn(fds: Sequence[int]) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-P",
        "-m",
        "hanse.dns.worker",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        pass_fds=tuple(fds),
    )
