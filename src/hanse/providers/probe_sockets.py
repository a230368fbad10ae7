"""Probes a target over sockets: by a TCP connection, or by a HEAD request that must succeed.

TCP and HTTP probes are plain sockets with callbacks, since there may be a thousand a second; HTTPS
connections are kept alive, since handshakes are expensive.
"""

import asyncio
import socket
import ssl
from collections.abc import Callable
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

from hanse.model.probes import ProbeTarget

MAX_RESPONSE = 4096
"""Bytes of a response that are read."""
MAX_KEPT_ALIVE = 2_000
"""HTTPS connections that are kept alive at most."""
LOCAL_SHORTAGE = frozenset({EMFILE, ENFILE, ENOBUFS, ENOMEM, EAGAIN, EADDRNOTAVAIL})
"""Errors of this machine: a probe that could not be sent does not count."""

NO_ANSWER = "no answer in time"
UNREACHED = frozenset({NO_ANSWER, *map(strerror, (EHOSTUNREACH, ENETDOWN, ENETUNREACH, ETIMEDOUT))})
"""Failures without an answer of the target: the fault may be anywhere, also here."""

Done = Callable[[str], None]
"""Called with the failure of a probe, or with an empty string."""


class SocketProbe:
    """Probes targets; `close` closes the connections that are kept alive."""

    def __init__(self) -> None:
        self._kept_alive: dict[ProbeTarget, _KeptConnection] = {}
        self._opening: set[asyncio.Task[None]] = set()
        self._tls = _unverified_context()

    def __call__(self, target: ProbeTarget, timeout: float, done: Done, /) -> None:
        if target.type == "HTTPS":
            self._probe_https(target, timeout, done)
            return
        try:
            _OneShotProbe(target, timeout, done).start()
        except OSError as error:
            if error.errno not in LOCAL_SHORTAGE:
                raise

    async def close(self) -> None:
        """Close every connection."""
        for connection in list(self._kept_alive.values()):
            connection.close()
        self._kept_alive.clear()
        for task in list(self._opening):
            task.cancel()
        await asyncio.gather(*self._opening, return_exceptions=True)
        await asyncio.sleep(0)  # lets the transports close

    def _probe_https(self, target: ProbeTarget, timeout: float, done: Done) -> None:
        """Probe over the kept connection if it is usable.

        Else open a new one in a task of its own.
        """
        connection = self._kept_alive.get(target)
        if connection is not None and connection.usable:
            connection.probe(timeout, done)
            return
        self._kept_alive.pop(target, None)
        task = asyncio.get_running_loop().create_task(
            self._open_connection(target, timeout, done), name=f"probe {target}"
        )
        self._opening.add(task)
        task.add_done_callback(self._opening.discard)

    async def _open_connection(self, target: ProbeTarget, within: float, done: Done) -> None:
        """Connect with TLS and probe; keeps the connection if fewer than MAX_KEPT_ALIVE are kept.

        `done` gets a failure to connect, but is not called at all if this host lacks resources.
        """
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(within):
                _, connection = await loop.create_connection(
                    lambda: _KeptConnection(target),
                    target.address,
                    target.port,
                    ssl=self._tls,
                    server_hostname=target.host or target.address,
                )
        except TimeoutError:
            done(NO_ANSWER)
            return
        except (OSError, ssl.SSLError, ValueError) as error:
            if getattr(error, "errno", None) not in LOCAL_SHORTAGE:
                done(_error_text(error))
            return
        if len(self._kept_alive) < MAX_KEPT_ALIVE:
            self._kept_alive[target] = connection
        connection.probe(within, done, close=target not in self._kept_alive)


