"""Protobuf request bodies (`k8s\\0` and a runtime.Unknown) decoded into JSON objects."""

import base64
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec

from tinykube.builtin_types import Field, fields_of, type_of

MAGIC = b"k8s\0"

Wire = int | bytes
"""A varint or fixed number, or the bytes of a length-delimited field."""


class NotDecodable(ValueError):
    """The body is not protobuf, or of an unknown kind."""


def decode_body(body: bytes) -> dict[str, Any]:
    """The object in a protobuf body, as a client would send it in JSON; raises `NotDecodable`."""
    if not body.startswith(MAGIC):
        raise NotDecodable(
            "provided data does not appear to be a protobuf message, "
            f"expected prefix {list(MAGIC)}".replace(",", "")
        )
    envelope = dict(_wire_fields(memoryview(body)[len(MAGIC) :]))
    type_meta = dict(_wire_fields(_as_buffer(envelope.get(1, b""))))
    api_version, kind = (_as_text(type_meta.get(number, b"")) for number in (1, 2))
    type_name = type_of(api_version, kind)
    if fields_of(type_name) is None:
        raise NotDecodable(f'no kind "{kind}" is registered for version "{api_version}"')
    decoded = _decode_message(type_name, _as_buffer(envelope.get(2, b"")))
    return {"apiVersion": api_version, "kind": kind, **decoded}


def _decode_message(type_name: str, buffer: memoryview) -> dict[str, Any]:
    """Decode one message; unknown fields and values that Go omits from JSON are left out.

    Raises `NotDecodable`.
    """
    fields = {field.number: field for field in fields_of(type_name) or ()}
    decoded: dict[str, Any] = {}
    for number, wire in _wire_fields(buffer):
        field = fields.get(number)
        if field is None:
            continue
        if not field.name:
            decoded |= _decode_message(field.type, _as_buffer(wire))
        elif field.shape == "list":
            decoded.setdefault(field.name, []).append(_decode_value(field.type, wire))
        elif field.shape == "map":
            key, value = _decode_map_entry(field, wire)
            decoded.setdefault(field.name, {})[key] = value
        else:
            value = _decode_value(field.type, wire)
            if not _is_left_out(field, value):
                decoded[field.name] = value
    return decoded


def _is_left_out(field: Field, value: Any) -> bool:
    """Whether Go would omit a decoded value from JSON.

    That is null, or an empty text, 0 or false in a field with omitempty that is no pointer or
    struct.
    """
    if value is None:
        return True
    return not (field.pointer or field.written_when_zero or field.is_message) and value in ("", 0)


def _decode_map_entry(field: Field, wire: Wire) -> tuple[str, Any]:
    """One entry of a map, which is encoded as a message of key and value.

    Raises `NotDecodable`.
    """
    entry = dict(_wire_fields(_as_buffer(wire)))
    default: Wire = 0 if field.type in ("bool", "int32", "int64") else b""
    return _as_text(entry.get(1, b"")), _decode_value(field.type, entry.get(2, default))


def _decode_value(type_name: str, wire: Wire) -> Any:
    """The JSON form of one value of a type; bytes are base64, times and quantities text.

    Raises `NotDecodable` for wire data that is not of the type.
    """
    match type_name:
        case "string":
            return _as_text(wire)
        case "bool":
            return bool(_as_number(wire))
        case "int32" | "int64":
            return _to_signed(_as_number(wire))
        case "bytes":
            return base64.b64encode(_as_buffer(wire)).decode()
        case _ if "." in type_name:
            return _decode_message(type_name, _as_buffer(wire))
        case _:
            return _decode_special(type_name, dict(_wire_fields(_as_buffer(wire))), wire)


