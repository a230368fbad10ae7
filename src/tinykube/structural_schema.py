"""Structural schemas of CRDs: pruning, defaulting and validation."""

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from tinykube.errors import (
    FieldError,
    duplicate,
    invalid,
    quoted,
    required,
    too_long,
    too_many,
    unsupported,
)
from tinykube.serializer import clone
from tinykube.string_formats import FORMATS

Schema = dict[str, Any]
_META = ("apiVersion", "kind", "metadata")


def prune(schema: Schema | None, value: Any, path: str = "") -> list[str]:
    """Remove fields that the schema does not specify or preserve, here and all below, in place.

    Returns their paths, such as `spec.items[0].name`, which start at `path`. Without a schema
    (None) every field is removed.
    """
    unknown: list[str] = []
    _prune(schema, value, path, unknown)
    return unknown


def _prune(schema: Schema | None, value: Any, path: str, unknown: list[str]) -> None:
    """Delete fields that the schema does not know, in place, and add their paths to `unknown`.

    Kept with all below are fields that preserve-unknown-fields or `additionalProperties: true`
    allows, and apiVersion, kind and metadata of embedded resources. Without a schema every field is
    deleted.
    """
    match value:
        case dict():
            for key in list(value):
                inner = _property_schema(schema, key)
                inner_path = f"{path}.{key}" if path else key
                if schema and schema.get("x-kubernetes-embedded-resource") and key in _META:
                    continue
                if inner is not None:
                    _prune(inner, value[key], inner_path, unknown)
                elif not _keeps_unknown_fields(schema):
                    del value[key]
                    unknown.append(inner_path)
        case list():
            items = (schema or {}).get("items")
            if items is None and _keeps_unknown_fields(schema):
                return
            for index, element in enumerate(value):
                _prune(items, element, f"{path}[{index}]", unknown)


def _keeps_unknown_fields(schema: Schema | None) -> bool:
    """Whether a schema preserves unknown fields or has `additionalProperties: true`."""
    if schema is None:
        return False
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        return True
    return schema.get("additionalProperties") is True


def _property_schema(schema: Schema | None, key: str) -> Schema | None:
    """The schema of one property, by its name, else that of additionalProperties.

    None if there is neither; also for `additionalProperties: true`.
    """
    if schema is None:
        return None
    found = (schema.get("properties") or {}).get(key)
    if found is None:
        found = schema.get("additionalProperties")
    return found if isinstance(found, dict) else None


def fill_defaults(schema: Schema | None, value: Any) -> None:
    """Set the defaults of properties, here and all below, also in values just defaulted, in place.

    Nulls of properties that are not nullable become the default, or are removed without one. The
    default of `schema` itself is not used; without a schema nothing is done.
    """
    if not schema:
        return
    match value:
        case dict():
            for key, inner in (schema.get("properties") or {}).items():
                if "default" not in inner or inner["default"] is None:
                    continue
                if key not in value or (value[key] is None and not inner.get("nullable")):
                    value[key] = clone(inner["default"])
            for key in list(value):
                inner = _property_schema(schema, key)
                if value[key] is None and inner is not None and not inner.get("nullable"):
                    del value[key]
                else:
                    fill_defaults(inner, value[key])
        case list():
            for element in value:
                fill_defaults(schema.get("items"), element)


def schema_errors(schema: Schema, value: Any, path: str = "") -> Iterator[FieldError]:
    """The violations of a schema in a value and all below it; paths start at `path`.

    Duplicates in lists of type set or map come last; CEL rules are not evaluated.
    """
    yield from _value_errors(schema, value, path)
    yield from _duplicate_list_errors(schema, value, path)


def _value_errors(schema: Schema, value: Any, path: str) -> Iterator[FieldError]:
    """The errors of a value and all below it; of null only type and enum are checked.

    Left out are duplicates in lists of type set or map, see `_duplicate_list_errors`.
    """
    kind_error = _type_error(schema, value, path)
    if kind_error is not None:
        yield kind_error
    if value is None:
        yield from _enum_errors(schema, value, path)
        return
    yield from _combination_errors(schema, value, path)
    yield from _enum_errors(schema, value, path)
    match value:
        case bool():
            return
        case str():
            yield from _string_errors(schema, value, path)
        case int() | float():
            yield from _number_errors(schema, value, path)
        case list():
            yield from _array_errors(schema, value, path)
        case dict():
            yield from _object_errors(schema, value, path)


