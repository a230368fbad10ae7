"""PATCH bodies: JSON patch, merge patch and strategic merge patch."""

from collections.abc import Callable
from typing import Any

import msgspec

from tinykube import custom_resources, serializer
from tinykube.builtin_types import type_of
from tinykube.errors import (
    FieldError,
    StatusError,
    bad_request,
    invalid,
    invalid_object,
    unprocessable,
    unsupported_media_type,
)
from tinykube.handlers.bodies import DecodeError, is_deep, media_type, parse_json, read_body
from tinykube.handlers.calls import Call
from tinykube.json_patch import PatchFailed, apply_json_patch
from tinykube.request import JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH
from tinykube.resources import Object
from tinykube.strategic_merge import BadDirective, KeyMissing, go_text, strategic_merge

_OPERATIONS_LIMIT = 10_000


def patch_for(call: Call) -> Callable[[Object], Object]:
    """The patch of a request as a function from the current object to the patched one.

    JSON patch and merge patch are accepted and, for built-in kinds, strategic merge patch; a 415 is
    raised for other content types, a 400 for a malformed body, a 413 for one that is too large. The
    function raises `StatusError` if the patch cannot be applied.
    """
    kind = media_type(call.request)
    accepted = [JSON_PATCH, MERGE_PATCH]
    if call.resource.custom is None:
        accepted.append(STRATEGIC_MERGE_PATCH)
    if kind not in accepted:
        if call.resource.custom is None:
            raise StatusError(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})
        raise unsupported_media_type(accepted)
    return patch_function(kind, read_body(call.request), type_of(*call.body_kind))


def patch_function(kind: str, body: bytes, type_name: str) -> Callable[[Object], Object]:
    """A patch of one media type (`kind`) as a function; raises 400 for a malformed body.

    Other types than JSON patch and merge patch are strategic merge patch, by the fields of
    `type_name`. The function raises `StatusError` if the patch cannot be applied.
    """
    try:
        patch = parse_json(body)
    except DecodeError as error:
        prefix = "" if kind == STRATEGIC_MERGE_PATCH else "error decoding patch: "
        raise bad_request(f"{prefix}{error}") from error
    if kind == JSON_PATCH:
        return lambda old: _apply_json_patch(old, patch)
    if not isinstance(patch, dict):
        raise bad_request(
            f"error decoding patch: json: cannot unmarshal {serializer.go_kind(patch)} into Go "
            "value of type map[string]interface {}"
        )
    if kind == MERGE_PATCH:
        return lambda old: merge(old, patch)
    return lambda old: _apply_strategic_merge(type_name, old, patch)


def _apply_json_patch(old: Object, patch: Any) -> Object:
    """A patched copy of the object; `old` stays as it is.

    Raises 400 if the patch is no list, 413 if too long, 422 if it fails or leaves no object, or one
    that nests too deeply.
    """
    if not isinstance(patch, list):
        raise bad_request(
            f"error decoding patch: json: cannot unmarshal {serializer.go_kind(patch)} into Go "
            "value of type []handlers.jsonPatchOp"
        )
    if len(patch) > _OPERATIONS_LIMIT:
        raise StatusError(
            413,
            "RequestEntityTooLarge",
            "Request entity too large: The allowed maximum operations in a JSON patch is "
            f"{_OPERATIONS_LIMIT}, got {len(patch)}",
        )
    try:
        patched = apply_json_patch(serializer.clone(old), patch)
    except PatchFailed as error:
        raise unprocessable() from error
    if not isinstance(patched, dict) or is_deep(patched):
        raise unprocessable()
    return patched


def _apply_strategic_merge(type_name: str, old: Object, patch: Object) -> Object:
    """The patched object; raises 400 for a bad directive, 500 for a missing merge key."""
    try:
        return strategic_merge(type_name, old, patch)
    except BadDirective as error:
        raise bad_request(str(error)) from error
    except KeyMissing as error:
        raise StatusError(500, "", str(error)) from error


def decode_patched(call: Call, patched: Object) -> Object:
    """A patched object decoded as its kind; shares nothing with the object before.

    Raises 422 for another kind or a wrong type of a built-in kind, and for unknown fields if
    fieldValidation is Strict; if it is Warn, they are warned of. A custom kind is pruned and
    defaulted; only wrong types in its metadata raise, a 400.
    """
    resource = call.resource
    api_version, kind = call.body_kind
    if resource.custom is not None and (api_version, kind) == (resource.api_version, resource.kind):
        decoded, unknown = custom_resources.prune_and_default(resource, patched)
    else:
        sent = (patched.get("apiVersion", api_version), patched.get("kind", kind))
        if sent != (api_version, kind):
            detail = f'no kind "{sent[1]}" can stand for {kind} of version "{api_version}"'
            raise _bad_patch(_encode_json(patched), detail)
        try:
            decoded, unknown = serializer.decode(type_of(api_version, kind), patched)
        except serializer.TypeMismatch as error:
            if media_type(call.request) == STRATEGIC_MERGE_PATCH:
                text = go_text(parse_json(call.request.body))
                raise _bad_patch(text, error.in_conversion) from error
            raise _bad_patch(_encode_json(patched), str(error)) from error
        decoded = {"kind": kind, "apiVersion": api_version, **decoded}
    problems = [f'unknown field "{path}"' for path in unknown]
    if problems and call.field_validation == "Strict":
        raise _bad_patch(_encode_json(patched), f"strict decoding error: {', '.join(problems)}")
    if call.field_validation == "Warn":
        for problem in problems:
            call.warn(problem)
    return decoded


def _encode_json(patched: Object) -> str:
    """An object as JSON text for messages, its top-level keys sorted."""
    return msgspec.json.encode({key: patched[key] for key in sorted(patched)}).decode()


def _bad_patch(text: str, detail: str) -> StatusError:
    """The 422 to raise for a patch whose result cannot be decoded."""
    error: FieldError = invalid("patch", text, detail)
    return invalid_object("", "", "", [error])


def merge(target: Any, patch: Any) -> Any:
    """The target with a JSON merge patch (RFC 7386) applied; neither argument is changed."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merge(result.get(name), value)
    return result