def _decode_special(type_name: str, parts: dict[int, Wire], wire: Wire) -> Any:
    """The JSON value of a type with a wire form of its own, such as time or quantity.

    Raises NotDecodable for any other type.
    """
    match type_name:
        case "time" | "microtime":
            return _timestamp(parts, digits=6 if type_name == "microtime" else 0)
        case "quantity":
            return _as_text(parts.get(1, b"0"))
        case "intorstring":
            is_text = parts.get(1, 0) == 1
            return (
                _as_text(parts.get(3, b"")) if is_text else _to_signed(_as_number(parts.get(2, 0)))
            )
        case "json":
            raw = bytes(_as_buffer(parts.get(1, b"")))
            return _decode_json(raw) if raw else None
        case "items":
            return [
                _as_text(item) for number, item in _wire_fields(_as_buffer(wire)) if number == 1
            ]
        case _:
            raise NotDecodable(f"a {type_name} cannot be sent as protobuf")


def _timestamp(parts: dict[int, Wire], digits: int) -> str | None:
    """RFC 3339 in UTC, with microseconds if `digits` is not 0; None for an empty message.

    Raises `NotDecodable` for a time outside of the calendar.
    """
    seconds, nanos = (_to_signed(_as_number(parts.get(number, 0))) for number in (1, 2))
    if not seconds and not nanos:
        return None
    try:
        moment = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    except (OverflowError, OSError, ValueError) as error:
        raise NotDecodable("a timestamp is outside all calendars") from error
    return f"{moment}.{nanos // 1000:06d}Z" if digits else f"{moment}Z"


def _decode_json(raw: bytes) -> Any:
    """The value in embedded JSON; raises `NotDecodable` if it is not JSON."""
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError) as error:
        raise NotDecodable(f"an embedded object is not JSON: {error}") from error


def _wire_fields(buffer: memoryview) -> Iterator[tuple[int, Wire]]:
    """The fields of one message, number and undecoded value, in the order written.

    A repeated field comes once per item. Raises `NotDecodable` for malformed bytes.
    """
    at = 0
    while at < len(buffer):
        tag, at = _varint(buffer, at)
        number, wire_type = tag >> 3, tag & 7
        match wire_type:
            case 0:
                value, at = _varint(buffer, at)
                yield number, value
            case 1 | 5:
                size = 8 if wire_type == 1 else 4
                yield number, int.from_bytes(_slice(buffer, at, size), "little")
                at += size
            case 2:
                size, at = _varint(buffer, at)
                yield number, bytes(_slice(buffer, at, size))
                at += size
            case _:
                raise NotDecodable(f"proto: illegal wireType {wire_type}")


def _varint(buffer: memoryview, at: int) -> tuple[int, int]:
    """The number that starts at an offset, and the offset after it; raises `NotDecodable`."""
    value = shift = 0
    while True:
        if at >= len(buffer) or shift > 63:
            raise NotDecodable("unexpected EOF")
        byte = buffer[at]
        value |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return value, at
        shift += 7


def _slice(buffer: memoryview, at: int, size: int) -> memoryview:
    """`size` bytes at an offset; raises `NotDecodable` beyond the end."""
    if at + size > len(buffer):
        raise NotDecodable("unexpected EOF")
    return buffer[at : at + size]


def _to_signed(number: int) -> int:
    """A varint as a signed number: negative ones are encoded as 64-bit two's complement."""
    return number - (1 << 64) if number >> 63 else number


def _as_buffer(wire: Wire) -> memoryview:
    """A length-delimited field; raises `NotDecodable` for a number."""
    if isinstance(wire, int):
        raise NotDecodable("proto: wrong wireType for a message or string")
    return memoryview(wire)


def _as_text(wire: Wire) -> str:
    """A field as text; raises `NotDecodable` for a number or bytes that are not UTF-8."""
    try:
        return bytes(_as_buffer(wire)).decode()
    except UnicodeDecodeError as error:
        raise NotDecodable("proto: a string is not UTF-8") from error


def _as_number(wire: Wire) -> int:
    """A number field; raises `NotDecodable` for a length-delimited one."""
    if not isinstance(wire, int):
        raise NotDecodable("proto: wrong wireType for a number")
    return wire
