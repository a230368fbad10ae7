"""What the built-in kinds are made of: each field's wire number, JSON name and type, as data."""

from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import Any, Literal

from msgspec import Struct

Shape = Literal["one", "list", "map"]


class Field(Struct, frozen=True, gc=False):
    """One field of a built-in type; an empty name means that its fields stand in the parent."""

    number: int
    name: str
    type: str
    shape: Shape = "one"
    pointer: bool = False
    required: bool = False
    kept: bool = False
    """Go writes it even when it is zero."""
    patch: str = ""
    merge_key: str = ""

    @property
    def is_message(self) -> bool:
        """Whether its type is another entry of the table."""
        return "." in self.type


def type_of(api_version: str, kind: str) -> str:
    """The table's name of a kind: `apps/v1` and `Deployment` give `apps/v1.Deployment`."""
    group, _, version = api_version.rpartition("/")
    if kind == "DeleteOptions":
        return "meta/v1.DeleteOptions"
    return f"{group.split('.')[0] or 'core'}/{version}.{kind}"


def fields_of(type_name: str) -> tuple[Field, ...] | None:
    """The fields of a type in the order of their numbers, or None for a type not in the table."""
    return _table().get(type_name)


@cache
def json_fields(type_name: str) -> dict[str, Field]:
    """The fields of a type by their JSON names, inlined types included."""
    found: dict[str, Field] = {}
    for field in _table()[type_name]:
        if field.name:
            found[field.name] = field
        else:
            found |= json_fields(field.type)
    return found


def unknown_fields(type_name: str, value: dict[str, Any], path: str = "") -> Iterator[str]:
    """The paths (`spec.ports[0].prot`) of what an object holds and its built-in type does not."""
    known = json_fields(type_name)
    for name, inner in value.items():
        where = f"{path}.{name}" if path else name
        field = known.get(name)
        if field is None:
            if path or name not in ("apiVersion", "kind"):
                yield where
        elif field.is_message:
            for place, element in _elements(field.shape, inner, where):
                if isinstance(element, dict):
                    yield from unknown_fields(field.type, element, place)


def _elements(shape: Shape, value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """What stands under a field, each with its path: itself, a list's elements, a map's values."""
    match shape, value:
        case "list", list():
            yield from ((f"{path}[{index}]", element) for index, element in enumerate(value))
        case "map", dict():
            yield from ((f"{path}.{name}", element) for name, element in value.items())
        case "one", _:
            yield path, value


@cache
def _table() -> dict[str, tuple[Field, ...]]:
    text = files(__package__).joinpath("builtin_fields.txt").read_text()
    table: dict[str, tuple[Field, ...]] = {}
    name = ""
    fields: list[Field] = []
    for line in text.splitlines()[1:]:
        if line.startswith(" "):
            fields.append(_field(line.split()))
        else:
            table[name] = tuple(fields)
            name, fields = line, []
    table[name] = tuple(fields)
    del table[""]
    return table


def _field(words: list[str]) -> Field:
    number, name, kind, *notes = words
    bare = kind.lstrip("*[]{}")
    marks = kind[: len(kind) - len(bare)]
    tags = dict(note.partition("=")[::2] for note in notes)
    return Field(
        number=int(number),
        name=name.rstrip("!+"),
        type=bare,
        shape="list" if "[]" in marks else "map" if "{}" in marks else "one",
        pointer="*" in marks,
        required=name.endswith("!"),
        kept="kept" in tags or name.endswith("!"),
        patch=tags.get("patch", ""),
        merge_key=tags.get("key", ""),
    )
