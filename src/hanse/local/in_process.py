"""Transports to embedded clusters without sockets: direct, or by URL, certificate and token."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from msgspec import Struct

from hanse.kube.client_config import ClientConfig, Credentials
from hanse.kube.errors import Unreachable, Untrusted, error_from_response
from hanse.kube.transport import Request, Response
from tinykube import request as served
from tinykube.errors import StatusError
from tinykube.http import Api
from tinykube.users import ADMIN, User


class InProcessTransport:
    """A transport to an embedded cluster, or to a wrapper that injects faults, as one user."""

    def __init__(self, server: Api, user: User = ADMIN) -> None:
        self._server = server
        self._user = user

    async def send(self, request: Request) -> Response:
        """Send to the server in this process as the fixed user; its errors are responses."""
        return client_response(await self._server.send(request, self._user))

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        """Stream from the server as the fixed user; a `StatusError` is raised as a client error."""
        try:
            async with self._server.stream(request, self._user) as lines:
                yield lines
        except StatusError as error:
            raise error_from_response(client_response(error.response)) from error

    async def close(self) -> None:
        """There is nothing to release."""


class ServedApi(Struct, frozen=True):
    """The API that is served at a URL, and the certificate of its authority."""

    api: Api
    ca: bytes


Directory = Callable[[str], ServedApi | None]
"""Finds the listener at a URL; None where a connection would be refused."""

_UNAUTHORIZED = StatusError(401, "Unauthorized", "Unauthorized")


class UrlTransport:
    """A transport that looks its server up at each request and authenticates by token."""

    def __init__(self, credentials: Credentials, directory: Directory) -> None:
        self._credentials = credentials
        self._directory = directory

    async def send(self, request: Request) -> Response:
        """Authenticate, then send in process; a `StatusError` becomes its response.

        Rejected credentials are renewed once. Raises `Unreachable` if nothing is served at the URL,
        and `Untrusted` if its CA is another than the credentials have.
        """
        try:
            api, user = await self._authenticated()
            return client_response(await api.send(request, user))
        except StatusError as error:
            return client_response(error.response)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        """Authenticate, then stream in process; a `StatusError` is raised as a client error.

        Rejected credentials are renewed once. Raises `Unreachable` if nothing is served at the URL,
        and `Untrusted` if its CA is another than the credentials have.
        """
        try:
            api, user = await self._authenticated()
            async with api.stream(request, user) as lines:
                yield lines
        except StatusError as error:
            raise error_from_response(client_response(error.response)) from error

    async def close(self) -> None:
        """There is nothing to release."""

    async def _authenticated(self) -> tuple[Api, User]:
        """The API and user of the current credentials; they are renewed once after a rejection.

        Raises `StatusError` if they are rejected again, or are the same; `Unreachable` and
        `Untrusted` as `_authenticate`.
        """
        access = await self._credentials.config()
        try:
            return self._authenticate(access)
        except StatusError:
            renewed = await self._credentials.refreshed(access)
            if renewed == access:
                raise
            return self._authenticate(renewed)

    def _authenticate(self, access: ClientConfig) -> tuple[Api, User]:
        """The server of a URL and the user of a token; the server's CA must be the trusted one.

        Raises `Untrusted` for another CA, `Unreachable` without a server, and a 401 for an unknown
        token.
        """
        url = access.endpoint.url
        listener = self._directory(url)
        if listener is None:
            raise Unreachable(f"cannot connect to {url}: connection refused")
        if access.endpoint.ca.strip() != listener.ca.strip():
            raise Untrusted(f"the certificate of {url} is not signed by the given authority")
        user = listener.api.authenticate(access.identity.token)
        if user is None:
            raise _UNAUTHORIZED
        return listener.api, user


def client_response(response: served.Response) -> Response:
    """A response of tinykube as the client's own type; the body is not copied."""
    return Response(response.status, response.body, response.headers)