class _OneShotProbe:
    """One connection and, for HTTP, one request, in callbacks of the loop."""

    def __init__(self, target: ProbeTarget, timeout: float, done: Done) -> None:
        self._target = target
        self._done = done
        self._loop = asyncio.get_running_loop()
        family = socket.AF_INET6 if ":" in target.address else socket.AF_INET
        self._sock = socket.socket(family, socket.SOCK_STREAM)
        self._sock.setblocking(False)
        self._response = b""
        self._ended = False
        self._timer = self._loop.call_later(timeout, self._finish, NO_ANSWER)

    def start(self) -> None:
        """Start to connect without waiting.

        If this host lacks resources, close without any result.
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
        """Finish with the connect error, or with success for a TCP probe.

        Else send the HTTP request.
        """
        self._loop.remove_writer(self._sock)
        code = self._sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            self._finish(strerror(code))
        elif self._target.type == "TCP":
            self._finish("")
        else:
            self._send_request()

    def _send_request(self) -> None:
        """Send the HEAD request and wait for its response; a failure to send ends the probe."""
        try:
            self._sock.send(head_request(self._target, keep=False))
        except OSError as error:
            self._finish(_error_text(error))
            return
        self._loop.add_reader(self._sock, self._read_response)

    def _read_response(self) -> None:
        """Read what arrived.

        Finish at the first full line, at the end of data or at MAX_RESPONSE.
        """
        try:
            data = self._sock.recv(MAX_RESPONSE)
        except BlockingIOError:
            return
        except OSError as error:
            self._finish(_error_text(error))
            return
        self._response += data
        if b"\r\n" in self._response or not data or len(self._response) >= MAX_RESPONSE:
            self._finish(response_failure(self._response))

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
    """An HTTPS connection that is kept alive between probes."""

    def __init__(self, target: ProbeTarget) -> None:
        self._target = target
        self._transport: asyncio.Transport | None = None
        self._done: Done | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._response = b""
        self._close = False

    @property
    def usable(self) -> bool:
        return self._transport is not None and not self._transport.is_closing() and not self._done

    def probe(self, timeout: float, done: Done, *, close: bool = False) -> None:
        """Send a HEAD request and give its failure to `done` ("" if none); a timeout closes it.

        With `close` the connection is closed after this probe.
        """
        assert self._transport is not None, "it is connected"
        self._done, self._response, self._close = done, b"", close
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(timeout, self._finish, NO_ANSWER, True)
        self._transport.write(head_request(self._target, keep=not close))

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is no subclass

    def data_received(self, data: bytes) -> None:
        """Finish the probe once the response head is complete or too long.

        Closes the connection if the server says so or if the head is too long.
        """
        self._response += data
        head, end, _ = self._response.partition(b"\r\n\r\n")
        if end or len(self._response) >= MAX_RESPONSE:
            last = b"connection: close" in head.lower() or not end
            self._finish(response_failure(self._response), last)

    def connection_lost(self, exc: Exception | None) -> None:
        self._finish(_error_text(exc) if exc is not None else "the connection was closed", True)

    def _finish(self, failure: str, close: bool) -> None:
        """Cancel the timer, close the connection if asked here or by `probe`, and report once."""
        done, self._done = self._done, None
        if self._timer is not None:
            self._timer.cancel()
        if close or self._close:
            self.close()
        if done is not None:
            done(failure)


def head_request(target: ProbeTarget, *, keep: bool) -> bytes:
    """A HEAD request; characters that could break out of its line are left out."""
    path = "".join(c for c in target.path if c.isascii() and c.isprintable() and c != " ") or "/"
    host = "".join(c for c in target.host or target.address if c.isascii() and c.isprintable())
    connection = "keep-alive" if keep else "close"
    return (
        f"HEAD {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: hanse-probe\r\n"
        f"Accept: */*\r\nConnection: {connection}\r\n\r\n"
    ).encode()


def response_failure(answer: bytes) -> str:
    """The failure that a response means: any status but 2xx and 3xx; empty for these."""
    line = answer.partition(b"\r\n")[0].decode("ascii", "replace")
    version, _, rest = line.partition(" ")
    code = rest[:3]
    if not version.startswith("HTTP/") or not code.isdecimal():
        return "it does not speak HTTP" if answer else "the connection was closed"
    return "" if code[0] in "23" else f"HTTP status {code}"


def _error_text(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__


def _unverified_context() -> ssl.SSLContext:
    """A TLS context that verifies nothing: a probe checks that a target answers, not who it is."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
