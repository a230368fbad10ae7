"""Probes a target over sockets: by a connection, or by a request that must succeed.

Probes without TLS are plain sockets with callbacks, since there may be a thousand a second; HTTPS
connections are kept alive, since handshakes are expensive.
"""

import asyncio
import socket
import ssl
from collections.abc import Callable
from datetime import timedelta
from errno import (
    EADDRNOTAVAIL,
    EAGAIN,
    EHOSTUNREACH,
    EINPROGRESS,
    EMFILE,
    ENETDOWN,
    ENETUNREACH,
    ENFILE,
    ENOBUFS,
    ENOMEM,
    ETIMEDOUT,
)
from os import strerror
from typing import cast

from hanse.model.probes import NO_DETAILS, ProbeTarget
from hanse.providers.probe_messages import CLOSED, MAX_RESPONSE, answer_failure, request_bytes

MAX_KEPT_ALIVE = 2_000
"""HTTPS connections that are kept alive at most."""
KEPT_FOR = timedelta(minutes=2)
"""How long an HTTPS connection is kept without a probe, as its target may not be probed again."""
LOCAL_SHORTAGE = frozenset({EMFILE, ENFILE, ENOBUFS, ENOMEM, EAGAIN, EADDRNOTAVAIL})
"""Errors of this machine: a probe that could not be sent does not count."""

NO_ANSWER = "no answer in time"
UNREACHED = frozenset({NO_ANSWER, *map(strerror, (EHOSTUNREACH, ENETDOWN, ENETUNREACH, ETIMEDOUT))})
"""Failures without an answer of the target: the fault may be anywhere, also here."""

_OVER_TLS = frozenset({"TLS", "HTTPS", "GRPCS"})

Done = Callable[[str], None]
"""Called with the failure of a probe, or with an empty string."""


OpenSocket = Callable[[int, int], socket.socket]
"""Opens a socket of a family and a type, maybe in another network than this process is in."""


