"""Errors of one API server, typed by what the caller does next.

KubeError               a request to a cluster failed
  Unreachable           no response: retry with backoff, keep the cached state
    Untrusted           its certificate is of another authority: report it, retry as above
    Unanswered          it took the request, and did not answer in time: as above
  BadCredentials        the client configuration is at fault: report it, retry slowly
  UndecodableObject     an object cannot be decoded as its kind: reported, never retried
  ApiError              the server answered with a Status
    NotFound            the object or the kind is not there
    AlreadyExists       a create found an object: check who owns it
    Conflict            a precondition failed: read again, plan again
    Gone                the resourceVersion is too old: list again
    Invalid             the object is at fault: never retried as it is
    Forbidden           permissions are missing: reported in a condition, retried slowly
    Throttled           rate limited: retry after Retry-After
    ServerError         the server failed: retry with backoff
"""

from datetime import timedelta

import msgspec
from msgspec import Struct

from hanse.kube.transport import Response
from hanse.model.json_input import decode_json
from hanse.model.numbers import parse_number


class Status(Struct, frozen=True, rename="camel"):
    """The code, reason and message of a Kubernetes Status."""

    code: int = 0
    reason: str = ""
    message: str = ""


class KubeError(Exception):
    """A request to a cluster failed."""


class Unreachable(KubeError):
    """No response came, or one that is not from the API server."""


class Untrusted(Unreachable):
    """The certificate of the server is not one that the client configuration trusts."""


class Unanswered(Unreachable):
    """The server took the request over a connection that stands, and did not answer in time."""


class BadCredentials(KubeError):
    """The client configuration cannot be used, or was rejected (401)."""


class UndecodableObject(KubeError):
    """The response holds an object that cannot be decoded as its kind."""


class ApiError(KubeError):
    """The server responded with a Status other than success."""

    def __init__(self, status: Status, retry_after: timedelta | None = None) -> None:
        """The message is that of the Status, else its reason, else `status CODE`."""
        super().__init__(status.message or status.reason or f"status {status.code}")
        self.status = status
        self.retry_after = retry_after


class NotFound(ApiError):
    """The object, or the kind, does not exist."""


class AlreadyExists(ApiError):
    """A create found an object of that name."""


class Conflict(ApiError):
    """A precondition (resourceVersion or uid) failed."""


class Gone(ApiError):
    """The resourceVersion is no longer in the server's history."""


class Invalid(ApiError):
    """The request can never succeed as it is."""


class Forbidden(ApiError):
    """RBAC does not allow it."""


class Throttled(ApiError):
    """The server limits our requests (429)."""


class ServerError(ApiError):
    """The server failed (5xx)."""


def error_from_response(response: Response) -> KubeError:
    """The typed error, to be raised, for a response that is not a success, with its Retry-After.

    A 401 gives `BadCredentials`, any other status an `ApiError` by code and reason; of a body that
    is no Status the first 200 bytes are the message.
    """
    status = _parse_status(response.body)
    return _build_error(response.status, status, retry_after_header(response))


def error_from_watch_event(body: bytes) -> KubeError:
    """The typed error, to be raised, for the Status of an ERROR event, by its code.

    Without a code, or if it is no Status, it is a 500 (`ServerError`); 401 gives `BadCredentials`.
    """
    status = _parse_status(body)
    return _build_error(status.code or 500, status, None)


def _build_error(code: int, status: Status, retry_after: timedelta | None) -> KubeError:
    """The error for a status code: 401 gives BadCredentials, any other an ApiError by its code."""
    if code == 401:
        return BadCredentials(status.message or "Unauthorized")
    reported = Status(code=code, reason=status.reason, message=status.message)
    return _error_type(code, status.reason)(reported, retry_after)


def _error_type(code: int, reason: str) -> type[ApiError]:
    """The error class of a status code; 409 is AlreadyExists if that is its reason, else Conflict.

    All codes from 500 are ServerError; codes without a class of their own are Invalid.
    """
    match code:
        case 403:
            return Forbidden
        case 404:
            return NotFound
        case 409:
            return AlreadyExists if reason == "AlreadyExists" else Conflict
        case 410:
            return Gone
        case 429:
            return Throttled
        case _ if code >= 500:
            return ServerError
        case _:
            return Invalid


def _parse_status(body: bytes) -> Status:
    """The Status in a body; for any other body one with its first 200 bytes as message, code 0."""
    try:
        return decode_json(body, type=Status)
    except msgspec.DecodeError:
        return Status(message=body[:200].decode("utf-8", "replace").strip())


def retry_after_header(response: Response) -> timedelta | None:
    """The Retry-After header as a duration of at most 300 s; None without one, or for a date."""
    seconds = parse_number(response.headers.get("retry-after", ""))
    return timedelta(seconds=min(seconds, 300)) if seconds is not None else None
