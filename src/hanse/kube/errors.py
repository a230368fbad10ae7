"""What can go wrong with one API server, typed by what the caller does next.

KubeError               a cluster could not do what it was asked
  Unreachable           no answer: retry with backoff, keep what is known
  BadCredentials        our own configuration is at fault: tell the person, retry slowly
  Misshapen             an object does not fit our shape of its kind: told, never retried
  ApiError              the server answered with a Status
    NotFound            the object or the kind is not there
    AlreadyExists       a create found something: look at whose it is
    Conflict            a precondition failed: read again, plan again
    Gone                the resourceVersion is too old: list again
    Invalid             the object is at fault: never retried as it is
    Forbidden           rights are missing: told in a condition, retried slowly
    Throttled           asked to wait: retry after what the server says
    ServerError         the server's trouble: retry with backoff
"""

from datetime import timedelta

import msgspec
from msgspec import Struct

from hanse.kube.transport import Response


class Status(Struct, frozen=True, rename="camel"):
    """The parts of a Kubernetes Status that say what went wrong."""

    code: int = 0
    reason: str = ""
    message: str = ""


class KubeError(Exception):
    """A cluster could not do what it was asked."""


class Unreachable(KubeError):
    """No answer came, or one that is not the API server's."""


class BadCredentials(KubeError):
    """The configuration for reaching the cluster cannot be used, or was refused (401)."""


class UndecodableObject(KubeError):
    """The server answered with an object that does not fit our shape of its kind."""


class ApiError(KubeError):
    """The server answered, and the answer is not success."""

    def __init__(self, status: Status, retry_after: timedelta | None = None) -> None:
        super().__init__(status.message or status.reason or f"status {status.code}")
        self.status = status
        self.retry_after = retry_after


class NotFound(ApiError):
    """The object, or the kind, is not there."""


class AlreadyExists(ApiError):
    """A create found an object of that name."""


class Conflict(ApiError):
    """The object is not as the precondition says."""


class Gone(ApiError):
    """The resourceVersion is no longer in the server's history."""


class Invalid(ApiError):
    """The request can never succeed as it is."""


class Forbidden(ApiError):
    """The credentials do not allow it."""


class Throttled(ApiError):
    """The server asked us to wait."""


class ServerError(ApiError):
    """The server could not answer properly."""


def error_from_response(response: Response) -> KubeError:
    """The typed error for a response that is not a success."""
    status = _status_in(response.body)
    return _error(response.status, status, retry_after_header(response))


def error_from_watch_event(body: bytes) -> KubeError:
    """The typed error for a Status that came as a watch's event, after the headers said 200."""
    status = _status_in(body)
    return _error(status.code or 500, status, None)


def _error(code: int, status: Status, retry_after: timedelta | None) -> KubeError:
    if code == 401:
        return BadCredentials(status.message or "Unauthorized")
    told = Status(code=code, reason=status.reason, message=status.message)
    return _variant(code, status.reason)(told, retry_after)


def _variant(code: int, reason: str) -> type[ApiError]:
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


def _status_in(body: bytes) -> Status:
    try:
        return msgspec.json.decode(body, type=Status)
    except msgspec.DecodeError:
        return Status(message=body[:200].decode("utf-8", "replace").strip())


def retry_after_header(response: Response) -> timedelta | None:
    """The Retry-After header in seconds; its date form is never sent by API servers."""
    seconds = response.headers.get("retry-after", "")
    return timedelta(seconds=min(int(seconds), 300)) if seconds.isdecimal() else None
