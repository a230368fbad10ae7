"""JSON patch (RFC 6902)."""

from typing import Any

import msgspec

from tinykube.serializer import clone

COPY_LIMIT = 3 * 1024 * 1024
"""Bytes that the copies of one patch may add: each may double the object."""


class PatchFailed(Exception):
    """An operation cannot be applied."""


def apply_json_patch(document: Any, operations: list[Any]) -> Any:
    """The document after all operations; it is changed in place, also if one raises `PatchFailed`.

    With the empty path an operation replaces the document, so use what is returned. Copies of more
    than `COPY_LIMIT` bytes together fail.
    """
    copied = 0
    for operation in operations:
        if not isinstance(operation, dict):
            raise PatchFailed("an operation is not an object")
        if operation.get("op") == "copy":
            copied += len(_encode(_value_at(document, _parse_pointer(operation.get("from")))))
            if copied > COPY_LIMIT:
                raise PatchFailed(f"copies of more than {COPY_LIMIT} bytes")
        document = _apply_operation(document, operation)
    return document


def _encode(value: Any) -> bytes:
    """A value as JSON, equal for equal values; raises `PatchFailed` if it nests too deeply."""
    try:
        return msgspec.json.encode(value, order="deterministic")
    except RecursionError:
        raise PatchFailed("a value nests too deeply") from None


def _apply_operation(document: Any, operation: dict[str, Any]) -> Any:
    """The document after one operation, changed in place; raises PatchFailed.

    `replace` creates a missing key; a failed `test` raises, too.
    """
    path = _parse_pointer(operation.get("path"))
    match operation.get("op"):
        case "add":
            return _add(document, path, _operation_value(operation))
        case "remove":
            return _remove(document, path)
        case "replace":
            # a missing key is created, as in the library of the API server
            return _replace(document, path, _operation_value(operation))
        case "move":
            source = _parse_pointer(operation.get("from"))
            moved = _value_at(document, source)
            return _add(_remove(document, source), path, moved)
        case "copy":
            return _add(
                document,
                path,
                clone(_value_at(document, _parse_pointer(operation.get("from")))),
            )
        case "test":
            # as JSON, since True is 1 in Python
            if _encode(_value_or_none(document, path)) != _encode(operation.get("value")):
                raise PatchFailed(f"testing value {operation.get('path')} failed")
            return document
        case other:
            raise PatchFailed(f"Unexpected kind: {other}")


def _operation_value(operation: dict[str, Any]) -> Any:
    """The value of an operation, which may be null; raises PatchFailed if it has none."""
    if "value" not in operation:
        raise PatchFailed("missing value")
    return operation["value"]


def _parse_pointer(path: Any) -> list[str]:
    """The unescaped parts of a JSON pointer; raises `PatchFailed` if it is no pointer."""
    if not isinstance(path, str) or (path and not path.startswith("/")):
        raise PatchFailed(f"bad path {path!r}")
    return [part.replace("~1", "/").replace("~0", "~") for part in path.split("/")[1:]]


def _index(container: list[Any], part: str, *, end: bool = False) -> int:
    """The list index of a segment; with `end` also the length of the list, which `-` stands for.

    Raises `PatchFailed` for other text and out of bounds.
    """
    if end and part == "-":
        return len(container)
    try:
        index = int(part)
    except ValueError:
        raise PatchFailed(f"bad index {part!r}") from None
    if not 0 <= index < len(container) + end:
        raise PatchFailed(f"index {index} is out of bounds")
    return index


def _child(container: Any, part: str) -> Any:
    """The value of one path segment, a key or an index; raises `PatchFailed` if it is missing."""
    if isinstance(container, dict):
        if part not in container:
            raise PatchFailed(f"missing path {part!r}")
        return container[part]
    if isinstance(container, list):
        return container[_index(container, part)]
    raise PatchFailed(f"missing path {part!r}")


def _value_at(document: Any, path: list[str]) -> Any:
    """The value at a path, not a copy; raises `PatchFailed` if it is missing."""
    for part in path:
        document = _child(document, part)
    return document


def _value_or_none(document: Any, path: list[str]) -> Any:
    """The value at a path; None if only the last key is missing, else raises `PatchFailed`."""
    parent = _value_at(document, path[:-1])
    if path and isinstance(parent, dict):
        return parent.get(path[-1])
    return _value_at(parent, path[-1:])


def _add(document: Any, path: list[str], value: Any) -> Any:
    """Set the value at the path, in a list insert it (`-` appends); changes the document in place.

    With an empty path the value is the new document. Raises `PatchFailed` if its parent is missing.
    """
    if not path:
        return value
    parent = _value_at(document, path[:-1])
    if isinstance(parent, list):
        parent.insert(_index(parent, path[-1], end=True), value)
        return document
    return _replace(document, path, value)


def _replace(document: Any, path: list[str], value: Any) -> Any:
    """Set the value at the path in place; a missing key is created.

    With an empty path the value is the new document. Raises `PatchFailed` if its parent or, in a
    list, its index is missing.
    """
    if not path:
        return value
    parent = _value_at(document, path[:-1])
    if isinstance(parent, list):
        parent[_index(parent, path[-1])] = value
    elif isinstance(parent, dict):
        parent[path[-1]] = value
    else:
        raise PatchFailed(f"missing path {path[-1]!r}")
    return document


def _remove(document: Any, path: list[str]) -> Any:
    """Delete the value at the path in place; raises PatchFailed if there is none.

    With an empty path the new document is None.
    """
    if not path:
        return None
    parent = _value_at(document, path[:-1])
    _child(parent, path[-1])
    if isinstance(parent, list):
        del parent[_index(parent, path[-1])]
    else:
        del parent[path[-1]]
    return document
