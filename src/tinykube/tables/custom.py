"""Printers of custom resources, by their additionalPrinterColumns."""

from datetime import datetime
from typing import Any

import msgspec

from tinykube.resources import Column as Declared
from tinykube.resources import Object, Resource
from tinykube.tables.cells import age, name, time_since
from tinykube.tables.columns import NAME, Cell, Column, Printer
from tinykube.tables.jsonpath import BadPath, find

_DEFAULT = Printer((NAME, Column("Age", "date")), lambda obj, now: [name(obj), age(obj, now)])


def custom_printer(resource: Resource) -> Printer:
    """A printer of the name and the declared columns; of name and age when there are none."""
    declared = resource.custom.columns if resource.custom else ()
    if not declared:
        return _DEFAULT

    def cells(obj: Object, now: datetime) -> list[Cell]:
        """The name, then the cell of each declared column."""
        return [name(obj), *(_cell(column, obj, now) for column in declared)]

    return Printer((NAME, *(_column_header(column) for column in declared)), cells)


def _column_header(declared: Declared) -> Column:
    """A declared column as a Table column; the description defaults to one with its JSONPath."""
    where = f"Custom resource definition column (in JSONPath format): {declared.json_path}"
    return Column(
        declared.name,
        declared.type,  # type: ignore[arg-type]  # the definition's schema allows these types only
        declared.format,
        declared.description or where,
        declared.priority,
    )


def _cell(column: Declared, obj: Object, now: datetime) -> Cell:
    """The first value at the column's path, converted; None if there is none or the path is bad."""
    try:
        found = find(column.json_path, obj)
    except BadPath:
        return None
    return _convert(column.type, found[0], now) if found else None


def _convert(kind: str, value: Any, now: datetime) -> Cell:
    """A value as a cell of a column's type (`kind`); None when it has another type.

    A string column takes any value as text, an integer column cuts fractions off, a date column
    gives the time since the date.
    """
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    match kind:
        case "string":
            return _format_text(value)
        case "integer" if is_number:
            return int(value)
        case "number" if is_number:
            return float(value)
        case "boolean" if isinstance(value, bool):
            return value
        case "date" if isinstance(value, str):
            return time_since(value, now)
        case _:
            return None


def _format_text(value: Any) -> str:
    """The string itself, `<nil>` for null, JSON for anything else."""
    match value:
        case str():
            return value
        case None:
            return "<nil>"
        case _:
            return msgspec.json.encode(value).decode()
