"""Decoding of built-in kinds as Go does it: by type, without unknown fields.

The result is what the API server would encode again: empty values are left out where Go has
omitempty, and structs that Go always writes are there even when they were not given.
"""

import re
from base64 import b64decode
from binascii import Error as BadBase64
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache, lru_cache
from typing import Any

from tinykube.builtin_types import Field, fields_of, is_kind, json_fields
from tinykube.resources import Object

_TYPE_META = ("apiVersion", "kind")
_BASE64 = re.compile(r"[A-Za-z0-9+/]")


class TypeMismatch(Exception):
    """A value does not have the type of its field; the message is Go's."""

    def __init__(self, message: str, in_conversion: str = "") -> None:
        """An error with Go's message for JSON text.

        `in_conversion` is the message for patched objects, by default the same.
        """
        super().__init__(message)
        self.in_conversion = in_conversion or message
        """The message for a value that comes from a patched object and not from text."""


def decode(type_name: str, value: Object) -> tuple[Object, list[str]]:
    """A copy decoded as its built-in type, with zero values, and the paths of its unknown fields.

    Unknown fields are left out, and so are apiVersion and kind, which do not count as unknown.
    Raises `TypeMismatch` for a value of another type.
    """
    unknown: list[str] = []
    decoded = _decode_struct(type_name, value, "", "", unknown)
    return decoded, [path for path in unknown if path not in _TYPE_META]


