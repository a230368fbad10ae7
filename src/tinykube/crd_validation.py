"""The validation of CustomResourceDefinitions."""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import msgspec

from tinykube.errors import (
    FieldError,
    forbidden,
    invalid,
    required,
    unsupported,
)
from tinykube.resources import (
    Object,
)
from tinykube.schema_rules import is_uncorrelated, rule_definition_errors
from tinykube.structural_schema import schema_errors
from tinykube.validation import dns1035_label_problems, dns1123_subdomain_problems


def crd_errors(crd: Object) -> Iterator[FieldError]:
    """Validation errors of a CRD: name, spec, names, versions with schemas, storage version."""
    spec = crd.get("spec") or {}
    names = spec.get("names") or {}
    expected = f"{names.get('plural', '')}.{spec.get('group', '')}"
    if crd["metadata"]["name"] != expected:
        detail = 'must be spec.names.plural+"."+spec.group'
        yield invalid("metadata.name", crd["metadata"]["name"], detail)
    yield from _spec_errors(spec)
    for field in ("plural", "singular", "kind", "listKind"):
        value = names.get(field) or ""
        if not value and field in ("plural", "kind"):
            yield required(f"spec.names.{field}")
        for problem in dns1035_label_problems(value.lower()) if value else ():
            prefix = "may have mixed case, but should otherwise match: " * (field.endswith("ind"))
            yield invalid(f"spec.names.{field}", value, f"{prefix}{problem}")
    versions = spec.get("versions") or []
    alone = len(versions) == 1
    for at, version in enumerate(versions):
        yield from _version_errors(version, f"spec.versions[{at}]", alone=alone)
    stored = [version["name"] for version in versions if version.get("storage")]
    if not stored:
        detail = "must have at least one stored version"
        yield invalid("status.storedVersions", None, detail)
    elif len(stored) > 1:
        detail = f"must have the storage version {stored[-1]}"
        yield invalid("status.storedVersions", stored[:1], detail)


def _spec_errors(spec: dict[str, Any]) -> Iterator[FieldError]:
    """Errors of group, scope and versions: one storage version, unique version names."""
    group = spec.get("group") or ""
    if not group:
        yield required("spec.group")
    for problem in dns1123_subdomain_problems(group) if group else ():
        yield invalid("spec.group", group, problem)
    if group and "." not in group:
        yield invalid("spec.group", group, "should be a domain with at least one dot")
    scope = spec.get("scope") or ""
    if not scope:
        yield required("spec.scope")
    elif scope not in ("Cluster", "Namespaced"):
        yield unsupported("spec.scope", scope, ("Cluster", "Namespaced"))
    versions = spec.get("versions") or []
    if sum(bool(version.get("storage")) for version in versions) != 1:
        detail = "must have exactly one version marked as storage version"
        yield invalid("spec.versions", versions, detail)
    if len({version.get("name") for version in versions}) != len(versions):
        yield invalid("spec.versions", versions, "must contain unique version names")


_COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")


def _version_errors(version: dict[str, Any], field: str, *, alone: bool) -> Iterator[FieldError]:
    """Errors of one version: its name, schema, and types of columns.

    A missing schema is an error, and then nothing but the name is checked. If it is the only
    version (`alone`), errors of schema and columns have paths of the spec (`spec.validation...`),
    not of the version.
    """
    name = version.get("name") or ""
    for problem in dns1035_label_problems(name):
        yield invalid(f"{field}.name", name, problem)
    schema = (version.get("schema") or {}).get("openAPIV3Schema")
    if schema is None:
        yield required(f"{field}.schema.openAPIV3Schema")
        return
    where = "spec.validation.openAPIV3Schema" if alone else f"{field}.schema.openAPIV3Schema"
    for at, column in enumerate(version.get("additionalPrinterColumns") or ()):
        if column.get("type") not in _COLUMN_TYPES:
            prefix = "spec" if alone else field
            path = f"{prefix}.additionalPrinterColumns[{at}].type"
            detail = f"must be one of {','.join(_COLUMN_TYPES)}"
            yield invalid(path, column.get("type", ""), detail)
    if schema.get("type") != "object":
        if not schema.get("type"):
            yield required(f"{where}.type", "must not be empty at the root")
        else:
            yield invalid(f"{where}.type", schema["type"], "must be object at the root")
    yield from _encoded_structure_errors(msgspec.json.encode(schema), where)


