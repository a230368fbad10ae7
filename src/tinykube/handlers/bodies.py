"""Request bodies: decoded by content type into objects of the expected kind."""

import json
from collections.abc import Iterable
from typing import Any

import msgspec
import yaml

from tinykube import custom_resources, protobuf, serializer
from tinykube.builtin_types import fields_of, type_of
from tinykube.errors import bad_request, too_large, unsupported_media_type
from tinykube.handlers.calls import Call
from tinykube.request import JSON, RequestLike
from tinykube.resources import Object

BODY_LIMIT = 3 * 1024 * 1024
MAX_DEPTH = 100
"""Levels of nested objects and lists; what handles objects calls itself for each level."""
YAML = "application/yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"
_TOO_DEEP = "exceeded max depth"
_TIMESTAMP = "tag:yaml.org,2002:timestamp"
_FORMER_VERSIONS = ("extensions/v1beta1", "apps/v1beta1", "apps/v1beta2")
"""API versions that the API server can decode but does not serve."""
_SCHEME = "k8s.io/kubernetes/pkg/api/legacyscheme/scheme.go:30"


class DecodeError(Exception):
    """The body does not have the syntax of its content type; the message is Go's."""


def read_body(request: RequestLike) -> bytes:
    """The body; raises 413 as `StatusError` if it is larger than 3 MiB."""
    if len(request.body) > BODY_LIMIT:
        raise too_large(BODY_LIMIT)
    return request.body


def media_type(request: RequestLike) -> str:
    """The content type in lower case without its parameters; JSON if there is none."""
    return request.content_type.partition(";")[0].strip().lower() or JSON


def parse(request: RequestLike) -> Any:
    """The body decoded by its content type (JSON, YAML, protobuf), of any type.

    Raises `DecodeError`, and 413 or 415 as `StatusError`.
    """
    body = read_body(request)
    match media_type(request):
        case "application/json":
            return parse_json(body)
        case "application/yaml":
            return _parse_yaml(body)
        case "application/vnd.kubernetes.protobuf":
            return _parse_protobuf(body)
        case _:
            raise unsupported_media_type((JSON, YAML, PROTOBUF))


def _parse_protobuf(body: bytes) -> Any:
    """The object of a protobuf body; raises `DecodeError`, also for one that nests too deeply."""
    try:
        value = protobuf.decode_body(body)
    except protobuf.NotDecodable as error:
        raise DecodeError(str(error)) from error
    except RecursionError:
        raise DecodeError(_TOO_DEEP) from None
    if is_deep(value):
        raise DecodeError(_TOO_DEEP)
    return value


class _YamlLoader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]  # in C where it is built
    """The safe loader, but a date is a text, as JSON has no other type for it."""

    yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag != _TIMESTAMP]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


_YamlLoader.add_constructor(_TIMESTAMP, _YamlLoader.construct_yaml_str)


def _parse_yaml(body: bytes) -> Any:
    """The value of a YAML body, dates as text; raises DecodeError, with the line if it is known."""
    try:
        _check_yaml(yaml.parse(body, Loader=_YamlLoader))
        return yaml.load(body, Loader=_YamlLoader)  # noqa: S506 -- it is the safe one
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark is not None else 0
        raise DecodeError(f"yaml: line {line}: {error.problem}") from error
    except yaml.YAMLError as error:
        raise DecodeError(f"yaml: {error}") from error
    except (ValueError, LookupError) as error:
        raise DecodeError("yaml: a value does not have the form of its tag") from error


def _check_yaml(events: Iterable[yaml.Event]) -> None:
    """Raise `DecodeError` for aliases, which expand a few bytes to millions, and deep nesting."""
    depth = 0
    for event in events:
        line = event.start_mark.line + 1 if event.start_mark is not None else 0
        match event:
            case yaml.AliasEvent():
                raise DecodeError(f"yaml: line {line}: aliases are not taken; write values out")
            case yaml.CollectionStartEvent():
                depth += 1
                if depth > MAX_DEPTH:
                    raise DecodeError(f"yaml: line {line}: {_TOO_DEEP}")
            case yaml.CollectionEndEvent():
                depth -= 1
            case _:
                pass


