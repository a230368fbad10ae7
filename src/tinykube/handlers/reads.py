"""The verbs get and list, with pagination."""

import base64
from datetime import datetime
from typing import Any

import msgspec
from msgspec import Struct

from tinykube.conversion import to_served
from tinykube.errors import (
    FieldError,
    StatusError,
    bad_request,
    expired,
    forbidden,
    invalid_object,
    not_found,
    too_large_version,
    unsupported,
)
from tinykube.handlers.bodies import syntax_problem
from tinykube.handlers.calls import Call
from tinykube.handlers.negotiation import list_response, object_response
from tinykube.request import Response
from tinykube.resources import Object
from tinykube.selectors import Selector, parse_selectors
from tinykube.storage import Compacted, Storage

_PAGE_TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. You can "
    "start a new list without the continue parameter, or use the continue token in this response "
    "to retrieve the remainder of the results. Continuing with the provided token results in an "
    "inconsistent list - objects that were created, modified, or deleted between the time the "
    "first chunk was returned and now may show up in the list."
)


class _ContinueToken(Struct, frozen=True):
    """Where the next page starts and at which version; -1 is the current one."""

    v: str
    rv: int
    start: str


def get(storage: Storage, call: Call, now: datetime) -> Response:
    """The response with the object as it is now, whatever resourceVersion is asked for.

    Raises 404 if it does not exist, 400 for a malformed resourceVersion, 504 for one in the future.
    """
    obj = read_object(storage, call)
    wanted = version_of(call.option("resourceVersion"))
    if wanted > storage.version:
        raise too_large_version(wanted, storage.version)
    return object_response(call, 200, obj, now)


def read_object(storage: Storage, call: Call) -> Object:
    """The stored object that a request names, in the version requested; raises 404."""
    target = call.target
    stored = storage.get(target.resource.store, target.namespace, target.name)
    if stored is None:
        raise not_found(target.resource, target.name)
    return to_served(target.resource, stored)


def list_objects(storage: Storage, call: Call, now: datetime) -> Response:
    """The response to a list, or to one page of it with a continue token if more remain.

    Raises 400 or 422 for bad options, 410 for a version or token no longer in the history, 504 for
    a version in the future. `limit` does not count with resourceVersion 0.
    """
    check_list_options(call)
    selector = selector_for(call)
    token = _decode_token(call.option("continue"))
    version = _list_version(storage, call, token)
    objects = _objects_at_version(storage, call, version, token)
    if token is not None:
        objects = [obj for obj in objects if _list_key(obj) >= token.start]
    if not selector.matches_all:
        objects = selector.select(objects)
    list_version = storage.version if version < 0 else version
    metadata: dict[str, Any] = {"resourceVersion": str(list_version)}
    limit = 0 if call.option("resourceVersion") == "0" else call.number("limit")
    if 0 < limit < len(objects):
        start = _list_key(objects[limit - 1]) + "\0"
        metadata["continue"] = _encode_token(_ContinueToken("meta.k8s.io/v1", list_version, start))
        if selector.matches_all:
            metadata["remainingItemCount"] = len(objects) - limit
        objects = objects[:limit]
    resource = call.resource
    return list_response(call, [to_served(resource, obj) for obj in objects], metadata, now)


def selector_for(call: Call) -> Selector:
    """The labelSelector and fieldSelector of a request's query; raises 400 if one is not valid."""
    labels, fields = call.option("labelSelector"), call.option("fieldSelector")
    return parse_selectors(call.resource, labels, fields) if labels or fields else Selector()


def check_list_options(call: Call) -> None:
    """Raise 422 for contradictory options of a list or watch."""
    errors = [*_option_errors(call)]
    if errors:
        raise invalid_object("ListOptions", "meta.k8s.io", "", errors)


