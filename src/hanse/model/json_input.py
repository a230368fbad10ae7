"""Decodes JSON that people or peers write, within a bound of depth."""

import re
from collections.abc import Iterator
from typing import Any, TypeVar, overload

import msgspec

T = TypeVar("T")

MAX_DEPTH = 100
"""Levels of nested objects and lists; no kind of ours or of Kubernetes has half as many."""

_STRUCTURE = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[{]|[\]}]', re.DOTALL)


@overload
def decode_json(text: str | bytes | msgspec.Raw, type: type[T]) -> T: ...
@overload
def decode_json(text: str | bytes | msgspec.Raw) -> Any: ...
def decode_json(text: str | bytes | msgspec.Raw, type: Any = Any) -> Any:  # noqa: A002 - as msgspec's
    """The value of JSON text as `type`; raises `msgspec.DecodeError`, also if nested too deeply."""
    try:
        return msgspec.json.decode(text, type=type)
    except RecursionError:
        raise too_deep() from None


def too_deep() -> msgspec.ValidationError:
    """The error, to be raised, for JSON that nests too deeply to be decoded."""
    return msgspec.ValidationError(f"it nests deeper than {MAX_DEPTH} levels")


CUT = b'"\\u0000 nests too deeply"'
"""JSON in place of a value that was cut off."""


def cut_off_deep(body: bytes, depth: int = MAX_DEPTH) -> bytes:
    """JSON text with `CUT` in place of each object or list that is nested deeper than `depth`.

    The rest can then be decoded; the text is not validated.
    """
    return b"".join(_shallow_parts(body, depth))


def _shallow_parts(body: bytes, depth: int) -> Iterator[bytes]:
    """The parts of JSON text down to a depth, with `CUT` for each object or list that is deeper.

    If such a one is not closed, the rest of the text is left out.
    """
    level = kept = 0
    for token in _STRUCTURE.finditer(body):
        match body[token.start()]:
            case 0x7B | 0x5B:  # { or [
                level += 1
                if level == depth + 1:
                    yield body[kept : token.start()]
                    yield CUT
            case 0x7D | 0x5D:  # } or ]
                if level == depth + 1:
                    kept = token.end()
                level -= 1
            case _:
                pass  # a string
    if level <= depth:
        yield body[kept:]