@lru_cache(256)  # the clusters of a process are given the same CRDs
def _encoded_structure_errors(schema: bytes, field: str) -> tuple[FieldError, ...]:
    """The errors of a schema, given as JSON, and of those below it; cached.

    Rules, missing types, bad defaults, arrays without items; `field` is the path of the schema.
    """
    return tuple(_structure_errors(msgspec.json.decode(schema), field))


def _structure_errors(
    schema: dict[str, Any], field: str, uncorrelated: str = ""
) -> Iterator[FieldError]:
    """Errors of a schema and of those below it, not of values.

    Rules; missing types and bad defaults, below only; arrays without items; additionalProperties
    beside properties. `uncorrelated` is the field of an enclosing schema whose parts have no old
    values, within which rules may not read `oldSelf`; empty if there is none.
    """
    yield from rule_definition_errors(schema, field, uncorrelated)
    if not uncorrelated and is_uncorrelated(schema):
        uncorrelated = field
    for key, inner in (schema.get("properties") or {}).items():
        path = f"{field}.properties[{key}]"
        yield from _type_errors(inner, path)
        yield from _structure_errors(inner, path, uncorrelated)
    items = schema.get("items")
    if schema.get("type") == "array" and not items:
        yield required(f"{field}.items", "must be specified")
    if isinstance(items, dict):
        yield from _type_errors(items, f"{field}.items")
        yield from _structure_errors(items, f"{field}.items", uncorrelated)
    more = schema.get("additionalProperties")
    if isinstance(more, dict):
        if schema.get("properties"):
            yield forbidden(
                f"{field}.additionalProperties",
                "additionalProperties and properties are mutual exclusive",
            )
        yield from _type_errors(more, f"{field}.additionalProperties")
        yield from _structure_errors(more, f"{field}.additionalProperties", uncorrelated)


def _type_errors(schema: dict[str, Any], field: str) -> Iterator[FieldError]:
    """Errors of a default that the schema rejects, and of a missing type.

    With x-kubernetes-int-or-string or x-kubernetes-preserve-unknown-fields no type is needed.
    """
    untyped = ("x-kubernetes-int-or-string", "x-kubernetes-preserve-unknown-fields")
    if "default" in schema:
        for error in schema_errors({**schema, "default": None}, schema["default"]):
            yield FieldError(error.type, f"{field}.default{error.field}", error.body)
    if not schema.get("type") and not any(schema.get(mark) for mark in untyped):
        yield required(f"{field}.type", "must not be empty for specified object fields")


def crd_update_errors(new: Object, old: Object) -> Iterator[FieldError]:
    """Errors of changed scope, group, plural or kind, and of stored versions removed from the spec.

    The stored versions are the old status.storedVersions. No errors unless the old CRD has the
    condition Established with status True.
    """
    if not is_established(old):
        return
    for field in ("scope", "group"):
        if new["spec"].get(field) != old["spec"].get(field):
            yield invalid(f"spec.{field}", new["spec"].get(field), "field is immutable")
    for field in ("plural", "kind"):
        value = new["spec"]["names"].get(field)
        if value != old["spec"]["names"].get(field):
            yield invalid(f"spec.names.{field}", value, "field is immutable")
    served = {version["name"] for version in new["spec"].get("versions") or ()}
    history = (old.get("status") or {}).get("storedVersions") or ()
    for at, version in enumerate(history):
        if version not in served:
            detail = (
                f"missing from spec.versions; {version} was previously a storage version, and "
                "must remain in spec.versions until a storage migration ensures no data remains "
                f"persisted in {version} and removes {version} from status.storedVersions"
            )
            yield invalid(f"status.storedVersions[{at}]", version, detail)


def is_established(crd: Object) -> bool:
    """Whether the condition Established is True."""
    conditions = (crd.get("status") or {}).get("conditions") or ()
    return any(c["type"] == "Established" and c["status"] == "True" for c in conditions)
