"""Connections between the API servers on loopback and the nodes in their network.

Nodes reach an API server by a listener in the fabric; an API server reaches kubelets by an HTTP
proxy on a Unix socket (its egress selector). The network of this machine stays as it is.
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from hanse.local.real.nodes.namespaces import NetworkNamespace
from hanse.local.unix_socket import private_listener

_Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
_CLOSED = (OSError, RuntimeError)
"""The errors of a closed connection; the second is uvloop's."""
_CLOSE_DELAY = 1.0
"""Seconds until a socket that could not be connected is closed."""
_Connect = Callable[[], Awaitable[_Streams]]
_Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], None]


@asynccontextmanager
async def relay_to_loopback(
    fabric: NetworkNamespace, address: str, port: int
) -> AsyncIterator[None]:
    """Forward connections to an address of the fabric to the same port of loopback.

    Until the block ends, which ends them, too.
    """
    listener = fabric.call(socket.create_server, (address, port))

    async def on_connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Copy between a connection and a new one to the same port of loopback.

        If that cannot be made, the connection is closed.
        """
        await _relay((reader, writer), lambda: asyncio.open_connection("127.0.0.1", port))

    async with _serving(on_connection, lambda handle: asyncio.start_server(handle, sock=listener)):
        yield


@asynccontextmanager
async def egress_proxy(fabric: NetworkNamespace, path: Path) -> AsyncIterator[None]:
    """Serve CONNECT requests on a Unix socket, to the fabric and to loopback of this machine.

    Until the block ends, which ends their connections, too.
    """

    async def on_connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Read a CONNECT request, and copy between the client and its target.

        A request without a target is closed; an invalid or unreachable target is answered 502.
        """
        try:
            request = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            host, _, port = request.split(" ")[1].rpartition(":")
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, IndexError):
            writer.close()
            return
        await _relay(
            (reader, writer), lambda: _dial(fabric, host.strip("[]"), int(port)), proxy=True
        )

    listener = private_listener(path)
    async with _serving(
        on_connection, lambda handle: asyncio.start_unix_server(handle, sock=listener)
    ):
        yield


@asynccontextmanager
async def _serving(
    on_connection: Callable[
        [asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]
    ],
    start: Callable[[_Handler], Awaitable[asyncio.Server]],
) -> AsyncIterator[None]:
    """Run a server until the block ends, with a task for each connection; the end cancels these.

    asyncio forgets the task of a connection that is lost: it would be collected as garbage while it
    still waits for the far side, which would never be closed.
    """
    running: set[asyncio.Task[None]] = set()

    def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Handle a connection in a task of its own, which is kept until it ends."""
        task = asyncio.get_running_loop().create_task(on_connection(reader, writer))
        running.add(task)
        task.add_done_callback(running.discard)

    server = await start(handle)
    try:
        yield
    finally:
        server.close()
        left = list(running)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)


async def _dial(fabric: NetworkNamespace, host: str, port: int) -> _Streams:
    """Connect to a loopback address of this machine, or to any other from the fabric.

    Raises `ValueError` for a name, and an `OSError`, which may be a `TimeoutError` after 10 s.
    """
    address = ip_address(host)
    if address.is_loopback:
        return await asyncio.open_connection(host, port)
    family = socket.AF_INET6 if address.version == 6 else socket.AF_INET
    opened = fabric.call(socket.socket, family, socket.SOCK_STREAM)
    opened.setblocking(False)
    try:
        async with asyncio.timeout(10):
            await asyncio.get_running_loop().sock_connect(opened, (host, port))
    except BaseException:
        # libuv aborts the process if a socket is closed that it is about to poll.
        asyncio.get_running_loop().call_later(_CLOSE_DELAY, opened.close)
        raise
    return await asyncio.open_connection(sock=opened)


async def _relay(near: _Streams, connect: _Connect, *, proxy: bool = False) -> None:
    """Connect to the far side and copy in both directions until both have ended; closes both.

    If the far side cannot be reached, close the near side. With `proxy`, answer 200 or 502 first.
    """
    reader, writer = near
    try:
        far_reader, far_writer = await connect()
    except (OSError, ValueError):
        if proxy:
            writer.write(b"HTTP/1.1 502 Bad Gateway\r\n\r\n")
        writer.close()
        return
    if proxy:
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
    try:
        await asyncio.gather(_copy(reader, far_writer), _copy(far_reader, writer))
    finally:
        far_writer.close()
        writer.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy until the reader ends or a connection is lost; then send EOF to the writer.

    The writer stays open, and no error of a connection is raised.
    """
    with suppress(*_CLOSED):
        while chunk := await reader.read(65_536):
            writer.write(chunk)
            await writer.drain()
    with suppress(*_CLOSED):
        if writer.can_write_eof():
            writer.write_eof()
