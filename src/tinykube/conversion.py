"""Conversion between the stored version of an object and the served ones."""

from typing import Any

from tinykube.resources import Object, Resource

_EVENT_NAMES = {
    "involvedObject": "regarding",
    "message": "note",
    "reportingComponent": "reportingController",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
}
_CORE_NAMES = {new: old for old, new in _EVENT_NAMES.items()}


def to_served(resource: Resource, stored: Object) -> Object:
    """A stored object in the resource's version; the stored object itself if it has that version.

    Else a copy that shares its values. Only Events have other fields in other versions; other
    resources change their apiVersion alone.
    """
    if stored["apiVersion"] == resource.api_version:
        return stored
    if resource.store == "events":
        return _rename_fields(stored, _EVENT_NAMES, "events.k8s.io/v1")
    return {**stored, "apiVersion": resource.api_version}


def to_stored(resource: Resource, obj: Object) -> Object:
    """An object of the resource's version in the version that is stored.

    The object itself if that is its version; else a copy that shares its values. Of Events the
    fields are renamed, of custom resources only the apiVersion changes; no others have versions.
    """
    if resource.store == "events" and resource.group:
        return _rename_fields(obj, _CORE_NAMES, "v1")
    if resource.custom is not None and obj["apiVersion"] != resource.custom.stored_as:
        return {**obj, "apiVersion": resource.custom.stored_as}
    return obj


def _rename_fields(obj: Object, names: dict[str, str], api_version: str) -> Object:
    """A copy with top-level fields renamed by `names`, and this apiVersion.

    Fields that begin with `reporting` are left out if they are an empty text.
    """
    renamed: dict[str, Any] = {
        names.get(key, key): value
        for key, value in obj.items()
        if value != "" or not key.startswith("reporting")
    }
    renamed["apiVersion"] = api_version
    return renamed
