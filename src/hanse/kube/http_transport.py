"""The transport to an API server over HTTP, with refreshed credentials and short errors."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from functools import cache

import aiohttp

from hanse import __version__
from hanse.kube.client_config import ClientConfig, Credentials
from hanse.kube.connection_pool import FAILURES, ConnectionPool
from hanse.kube.errors import Unreachable, error_from_response
from hanse.kube.transport import Request, Response

CONNECT_TIMEOUT = timedelta(seconds=10)
CONNECT_SHARE = 0.8
"""The share of a request's time in which its connection has to stand."""


class HttpTransport:
    """A `Transport` over aiohttp; a 401 is retried once with refreshed credentials."""

    def __init__(
        self, credentials: Credentials, *, user_agent: str = f"hanse/{__version__}"
    ) -> None:
        """Nothing is connected until the first request, which reads the credentials."""
        self._credentials = credentials
        self._user_agent = user_agent
        self._pool: ConnectionPool | None = None
        self._retired: dict[asyncio.Task[None], ConnectionPool] = {}
        self._closed = False

    async def send(self, request: Request) -> Response:
        """Send a request and return any status; no answer or a redirect raises `Unreachable`.

        After a 401 the credentials are refreshed, and it is sent once more if they differ. Raises
        `BadCredentials` if there are no usable ones.
        """
        config = await self._credentials.config()
        response = await self._send_with(config, request)
        if response.status != 401:
            return response
        refreshed = await self._credentials.refreshed(config)
        return response if refreshed == config else await self._send_with(refreshed, request)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        """Open a stream of lines; a 401 is retried once with refreshed credentials if they differ.

        Any status but 200 is raised as an error, and a failed connection as `Unreachable`. The
        timeout of the request limits the opening, not the stream.
        """
        config = await self._credentials.config()
        async with AsyncExitStack() as stack:
            pool, answer = await self._open(config, request, stack)
            if answer.status == 401:
                refreshed = await self._credentials.refreshed(config)
                if refreshed != config:
                    pool, answer = await self._open(refreshed, request, stack)
            if answer.status != 200:
                try:
                    async with asyncio.timeout(request.timeout.total_seconds()):
                        response = await _read_response(answer, pool)
                except FAILURES as error:
                    raise pool.failure(error, request.timeout) from None
                raise error_from_response(response)
            yield split_lines(_read_chunks(answer, pool, request.timeout))

    async def close(self) -> None:
        """Close every connection; open watches break, and later requests raise `Unreachable`.

        A cancelled call can be repeated.
        """
        self._closed = True
        pools = [*self._retired.values()]
        if self._pool is not None:
            pools.append(self._pool)
        for pool in pools:
            await pool.close()
        self._pool = None
        if self._retired:
            await asyncio.wait(self._retired)

    async def _send_with(self, config: ClientConfig, request: Request) -> Response:
        """Send a request with this configuration; its pool counts as in use until the end.

        Returns any status; raises `Unreachable` for a redirect, and without an answer.
        """
        pool = self._pool_for(config)
        arguments = pool.arguments(config, request, streamed=False)
        pool.enter()
        try:
            async with pool.requests.request(
                **arguments, timeout=_client_timeout(request.timeout, whole=True)
            ) as answer:
                return await _read_response(answer, pool)
        except FAILURES as error:
            raise pool.failure(error, request.timeout) from None
        finally:
            pool.leave()

    async def _open(
        self, config: ClientConfig, request: Request, stack: AsyncExitStack
    ) -> tuple[ConnectionPool, aiohttp.ClientResponse]:
        """Open a watch and return its response, of any status, with its headers read.

        The stack closes it. Raises `Unreachable` without an answer.
        """
        pool = self._pool_for(config)
        arguments = pool.arguments(config, request, streamed=True)
        pool.enter()
        stack.callback(pool.leave)
        try:
            async with asyncio.timeout(request.timeout.total_seconds()):
                answer = await pool.watches.request(
                    **arguments, timeout=_client_timeout(request.timeout, whole=False)
                )
        except FAILURES as error:
            raise pool.failure(error, request.timeout) from None
        stack.callback(answer.close)
        return pool, answer

    def _pool_for(self, config: ClientConfig) -> ConnectionPool:
        """The pool for a configuration; an earlier pool is closed after its last request.

        Raises `Unreachable` once the transport is closed, `BadCredentials` for unusable
        certificates.
        """
        if self._closed:
            raise Unreachable("the client was closed")
        current = self._pool
        if current is not None and current.fits(config):
            return current
        self._pool = ConnectionPool(config, self._user_agent)
        if current is not None:
            task = asyncio.create_task(current.retire(), name="retire connections")
            self._retired[task] = current
            task.add_done_callback(self._retired.pop)
        return self._pool


@cache
def _client_timeout(limit: timedelta, *, whole: bool) -> aiohttp.ClientTimeout:
    """The time limits of a request: with `whole` it takes at most `limit`, else it may go on.

    To connect it has CONNECT_SHARE of `limit`, and for each address of the server at most
    CONNECT_TIMEOUT of that: an error says whether connection or answer took too long.
    """
    connect = limit * CONNECT_SHARE
    return aiohttp.ClientTimeout(
        total=limit.total_seconds() if whole else None,
        connect=connect.total_seconds(),
        sock_connect=min(CONNECT_TIMEOUT, connect).total_seconds(),
    )


async def _read_response(answer: aiohttp.ClientResponse, pool: ConnectionPool) -> Response:
    """Read the whole response; a redirect is raised as Unreachable."""
    body = await answer.read()
    if 300 <= answer.status < 400:
        raise Unreachable(f"{answer.url.authority} redirects, as API servers do not")
    headers = {name.lower(): value for name, value in answer.headers.items()}
    return Response(answer.status, body, headers, pool.certificate)


async def _read_chunks(
    answer: aiohttp.ClientResponse, pool: ConnectionPool, limit: timedelta
) -> AsyncIterator[bytes]:
    """The response's chunks until it ends; a broken connection is raised as the pool's failure.

    `limit` is for the text of that failure only: nothing ends after it.
    """
    content = answer.content
    while True:
        try:
            chunk = await content.readany()
        except FAILURES as error:
            raise pool.failure(error, limit) from None
        if not chunk:
            return
        yield chunk


async def split_lines(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The non-empty lines of chunks without their line feeds; the last one need not have any.

    It is quick for lines of megabytes, too.
    """
    partial: list[bytes] = []
    async for chunk in chunks:
        *whole, rest = chunk.split(b"\n")
        if whole:
            partial.append(whole[0])
            whole[0] = b"".join(partial)
            partial = []
        if rest:
            partial.append(rest)
        for line in whole:
            if line:
                yield line
    if partial:
        yield b"".join(partial)
