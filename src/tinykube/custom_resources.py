"""Custom resources: pruned, defaulted and validated by the structural schema of their CRD."""

from collections.abc import Iterator
from typing import Any

from tinykube import serializer
from tinykube.errors import FieldError, bad_request, invalid
from tinykube.resources import CustomVersion, Object, Resource
from tinykube.schema_rules import rule_errors
from tinykube.structural_schema import fill_defaults, prune, schema_errors

_INT32_MAX = 2**31 - 1


def prune_and_default(resource: Resource, value: Object) -> tuple[Object, list[str]]:
    """A copy without unknown fields and with defaults, and the sorted paths of the fields removed.

    Unknown fields of metadata count. A missing apiVersion or kind becomes empty. Raises a 400 for
    metadata of a wrong type; nothing else is validated.
    """
    custom = _custom_version(resource)
    made: Object = serializer.clone(value)
    try:
        metadata, unknown_metadata = serializer.decode(
            "meta/v1.ObjectMeta", made.pop("metadata", {}) or {}
        )
    except (serializer.TypeMismatch, AttributeError) as error:
        raise bad_request(
            f'{resource.kind} in version "{resource.version}" cannot be handled as a '
            f"{resource.kind}: {error}"
        ) from error
    kind = {key: made.pop(key, "") for key in ("apiVersion", "kind")}
    unknown = [f"metadata.{path}" for path in unknown_metadata]
    unknown = sorted([*unknown, *prune(custom.schema, made)])
    fill_defaults(custom.schema, made)
    return {**kind, "metadata": metadata, **made}, unknown


def _custom_version(resource: Resource) -> CustomVersion:
    """The version of a resource that is known to be custom; AssertionError for a built-in."""
    assert resource.custom is not None
    return resource.custom


def validation_errors(
    resource: Resource, obj: Object, old: Object | None = None, subresource: str = ""
) -> list[FieldError]:
    """The violations of schema, replica counts and CEL rules; only the kind's if that is wrong.

    For the subresource `status` those of the schema of the status and of all CEL rules; none if
    schema or object has no status. Violations of the schema that `old` has too are accepted.
    """
    custom = _custom_version(resource)
    wrong_kind = [*_kind_errors(resource, obj)]
    if wrong_kind:
        return wrong_kind
    if subresource == "status":
        status_schema = (custom.schema.get("properties") or {}).get("status")
        if status_schema is None or "status" not in obj:
            return []
        found = [*schema_errors(status_schema, obj["status"], "status")]
    else:
        found = [*schema_errors(custom.schema, obj)]
        found += _scale_errors(custom, obj)
    if old is not None and found:
        # ratcheting: violations that were there before are accepted
        before = {error.text for error in schema_errors(custom.schema, old)}
        found = [error for error in found if error.text not in before]
    return [*found, *rule_errors(custom.rules, obj, old, found)]


def _kind_errors(resource: Resource, obj: Object) -> Iterator[FieldError]:
    """Errors if kind or apiVersion of the object differs from the resource's."""
    if obj.get("kind") != resource.kind:
        yield invalid("kind", obj.get("kind", ""), f"must be {resource.kind}")
    if obj.get("apiVersion") != resource.api_version:
        yield invalid("apiVersion", obj.get("apiVersion", ""), f"must be {resource.api_version}")


def _scale_errors(custom: CustomVersion, obj: Object) -> Iterator[FieldError]:
    """Errors of integers at the scale subresource's paths that are negative or exceed 32 bits."""
    if custom.scale is None:
        return
    for path in (custom.scale.spec_replicas_path, custom.scale.status_replicas_path):
        count = at_path(obj, path)
        if isinstance(count, int) and count < 0:
            yield invalid(path, count, "should be a non-negative integer")
        elif isinstance(count, int) and count > _INT32_MAX:
            yield invalid(path, count, f"should be less than or equal to {_INT32_MAX}")


def at_path(obj: Object, path: str) -> Any:
    """The value at a JSON path of fields only, like `.spec.replicas`; None if it is missing."""
    value: Any = obj
    for part in path.strip(".").split("."):
        if not isinstance(value, dict):
            return None
        value = value.get(part)
    return value
