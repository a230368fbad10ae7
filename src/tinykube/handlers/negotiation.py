"""Responses in the form that the client accepts: object, Table or PartialObjectMetadata."""

from collections.abc import Sequence
from datetime import UTC, datetime
from email.utils import format_datetime
from functools import lru_cache
from typing import Any, Literal

import msgspec

from tinykube import tables
from tinykube.handlers.calls import Call
from tinykube.request import Response
from tinykube.resources import Object

Form = Literal["object", "table", "metadata"]


def negotiate_form(accept: str) -> Form:
    """The first form of an Accept header that is served; an object by default.

    Weights are ignored; only JSON is served.
    """
    for choice in accept.split(","):
        parts = [part.strip() for part in choice.split(";")]
        if parts[0] not in ("application/json", "*/*", "application/*"):
            continue
        wanted = next((part[3:] for part in parts[1:] if part.startswith("as=")), "")
        match wanted:
            case "Table":
                return "table"
            case "PartialObjectMetadata" | "PartialObjectMetadataList":
                return "metadata"
            case "":
                return "object"
            case _:
                continue
    return "object"


def warning_headers(warnings: Sequence[str]) -> dict[str, str]:
    """All warnings as one Warning header; {} for none."""
    if not warnings:
        return {}
    shown = (text.replace("\\", "\\\\").replace('"', '\\"') for text in warnings)
    return {"warning": ", ".join(f'299 - "{text}"' for text in shown)}


def object_response(call: Call, code: int, obj: Object, now: datetime) -> Response:
    """A response with one object in the form that the request accepts; a Status is always itself.

    The call's warnings are added as a header.
    """
    match negotiate_form(call.request.accept):
        case "table" if obj.get("kind") != "Status":
            body = table_for(call, [obj], now)
            body["metadata"] = {"resourceVersion": obj["metadata"].get("resourceVersion", "")}
        case "metadata" if obj.get("kind") != "Status":
            body = partial_metadata(obj)
        case _:
            body = obj
    date = http_date(now.replace(microsecond=0))
    headers = {"content-type": "application/json", "date": date, **warning_headers(call.warnings)}
    return Response(code, msgspec.json.encode(body), headers)


@lru_cache(maxsize=8)
def http_date(now: datetime) -> str:
    """A time as in the `Date` header."""
    return format_datetime(now.astimezone(UTC), usegmt=True)


def list_response(call: Call, items: list[Object], metadata: Object, now: datetime) -> Response:
    """A 200 with a list in the form that the request accepts, and the call's warnings.

    Items are already selected, and in the version served; `metadata` is that of the list. In the
    form of objects, items of built-in kinds are without kind and apiVersion.
    """
    resource = call.resource
    body: Object
    match negotiate_form(call.request.accept):
        case "table":
            body = {**table_for(call, items, now), "metadata": metadata}
        case "metadata":
            body = {
                "kind": "PartialObjectMetadataList",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": metadata,
                "items": [partial_metadata(item) for item in items],
            }
        case "object":
            # Go omits kind and apiVersion of typed items, but not of custom resources
            if resource.custom is None:
                items = [_untyped(item) for item in items]
            else:
                metadata = {"continue": "", **metadata}
            body = {
                "kind": resource.list_kind,
                "apiVersion": resource.api_version,
                "metadata": metadata,
                "items": items,
            }
    headers = {"content-type": "application/json", **warning_headers(call.warnings)}
    return Response(200, msgspec.json.encode(body), headers)


def _untyped(item: Object) -> Object:
    """An item without kind and apiVersion."""
    return {key: value for key, value in item.items() if key not in ("kind", "apiVersion")}


def table_for(call: Call, items: list[Object], now: datetime) -> dict[str, Any]:
    """Objects as a Table; the option includeObject decides what rows carry, by default metadata."""
    include = call.option("includeObject") or "Metadata"
    return tables.table(call.resource, items, include, now)


def partial_metadata(obj: Object) -> Object:
    """An object as PartialObjectMetadata."""
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": obj["metadata"],
    }