def _option_errors(call: Call) -> list[FieldError]:
    """The first error, in a list, in the combination of list or watch options; empty if none."""
    match_rule, version = call.option("resourceVersionMatch"), call.option("resourceVersion")
    rule, field = "resourceVersionMatch", "resourceVersionMatch"
    if call.option("sendInitialEvents") and not call.flag("watch"):
        return [forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list")]
    if call.flag("watch"):
        return _watch_errors(call, match_rule)
    if not match_rule:
        return []
    if call.option("continue"):
        return [forbidden(field, f"{rule} is forbidden when continue is provided")]
    if not version:
        return [forbidden(field, f"{rule} is forbidden unless resourceVersion is provided")]
    if match_rule not in ("Exact", "NotOlderThan"):
        return [unsupported(field, match_rule, ("Exact", "NotOlderThan", ""))]
    if match_rule == "Exact" and version == "0":
        detail = f'{rule} "Exact" is forbidden for resourceVersion "0"'
        return [forbidden(field, detail)]
    return []


def _watch_errors(call: Call, match_rule: str) -> list[FieldError]:
    """The error, in a list, of resourceVersionMatch in a watch; empty if there is none.

    It must be NotOlderThan with sendInitialEvents, and absent without.
    """
    field = "resourceVersionMatch"
    if call.option("sendInitialEvents"):
        if match_rule != "NotOlderThan":
            detail = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
            return [forbidden(field, detail)]
        return []
    if match_rule:
        detail = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
        return [forbidden(field, detail)]
    return []


def version_of(text: str) -> int:
    """A resourceVersion as a number; zero when it is absent, raises 400 if it is no number."""
    if not text:
        return 0
    if not text.isdecimal():
        problem = f'strconv.ParseUint: parsing "{text}": invalid syntax'
        raise bad_request(
            f'invalid resource version: resourceVersion: Invalid value: "{text}": {problem}'
        )
    return int(text)


def _list_version(storage: Storage, call: Call, token: _ContinueToken | None) -> int:
    """The version to list: that of the token, or one that must match exactly; else -1, the current.

    It must for resourceVersionMatch Exact or, without a match, for a non-zero version with a limit.
    Raises 400 for a token with a version other than 0, 504 for a version in the future.
    """
    if token is not None:
        if call.option("resourceVersion") not in ("", "0"):
            raise bad_request("specifying resource version is not allowed when using continue")
        return token.rv
    wanted = version_of(call.option("resourceVersion"))
    if wanted > storage.version:
        raise too_large_version(wanted, storage.version)
    rule = call.option("resourceVersionMatch")
    pinned = rule == "Exact" or (not rule and wanted and call.number("limit"))
    return wanted if pinned else -1


def _objects_at_version(
    storage: Storage, call: Call, version: int, token: _ContinueToken | None
) -> list[Object]:
    """The objects of a list at a version, before selectors; -1 is the current version.

    Raises 410 for a version no longer in the history, with a new token if there is one.
    """
    store, namespace = call.resource.store, call.target.namespace
    if version < 0 or version == storage.version:
        return storage.listed(store, namespace)
    try:
        return storage.objects_at(store, namespace, version)
    except Compacted:
        if token is None:
            message = "The resourceVersion for the provided list is too old."
            raise expired(message) from None
        raise _page_expired(token) from None


def _page_expired(token: _ContinueToken) -> StatusError:
    """The 410 to raise for an expired page, with a token to continue at the newest version."""
    error = _PageExpired(410, "Expired", _PAGE_TOO_OLD)
    error.token = _encode_token(_ContinueToken(token.v, -1, token.start))
    return error


class _PageExpired(StatusError):
    """An expired continue token; the Status has one that continues inconsistently."""

    token = ""

    @property
    def status(self) -> dict[str, Any]:
        """The Status, with the token to continue at the newest version in its metadata."""
        return {**super().status, "metadata": {"continue": self.token}}


def _list_key(obj: Object) -> str:
    """`namespace/name`, or the name alone if cluster-scoped, by which lists are ordered."""
    metadata = obj["metadata"]
    namespace = metadata.get("namespace")
    return f"{namespace}/{metadata['name']}" if namespace else str(metadata["name"])


def _encode_token(token: _ContinueToken) -> str:
    """A continue token as text: JSON in base64url without padding."""
    return base64.urlsafe_b64encode(msgspec.json.encode(token)).rstrip(b"=").decode()


def _decode_token(text: str) -> _ContinueToken | None:
    """The continue token, or None if the text is empty; raises 400 if it cannot be decoded."""
    if not text:
        return None
    problem = ""
    read = b""
    try:
        read = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        return msgspec.json.decode(read, type=_ContinueToken)
    except (msgspec.DecodeError, RecursionError):
        problem = syntax_problem(read)
    except ValueError:
        problem = "illegal base64 data"
    raise bad_request(f"invalid continue token: continue key is not valid: {problem}")
