"""One try of a target over real sockets: a connection, or a HEAD request that must succeed.

Connections of TCP and HTTP are plain sockets with callbacks, since there may be a thousand a
second; those of HTTPS are kept, since handshakes are what costs.
"""

import asyncio
import socket
import ssl
from collections.abc import Callable
from errno import EADDRNOTAVAIL, EAGAIN, EINPROGRESS, EMFILE, ENFILE, ENOBUFS, ENOMEM
from os import strerror
from typing import cast

from hanse.model.probes import ProbeTarget

MOST = 4096
"""Bytes of an answer that are looked at."""
KEPT = 2_000
"""Connections that are kept at most."""
OUR_SHORTAGE = frozenset({EMFILE, ENFILE, ENOBUFS, ENOMEM, EAGAIN, EADDRNOTAVAIL})
"""Errors that say nothing about a target: a try that could not be made does not count."""

Done = Callable[[str], None]


class SocketProbe:
    """Tries targets. What is kept open is closed by `close`."""

    def __init__(self) -> None:
        self._kept: dict[ProbeTarget, _Kept] = {}
        self._opening: set[asyncio.Task[None]] = set()
        self._tls = _context()

    def __call__(self, target: ProbeTarget, timeout: float, done: Done, /) -> None:
        if target.type == "HTTPS":
            self._ask_kept(target, timeout, done)
            return
        try:
            _Exchange(target, timeout, done).start()
        except OSError as error:
            if error.errno not in OUR_SHORTAGE:
                raise

    async def close(self) -> None:
        """Let go of every connection."""
        for kept in list(self._kept.values()):
            kept.close()
        self._kept.clear()
        for task in list(self._opening):
            task.cancel()
        await asyncio.gather(*self._opening, return_exceptions=True)
        await asyncio.sleep(0)  # in which what was let go of is closed

    def _ask_kept(self, target: ProbeTarget, timeout: float, done: Done) -> None:
        kept = self._kept.get(target)
        if kept is not None and kept.usable:
            kept.ask(timeout, done)
            return
        self._kept.pop(target, None)
        task = asyncio.get_running_loop().create_task(
            self._open(target, timeout, done), name=f"probe {target}"
        )
        self._opening.add(task)
        task.add_done_callback(self._opening.discard)

    async def _open(self, target: ProbeTarget, within: float, done: Done) -> None:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(within):
                _, kept = await loop.create_connection(
                    lambda: _Kept(target),
                    target.address,
                    target.port,
                    ssl=self._tls,
                    server_hostname=target.host or target.address,
                )
        except TimeoutError:
            done("no answer in time")
            return
        except (OSError, ssl.SSLError, ValueError) as error:
            if getattr(error, "errno", None) not in OUR_SHORTAGE:
                done(_told(error))
            return
        if len(self._kept) < KEPT:
            self._kept[target] = kept
        kept.ask(within, done, close=target not in self._kept)


class _Exchange:
    """One connection, and over HTTP one request; all in callbacks of the loop."""

    def __init__(self, target: ProbeTarget, timeout: float, done: Done) -> None:
        self._target = target
        self._done = done
        self._loop = asyncio.get_running_loop()
        family = socket.AF_INET6 if ":" in target.address else socket.AF_INET
        self._sock = socket.socket(family, socket.SOCK_STREAM)
        self._sock.setblocking(False)
        self._answer = b""
        self._over = False
        self._timer = self._loop.call_later(timeout, self._end, "no answer in time")

    def start(self) -> None:
        code = self._sock.connect_ex((self._target.address, self._target.port))
        if code in OUR_SHORTAGE:
            self._close()
            return
        if code not in (0, EINPROGRESS):
            self._end(strerror(code))
            return
        self._loop.add_writer(self._sock, self._connected)

    def _connected(self) -> None:
        self._loop.remove_writer(self._sock)
        code = self._sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            self._end(strerror(code))
        elif self._target.type == "TCP":
            self._end("")
        else:
            self._send()

    def _send(self) -> None:
        try:
            self._sock.send(request_to(self._target, keep=False))
        except OSError as error:
            self._end(_told(error))
            return
        self._loop.add_reader(self._sock, self._read)

    def _read(self) -> None:
        try:
            told = self._sock.recv(MOST)
        except BlockingIOError:
            return
        except OSError as error:
            self._end(_told(error))
            return
        self._answer += told
        if b"\r\n" in self._answer or not told or len(self._answer) >= MOST:
            self._end(judged(self._answer))

    def _end(self, wrong: str) -> None:
        if not self._over:
            self._close()
            self._done(wrong)

    def _close(self) -> None:
        self._over = True
        self._timer.cancel()
        self._loop.remove_writer(self._sock)
        self._loop.remove_reader(self._sock)
        self._sock.close()


class _Kept(asyncio.Protocol):
    """A connection that is asked again and again."""

    def __init__(self, target: ProbeTarget) -> None:
        self._target = target
        self._transport: asyncio.Transport | None = None
        self._done: Done | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._answer = b""
        self._close = False

    @property
    def usable(self) -> bool:
        return self._transport is not None and not self._transport.is_closing() and not self._done

    def ask(self, timeout: float, done: Done, *, close: bool = False) -> None:
        assert self._transport is not None, "it is connected"
        self._done, self._answer, self._close = done, b"", close
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(timeout, self._end, "no answer in time", True)
        self._transport.write(request_to(self._target, keep=not close))

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is no subclass

    def data_received(self, data: bytes) -> None:
        self._answer += data
        head, end, _ = self._answer.partition(b"\r\n\r\n")
        if end or len(self._answer) >= MOST:
            last = b"connection: close" in head.lower() or not end
            self._end(judged(self._answer), last)

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(_told(exc) if exc is not None else "the connection was closed", True)

    def _end(self, wrong: str, close: bool) -> None:
        done, self._done = self._done, None
        if self._timer is not None:
            self._timer.cancel()
        if close or self._close:
            self.close()
        if done is not None:
            done(wrong)


def request_to(target: ProbeTarget, *, keep: bool) -> bytes:
    """A HEAD request; what could break out of its line is left out."""
    path = "".join(c for c in target.path if c.isascii() and c.isprintable() and c != " ") or "/"
    host = "".join(c for c in target.host or target.address if c.isascii() and c.isprintable())
    connection = "keep-alive" if keep else "close"
    return (
        f"HEAD {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: hanse-probe\r\n"
        f"Accept: */*\r\nConnection: {connection}\r\n\r\n"
    ).encode()


def judged(answer: bytes) -> str:
    """What is wrong with an answer: all but 2xx and 3xx is."""
    line = answer.partition(b"\r\n")[0].decode("ascii", "replace")
    version, _, rest = line.partition(" ")
    code = rest[:3]
    if not version.startswith("HTTP/") or not code.isdecimal():
        return "it does not speak HTTP" if answer else "the connection was closed"
    return "" if code[0] in "23" else f"HTTP status {code}"


def _told(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__


def _context() -> ssl.SSLContext:
    """Whether it answers is asked, not who it is: certificates are its clients' to judge."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
