"""The way to an API server over HTTP: verified, renewed, and every failure told in a few words."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from functools import cache

import aiohttp

from hanse import __version__
from hanse.kube.client_config import ClientConfig, Credentials
from hanse.kube.connection_pool import FAILURES, Connections
from hanse.kube.errors import Unreachable, error_from_response
from hanse.kube.transport import Request, Response

CONNECT = timedelta(seconds=10)


class HttpTransport:
    """A `Transport` over aiohttp; after a 401 it tries once more with renewed credentials."""

    def __init__(
        self, credentials: Credentials, *, user_agent: str = f"hanse/{__version__}"
    ) -> None:
        self._credentials = credentials
        self._user_agent = user_agent
        self._connections: Connections | None = None
        self._retired: dict[asyncio.Task[None], Connections] = {}
        self._closed = False

    async def send(self, request: Request) -> Response:
        access = await self._credentials.config()
        response = await self._send_as(access, request)
        if response.status != 401:
            return response
        renewed = await self._credentials.refreshed(access)
        return response if renewed == access else await self._send_as(renewed, request)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        access = await self._credentials.config()
        async with AsyncExitStack() as stack:
            connections, answer = await self._open(access, request, stack)
            if answer.status == 401:
                renewed = await self._credentials.refreshed(access)
                if renewed != access:
                    connections, answer = await self._open(renewed, request, stack)
            if answer.status != 200:
                try:
                    response = await _whole(answer)
                except FAILURES as error:
                    raise connections.failure(error, request.timeout) from None
                raise error_from_response(response)
            yield split_lines(_chunks(answer, connections, request.timeout))

    async def close(self) -> None:
        """End every connection; streams that are still read break off.

        Who was kept from waiting for it can ask again.
        """
        self._closed = True
        open_ones = [*self._retired.values()]
        if self._connections is not None:
            open_ones.append(self._connections)
        for connections in open_ones:
            await connections.close()
        self._connections = None
        if self._retired:
            await asyncio.wait(self._retired)

    async def _send_as(self, access: ClientConfig, request: Request) -> Response:
        connections = self._connections_for(access)
        arguments = connections.arguments(access, request, streamed=False)
        connections.enter()
        try:
            async with connections.requests.request(
                **arguments, timeout=_within(request.timeout)
            ) as answer:
                return await _whole(answer)
        except FAILURES as error:
            raise connections.failure(error, request.timeout) from None
        finally:
            connections.leave()

    async def _open(
        self, access: ClientConfig, request: Request, stack: AsyncExitStack
    ) -> tuple[Connections, aiohttp.ClientResponse]:
        """The answer to a watch as far as its headers, to be closed with the stack."""
        connections = self._connections_for(access)
        arguments = connections.arguments(access, request, streamed=True)
        connections.enter()
        stack.callback(connections.leave)
        try:
            async with asyncio.timeout(request.timeout.total_seconds()):
                answer = await connections.watches.request(**arguments, timeout=_within(None))
        except FAILURES as error:
            raise connections.failure(error, request.timeout) from None
        stack.callback(answer.close)
        return connections, answer

    def _connections_for(self, access: ClientConfig) -> Connections:
        """The connections for an access; those of an earlier one end with their last request."""
        if self._closed:
            raise Unreachable("the client was closed")
        current = self._connections
        if current is not None and current.serve(access):
            return current
        self._connections = Connections(access, self._user_agent)
        if current is not None:
            task = asyncio.create_task(current.retire(), name="retire connections")
            self._retired[task] = current
            task.add_done_callback(self._retired.pop)
        return self._connections


@cache
def _within(total: timedelta | None) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(
        total=total.total_seconds() if total is not None else None,
        sock_connect=CONNECT.total_seconds(),
    )


async def _whole(answer: aiohttp.ClientResponse) -> Response:
    body = await answer.read()
    if 300 <= answer.status < 400:
        raise Unreachable(f"{answer.url.authority} redirects, as API servers do not")
    headers = {name.lower(): value for name, value in answer.headers.items()}
    return Response(answer.status, body, headers)


async def _chunks(
    answer: aiohttp.ClientResponse, connections: Connections, patience: timedelta
) -> AsyncIterator[bytes]:
    content = answer.content
    while True:
        try:
            chunk = await content.readany()
        except FAILURES as error:
            raise connections.failure(error, patience) from None
        if not chunk:
            return
        yield chunk


async def split_lines(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Every whole line without its end; a last one without an end too, and no empty ones."""
    begun: list[bytes] = []
    async for chunk in chunks:
        *whole, rest = chunk.split(b"\n")
        if whole:
            begun.append(whole[0])
            whole[0] = b"".join(begun)
            begun = []
        if rest:
            begun.append(rest)
        for line in whole:
            if line:
                yield line
    if begun:
        yield b"".join(begun)
