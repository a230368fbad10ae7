"""Objects as the Tables that `kubectl get` prints."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from tinykube.resources import Object, Resource
from tinykube.tables.cells import name
from tinykube.tables.cluster import CLUSTER
from tinykube.tables.columns import Column, Printer, value_at
from tinykube.tables.custom import custom_printer
from tinykube.tables.network import NETWORK
from tinykube.tables.pods import PODS, completion
from tinykube.tables.workloads import WORKLOADS

__all__ = ["table"]

_PRINTERS: dict[tuple[str, str], Printer] = {**PODS, **WORKLOADS, **NETWORK, **CLUSTER}
_CREATED_AT = Printer(
    (Column("Name", format="name"), Column("Created At", "date")),
    lambda obj, _: [name(obj), value_at(obj, "metadata", "creationTimestamp")],
)


def table(
    resource: Resource,
    objects: Iterable[Object],
    include_object: str,
    now: datetime,
) -> Object:
    """A meta.k8s.io/v1 Table with a row per object, in their order; the caller adds list metadata.

    `include_object` is the query parameter: Object, None, or anything else for the metadata alone.
    Without objects, `rows` is empty, but null for kinds without a printer of their own.
    """
    shown = list(objects)
    printer = _printer(resource, shown)
    rows = [_row(printer, obj, include_object, now) for obj in shown]
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {},
        "columnDefinitions": [_definition(column) for column in printer.columns],
        # the default printer of the API server has null for no rows
        "rows": None if printer is _CREATED_AT and not shown else rows,
    }


def _printer(resource: Resource, objects: list[Object]) -> Printer:
    """The printer of the resource, for other built-ins one of name and creation time.

    Custom resources have one by their columns; Scales, known by the first object, have their own.
    """
    if objects and objects[0].get("kind") == "Scale":
        return _PRINTERS["autoscaling", "Scale"]
    if resource.custom is not None:
        return custom_printer(resource)
    return _PRINTERS.get((resource.group, resource.kind), _CREATED_AT)


def _definition(column: Column) -> dict[str, Any]:
    """A column as `columnDefinitions` of a Table has it."""
    return {
        "name": column.name,
        "type": column.type,
        "format": column.format,
        "description": column.description,
        "priority": column.priority,
    }


def _row(printer: Printer, obj: Object, include_object: str, now: datetime) -> Object:
    """A table row; its `object` is the object, its metadata alone or null, by `include_object`.

    A pod that has completed also gets row conditions.
    """
    row: Object = {"cells": printer.cells(obj, now)}
    if printer is PODS["", "Pod"] and (conditions := completion(obj)):
        row["conditions"] = conditions
    match include_object:
        case "Object":
            row["object"] = obj
        case "None":
            row["object"] = None
        case _:
            row["object"] = {
                "kind": "PartialObjectMetadata",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": obj.get("metadata", {}),
            }
    return row
