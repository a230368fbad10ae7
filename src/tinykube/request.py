"""HTTP requests and responses as values, and the content types that the API server reads."""

from typing import Protocol

from msgspec import Struct

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"


class RequestLike(Protocol):
    """What the API server reads of a request; a client's own request type may have more."""

    @property
    def method(self) -> str:
        """The HTTP method in upper case."""
        ...

    @property
    def path(self) -> str:
        """The path without the query; its segments may be percent-encoded."""
        ...

    @property
    def query(self) -> tuple[tuple[str, str], ...]:
        """The decoded parameters of the query, in their order; names may repeat."""
        ...

    @property
    def body(self) -> bytes:
        """The whole body; empty if there is none."""
        ...

    @property
    def content_type(self) -> str:
        """The Content-Type header, with its parameters if it has any."""
        ...

    @property
    def accept(self) -> str:
        """The Accept header."""
        ...

    @property
    def headers(self) -> tuple[tuple[str, str], ...]:
        """Names and values of other headers; names may repeat, in any case."""
        ...


class Request(Struct, frozen=True):
    """One HTTP request; the path is without the query."""

    method: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    content_type: str = JSON
    accept: str = JSON
    headers: tuple[tuple[str, str], ...] = ()


class Response(Struct, frozen=True):
    """A whole answer of any status; header names are in lower case."""

    status: int
    body: bytes = b""
    headers: dict[str, str] = {}
