"""Printers: the columns of a kind and the function that fills a row."""

from collections.abc import Callable
from datetime import datetime
from typing import Any, Literal

from msgspec import Struct

from tinykube.resources import Object

Cell = str | int | float | bool | None


class Column(Struct, frozen=True):
    """One column; those of priority 1 are shown by `-o wide` only."""

    name: str
    type: Literal["string", "integer", "number", "boolean", "date"] = "string"
    format: str = ""
    description: str = ""
    priority: int = 0


class Printer(Struct, frozen=True):
    """The columns of a kind and the cells of a row."""

    columns: tuple[Column, ...]
    cells: Callable[[Object, datetime], list[Cell]]


NAME = Column("Name", format="name")
AGE = Column("Age")


def text_columns(*names: str) -> tuple[Column, ...]:
    """Columns of text with these names, of priority 0: always shown."""
    return tuple(Column(name) for name in names)


def integer_columns(*names: str) -> tuple[Column, ...]:
    """Columns of integers with these names, of priority 0: always shown."""
    return tuple(Column(name, "integer") for name in names)


def wide_columns(*names: str) -> tuple[Column, ...]:
    """Columns of text with these names, of priority 1: only `-o wide` shows them."""
    return tuple(Column(name, priority=1) for name in names)


def value_at(obj: Any, *path: str, default: Any = None) -> Any:
    """The value at a path of an object, or the default where it is missing or null."""
    for name in path:
        obj = obj.get(name) if isinstance(obj, dict) else None
    return default if obj is None else obj
