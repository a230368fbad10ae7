"""The worker process of the server: answers queries on inherited sockets; started as a program.

It blocks only in `poll`. Commands come on standard input, reports go to standard output. It exits
on command, and when its parent has gone.
"""

import errno
import gc
import os
import select
import signal
import socket
import sys
import time
from bisect import bisect_left
from collections.abc import Callable, Mapping
from itertools import count
from random import Random
from typing import assert_never

from hanse.dns.batch import Batch, SocketAddress
from hanse.dns.cname_chains import servfail_response
from hanse.dns.fast_path import GeneralResponder, Sample, respond_to_any, serve_datagrams
from hanse.dns.forwarding import MAX_TCP_IN_FLIGHT, Forwarder, Relay, forwarded_question
from hanse.dns.limits import Limiter
from hanse.dns.messages import (
    LENGTH_BYTES,
    SECONDS,
    Barrier,
    BarrierReached,
    ClientViewsDelta,
    Delta,
    DropView,
    ListeningSocket,
    SampledQuery,
    StartWorker,
    Stop,
    WorkerStats,
    decode_command,
    encode_frame,
)
from hanse.dns.questions import RCODES, MalformedMessage, parse_question
from hanse.dns.streams import StreamResponder, TcpConnection
from hanse.dns.table import Table
from hanse.dns.transfers import StreamReply, respond_by_stream
from hanse.dns.views import ViewTables
from hanse.model.dns.names import name_text
from hanse.model.dns.records import type_mnemonic

COMMANDS, REPORTS = 0, 1
REPORT_INTERVAL = 1.0
"""Seconds between reports, and between checks for idle connections."""
MAX_READ = 64 * 1024
"""Bytes of commands applied, some milliseconds, before queries are served again."""
_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
"""Errors of `accept` that leave the connection waiting: poll reports it again at once."""
DRAIN_TIMEOUT = 1.0
"""Seconds that clients have to read their last responses."""


class LatencyHistogram:
    """Latency of batches; measured once per batch, because reading a clock takes time itself."""

    def __init__(self) -> None:
        self.counts = [0] * (len(SECONDS) + 1)
        self.seconds = 0.0

    def add(self, seconds: float) -> None:
        """Count one batch in its bucket, and add its time to the sum."""
        self.counts[bisect_left(SECONDS, seconds)] += 1
        self.seconds += seconds