def parse_json(body: bytes) -> Any:
    """The value of JSON text; raises `DecodeError`, also for text that nests too deeply."""
    try:
        value = msgspec.json.decode(body)
    except RecursionError:
        raise DecodeError(_TOO_DEEP) from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise DecodeError(syntax_problem(body)) from None
    if body.count(b"{") + body.count(b"[") > MAX_DEPTH and is_deep(value):
        raise DecodeError(_TOO_DEEP)
    return value


def is_deep(value: Any) -> bool:
    """Whether a value nests dicts and lists deeper than `MAX_DEPTH` levels."""
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        nested = [one for one in level if isinstance(one, dict | list)]
        level = [i for one in nested for i in (one.values() if isinstance(one, dict) else one)]
        if not nested:
            return False
    return True


def syntax_problem(body: bytes) -> str:
    """The message that Go's decoder has for text that is not valid JSON."""
    text = body.decode("utf-8", "replace")
    try:
        json.loads(text)
    except RecursionError:
        return _TOO_DEEP
    except json.JSONDecodeError as error:
        rest = text[error.pos :].lstrip()
        if not rest:
            return "unexpected end of JSON input"
        return f"invalid character '{rest[0]}' {_EXPECTED.get(error.msg, _ANYTHING)}"
    return "unexpected end of JSON input"


_ANYTHING = "looking for beginning of value"
_EXPECTED = {
    "Expecting property name enclosed in double quotes": (
        "looking for beginning of object key string"
    ),
    "Expecting ':' delimiter": "after object key",
    "Expecting ',' delimiter": "after object key:value pair",
    "Extra data": "after top-level value",
    "Illegal trailing comma before end of object": "looking for beginning of object key string",
    "Illegal trailing comma before end of array": "looking for beginning of value",
}


def decode_object(call: Call) -> Object:
    """The object in the body, decoded as the kind of the target, without unknown fields.

    A custom resource gets its defaults; a built-in object the kind and apiVersion that it lacks.
    Raises 400 for a malformed body, another apiVersion or, of built-in kinds, another kind, and 413
    or 415 as `parse` does; fieldValidation decides on unknown fields. A custom resource must name a
    kind; which one is checked later.
    """
    value = _parse_object(call)
    api_version, kind = call.body_kind
    custom = call.resource.custom is not None and api_version == call.resource.api_version
    if custom or fields_of(type_of(api_version, kind)) is None:
        return _decode_custom(call, value)
    return _decode_builtin(call, value, kind, api_version)


def _parse_object(call: Call) -> Object:
    """The body as a JSON object; raises 400 for any other value, 413 or 415 as `parse` does."""
    kind = call.resource.kind
    try:
        value = parse(call.request)
    except DecodeError as error:
        summary = _summary(call.request.body)
        prefix = ""
        if media_type(call.request) == JSON:
            prefix = "couldn't get version/kind; json parse error: "
        raise bad_request(
            f"the object provided is unrecognized (must be of type {kind}): "
            f"{prefix}{error} ({summary})"
        ) from error
    if not isinstance(value, dict):
        summary = _summary(call.request.body)
        raise bad_request(
            f"the object provided is unrecognized (must be of type {kind}): couldn't get "
            f"version/kind; json parse error: json: cannot unmarshal {serializer.go_kind(value)} "
            f'into Go value of type struct {{ APIVersion string "json:\\"apiVersion,omitempty\\""; '
            f'Kind string "json:\\"kind,omitempty\\"" }} ({summary})'
        )
    return value


def _summary(body: bytes) -> str:
    """A body in error messages: its first 30 bytes, in hex unless it starts with `{`; `<empty>`."""
    if not body:
        return "<empty>"
    text = body[:30].decode("utf-8", "replace") if body[:1] == b"{" else body[:30].hex()
    return f"{text} ..." if len(body) > 30 else text


