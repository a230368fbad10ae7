"""The API server over HTTP."""

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
from tinykube.errors import FAILURE, StatusError
from tinykube.handlers.bodies import BODY_LIMIT
from tinykube.request import JSON, Request, RequestLike, Response
from tinykube.users import ANONYMOUS, User

log = logging.getLogger(__name__)

_PUBLIC_PATHS = ("/version", "/healthz", "/livez", "/readyz")
_FORWARDED_HEADERS = ("If-None-Match", "User-Agent")
_IMPERSONATION = "impersonate-"
_KEEPALIVE = timedelta(minutes=5)
_NO_CACHE = "no-cache, private"


_CLIENT_CLOSED_REQUEST = 499
"""The status, which is not sent, of a request whose client has disconnected."""


class Api(Protocol):
    """What can be served: an `ApiServer`, or a wrapper that injects faults."""

    async def send(self, request: RequestLike, user: User) -> Response:
        """Answer one request that is not a watch; errors are responses."""
        ...

    def stream(
        self, request: RequestLike, user: User
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """The lines of a watch; raises `StatusError` on entry if it is refused."""
        ...

    def authenticate(self, token: str) -> User | None:
        """The user of a token that the API issued; None if it is not valid."""
        ...


@asynccontextmanager
async def serve(
    api: Api,
    sock: socket,
    tokens: Mapping[str, User],
    tls: ssl.SSLContext | None = None,
    grace: timedelta = timedelta(seconds=1),
) -> AsyncIterator[None]:
    """Serve an API on a bound socket until the context ends, which also ends every watch.

    Clients authenticate by bearer token: one of `tokens`, or one that the API issued. Without `tls`
    it is plain HTTP; requests in flight at the end are given the time `grace`.
    """
    handler = _HttpHandler(api, tokens)
    server = web.Server(
        handler.handle,
        access_log=None,
        handler_cancellation=True,  # an idle watch ends when its client disconnects
        keepalive_timeout=_KEEPALIVE.total_seconds(),
    )
    loop = asyncio.get_running_loop()
    listener = await loop.create_server(server, sock=sock, ssl=tls, backlog=1024)
    try:
        yield
    finally:
        listener.close()
        handler.end_watches()
        await server.shutdown(grace.total_seconds())


class _HttpHandler:
    """Authenticates HTTP requests and passes them to the API."""

    def __init__(self, api: Api, tokens: Mapping[str, User]) -> None:
        """Serve `api`; `tokens` are accepted besides those that it has issued."""
        self._api = api
        self._tokens = tokens
        self._watches: set[asyncio.Timeout] = set()

    async def handle(self, http: BaseRequest) -> web.StreamResponse:
        """Answer one HTTP request; a watch is streamed until it ends.

        A `StatusError` is answered as its Status; an unexpected error is logged and answered with
        500. If the client disconnects, the status is 499, which is not sent.
        """
        try:
            user = self._authenticate(http)
            request = _parse_request(http, await _body(http))
            if is_watch(request):
                return await self._stream_watch(http, request, user)
            return _http_response(http, await self._api.send(request, user))
        except StatusError as error:
            return _http_response(http, error.response)
        except ConnectionError:
            return web.Response(status=_CLIENT_CLOSED_REQUEST)
        except Exception:
            log.exception("request failed", extra={"method": http.method, "path": http.path})
            return _http_response(http, FAILURE.response)

    def end_watches(self) -> None:
        """End the stream of every watch without an error, so that clients watch again."""
        now = asyncio.get_running_loop().time()
        for scope in self._watches:
            scope.reschedule(now)

    def _authenticate(self, http: BaseRequest) -> User:
        """The user of a bearer token; raises 401 if there is none or it is not valid.

        Without Authorization header, paths that begin with `/version`, `/healthz`, `/livez` or
        `/readyz` are served to the anonymous user.
        """
        scheme, _, token = http.headers.get("Authorization", "").partition(" ")
        if scheme.lower() == "bearer" and (token := token.strip()):
            user = self._tokens.get(token) or self._api.authenticate(token)
            if user is not None:
                return user
        elif not scheme and http.path.startswith(_PUBLIC_PATHS):
            return ANONYMOUS
        raise StatusError(401, "Unauthorized", "Unauthorized")

    async def _stream_watch(
        self, http: BaseRequest, request: RequestLike, user: User
    ) -> web.StreamResponse:
        """Stream a watch until it ends, its client disconnects, or `end_watches` expires its scope.

        Raises `StatusError` before anything is sent if the API refuses the watch.
        """
        response = web.StreamResponse(headers={"Content-Type": JSON, "Cache-Control": _NO_CACHE})
        try:
            async with asyncio.timeout(None) as scope, self._api.stream(request, user) as lines:
                self._watches.add(scope)
                await response.prepare(http)
                await _write_lines(lines, response)
        except TimeoutError:
            if not scope.expired():
                raise
        finally:
            self._watches.discard(scope)
        return response


async def _write_lines(lines: AsyncIterator[bytes], response: web.StreamResponse) -> None:
    """Send the lines of a watch as they come; an unexpected error is logged and ends the stream.

    Raises ConnectionError if the client has disconnected.
    """
    try:
        async for line in lines:
            await response.write(line if line.endswith(b"\n") else line + b"\n")
    except ConnectionError:
        raise  # the client disconnected
    except Exception:
        log.exception("watch failed")


async def _body(http: BaseRequest) -> bytes:
    """Read the body from the connection; empty if there is none.

    Of a body over `BODY_LIMIT` only one byte more than the limit is read.
    """
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


def _parse_request(http: BaseRequest, body: bytes) -> Request:
    """The request of the API server for one of aiohttp, with the headers that the API reads."""
    headers = http.headers
    return Request(
        method=http.method,
        path=http.path,
        query=tuple(http.query.items()),
        body=body,
        content_type=headers.get("Content-Type", ""),
        accept=headers.get("Accept", ""),
        headers=_forwarded_headers(http),
    )


def _forwarded_headers(http: BaseRequest) -> tuple[tuple[str, str], ...]:
    """If-None-Match and User-Agent, once each, and all Impersonate headers, as often as given."""
    headers = http.headers
    known = tuple((name, headers[name]) for name in _FORWARDED_HEADERS if name in headers)
    acting = (one for one in headers.items() if one[0].lower().startswith(_IMPERSONATION))
    return (*known, *acting)


def _http_response(http: BaseRequest, response: Response) -> web.Response:
    """The aiohttp response, not cacheable unless it says so.

    Closes the connection afterwards if the request body was not read to its end.
    """
    handle = web.Response(status=response.status, body=response.body, headers=response.headers)
    handle.headers.setdefault("Cache-Control", _NO_CACHE)
    if not http.content.at_eof():
        handle.force_close()  # the rest of a body over the limit is not read
    return handle