class SocketProbe:
    """Probes targets; `close` closes the connections that are kept alive."""

    def __init__(self, open_socket: OpenSocket = socket.socket) -> None:
        """No connection is open yet; `open_socket` makes the sockets of probes."""
        self._open_socket = open_socket
        self._kept_alive: dict[ProbeTarget, _KeptConnection] = {}
        self._opening: set[asyncio.Task[None]] = set()
        self._tls = _unverified_context()
        self._tls_http2 = _unverified_context()
        self._tls_http2.set_alpn_protocols(["h2"])

    def __call__(self, target: ProbeTarget, timeout: float, done: Done, /) -> None:
        """Start a probe without waiting; `done` gets the failure, or "", maybe before this returns.

        It is never called if this host lacks resources (LOCAL_SHORTAGE).
        """
        if target.type in _OVER_TLS:
            self._probe_over_tls(target, timeout, done)
            return
        try:
            _OneShotProbe(target, self._socket_to(target), timeout, done).start()
        except OSError as error:
            if error.errno not in LOCAL_SHORTAGE:
                done(_error_text(error))

    async def close(self) -> None:
        """Close the connections that are kept alive, and cancel those that are being opened.

        Probes without TLS go on until they end.
        """
        for connection in list(self._kept_alive.values()):
            connection.close()
        self._kept_alive.clear()
        for task in list(self._opening):
            task.cancel()
        await asyncio.gather(*self._opening, return_exceptions=True)
        await asyncio.sleep(0)  # lets the transports close

    def _socket_to(self, target: ProbeTarget) -> socket.socket:
        """A new non-blocking socket of the target's address family, UDP or TCP; not connected."""
        family = socket.AF_INET6 if ":" in target.address else socket.AF_INET
        by_udp = target.type == "UDP"
        opened = self._open_socket(family, socket.SOCK_DGRAM if by_udp else socket.SOCK_STREAM)
        opened.setblocking(False)
        return opened

    def _probe_over_tls(self, target: ProbeTarget, timeout: float, done: Done) -> None:
        """Probe over the kept connection if it is usable.

        Else open a new one in a task of its own, for this probe alone if the kept one is in use.
        """
        connection = self._kept_alive.get(target)
        if connection is not None and connection.usable:
            connection.probe(timeout, done)
            return
        task = asyncio.get_running_loop().create_task(
            self._open_connection(target, timeout, done), name=f"probe {target}"
        )
        self._opening.add(task)
        task.add_done_callback(self._opening.discard)

    async def _open_connection(self, target: ProbeTarget, within: float, done: Done) -> None:
        """Connect with TLS and probe; a TLS probe ends with the handshake.

        Keeps up to MAX_KEPT_ALIVE connections of HTTPS probes but GET. `done` gets a failure to
        connect, but is not called at all if this host lacks resources.
        """
        loop, details = asyncio.get_running_loop(), target.details or NO_DETAILS
        try:
            async with asyncio.timeout(within):
                connected = await self._connect(target)
                _, connection = await loop.create_connection(
                    lambda: _KeptConnection(target, self._on_closed),
                    sock=connected,
                    ssl=self._tls_http2 if target.type == "GRPCS" else self._tls,
                    server_hostname=details.server_name or target.host or target.address,
                )
        except TimeoutError:
            done(NO_ANSWER)
            return
        except (OSError, ssl.SSLError, ValueError) as error:
            if getattr(error, "errno", None) not in LOCAL_SHORTAGE:
                done(_error_text(error))
            return
        if target.type == "TLS":
            connection.close()
            done("")
            return
        keeps = (
            target.type == "HTTPS"
            and details.method != "GET"  # whose body would follow
            and target not in self._kept_alive
            and len(self._kept_alive) < MAX_KEPT_ALIVE
        )
        if keeps:
            self._kept_alive[target] = connection
        connection.probe(within, done, close=not keeps)

    def _on_closed(self, connection: "_KeptConnection") -> None:
        """Forget a connection that is closed, if it was kept."""
        if self._kept_alive.get(connection.target) is connection:
            del self._kept_alive[connection.target]

    async def _connect(self, target: ProbeTarget) -> socket.socket:
        """A socket that is connected to a target; closed again if that fails."""
        opened = self._socket_to(target)
        try:
            address = (target.address, target.port)
            await asyncio.get_running_loop().sock_connect(opened, address)
        except BaseException:
            opened.close()
            raise
        return opened


class _OneShotProbe:
    """One connection or datagram and, if any, one request, in callbacks of the loop."""

    def __init__(
        self, target: ProbeTarget, opened: socket.socket, timeout: float, done: Done
    ) -> None:
        """Start the timer, not yet the probe: `done` gets NO_ANSWER if the timeout passes."""
        self._target = target
        self._sock = opened
        self._done = done
        self._loop = asyncio.get_running_loop()
        self._response = b""
        self._ended = False
        self._timer = self._loop.call_later(timeout, self._finish, NO_ANSWER)

    def start(self) -> None:
        """Start to connect without waiting; an error at once is the result of the probe.

        If this host lacks resources (LOCAL_SHORTAGE), close without any result.
        """
        code = self._sock.connect_ex((self._target.address, self._target.port))
        if code in LOCAL_SHORTAGE:
            self._close()
            return
        if code not in (0, EINPROGRESS):
            self._finish(strerror(code))
            return
        self._loop.add_writer(self._sock, self._on_connected)

    def _on_connected(self) -> None:
        """Finish with the connect error, or with success for a TCP probe; else send the request."""
        self._loop.remove_writer(self._sock)
        code = self._sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            self._finish(strerror(code))
        elif self._target.type == "TCP":
            self._finish("")
        else:
            self._send_request()

    def _send_request(self) -> None:
        """Send the request and wait for its response; a failure to send ends the probe."""
        try:
            self._sock.send(request_bytes(self._target))
        except OSError as error:
            self._finish(_error_text(error))
            return
        self._loop.add_reader(self._sock, self._read_response)

    def _read_response(self) -> None:
        """Read what arrived, and finish once it can be judged; a failure to read is the result."""
        try:
            data = self._sock.recv(MAX_RESPONSE)
        except BlockingIOError:
            return
        except OSError as error:
            self._finish(_error_text(error))
            return
        self._response += data
        failure = answer_failure(self._target, self._response, ended=not data)
        if failure is not None:
            self._finish(failure)

    def _finish(self, failure: str) -> None:
        """Close the socket and report the result (empty: success), once."""
        if not self._ended:
            self._close()
            self._done(failure)

    def _close(self) -> None:
        """Cancel the timer, stop reading and writing, close the socket; reports no result."""
        self._ended = True
        self._timer.cancel()
        self._loop.remove_writer(self._sock)
        self._loop.remove_reader(self._sock)
        self._sock.close()


