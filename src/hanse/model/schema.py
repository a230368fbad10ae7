"""Structural schemas, validation rules and printer columns of our kinds, from their structs.

The API server enforces them on writes. The decoder does not: an object that was stored under a
looser CRD must still be read, and get a condition that says what is wrong.
"""

import types
from collections.abc import Callable
from copy import deepcopy
from datetime import datetime
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec
from msgspec import Struct
from msgspec.structs import FieldInfo, asdict, fields

from hanse.model.conditions import MAX_MESSAGE_LENGTH, Condition
from hanse.model.objects import Object, Wire

LABEL = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
"""An RFC 1123 label: part of a DNS name."""
SUBDOMAIN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
"""An RFC 1123 subdomain: the name of most objects."""
ADDRESS = r"^([0-9]{1,3}(\.[0-9]{1,3}){3}|[0-9a-fA-F:]*:[0-9a-fA-F:.]*)$"
"""What looks like an IPv4 or IPv6 address; features check that it is one."""


class ValidationRule(Struct, frozen=True):
    """A CEL validation rule and its message."""

    holds: str
    message: str
    at: str = ""
    """The fieldPath, relative to the rule (`.spec.tenant`)."""


class Schema(Struct, frozen=True, omit_defaults=True, rename="camel"):
    """The schema of a field, given in `Annotated`."""

    description: str = ""
    pattern: str = ""
    format: str = ""
    minimum: int | None = None
    maximum: int | None = None
    min_length: int | None = None
    max_length: int | None = None
    min_items: int | None = None
    max_items: int | None = None
    max_properties: int | None = None
    default: bool | int | None = None
    """A default that the API server sets although it is false or zero."""
    filled: bool = False
    """Whether an absent object is defaulted to the defaults of its fields."""
    keys: tuple[str, ...] = ()
    """The keys of a list of type map."""
    unique: bool = False
    """Whether it is a list of type set."""
    immutable: bool = False
    known: type[Struct] | None = None
    """The struct whose fields are validated in an object that preserves unknown fields."""
    rules: tuple[ValidationRule, ...] = ()


class Column(Struct, frozen=True):
    """A printer column of `kubectl get`; priority 1 is shown by `-o wide` only.

    The path must select one value: of several an API server shows only the first.
    """

    name: str
    path: str
    type: Literal["string", "integer", "boolean", "date"] = "string"
    priority: int = 0
    description: str = ""


class Scale(Struct, frozen=True):
    """The paths of the scale subresource."""

    wanted: str
    observed: str
    selector: str


class Crd(Struct, frozen=True):
    """What a CRD declares beyond the schema."""

    short_names: tuple[str, ...] = ()
    columns: tuple[Column, ...] = ()
    categories: tuple[str, ...] = ("hanse",)
    rules: tuple[ValidationRule, ...] = ()
    name: Schema | None = None
    """The schema of metadata.name."""
    status: bool = True
    scale: Scale | None = None


_CONDITION: Wire = {
    "description": "One aspect of the object's state.",
    "type": "object",
    "required": ["type", "status", "reason", "message", "lastTransitionTime"],
    "properties": {
        "type": {"description": "What the condition is about.", "type": "string", "maxLength": 316},
        "status": {
            "description": "Whether it holds.",
            "type": "string",
            "enum": ["True", "False", "Unknown"],
        },
        "reason": {
            "description": "Why, in a word for programs.",
            "type": "string",
            "minLength": 1,
            "maxLength": 1024,
            "pattern": r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
        },
        "message": {
            "description": "Why, in a sentence for people.",
            "type": "string",
            "maxLength": MAX_MESSAGE_LENGTH,
        },
        "lastTransitionTime": {
            "description": "When the status last changed.",
            "type": "string",
            "format": "date-time",
        },
        "observedGeneration": {
            "description": "The generation of the object that this was said about.",
            "type": "integer",
            "format": "int64",
            "minimum": 0,
        },
    },
}

_SCALARS: dict[Any, Wire] = {
    bool: {"type": "boolean"},
    int: {"type": "integer", "format": "int64"},
    str: {"type": "string"},
    datetime: {"type": "string", "format": "date-time"},
    Any: {"x-kubernetes-preserve-unknown-fields": True},
}


def structural_schema(annotation: Any) -> Wire:
    """The structural schema of a type with constraints of its annotations, description first.

    Raises TypeError for types that CRDs cannot describe.
    """
    if get_origin(annotation) is not Annotated:
        return _type_schema(annotation)
    base, *notes = get_args(annotation)
    schema = _type_schema(base)
    for note in notes:
        if isinstance(note, Schema):
            schema |= constraints(note)
    return (
        {"description": schema.pop("description"), **schema} if "description" in schema else schema
    )