class Worker:
    """The state and event loop of one worker process."""

    def __init__(self, orders: int, reports: int, random: Random) -> None:
        """Take commands from the file descriptor `orders`, and write reports to `reports`.

        Nothing is read or served before `run`; `random` sets where rotations begin.
        """
        self._commands = orders
        self._reports = reports
        self._pending = bytearray()
        self._poll = select.epoll()
        self._poll.register(orders, select.EPOLLIN)
        self._settings = StartWorker(())
        self._tables = ViewTables(random)
        self._datagrams: dict[int, Callable[[], None]] = {}
        self._batches: dict[int, Batch] = {}
        self._listeners: dict[int, tuple[socket.socket, ListeningSocket]] = {}
        self._paused: list[socket.socket] = []
        """Listeners that could not accept for want of files to open."""
        self._connections: dict[int, TcpConnection] = {}
        self._limiters: list[Limiter] = []
        self._reported_at = time.monotonic()
        self._stopping = False
        self._dropped = 0
        self._times = LatencyHistogram()
        self._forwarder: Forwarder | None = None
        self._relays: dict[int, Relay] = {}

    def run(self) -> None:
        """Serve until `Stop` or the end of standard input, reporting each second; then drain."""
        while not self._stopping:
            for fd, event in self._poll.poll(REPORT_INTERVAL):
                if fd in self._datagrams:
                    self._datagrams[fd]()
                elif fd in self._connections:
                    self._serve(self._connections[fd], event)
                elif fd in self._listeners:
                    self._accept(*self._listeners[fd])
                elif fd in self._relays:
                    self._advance_relay(fd)
                elif self._forwarder is not None and fd in self._forwarder.sockets:
                    self._forwarder.receive_responses(fd)
                elif fd == self._commands:  # else an earlier event of this poll closed it
                    self._read_commands()
            now = time.monotonic()
            if now - self._reported_at >= REPORT_INTERVAL:
                self._close_idle_and_late(now)
                self._report_stats(now)
        self._drain()

    def _read_commands(self) -> None:
        """Read up to `MAX_READ` bytes, and apply whole commands; end of input stops the worker."""
        data = os.read(self._commands, MAX_READ)
        if not data:
            self._stopping = True
            return
        pending = self._pending
        pending += data
        at = 0
        while len(pending) - at >= LENGTH_BYTES:
            end = at + LENGTH_BYTES + int.from_bytes(pending[at : at + LENGTH_BYTES])
            if len(pending) < end:
                break
            self._apply(bytes(pending[at + LENGTH_BYTES : end]))
            at = end
        del pending[:at]

    def _apply(self, body: bytes) -> None:
        """Apply one command: begin to listen, change or drop a table, set client views, or stop.

        A barrier is reported at once, as all earlier commands are applied.
        """
        command = decode_command(body)
        match command:
            case StartWorker():
                self._settings = command
                self._start_forwarder(command)
                for listening in command.listening:
                    self._listen(listening)
            case Delta(view):
                self._tables.get_or_create(view).apply(command)
            case DropView(view):
                self._tables.drop(view)
            case ClientViewsDelta(changes):
                self._tables.set_client_views(changes)
            case Barrier(number):
                self._report(BarrierReached(number))
            case Stop():
                self._stopping = True
            case _:
                assert_never(command)

    def _start_forwarder(self, command: StartWorker) -> None:
        """Create the forwarder and poll its sockets, if the command has forwarding servers."""
        if command.forward:
            self._forwarder = Forwarder(command.forward, time.monotonic)
            for fd in self._forwarder.sockets:
                self._poll.register(fd, select.EPOLLIN)

    def _listen(self, listening: ListeningSocket) -> None:
        """Poll an inherited socket, to serve its view: TCP connections, or batches of datagrams.

        UDP sockets get a rate limiter if a limit is set.
        """
        sock = socket.socket(fileno=listening.fd)
        sock.setblocking(False)
        if listening.stream:
            self._listeners[listening.fd] = (sock, listening)
        else:
            limiter = None
            if listening.per_second:
                limiter = Limiter(listening.per_second, time.monotonic)
                self._limiters.append(limiter)
            table = self._tables.get_or_create(listening.view)
            by_client = self._tables.tables_by_client(listening)
            every = self._settings.log_every
            sample = self._sampler(table, by_client, every) if every else None
            batch = self._batch(sock.family)
            times, clock = self._times, time.perf_counter
            fallback = self._responder(sock)

            def serve() -> None:
                """Answer one batch of the waiting datagrams, and record how long that takes."""
                began = clock()
                serve_datagrams(sock, batch, table, limiter, sample, fallback, by_client)
                times.add(clock() - began)

            self._datagrams[listening.fd] = serve
        self._poll.register(listening.fd, select.EPOLLIN)

    def _responder(self, sock: socket.socket) -> GeneralResponder:
        """A callback that responds to datagrams of a socket that have no prepared response.

        It responds from the table; queries for other zones go to upstreams, if there are any.
        """
        forwarder = self._forwarder
        if forwarder is None:
            return respond_to_any

        def fallback(packet: bytes, table: Table, client: SocketAddress) -> bytes | None:
            """Forward a query and return None, or else answer it from the table."""
            if forwarder.forward(packet, table, sock, client):
                return None
            return respond_to_any(packet, table, client)

        return fallback

    def _batch(self, family: int) -> Batch:
        """The buffer of an address family, shared by all sockets, which are served one by one."""
        if family not in self._batches:
            self._batches[family] = Batch(family)
        return self._batches[family]

    def _sampler(self, table: Table, by_client: Mapping[bytes, Table] | None, every: int) -> Sample:
        """A callback that reports one query of `every` to the server, which logs it."""
        numbers = count(1)

        def sample(batch: Batch, slot: int, answer: bytes) -> None:
            """Report every nth answered query; malformed ones are left out."""
            if next(numbers) % every:
                return
            try:
                question = parse_question(batch.packet(slot))
            except (MalformedMessage, IndexError):
                return
            rcode, client = RCODES.get(answer[1] & 0xF, ""), batch.client(slot)[0]
            name, rtype = name_text(question.name), type_mnemonic(question.type)
            own = table if by_client is None else by_client.get(batch.address(slot), table)
            self._report(SampledQuery(own.view, client, name, rtype, rcode, 2 + len(answer)))

        return sample

    def _accept(self, listener: socket.socket, listening: ListeningSocket) -> None:
        """Accept a connection; over the limit the longest idle one is closed.

        It is closed, too, if no more files can be opened; with none to close the listener is paused
        until the next report.
        """
        try:
            sock, client = listener.accept()
        except OSError as error:
            if error.errno in _EXHAUSTED and self._connections:
                self._close_longest_idle()
            elif error.errno in _EXHAUSTED:
                self._poll.modify(listener.fileno(), 0)
                self._paused.append(listener)
            return  # else it was closed again, or another worker accepted it
        if len(self._connections) >= self._settings.most_connections:
            self._close_longest_idle()
        sock.setblocking(False)
        connection = TcpConnection(sock, listening, time.monotonic(), client[0])
        self._connections[sock.fileno()] = connection
        self._poll.register(sock.fileno(), select.EPOLLIN)

    def _serve(self, connection: TcpConnection, event: int) -> None:
        """Write, or read unless it is backlogged, as poll reported.

        Close it if reset or finished.
        """
        if event & (select.EPOLLHUP | select.EPOLLERR):
            self._close_connection(connection)
            return
        table = self._tables.for_client(connection.listening, connection.client)
        if event & select.EPOLLOUT:
            connection.write(time.monotonic())
        if event & select.EPOLLIN and not connection.is_backlogged:
            connection.read(self._stream_responder(connection, table), time.monotonic())
        self._poll_or_close(connection)

    def _poll_or_close(self, connection: TcpConnection) -> None:
        """Poll for what the connection can do next; close it if it is finished."""
        if connection.is_finished:
            self._close_connection(connection)
            return
        events = 0 if connection.is_backlogged or connection.ended else select.EPOLLIN
        events |= select.EPOLLOUT if connection.has_pending else 0
        self._poll.modify(connection.sock.fileno(), events)

    def _stream_responder(self, connection: TcpConnection, table: Table) -> StreamResponder:
        """A callback that responds to the queries of a TCP connection, or forwards them."""
        forwarder, client = self._forwarder, connection.client

        def answer(packet: bytes) -> StreamReply:
            """Answer a TCP query from the table, or forward it by a relay that answers later.

            Empty while a relay is open; SERVFAIL if there are too many relays or open files.
            """
            question = forwarded_question(packet, table) if forwarder is not None else None
            if forwarder is None or question is None:
                return respond_by_stream(packet, table, client)
            if len(self._relays) >= MAX_TCP_IN_FLIGHT:
                return servfail_response(packet)
            try:
                relay = forwarder.relay(
                    question, lambda response: self._send_delayed(connection, response)
                )
            except OSError:  # the limit of open files is reached
                return servfail_response(packet)
            self._register_relay(relay)
            return b""

        return answer

    def _register_relay(self, relay: Relay) -> None:
        """Keep a relay by its file descriptor, and poll its socket for writing."""
        self._relays[relay.sock.fileno()] = relay
        self._poll.register(relay.sock.fileno(), select.EPOLLOUT)

    def _send_delayed(self, connection: TcpConnection, response: bytes) -> None:
        """Send a forwarded response, if the client is still connected."""
        if self._connections.get(connection.sock.fileno()) is connection:
            connection.send(response, time.monotonic())
            self._poll_or_close(connection)

    def _advance_relay(self, fd: int) -> None:
        """Send or read as much of a TCP relay as is possible now; close it when it is done."""
        relay = self._relays[fd]
        if relay.advance():
            self._close_relay(relay)
        elif not relay.has_pending:
            self._poll.modify(fd, select.EPOLLIN)

    def _close_relay(self, relay: Relay) -> None:
        """Stop polling a relay's socket, forget the relay, and close the socket."""
        fd = relay.sock.fileno()
        self._poll.unregister(fd)
        del self._relays[fd]
        relay.sock.close()

    def _close_connection(self, connection: TcpConnection) -> None:
        """Stop polling a TCP connection, forget it, and close it."""
        fd = connection.sock.fileno()
        self._poll.unregister(fd)
        del self._connections[fd]
        connection.close()

    def _close_longest_idle(self) -> None:
        """Close the TCP connection whose last activity is the oldest; there must be one."""
        self._close_connection(min(self._connections.values(), key=lambda c: c.active))

    def _close_idle_and_late(self, now: float) -> None:
        """Close connections idle for longer than the settings say, and let paused listeners accept.

        Relays past their deadline are closed with SERVFAIL to their clients.
        """
        while self._paused:
            self._poll.modify(self._paused.pop().fileno(), select.EPOLLIN)
        idle = now - self._settings.idle_seconds
        for connection in [c for c in self._connections.values() if c.active < idle]:
            self._close_connection(connection)
        for relay in [r for r in self._relays.values() if r.deadline < now]:
            relay.fail()
            self._close_relay(relay)

    def _report_stats(self, now: float) -> None:
        """Report the counters since the last report, and reset them.

        Also the current number of names of each view, and of open TCP connections.
        """
        self._reported_at = now
        counts = self._tables.take_counts()
        dropped = sum(limiter.dropped for limiter in self._limiters)
        limited, self._dropped = dropped - self._dropped, dropped
        names = {view: len(table.names) for view, table in self._tables.by_view.items()}
        times, self._times.counts[:] = tuple(self._times.counts), [0] * (len(SECONDS) + 1)
        seconds, self._times.seconds = self._times.seconds, 0.0
        open_now = len(self._connections)
        self._report(WorkerStats(counts, names, limited, open_now, times, seconds))

    def _report(self, report: BarrierReached | WorkerStats | SampledQuery) -> None:
        """Send a report; if the parent has died (closed pipe), stop the worker."""
        try:
            os.write(self._reports, encode_frame(report))
        except BrokenPipeError:
            self._stopping = True

    def _drain(self) -> None:
        """Answer one batch of waiting datagrams per socket, report, and send pending TCP data.

        The last until a timeout; further datagrams and forwarded queries get no answer.
        """
        for serve in self._datagrams.values():
            serve()
        self._report_stats(time.monotonic())
        end = time.monotonic() + DRAIN_TIMEOUT
        waiting = [c for c in self._connections.values() if c.has_pending]
        while waiting and time.monotonic() < end:
            select.select([], [c.sock for c in waiting], [], 0.1)
            for connection in waiting:
                connection.write(time.monotonic())
            waiting = [c for c in waiting if c.has_pending]


def main() -> None:
    """Run as a worker of the parent: ignore SIGINT, exit on SIGTERM, disable the GC."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # meant for the parent, which sends `Stop`
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    gc.disable()  # nothing here makes reference cycles, and a collection delays queries
    Worker(COMMANDS, REPORTS, Random()).run()  # noqa: S311 - only where rotations begin


if __name__ == "__main__":
    main()
