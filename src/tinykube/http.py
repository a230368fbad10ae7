"""An embedded cluster over HTTP: requests become values, and what the API answers goes back."""

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import timedelta
from socket import socket
from typing import Protocol

from aiohttp import web
from aiohttp.web_request import BaseRequest

from tinykube.apiserver import is_watch
from tinykube.errors import StatusError
from tinykube.request import JSON, Request, RequestLike, Response
from tinykube.users import ANONYMOUS, User, effective_user

log = logging.getLogger(__name__)

BODY_LIMIT = 3 * 1024 * 1024
"""The API server's limit; one byte more is read, so that the API sees that it was passed."""

_OPEN = ("/version", "/healthz", "/livez", "/readyz")
_PASSED_ON = ("If-None-Match", "User-Agent")
_IDLE = timedelta(minutes=5)
_NO_CACHE = "no-cache, private"
_FAULT = StatusError(500, "InternalError", "Internal error occurred: see the server's log")


_NOBODY_LISTENS = 499
"""The client went away: whatever is answered, nobody reads it."""


class Api(Protocol):
    """What is served: an ApiServer, or one with faults before it."""

    async def send(self, request: RequestLike, user: User) -> Response: ...

    def stream(
        self, request: RequestLike, user: User
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]: ...

    def authenticate(self, token: str) -> User | None: ...


@asynccontextmanager
async def serve(
    api: Api,
    sock: socket,
    tokens: Mapping[str, User],
    tls: ssl.SSLContext | None = None,
    grace: timedelta = timedelta(seconds=1),
) -> AsyncIterator[None]:
    """Serve an API on a bound socket until the context ends; then watches end and nothing is held.

    Callers show a bearer token: one of `tokens`, or one that the API itself issued.
    """
    door = _Door(api, tokens)
    server = web.Server(
        door.answer,
        access_log=None,
        handler_cancellation=True,  # or an idle watch would outlive its client
        keepalive_timeout=_IDLE.total_seconds(),
    )
    loop = asyncio.get_running_loop()
    listener = await loop.create_server(server, sock=sock, ssl=tls, backlog=1024)
    try:
        yield
    finally:
        listener.close()
        door.end_watches()
        await server.shutdown(grace.total_seconds())


class _Door:
    """Turns HTTP requests into values, for callers that it knows."""

    def __init__(self, api: Api, tokens: Mapping[str, User]) -> None:
        self._api = api
        self._tokens = tokens
        self._watches: set[asyncio.Timeout] = set()

    async def answer(self, http: BaseRequest) -> web.StreamResponse:
        """One request, whatever happens."""
        try:
            user = self._caller(http)
            request = _request(http, await _body(http))
            if is_watch(request):
                return await self._watch(http, request, user)
            return _whole(http, await self._api.send(request, user))
        except StatusError as error:
            return _whole(http, error.response)
        except ConnectionError:
            return web.Response(status=_NOBODY_LISTENS)
        except Exception:
            log.exception("request failed", extra={"method": http.method, "path": http.path})
            return _whole(http, _FAULT.response)

    def end_watches(self) -> None:
        """End every watch as the API server does when it stops: cleanly, so that clients resume."""
        now = asyncio.get_running_loop().time()
        for scope in self._watches:
            scope.reschedule(now)

    def _caller(self, http: BaseRequest) -> User:
        scheme, _, token = http.headers.get("Authorization", "").partition(" ")
        if scheme.lower() == "bearer" and (token := token.strip()):
            user = self._tokens.get(token) or self._api.authenticate(token)
            if user is not None:
                return effective_user(http.headers.items(), user)
        elif not scheme and http.path.startswith(_OPEN):
            return ANONYMOUS
        raise StatusError(401, "Unauthorized", "Unauthorized")

    async def _watch(
        self, http: BaseRequest, request: RequestLike, user: User
    ) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": JSON, "Cache-Control": _NO_CACHE})
        try:
            async with asyncio.timeout(None) as scope, self._api.stream(request, user) as lines:
                self._watches.add(scope)
                await response.prepare(http)
                await _pour(lines, response)
        except TimeoutError:
            if not scope.expired():
                raise
        finally:
            self._watches.discard(scope)
        return response


async def _pour(lines: AsyncIterator[bytes], response: web.StreamResponse) -> None:
    """Send events as they come; a fault of ours ends the stream, for clients to resume it."""
    try:
        async for line in lines:
            await response.write(line if line.endswith(b"\n") else line + b"\n")
    except ConnectionError:
        raise  # the client went away
    except Exception:
        log.exception("watch failed")


async def _body(http: BaseRequest) -> bytes:
    """The body, or as much of it as shows that it is too large."""
    if not http.can_read_body:
        return b""
    size = http.content_length
    if size is not None and size <= BODY_LIMIT:
        return await http.content.read()
    parts: list[bytes] = []
    left = BODY_LIMIT + 1
    while left > 0 and (part := await http.content.read(left)):
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def _request(http: BaseRequest, body: bytes) -> Request:
    headers = http.headers
    return Request(
        method=http.method,
        path=http.path,
        query=tuple(http.query.items()),
        body=body,
        content_type=headers.get("Content-Type", ""),
        accept=headers.get("Accept", ""),
        headers=tuple((name, headers[name]) for name in _PASSED_ON if name in headers),
    )


def _whole(http: BaseRequest, response: Response) -> web.Response:
    answer = web.Response(status=response.status, body=response.body, headers=response.headers)
    answer.headers.setdefault("Cache-Control", _NO_CACHE)
    if not http.content.at_eof():
        answer.force_close()  # the rest of a refused body is not read
    return answer