def object_schema(struct: type[Struct]) -> Wire:
    """The schema of a struct with its validation rules, without an object's metadata.

    Fields without a default are required.
    """
    declared = [
        f for f in fields(struct) if not (issubclass(struct, Object) and f.name == "metadata")
    ]
    required = [field.encode_name for field in declared if field.required]
    properties = {field.encode_name: _field_schema(field) for field in declared}
    return {
        "type": "object",
        **({"required": required} if required else {}),
        **({"properties": properties} if properties else {}),
        **validations(getattr(struct, "validation_rules", ())),
    }


def struct_description(struct: type[Struct]) -> str:
    """The first paragraph of a struct's docstring, on one line."""
    return " ".join((struct.__doc__ or "").split("\n\n")[0].split())


def _field_schema(field: FieldInfo) -> Wire:
    """The schema of a field; a default that is a bool, int or str, and not empty, is included.

    A default of the field's annotation takes its place.
    """
    schema = structural_schema(field.type)
    scalar = isinstance(field.default, bool | int | str)
    if scalar and field.default and "default" not in schema:
        schema["default"] = field.default
    return schema


def constraints(note: Schema) -> Wire:
    """The schema keywords of a field's annotation, also defaults, list types and CEL rules.

    `known` gives the schema of that struct's fields, `immutable` a rule that the value cannot
    change.
    """
    own_options = ("filled", "keys", "unique", "immutable", "known", "rules")
    plain = {name: value for name, value in asdict(note).items() if name not in own_options}
    keywords: Wire = msgspec.to_builtins(Schema(**plain))
    if note.filled:
        keywords["default"] = {}
    if note.keys:
        keywords |= {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(note.keys)}
    if note.unique:
        keywords["x-kubernetes-list-type"] = "set"
    if note.known is not None:
        keywords |= object_schema(note.known)
    immutable_rule = (
        (ValidationRule("self == oldSelf", "cannot be changed"),) if note.immutable else ()
    )
    return keywords | validations((*immutable_rule, *note.rules))


def validations(rules: tuple[ValidationRule, ...]) -> Wire:
    """The `x-kubernetes-validations` of rules; empty without rules."""
    if not rules:
        return {}
    return {
        "x-kubernetes-validations": [
            {
                "rule": rule.holds,
                "message": rule.message,
                **({"fieldPath": rule.at} if rule.at else {}),
            }
            for rule in rules
        ]
    }


def _type_schema(type_: Any) -> Wire:
    """The schema of a type without annotations.

    Raises TypeError for types that CRDs cannot describe.
    """
    if type_ in _SCALARS:
        return dict(_SCALARS[type_])
    if type_ is Condition:
        return deepcopy(_CONDITION)
    if isinstance(type_, type) and issubclass(type_, Struct) and not issubclass(type_, Object):
        return {"description": struct_description(type_), **object_schema(type_)}
    origin = get_origin(type_)
    if origin not in _GENERICS:
        raise TypeError(f"a definition cannot say what {type_} is")
    return _GENERICS[origin](get_args(type_))


def _list_schema(args: tuple[Any, ...]) -> Wire:
    """The schema of a tuple or list: an array of its first type."""
    return {"type": "array", "items": structural_schema(args[0])}


def _map_schema(args: tuple[Any, ...]) -> Wire:
    """The schema of a dict; one with values of type Any preserves unknown fields."""
    if args[1] is Any:
        return {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {"type": "object", "additionalProperties": structural_schema(args[1])}


def _enum_schema(args: tuple[Any, ...]) -> Wire:
    """The schema of a Literal of strings; an empty value is omitted."""
    # an empty string is an absent field
    return {"type": "string", "enum": [value for value in args if value]}


def _union_schema(args: tuple[Any, ...]) -> Wire:
    """The schema of an optional type, int-or-string, or a string or struct.

    The last has no type, as a structural schema has no such union: numbers and lists pass. Raises
    TypeError for other unions.
    """
    non_null = [arg for arg in args if arg is not types.NoneType]
    if len(non_null) == 1:
        return structural_schema(non_null[0])
    if set(non_null) == {int, str}:
        return {"x-kubernetes-int-or-string": True}
    structs = [arg for arg in non_null if isinstance(arg, type) and issubclass(arg, Struct)]
    if len(structs) == 1 and set(non_null) == {str, *structs}:
        either = object_schema(structs[0]) | {"x-kubernetes-preserve-unknown-fields": True}
        del either["type"]
        return either
    raise TypeError(f"a definition cannot say what a union of {non_null} is")


_GENERICS: dict[Any, Callable[[tuple[Any, ...]], Wire]] = {
    tuple: _list_schema,
    dict: _map_schema,
    Literal: _enum_schema,
    Union: _union_schema,
    types.UnionType: _union_schema,
}
