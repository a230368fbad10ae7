"""Our structs of built-in kinds agree, field by field, with the API that they are read from."""

import types
from collections.abc import Iterator
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import pytest
from msgspec import Struct
from msgspec.structs import fields

from hanse.model.objects import Object
from tests.model.test_kinds import KINDS
from tinykube.builtin_types import Field, fields_of, json_fields, type_of

BUILTIN = [
    kind for kind in KINDS if fields_of(type_of(kind.kind.api_version, kind.kind.name)) is not None
]

NEVER_MISSING = {
    "CustomResourceDefinitionSpec.versions",
    "DeploymentSpec.selector",
    "Endpoint.addresses",
    "IngressPath.pathType",
    "PodSpec.containers",
    "PolicyRule.verbs",
    "StatefulSetSpec.selector",
}
"""What the API server refuses to take without, so that it is never null."""


def agreements(struct: type[Struct], theirs: str) -> Iterator[tuple[str, Any, Field | None]]:
    """Each field that we read, with what the API says about it."""
    known = json_fields(theirs)
    for ours in fields(struct):
        field = known.get(ours.encode_name)
        yield f"{struct.__name__}.{ours.encode_name}", ours.type, field
        inner = next((arg for arg in parts(ours.type) if is_struct(arg)), None)
        if inner is not None and field is not None and fields_of(field.type) is not None:
            yield from agreements(inner, field.type)


def parts(type_: Any) -> Iterator[Any]:
    """The types that a type is made of, itself included."""
    yield type_
    if get_origin(type_) is not Literal:
        for arg in get_args(type_)[: 1 if get_origin(type_) is Annotated else None]:
            yield from parts(arg)


def is_struct(type_: Any) -> bool:
    return isinstance(type_, type) and issubclass(type_, Struct)


def shape(type_: Any) -> str:
    origin = get_origin(type_)
    if origin is Annotated:
        return shape(get_args(type_)[0])
    if origin in (Union, types.UnionType):
        return shape(next(arg for arg in get_args(type_) if arg is not types.NoneType))
    return {tuple: "list", dict: "map"}.get(origin, "one")


def all_agreements(kind: type[Object]) -> list[tuple[str, Any, Field | None]]:
    return list(agreements(kind, type_of(kind.kind.api_version, kind.kind.name)))


def test_the_api_knows_most_of_the_kinds_that_are_not_ours() -> None:
    names = {kind.__name__ for kind in BUILTIN}

    assert {"Service", "EndpointSlice", "Lease", "StatefulSet", "NetworkPolicy"} <= names


SERVICES_ALONE = {"LoadBalancerIngress.ipMode"}
"""Fields of a Service's status that an Ingress lacks: we write it for Services only."""


@pytest.mark.parametrize("kind", BUILTIN, ids=lambda kind: kind.__name__)
def test_every_field_has_the_name_that_the_api_gives_it(kind: type[Object]) -> None:
    unknown = {path for path, _, field in all_agreements(kind) if field is None}
    assert unknown - SERVICES_ALONE == set()


@pytest.mark.parametrize("kind", BUILTIN, ids=lambda kind: kind.__name__)
def test_lists_are_lists_and_maps_are_maps(kind: type[Object]) -> None:
    agreements = [(path, type_, field) for path, type_, field in all_agreements(kind) if field]
    opaque = [path for path, type_, _ in agreements if get_args(type_)[1:] == (Any,)]

    differing = [
        p for p, type_, field in agreements if p not in opaque and shape(type_) != field.shape
    ]

    assert differing == []


@pytest.mark.parametrize("kind", BUILTIN, ids=lambda kind: kind.__name__)
def test_what_go_writes_as_null_is_read(kind: type[Object]) -> None:
    intolerant = [
        path
        for path, type_, field in all_agreements(kind)
        if field is not None and may_be_null(field) and types.NoneType not in get_args(type_)
    ]

    assert [path for path in intolerant if path not in NEVER_MISSING] == []


def may_be_null(field: Field) -> bool:
    """Times are null when they are not set; lists and pointers when they are not left out."""
    if field.type in ("time", "microtime") and field.shape == "one":
        return True
    return field.written_when_zero and (field.pointer or field.shape != "one")
