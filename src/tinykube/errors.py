"""Errors of the API server as Kubernetes Statuses, with the messages of the original."""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from tinykube.request import Response
from tinykube.resources import Resource


class FieldError(Struct, frozen=True):
    """An error of one field: a cause in the Status, and a part of its message."""

    type: str
    field: str
    body: str

    @property
    def text(self) -> str:
        """The error as a part of the message: `field: body`."""
        return f"{self.field}: {self.body}"


def quoted(value: Any) -> str:
    """A value as error messages show it: as JSON."""
    return msgspec.json.encode(value).decode()


def invalid(field: str, value: Any, detail: str) -> FieldError:
    """The error of a value that is not valid, with the value as JSON in its text."""
    return FieldError("FieldValueInvalid", field, f"Invalid value: {quoted(value)}: {detail}")


def required(field: str, detail: str = "") -> FieldError:
    """The error of a value that is missing; its text has the detail if there is one."""
    return FieldError("FieldValueRequired", field, "Required value" + (detail and f": {detail}"))


def forbidden(field: str, detail: str) -> FieldError:
    """The error of a value, or of a change of it, that is not permitted."""
    return FieldError("FieldValueForbidden", field, f"Forbidden: {detail}")


def duplicate(field: str, value: Any) -> FieldError:
    """The error of a value that may appear only once."""
    return FieldError("FieldValueDuplicate", field, f"Duplicate value: {quoted(value)}")


def unsupported(field: str, value: Any, allowed: Sequence[str]) -> FieldError:
    """The error of a value that is not one of those allowed, which its text lists."""
    choices = ", ".join(quoted(choice) for choice in allowed)
    return FieldError(
        "FieldValueNotSupported",
        field,
        f"Unsupported value: {quoted(value)}: supported values: {choices}",
    )


def too_long(field: str, limit: int) -> FieldError:
    """The error of a text with more bytes than the limit."""
    return FieldError("FieldValueTooLong", field, f"Too long: may not be more than {limit} bytes")


def too_many(field: str, found: int, limit: int) -> FieldError:
    """The error of a list with more items than the limit."""
    body = f"Too many: {found}: must have at most {limit} items"
    return FieldError("FieldValueTooMany", field, body)


class StatusError(Exception):
    """A request failed; carries the Status of the response."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        details: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        """An error that is answered as a Status with this code, reason, message and details.

        `headers` are added to the response.
        """
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details
        self.headers = headers or {}

    @property
    def status(self) -> dict[str, Any]:
        """The Status object, in the field order that the API server uses.

        An empty reason and missing details are left out.
        """
        status: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            status["reason"] = self.reason
        if self.details is not None:
            status["details"] = self.details
        status["code"] = self.code
        return status

    @property
    def response(self) -> Response:
        """The Status as a JSON response with the error's code and additional headers."""
        headers = {"content-type": "application/json", **self.headers}
        return Response(self.code, msgspec.json.encode(self.status), headers)


class NoSuchPath(StatusError):
    """Nothing is served at the path; the response is plain text."""

    def __init__(self) -> None:
        """A 404 without details; its `response` is plain text."""
        super().__init__(404, "NotFound", "404 page not found")

    @property
    def response(self) -> Response:
        """A 404 in plain text, not a Status."""
        headers = {"content-type": "text/plain; charset=utf-8"}
        return Response(404, b"404 page not found\n", headers)


def _status_details(resource: Resource, name: str) -> dict[str, Any]:
    """The details of a Status without empty fields; their `kind` is the plural of the resource."""
    named = {"name": name, "group": resource.group, "kind": resource.plural}
    return {key: value for key, value in named.items() if value}


def not_found(resource: Resource, name: str) -> StatusError:
    """A 404 NotFound to raise: there is no object of that name."""
    message = f'{resource.group_resource} "{name}" not found'
    return StatusError(404, "NotFound", message, _status_details(resource, name))


def eviction_refused() -> StatusError:
    """A 429 TooManyRequests to raise: an eviction would violate a disruption budget."""
    message = "Cannot evict pod as it would violate the pod's disruption budget."
    return StatusError(429, "TooManyRequests", message)


def already_exists(resource: Resource, name: str) -> StatusError:
    """A 409 AlreadyExists to raise: a create found an object of that name."""
    message = f'{resource.group_resource} "{name}" already exists'
    return StatusError(409, "AlreadyExists", message, _status_details(resource, name))


def name_not_generated(resource: Resource, name: str) -> StatusError:
    """A 409 AlreadyExists with Retry-After to raise: no free name was found for generateName."""
    message = (
        f'{resource.group_resource} "{name}" already exists, '
        "the server was not able to generate a unique name for the object"
    )
    details = {**_status_details(resource, name), "retryAfterSeconds": 1}
    return StatusError(409, "AlreadyExists", message, details, {"retry-after": "1"})