def clone(value: Any) -> Any:
    """A deep copy of dicts and lists."""
    if isinstance(value, dict):
        return {key: clone(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [clone(inner) for inner in value]
    return value


def _decode_struct(type_name: str, value: Any, path: str, place: str, unknown: list[str]) -> Object:
    """The decoded struct with its zero values; unknown fields are left out, added to `unknown`.

    Left out are also apiVersion, kind, and empty values that Go omits. A null counts as absent.
    `path` is for type errors (without indices), `place` for the paths in `unknown` (with indices).
    """
    known = json_fields(type_name)
    decoded: Object = clone(_zero(type_name))
    for name, inner in value.items():
        field = known.get(name)
        if field is None and name in _TYPE_META and is_kind(type_name):
            continue  # volumeClaimTemplates may have apiVersion and kind
        if field is None:
            unknown.append(f"{place}.{name}" if place else name)
            continue
        if inner is None:
            continue
        if field.type == "string" and field.shape == "one" and isinstance(inner, str):
            if inner or _written_when_empty(field):  # most fields: no path is needed for errors
                decoded[name] = inner
            continue
        inner_path = f"{path}.{name}" if path else name
        inner_place = f"{place}.{name}" if place else name
        decoded_value = _decode_field(field, inner, type_name, inner_path, inner_place, unknown)
        if decoded_value or _written_when_empty(field):
            decoded[name] = decoded_value
    return decoded


def _written_when_empty(field: Field) -> bool:
    """Whether Go writes the field even if it is empty: no omitempty, a pointer, or a struct."""
    if field.written_when_zero or field.pointer:
        return True
    return field.shape == "one" and (field.is_message or field.type in ("any", "intorstring"))


def _decode_field(
    field: Field, value: Any, owner: str, path: str, place: str, unknown: list[str]
) -> Any:
    """The decoded value of a field by its shape; unknown fields are added to `unknown`.

    Raises TypeMismatch if a list or map is expected and not given, or an element has another type.
    """
    match field.shape:
        case "one":
            return _decode_value(field, value, owner, path, place, unknown)
        case "list":
            if not isinstance(value, list):
                raise _mismatch(value, owner, path, _go_type(field))
            return [
                _decode_value(field, inner, owner, path, f"{place}[{index}]", unknown)
                for index, inner in enumerate(value)
            ]
        case "map":
            if not isinstance(value, dict):
                raise _mismatch(value, owner, path, _go_type(field))
            return {
                key: _decode_value(field, inner, owner, path, f"{place}.{key}", unknown)
                for key, inner in value.items()
            }


def _decode_value(
    field: Field, value: Any, owner: str, path: str, place: str, unknown: list[str]
) -> Any:
    """One decoded value; null for a message gives its zero value.

    Types without a decoder, such as embedded JSON, are returned as given. Unknown fields are added
    to `unknown`. Raises TypeMismatch for a value of another type.
    """
    if field.is_message:
        if value is None:
            return clone(_zero(field.type))
        if not isinstance(value, dict):
            raise _mismatch(value, owner, path, _go_name(field.type))
        return _decode_struct(field.type, value, path, place, unknown)
    scalar = _SCALARS.get(field.type)
    return value if scalar is None else scalar(value, owner, path)


def _decode_string(value: Any, owner: str, path: str) -> Any:
    """The string, empty for null; raises TypeMismatch for anything else."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    raise _mismatch(value, owner, path, "string")


def _decode_bytes(value: Any, owner: str, path: str) -> Any:
    """The base64 text itself, not decoded, empty for null.

    Raises TypeMismatch if it is not valid base64.
    """
    text = _decode_string(value, owner, path)
    try:
        b64decode(text, validate=True)
    except (BadBase64, ValueError):
        at = next((i for i, c in enumerate(text) if not _BASE64.match(c)), len(text) // 4 * 4)
        raise TypeMismatch(f"illegal base64 data at input byte {at}") from None
    return text


def _decode_bool(value: Any, owner: str, path: str) -> Any:
    """The boolean as it is; raises TypeMismatch for anything else."""
    if value is True or value is False:
        return value
    raise _mismatch(value, owner, path, "bool")


def _integer_decoder(bits: int) -> Callable[[Any, str, str], Any]:
    """A decoder of signed integers of so many bits, called with value, owner and path.

    It also takes floats without fraction, as integers, and raises TypeMismatch for other values and
    out of range.
    """
    limit = 1 << (bits - 1)

    def integer(value: Any, owner: str, path: str) -> Any:
        """The integer, also from a whole float; raises TypeMismatch for others and out of range."""
        if isinstance(value, int) and not isinstance(value, bool) and -limit <= value < limit:
            return value
        if isinstance(value, float) and value.is_integer() and abs(value) < limit:
            return int(value)
        raise _mismatch(value, owner, path, f"int{bits}")

    return integer


def _int_or_string(value: Any, owner: str, path: str) -> Any:
    """The integer or string as it is; raises TypeMismatch for anything else."""
    if isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    if isinstance(value, float):
        raise TypeMismatch(f"json: cannot unmarshal number {value} into Go value of type int32")
    raise _mismatch(value, owner, path, "intstr.IntOrString")


def _decode_quantity(value: Any, owner: str, path: str) -> Any:
    """The quantity as text, also from a number; raises TypeMismatch for anything else.

    A text is not checked.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    raise _mismatch(value, owner, path, "resource.Quantity")


def _decode_time(value: Any, _owner: str, _path: str) -> Any:
    """An RFC 3339 time as text in UTC, to the second.

    Raises TypeMismatch if the value is not a time or has no zone.
    """
    if not isinstance(value, str):
        raise TypeMismatch(
            f"json: cannot unmarshal {_go_value(value)} into Go value of type string"
        )
    return _utc_text(value)


@lru_cache(4096)  # each write decodes the times that its object had before
def _utc_text(value: str) -> str:
    """An RFC 3339 time as text in UTC, to the second; cached.

    Raises TypeMismatch if the text is not a time or has no zone.
    """
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        raise _bad_time(value, "2006-01-02T15:04:05Z07:00") from None
    if moment.tzinfo is None:
        raise _bad_time(value, "2006-01-02T15:04:05Z07:00")
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _micro_time(value: Any, owner: str, path: str) -> Any:
    """An RFC 3339 time as text in UTC, with microseconds.

    Raises TypeMismatch if the value is not a time or has no zone.
    """
    _decode_time(value, owner, path)
    moment = datetime.fromisoformat(value).astimezone(UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _bad_time(value: str, layout: str) -> TypeMismatch:
    """The error to raise for a text that is not a time in this layout of Go."""
    return TypeMismatch(
        f'parsing time "{value}" as "{layout}": cannot parse "{value}" as "{layout[:4]}"'
    )


_SCALARS: dict[str, Callable[[Any, str, str], Any]] = {
    "string": _decode_string,
    "bytes": _decode_bytes,
    "bool": _decode_bool,
    "int32": _integer_decoder(32),
    "int64": _integer_decoder(64),
    "intorstring": _int_or_string,
    "quantity": _decode_quantity,
    "time": _decode_time,
    "microtime": _micro_time,
}


@cache
def _zero(type_name: str) -> Object:
    """The zero value of a type as Go encodes it; it is cached, so clone it.

    It has structs and times that are no pointers, but for creationTimestamp, and the fields without
    omitempty.
    """
    zero: Object = {}
    for field in fields_of(type_name) or ():
        if not field.name:
            zero |= _zero(field.type)
        elif field.is_message and field.shape == "one" and not field.pointer:
            zero[field.name] = _zero(field.type)
        elif field.written_when_zero or _always_written(field):
            zero[field.name] = _zero_value(field)
    return zero


def _always_written(field: Field) -> bool:
    """Whether it is a time that Go encodes as null when it is zero: all but creationTimestamp."""
    is_time = field.type in ("time", "microtime") and field.shape == "one" and not field.pointer
    return is_time and field.name != "creationTimestamp"


def _zero_value(field: Field) -> Any:
    """The zero value Go encodes for a field; None for pointers, lists, maps, messages, times."""
    if field.pointer or field.shape != "one":
        return None
    match field.type:
        case "string" | "bytes" | "quantity":
            return ""
        case "bool":
            return False
        case "int32" | "int64" | "number" | "intorstring":
            return 0
        case _:
            return None


def _mismatch(value: Any, owner: str, path: str, wanted: str) -> TypeMismatch:
    """The error to raise for a value that does not have the Go type `wanted`.

    It has a second message, for a value that comes from a patched object.
    """
    struct = owner.rpartition(".")[2]
    kind = go_kind(value)
    converted = f"unrecognized type: {wanted}"
    if wanted.startswith("[]"):
        converted = f"cannot restore slice from {_GO_KINDS.get(kind, kind)}"
    elif wanted.startswith("map["):
        converted = f"cannot restore map from {_GO_KINDS.get(kind, kind)}"
    elif "." in wanted:
        converted = f"cannot restore struct from: {_GO_KINDS.get(kind, kind)}"
    return TypeMismatch(
        f"json: cannot unmarshal {_go_value(value)} into Go struct field "
        f"{struct}.{path} of type {wanted}",
        converted,
    )


_GO_KINDS = {"number": "int64", "object": "map", "array": "slice"}


def go_kind(value: Any) -> str:
    """The JSON type of a value as Go names it in messages; `object` also for null."""
    match value:
        case bool():
            return "bool"
        case str():
            return "string"
        case int() | float():
            return "number"
        case list():
            return "array"
        case _:
            return "object"


def _go_value(value: Any) -> str:
    """The JSON type of a value, and the number where it does not fit a 32-bit integer."""
    kind = go_kind(value)
    fits = isinstance(value, int) and abs(value) < 1 << 31
    return kind if kind != "number" or fits else f"number {value}"


def _go_name(type_name: str) -> str:
    """A type of the table as Go names it: `core/v1.Pod` is `v1.Pod`."""
    group, _, name = type_name.rpartition(".")
    return f"{group.rpartition('/')[2]}.{name}"


def _go_type(field: Field) -> str:
    """The Go type of a field that is a list or a map, such as `[]v1.Container`."""
    inner = _go_name(field.type) if field.is_message else _GO_SCALARS.get(field.type, field.type)
    return f"[]{inner}" if field.shape == "list" else f"map[string]{inner}"


_GO_SCALARS = {
    "bytes": "[]uint8",
    "intorstring": "intstr.IntOrString",
    "quantity": "resource.Quantity",
    "time": "v1.Time",
    "microtime": "v1.MicroTime",
}


def empty_status(type_name: str) -> Any:
    """The status that Go encodes for an object without one, as a copy; {} if it encodes none."""
    return clone(_zero(type_name)).get("status", {})
