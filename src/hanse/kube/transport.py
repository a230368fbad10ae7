"""HTTP requests and responses as values, and the transport that carries them."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from datetime import datetime, timedelta
from typing import Protocol
from urllib.parse import urlencode

from msgspec import Struct

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"


class Request(Struct, frozen=True):
    """One HTTP request to an API server, before any I/O."""

    method: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    content_type: str = JSON
    accept: str = JSON
    timeout: timedelta = timedelta(seconds=30)
    headers: tuple[tuple[str, str], ...] = ()

    @property
    def target(self) -> str:
        """Path and URL-encoded query, as in the request line."""
        return f"{self.path}?{urlencode(self.query)}" if self.query else self.path


class Validity(Struct, frozen=True):
    """The time in which a certificate is valid."""

    not_before: datetime
    not_after: datetime


class Response(Struct, frozen=True):
    """A complete response: any status, the raw body, header names in lower case."""

    status: int
    body: bytes = b""
    headers: dict[str, str] = {}
    certificate: Validity | None = None
    """Of the server, by the last connection to it; None if it was not verified."""


class Transport(Protocol):
    """Carries requests to one API server: over HTTP, in process, or with injected faults.

    Both calls raise `Unreachable` when no response came. `send` returns any status; `stream`
    raises the typed `ApiError` for one that is not 200, and otherwise yields the lines of the body
    as they arrive (the events of a watch) until the server ends it.
    """

    async def send(self, request: Request) -> Response:
        """Send a request and return a response of any status; raises `Unreachable` without one."""
        ...

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Open a watch and yield the lines of its body; raises an error for any status but 200."""
        ...

    async def close(self) -> None:
        """Close all connections; open watches break."""
        ...
