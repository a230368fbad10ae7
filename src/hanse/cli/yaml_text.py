"""YAML of objects, for kubectl and for Helm templates."""

from collections.abc import Iterable, Mapping
from typing import Any

import yaml


class Template(str):
    """A Helm expression that stands in place of a value."""

    __slots__ = ()


class _Plain(yaml.SafeDumper):
    """Block style without aliases, with lists indented below their key."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - the base class's signature
        """True: equal values are written each time, without anchors and aliases."""
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002 - the same
        """Indent lists below their key too, whatever the caller asks."""
        super().increase_indent(flow, indentless=False)


_LINE = 90
"""Characters up to which a list of words is written on one line."""


def _represent_list(dumper: _Plain, items: list[Any]) -> yaml.Node:
    """A list of strings on one line, if that is shorter than `_LINE`; others with an item per line.

    An empty list is on one line.
    """
    words = all(isinstance(one, str) and len(one) < _LINE for one in items)
    short = words and sum(len(one) + 4 for one in items) < _LINE
    return dumper.represent_sequence("tag:yaml.org,2002:seq", items, flow_style=short)


_Plain.add_representer(list, _represent_list)


def to_yaml(objects: Iterable[Mapping[str, Any]], width: int = 10_000) -> str:
    """Objects as YAML documents in order, each begun by `---`; keys keep their order.

    A `Template` among the values is written as it is, unquoted.
    """
    templates: list[str] = []

    def extract(value: Any) -> Any:
        """The value with a placeholder for each `Template`, which is appended to `templates`."""
        match value:
            case Template():
                templates.append(str.__str__(value))
                return f"__template_{len(templates) - 1}__"
            case Mapping():
                return {name: extract(one) for name, one in value.items()}
            case list() | tuple():
                return [extract(one) for one in value]
            case _:
                return value

    text = yaml.dump_all(
        [extract(one) for one in objects],
        Dumper=_Plain,
        sort_keys=False,
        width=width,
        explicit_start=True,
    )
    for number in reversed(range(len(templates))):
        text = text.replace(f"__template_{number}__", templates[number])
    return text