def _decode_builtin(call: Call, value: Object, kind: str, api_version: str) -> Object:
    """Decode an object of a built-in kind; raises 400 for another kind or a wrong type.

    A missing kind or apiVersion is filled in. Unknown and duplicate fields are refused, warned of
    or ignored by fieldValidation.
    """
    sent_kind = value.get("kind") or kind
    sent_version = value.get("apiVersion") or api_version
    version = str(sent_version).rpartition("/")[2]
    prefix = f'{sent_kind} in version "{version}" cannot be handled as a {kind}'
    if sent_kind == kind and sent_version in _FORMER_VERSIONS:
        raise bad_request(
            f"the API version in the data ({sent_version}) does not match the expected "
            f"API version ({api_version})"
        )
    if (sent_kind, sent_version) != (kind, api_version):
        raise bad_request(f"{prefix}: {_kind_mismatch(sent_kind, str(sent_version), kind)}")
    type_name = type_of(api_version, kind)
    try:
        decoded, unknown = serializer.decode(type_name, value)
    except serializer.TypeMismatch as error:
        raise bad_request(f"{prefix}: {error}") from error
    problems = [f'unknown field "{path}"' for path in unknown]
    if call.field_validation != "Ignore" and media_type(call.request) == JSON:
        problems = duplicate_fields(call.request.body) + problems
    report_strict_errors(call, problems, prefix)
    return {"kind": kind, "apiVersion": api_version, **decoded}


def report_strict_errors(call: Call, problems: list[str], prefix: str) -> None:
    """Raise a 400 with these strict decoding errors, warn of them or ignore them.

    The request's fieldValidation decides; nothing without problems.
    """
    if not problems:
        return
    match call.field_validation:
        case "Strict":
            raise bad_request(f"{prefix}: strict decoding error: {', '.join(problems)}")
        case "Warn":
            for problem in problems:
                call.warn(problem)
        case "Ignore":
            pass


def duplicate_fields(body: bytes) -> list[str]:
    """A message `duplicate field "name"` each time that an object of JSON text repeats a key.

    The text must be valid JSON.
    """
    if msgspec.json.encode(msgspec.json.decode(body)) == body:
        return []  # as most clients write it, and nothing was lost
    found: list[str] = []

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        """The dict of one JSON object; also adds a message to `found` for each repeated key."""
        made = dict(items)
        if len(made) != len(items):
            seen: set[str] = set()
            for key, _ in items:
                if key in seen:
                    found.append(f'duplicate field "{key}"')
                seen.add(key)
        return made

    json.loads(body, object_pairs_hook=pairs)
    return found


def _kind_mismatch(sent_kind: str, sent_version: str, kind: str) -> str:
    """The message for an object of another kind: not registered, or not convertible to `kind`."""
    if fields_of(type_of(sent_version, sent_kind)) is None:
        return (
            f'no kind "{sent_kind}" is registered for version "{sent_version}" '
            f'in scheme "{_SCHEME}"'
        )
    version = sent_version.rpartition("/")[2]
    return f"converting ({version}.{sent_kind}) to (core.{kind}): unknown conversion"


def _decode_custom(call: Call, value: Object) -> Object:
    """Decode a custom resource: prune and default, not validate.

    Raises 400 without kind, for another version or metadata of a wrong type. Unknown and duplicate
    fields are treated by fieldValidation; a deprecated version is warned of.
    """
    resource = call.resource
    kind = resource.kind
    if not value.get("kind"):
        text = call.request.body.decode("utf-8", "replace")
        raise bad_request(
            f"the object provided is unrecognized (must be of type {kind}): "
            f"Object 'Kind' is missing in '{text}' ({_summary(call.request.body)})"
        )
    sent_version = value.get("apiVersion") or ""
    if sent_version != resource.api_version:
        raise bad_request(
            f"the API version in the data ({sent_version}) does not match the expected "
            f"API version ({resource.api_version})"
        )
    decoded, unknown = custom_resources.prune_and_default(resource, value)
    problems = [f'unknown field "{path}"' for path in unknown]
    if call.field_validation != "Ignore" and media_type(call.request) == JSON:
        problems = duplicate_fields(call.request.body) + problems
    version = resource.version
    report_strict_errors(
        call, problems, f'{kind} in version "{version}" cannot be handled as a {kind}'
    )
    if resource.custom is not None and resource.custom.deprecation_warning:
        call.warn(resource.custom.deprecation_warning)
    return decoded