def conflict(resource: Resource, name: str, why: str) -> StatusError:
    """A 409 Conflict to raise: a precondition failed."""
    message = f'Operation cannot be fulfilled on {resource.group_resource} "{name}": {why}'
    return StatusError(409, "Conflict", message, _status_details(resource, name))


def stale(resource: Resource, name: str) -> StatusError:
    """A 409 Conflict to raise: the given resourceVersion is not the current one."""
    why = (
        "the object has been modified; please apply your changes to the latest version "
        "and try again"
    )
    return conflict(resource, name, why)


def not_allowed(resource: Resource, name: str, why: str, causes: Sequence[Any] = ()) -> StatusError:
    """A 403 Forbidden to raise: admission, or a check of what is written, denied the request.

    The causes become those of the details; without a name the message names the resource alone. A
    request that RBAC rules do not allow has another error, `rbac.attributes.forbidden`.
    """
    subject = f'{resource.group_resource} "{name}"' if name else resource.group_resource
    details = _status_details(resource, name)
    if causes:
        details["causes"] = list(causes)
    return StatusError(403, "Forbidden", f"{subject} is forbidden: {why}", details)


def invalid_object(kind: str, group: str, name: str, errors: Iterable[FieldError]) -> StatusError:
    """A 422 Invalid to raise: all errors are causes, the message shows equal ones once."""
    found = list(errors)
    texts = list(dict.fromkeys(error.text for error in found))
    summary = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    qualified = f"{kind}.{group}" if group else kind
    causes = [{"reason": e.type, "message": e.body, "field": e.field} for e in found]
    named = {"name": name, "group": group, "kind": kind}
    details: dict[str, Any] = {key: value for key, value in named.items() if value}
    details["causes"] = causes
    return StatusError(422, "Invalid", f'{qualified} "{name}" is invalid: {summary}', details)


def bad_request(message: str) -> StatusError:
    """A 400 BadRequest to raise: the request is malformed."""
    return StatusError(400, "BadRequest", message)


def expired(message: str) -> StatusError:
    """A 410 Expired to raise: the resourceVersion is no longer in the history."""
    return StatusError(410, "Expired", message)


def too_large_version(asked: int, present: int) -> StatusError:
    """A 504 Timeout with Retry-After to raise: the resourceVersion asked for is in the future."""
    message = f"Timeout: Too large resource version: {asked}, current: {present}"
    causes = [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]
    details = {"causes": causes, "retryAfterSeconds": 1}
    return StatusError(504, "Timeout", message, details, {"retry-after": "1"})


def unknown_resource() -> StatusError:
    """A 404 NotFound to raise: the group version is served, the resource is not."""
    message = "the server could not find the requested resource"
    return StatusError(404, "NotFound", message, {})


def method_not_allowed() -> StatusError:
    """A 405 MethodNotAllowed to raise: the path is served, the method is not."""
    message = "the server does not allow this method on the requested resource"
    return StatusError(405, "MethodNotAllowed", message, {})


def verb_not_supported(resource: Resource, verb: str) -> StatusError:
    """A 405 MethodNotAllowed to raise; the message names the verb (any text) and the resource."""
    message = f'{verb} is not supported on resources of kind "{resource.group_resource}"'
    return StatusError(405, "MethodNotAllowed", message, _status_details(resource, ""))


def unsupported_media_type(accepted: Sequence[str]) -> StatusError:
    """A 415 UnsupportedMediaType to raise: the content type of the body is not one accepted."""
    message = (
        "the body of the request was in an unknown format - "
        f"accepted media types include: {', '.join(accepted)}"
    )
    return StatusError(415, "UnsupportedMediaType", message)


def too_large(limit: int) -> StatusError:
    """A 413 RequestEntityTooLarge to raise: the body exceeds the limit."""
    message = f"Request entity too large: limit is {limit}"
    return StatusError(413, "RequestEntityTooLarge", message)


def unprocessable() -> StatusError:
    """A 422 Invalid without causes to raise: the patch cannot be applied to the object."""
    text = "the server rejected our request due to an error in our request"
    return StatusError(422, "Invalid", text, {})


FAILURE = StatusError(500, "InternalError", "Internal error occurred: see the server's log")
"""A 500 InternalError for an exception that nobody expected, which is in the log."""


def internal_error(message: str) -> StatusError:
    """A 500 InternalError to raise: the server, or a webhook, failed."""
    details = {"causes": [{"message": message}]}
    return StatusError(500, "InternalError", f"Internal error occurred: {message}", details)