def _json_type(value: Any) -> str:
    """The JSON type name; whole floats count as `number`."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case str():
            return "string"
        case int():
            return "integer"
        case float():
            return "number"
        case list():
            return "array"
        case _:
            return "object"


def _type_error(schema: Schema, value: Any, path: str) -> FieldError | None:
    """The error of a value whose type is not the schema's, or None.

    A float without fraction is an integer, an integer also a number; null needs `nullable`;
    x-kubernetes-int-or-string allows both. A schema without type allows all.
    """
    wanted = schema.get("type", "")
    found = _json_type(value)
    allowed: tuple[str, ...] = (wanted,)
    if schema.get("x-kubernetes-int-or-string"):
        wanted, allowed = "integer,string", ("integer", "string")
    if value is None and schema.get("nullable"):
        return None
    if not wanted or found in allowed or (found == "integer" and "number" in allowed):
        return None
    if found == "number" and "integer" in allowed and float(value).is_integer():
        return None
    message = f"{path} in body must be of type {wanted}: {quoted(found)}"
    return FieldError("FieldValueTypeInvalid", path, f"Invalid value: {quoted(found)}: {message}")


def _enum_errors(schema: Schema, value: Any, path: str) -> Iterator[FieldError]:
    """An error if the value is not in the enum, if there is one; null passes if nullable."""
    allowed = schema.get("enum")
    if allowed and value not in allowed and not (value is None and schema.get("nullable")):
        shown = [a if isinstance(a, str) else quoted(a) for a in allowed]
        yield unsupported(path, value, shown)


def _string_errors(schema: Schema, value: str, path: str) -> Iterator[FieldError]:
    """Errors of length (in characters), pattern and format; unknown formats are ignored."""
    longest, shortest = schema.get("maxLength"), schema.get("minLength")
    if longest is not None and len(value) > longest:
        yield too_long(path, longest)
    if shortest is not None and len(value) < shortest:
        yield invalid(path, value, f"{path} in body should be at least {shortest} chars long")
    pattern = schema.get("pattern")
    if pattern and not _matches_pattern(pattern, value):
        yield invalid(path, value, f"{path} in body should match '{pattern}'")
    known = FORMATS.get(schema.get("format", ""))
    if known is not None and not known(value):
        message = f"{path} in body must be of type {schema['format']}: {quoted(value)}"
        yield FieldError(
            "FieldValueTypeInvalid", path, f"Invalid value: {quoted(value)}: {message}"
        )


def _matches_pattern(pattern: str, value: str) -> bool:
    """Whether a pattern matches anywhere in a value; True if Python cannot parse the pattern."""
    try:
        return re.search(pattern, value) is not None
    except re.error:
        return True  # a pattern of Go's syntax that Python does not parse


def _number_errors(schema: Schema, value: float, path: str) -> Iterator[FieldError]:
    """Errors of maximum, minimum (either may be exclusive) and multipleOf."""
    most, least = schema.get("maximum"), schema.get("minimum")
    if most is not None:
        if schema.get("exclusiveMaximum"):
            if value >= most:
                yield invalid(path, value, f"{path} in body should be less than {_go_number(most)}")
        elif value > most:
            yield invalid(
                path, value, f"{path} in body should be less than or equal to {_go_number(most)}"
            )
    if least is not None:
        if schema.get("exclusiveMinimum"):
            if value <= least:
                yield invalid(
                    path, value, f"{path} in body should be greater than {_go_number(least)}"
                )
        elif value < least:
            yield invalid(
                path,
                value,
                f"{path} in body should be greater than or equal to {_go_number(least)}",
            )
    factor = schema.get("multipleOf")
    if factor and value % factor:
        yield invalid(path, value, f"{path} in body should be a multiple of {_go_number(factor)}")


def _go_number(number: float) -> str:
    """A number as Go prints it: a whole one without fraction."""
    return str(int(number)) if float(number).is_integer() else str(number)


def _array_errors(schema: Schema, value: list[Any], path: str) -> Iterator[FieldError]:
    """Errors of each element, and of minItems, maxItems and uniqueItems."""
    items = schema.get("items")
    if isinstance(items, dict):
        for index, element in enumerate(value):
            yield from _value_errors(items, element, f"{path}[{index}]")
    most, least = schema.get("maxItems"), schema.get("minItems")
    if least is not None and len(value) < least:
        yield invalid(path, len(value), f"{path} in body should have at least {least} items")
    if most is not None and len(value) > most:
        yield too_many(path, len(value), most)
    if schema.get("uniqueItems"):
        seen = [msgspec.json.encode(element, order="sorted") for element in value]
        if len(set(seen)) != len(seen):
            yield invalid(path, "", f"{path} in body shouldn't contain duplicates")


def _object_errors(schema: Schema, value: dict[str, Any], path: str) -> Iterator[FieldError]:
    """Errors of the number of properties, each value with a schema, and missing required keys.

    Also of a missing or empty apiVersion or kind of an embedded resource.
    """
    most, least = schema.get("maxProperties"), schema.get("minProperties")
    if least is not None and len(value) < least:
        yield invalid(path, len(value), f"{path} in body should have at least {least} properties")
    if most is not None and len(value) > most:
        yield too_many(path, len(value), most)
    for key, inner in value.items():
        known = _property_schema(schema, key)
        if known is not None:
            yield from _value_errors(known, inner, f"{path}.{key}" if path else key)
    for key in schema.get("required") or ():
        if key not in value:
            yield required(f"{path}.{key}" if path else key)
    if schema.get("x-kubernetes-embedded-resource"):
        yield from _embedded_errors(value, path)


def _embedded_errors(value: dict[str, Any], path: str) -> Iterator[FieldError]:
    """Errors of an embedded resource whose apiVersion or kind is missing or empty."""
    for key in ("apiVersion", "kind"):
        if key not in value:
            yield required(f"{path}.{key}")
        elif not value[key]:
            yield invalid(f"{path}.{key}", value[key], "must not be empty")


def _combination_errors(schema: Schema, value: Any, path: str) -> Iterator[FieldError]:
    """Violations of anyOf, oneOf, allOf and not; none for x-kubernetes-int-or-string."""
    if schema.get("x-kubernetes-int-or-string"):
        return  # its anyOf repeats the type check
    for name, combine in (
        ("anyOf", _any_of_errors),
        ("oneOf", _one_of_errors),
        ("allOf", _all_of_errors),
    ):
        if schema.get(name):
            failures = [[*_value_errors(option, value, path)] for option in schema[name]]
            yield from combine(failures, f'"{path}"')
    if schema.get("not") and not [*_value_errors(schema["not"], value, path)]:
        yield _composite_error(f'"{path}" must not validate the schema (not)')


def _any_of_errors(failures: list[list[FieldError]], named: str) -> Iterator[FieldError]:
    """An error if every one of the alternatives has failures, else nothing.

    After it come the failures of the alternative with fewest. `named` is the value's path in
    quotes.
    """
    if all(failures):
        yield _composite_error(f"{named} must validate at least one schema (anyOf)")
        yield from min(failures, key=len)


def _one_of_errors(failures: list[list[FieldError]], named: str) -> Iterator[FieldError]:
    """An error unless exactly one of the alternatives has no failures.

    If all have some, the failures of the alternative with fewest come after it. `named` is the
    value's path in quotes.
    """
    valid = sum(not found for found in failures)
    if valid == 1:
        return
    message = "Found none valid" if not valid else f"Found {valid} valid alternatives"
    yield _composite_error(f"{named} must validate one and only one schema (oneOf). {message}")
    if not valid:
        yield from min(failures, key=len)


def _all_of_errors(failures: list[list[FieldError]], named: str) -> Iterator[FieldError]:
    """The failures of all alternatives, then one error that sums them up if there are any."""
    for found in failures:
        yield from found
    if any(failures):
        message = ". None validated" if all(failures) else ""
        yield _composite_error(f"{named} must validate all the schemas (allOf){message}")


def _composite_error(message: str) -> FieldError:
    """The error of a value that does not fit a combination of schemas; it names no field."""
    return FieldError("FieldValueInvalid", "<nil>", f'Invalid value: "": {message}')


def _duplicate_list_errors(schema: Schema, value: Any, path: str) -> Iterator[FieldError]:
    """Errors of duplicates in lists of type set or map (by its keys), here and all below."""
    match value:
        case dict():
            for key, element in value.items():
                inner = _property_schema(schema, key)
                if inner is not None:
                    yield from _duplicate_list_errors(
                        inner, element, f"{path}.{key}" if path else key
                    )
        case list():
            match schema.get("x-kubernetes-list-type"):
                case "set":
                    yield from _duplicate_errors(value, path)
                case "map":
                    keys = schema.get("x-kubernetes-list-map-keys") or ()
                    map_keys = [
                        {key: element[key] for key in keys if key in element}
                        for element in value
                        if isinstance(element, dict)
                    ]
                    yield from _duplicate_errors(map_keys, path)
            for index, element in enumerate(value):
                yield from _duplicate_list_errors(
                    schema.get("items") or {}, element, f"{path}[{index}]"
                )


def _duplicate_errors(elements: list[Any], path: str) -> Iterator[FieldError]:
    """An error for each value that repeats, once, at its second place."""
    times: dict[bytes, int] = {}
    for index, element in enumerate(elements):
        key = msgspec.json.encode(element, order="sorted")
        times[key] = times.get(key, 0) + 1
        if times[key] == 2:
            yield duplicate(f"{path}[{index}]", element)