class _KeptConnection(asyncio.Protocol):
    """A connection with TLS, which may be kept alive between probes."""

    def __init__(self, target: ProbeTarget, on_closed: "Callable[[_KeptConnection], None]") -> None:
        """A connection to a target that later probes may use again; it is not open yet.

        `on_closed` is called once it is closed.
        """
        self.target = target
        self._on_closed = on_closed
        self._transport: asyncio.Transport | None = None
        self._done: Done | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._response = b""
        self._close = False

    @property
    def usable(self) -> bool:
        """Whether it is connected and no probe is in progress on it."""
        return self._transport is not None and not self._transport.is_closing() and not self._done

    def probe(self, timeout: float, done: Done, *, close: bool = False) -> None:
        """Send a request and give its failure to `done` ("" if none); a timeout closes it.

        With `close` the connection is closed after this probe.
        """
        assert self._transport is not None, "it is connected"
        self._done, self._response, self._close = done, b"", close
        loop = asyncio.get_running_loop()
        if self._timer is not None:
            self._timer.cancel()
        self._timer = loop.call_later(timeout, self._finish, NO_ANSWER, True)
        self._transport.write(request_bytes(self.target, keep=not close))

    def close(self) -> None:
        """Abort the connection at once, if it was opened."""
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport: from now on the connection is usable."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is no subclass

    def data_received(self, data: bytes) -> None:
        """Finish the probe once the answer is complete, by HTTP its head, or too long.

        Closes the connection after gRPC, if the server says so, if the answer is too long, and if
        the server sends anything without a probe.
        """
        if self._done is None:
            self.close()
            return
        self._response += data
        if self.target.type == "GRPCS":
            failure = answer_failure(self.target, self._response, ended=False)
            if failure is not None:
                self._finish(failure, True)
            return
        head, end, _ = self._response.partition(b"\r\n\r\n")
        if end or len(self._response) >= MAX_RESPONSE:
            last = b"connection: close" in head.lower() or len(self._response) >= MAX_RESPONSE
            failure = answer_failure(self.target, self._response, ended=True) or ""
            self._finish(failure, last)

    def connection_lost(self, exc: Exception | None) -> None:
        """Call `on_closed`, and report the error as the failure of the probe in progress, if any.

        Without an error the failure is CLOSED.
        """
        self._on_closed(self)
        self._finish(_error_text(exc) if exc is not None else CLOSED, True)

    def _finish(self, failure: str, close: bool) -> None:
        """End the probe: close the connection if asked here or by `probe`, and report once.

        A connection that stays open is closed after KEPT_FOR, unless it is used again.
        """
        done, self._done = self._done, None
        if self._timer is not None:
            self._timer.cancel()
        if close or self._close:
            self.close()
        else:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(KEPT_FOR.total_seconds(), self.close)
        if done is not None:
            done(failure)


def _error_text(error: BaseException) -> str:
    """The system's text of an OSError, else the error's own or the name of its type."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__


def _unverified_context() -> ssl.SSLContext:
    """A TLS context of a client that verifies nothing.

    A probe checks that a target answers, not who it is.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
