"""The JSONPath of additionalPrinterColumns: fields, indexes, wildcards, filters by equality."""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Literal, assert_never

from msgspec import Struct


class Child(Struct, frozen=True):
    """A field of an object."""

    name: str


class Index(Struct, frozen=True):
    """An element of a list; negative counts from the end."""

    at: int


class Everything(Struct, frozen=True):
    """All elements of a list or all values of an object."""


class Filter(Struct, frozen=True):
    """The elements of which a field compares so with a constant."""

    path: tuple["Step", ...]
    operator: Literal["==", "!=", "exists"]
    value: Any = None


Step = Child | Index | Everything | Filter

_TOKEN = re.compile(
    r"""
    \.?\['(?P<quoted>(?:[^'\\]|\\.)*)'\]
    | \.?\["(?P<doubly>(?:[^"\\]|\\.)*)"\]
    | \.?\[\?\((?P<filter>.*?)\)\]
    | \.?\[(?P<index>-?\d+)\]
    | \.?\[\*\] | (?P<star>\.\*)
    | \.(?P<name>(?:[^.\[\]\\'"(){}\s]|\\.)+)
    """,
    re.VERBOSE,
)
_COMPARISON = re.compile(r"""\s*@(?P<path>.*?)\s*(?:(?P<operator>==|!=)\s*(?P<value>.+?)\s*)?$""")
_ESCAPE = re.compile(r"\\(.)")


class BadPath(ValueError):
    """The text is not a JSONPath of this subset."""


def find(path: str, value: Any) -> list[Any]:
    """All values at a path like `.conditions[?(@.type=="Ready")].status`, empty if there are none.

    Raises `BadPath`.
    """
    found = [value]
    for step in parse(path):
        found = [inner for outer in found for inner in _apply_step(step, outer)]
    return found


@lru_cache(maxsize=512)
def parse(path: str) -> tuple[Step, ...]:
    """The steps of a path, cached; none for an empty path. Raises `BadPath`."""
    steps: list[Step] = []
    at = 0
    while at < len(path):
        token = _TOKEN.match(path, at)
        if token is None:
            raise BadPath(path)
        steps.append(_parse_step(token))
        at = token.end()
    return tuple(steps)


def _parse_step(token: re.Match[str]) -> Step:
    """The step of a token: child (escapes removed), filter, index, or everything.

    Raises `BadPath` for a filter that is not supported.
    """
    groups = token.groupdict()
    for quoted in ("name", "quoted", "doubly"):
        if groups[quoted] is not None:
            return Child(_ESCAPE.sub(r"\1", groups[quoted]))
    if groups["filter"] is not None:
        return _parse_filter(groups["filter"])
    if groups["index"] is not None:
        return Index(int(groups["index"]))
    return Everything()


def _parse_filter(text: str) -> Filter:
    """The filter of an expression, `exists` without operator; raises BadPath."""
    found = _COMPARISON.match(text)
    if found is None:
        raise BadPath(text)
    steps = parse(found["path"])
    if found["operator"] is None:
        return Filter(steps, "exists")
    return Filter(steps, found["operator"], _parse_constant(found["value"]))  # type: ignore[arg-type]  # the pattern holds the operators


def _parse_constant(text: str) -> Any:
    """The quoted string, boolean or number; raises BadPath for anything else."""
    if text[:1] in "'\"" and text[-1:] == text[:1]:
        return text[1:-1]
    if text in ("true", "false"):
        return text == "true"
    try:
        return float(text) if "." in text else int(text)
    except ValueError as error:
        raise BadPath(text) from error


def _apply_step(step: Step, value: Any) -> Iterator[Any]:
    """The values that a step selects; none if the value has no such child or index.

    Wildcards and filters select among the values of an object or the elements of a list. A
    negative index counts from the end.
    """
    match step:
        case Child(name):
            if isinstance(value, dict) and name in value:
                yield value[name]
        case Index(at):
            if isinstance(value, list) and -len(value) <= at < len(value):
                yield value[at]
        case Everything():
            yield from _children(value)
        case Filter():
            yield from (one for one in _children(value) if _filter_matches(step, one))
        case _:
            assert_never(step)


def _children(value: Any) -> list[Any]:
    """The values of an object or elements of a list; none of any other value."""
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []


def _filter_matches(wanted: Filter, element: Any) -> bool:
    """Whether the path exists in the element or, with an operator, its first value compares.

    Without a value at the path it does not match, whatever the operator.
    """
    found = [element]
    for step in wanted.path:
        found = [inner for outer in found for inner in _apply_step(step, outer)]
    if wanted.operator == "exists" or not found:
        return bool(found)
    return bool(found[0] == wanted.value) == (wanted.operator == "==")
