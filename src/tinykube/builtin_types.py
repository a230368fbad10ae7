"""The fields of the built-in types: protobuf number, JSON name, Go type and patch strategy."""

from functools import cache
from importlib.resources import files
from typing import Literal

from msgspec import Struct

Shape = Literal["one", "list", "map"]


class Field(Struct, frozen=True, gc=False):
    """One field of a built-in type; without a name it is an inlined struct."""

    number: int
    name: str
    type: str
    shape: Shape = "one"
    pointer: bool = False
    required: bool = False
    written_when_zero: bool = False
    """Whether Go encodes it when it is zero: it has no omitempty."""
    patch: str = ""
    merge_key: str = ""

    @property
    def is_message(self) -> bool:
        """Whether its type is a struct of the table."""
        return "." in self.type


def type_of(api_version: str, kind: str) -> str:
    """The name of a kind in the table: `apps/v1` and `Deployment` give `apps/v1.Deployment`.

    Of the group only the part before the first dot counts, `core` if empty; the name need not
    exist. DeleteOptions are those of `meta/v1` in every group.
    """
    group, _, version = api_version.rpartition("/")
    if kind == "DeleteOptions":
        return "meta/v1.DeleteOptions"
    return f"{group.split('.')[0] or 'core'}/{version}.{kind}"


def fields_of(type_name: str) -> tuple[Field, ...] | None:
    """The fields of a type in the order of their numbers, or None for a type not in the table."""
    return _types().get(type_name)


def is_kind(type_name: str) -> bool:
    """Whether objects of the type have apiVersion and kind."""
    return type_name in _kind_names()


@cache
def json_fields(type_name: str) -> dict[str, Field]:
    """The fields of a type by JSON name, inlined types included; KeyError if not in the table."""
    found: dict[str, Field] = {}
    for field in _types()[type_name]:
        if field.name:
            found[field.name] = field
        else:
            found |= json_fields(field.type)
    return found


@cache
def _read_lines() -> list[str]:
    """The lines of the packaged file `builtin_fields.txt` after its first."""
    text = files(__package__).joinpath("builtin_fields.txt").read_text()
    return text.splitlines()[1:]


@cache
def _types() -> dict[str, tuple[Field, ...]]:
    """The fields of each type of the packaged table, by type name; parsed once."""
    table: dict[str, list[Field]] = {}
    name = ""
    for line in _read_lines():
        if line.startswith(" "):
            table[name].append(_parse_field(line.split()))
        else:
            name = line.partition(" ")[0]
            table[name] = []
    return {name: tuple(fields) for name, fields in table.items()}


@cache
def _kind_names() -> frozenset[str]:
    """The names of the types marked `kind` in the table."""
    return frozenset(line.partition(" ")[0] for line in _read_lines() if line.endswith(" kind"))


def _parse_field(words: list[str]) -> Field:
    """A field from its line: number, name, type and tags.

    The name ends in `!` if required, in `+` if inlined; the type begins with `*` (a pointer), `[]`
    or `{}`. Tags are `patch=`, `key=`, and `kept` or `omitted`: whether a zero is written, which by
    default it is if the field is required.
    """
    number, name, kind, *tags_text = words
    bare = kind.lstrip("*[]{}")
    prefix = kind[: len(kind) - len(bare)]
    tags = dict(tag.partition("=")[::2] for tag in tags_text)
    return Field(
        number=int(number),
        name=name.rstrip("!+"),
        type=bare,
        shape="list" if "[]" in prefix else "map" if "{}" in prefix else "one",
        pointer="*" in prefix,
        required=name.endswith("!"),
        written_when_zero="kept" in tags or (name.endswith("!") and "omitted" not in tags),
        patch=tags.get("patch", ""),
        merge_key=tags.get("key", ""),
    )
