"""Connections of aiohttp that the event loop makes itself, with TCP keepalive."""

import asyncio
import os
import socket
import ssl
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import Any

import aiohttp
from aiohttp.client_proto import ResponseHandler

from hanse.kube.transport import Validity

_KEEPALIVE = (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3))
"""They detect a dead peer within a minute."""


class LoopConnector(aiohttp.TCPConnector):
    """Lets the event loop own the sockets.

    aiohttp connects sockets of its own and closes them when a request is cancelled. libuv, under
    uvloop, aborts the whole process if one that it is about to poll was closed meanwhile, as
    happens where servers die and many requests are repeated.
    """

    def __init__(self, **options: Any) -> None:
        """The options are those of `TCPConnector`; nothing connects yet."""
        super().__init__(**options)
        self._factory = partial(_Connection, loop=self._loop)  # type: ignore[assignment]  # invariant
        self.certificate: Validity | None = None
        """Of the server that was connected last; None before, without TLS, or not verified."""

    async def _create_connection(self, *args: Any, **kwargs: Any) -> ResponseHandler:
        """Connect, through a proxy if there is one, and set `certificate` to the server's validity.

        None replaces it without TLS, or if the certificate was not verified.
        """
        connection = await super()._create_connection(*args, **kwargs)
        self.certificate = _certificate_of(connection)
        return connection

    async def _wrap_create_connection(
        self, *args: Any, addr_infos: list[Any], **kwargs: Any
    ) -> tuple[asyncio.Transport, Any]:
        """Connect to the first address of each family in turn; raises the error of the last one.

        The order is the resolver's. The caller then tries the other addresses.
        """
        first: dict[int, Any] = {}
        for address in addr_infos:
            first.setdefault(address[0], address)
        *others, last = first.values()
        for address in others:
            with suppress(aiohttp.ClientConnectorError, TimeoutError):
                return await self._connect(address, *args, **kwargs)
        return await self._connect(last, *args, **kwargs)

    async def _connect(
        self, address: Any, factory: Any, **kwargs: Any
    ) -> tuple[asyncio.Transport, Any]:
        """Connect to one address by the loop's own sockets, with TCP keepalive.

        A connection that fails or is cancelled meanwhile is aborted.
        """
        family, _, _, _, (host, port, *_) = address
        connection: ResponseHandler = factory()
        try:
            transport, protocol = await self._wrap_existing_connection(
                lambda: connection, host=host, port=port, family=family, **kwargs
            )
        except BaseException:
            connection.abort()  # one that stands just now is only closed by the loop
            raise
        _keep_alive(transport)
        return transport, protocol


class _Connection(ResponseHandler):
    """A connection that is cut when it is closed.

    The end of TLS would be awaited by nobody: it outlives the loop of a command, and where the
    server is silent, it keeps the socket open for half a minute.
    """

    def close(self) -> None:
        """Abort the connection at once, without ending TLS."""
        self.abort()


def _certificate_of(connection: ResponseHandler) -> Validity | None:
    """The validity of the server's certificate; None without TLS, or if it was not verified."""
    transport = connection.transport
    found = transport.get_extra_info("peercert") if transport is not None else None
    if not found:
        return None
    begins, ends = (ssl.cert_time_to_seconds(found[name]) for name in ("notBefore", "notAfter"))
    return Validity(datetime.fromtimestamp(begins, UTC), datetime.fromtimestamp(ends, UTC))


def _keep_alive(transport: asyncio.Transport) -> None:
    """Turn on TCP keepalive on the socket of a transport; nothing if it is closed."""
    own = transport.get_extra_info("socket")
    if own is None or own.fileno() < 0:
        return  # it is closed already
    with socket.socket(fileno=os.dup(own.fileno())) as same:
        same.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in _KEEPALIVE:
            if hasattr(socket, option):
                same.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
