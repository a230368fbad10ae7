"""Parses YAML that people or peers write, within bounds of size, depth and aliases."""

from typing import Any

import yaml
from msgspec import Struct

from hanse.model.json_input import MAX_DEPTH

MAX_BYTES = 3 * 1024 * 1024
"""As large as a request to an API server may be."""
MAX_ALIASED = 10_000
"""Values that aliases may add to those that are written out."""

LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The safe loader, in C if there."""


class OversizedInput(yaml.MarkedYAMLError):
    """YAML that exceeds a bound; `problem` says which, and what to do."""

    def __init__(self, problem: str, mark: Any = None) -> None:
        """An error with this problem, at the place in the YAML that `mark` gives, if any."""
        super().__init__(problem=problem, problem_mark=mark)


def check_yaml(text: str | bytes) -> None:
    """Raise `OversizedInput` for YAML that is too large or too deep, also by the aliases in it.

    The bounds are MAX_BYTES, MAX_DEPTH levels, and MAX_ALIASED values that aliases add. It reads
    the stream of events and builds nothing. Raises `yaml.YAMLError` for what is not YAML.
    """
    if len(text) > MAX_BYTES:
        raise OversizedInput(f"it is larger than {MAX_BYTES // 1024} KiB; split it")
    size = _ExpandedSize()
    for event in yaml.parse(text, Loader=LOADER):
        match event:
            case yaml.DocumentStartEvent():
                size = _ExpandedSize()
            case yaml.AliasEvent():
                size.add_alias(event)
            case yaml.CollectionStartEvent():
                size.begin(event)
            case yaml.CollectionEndEvent():
                size.end()
            case yaml.ScalarEvent(anchor=anchor):
                size.add_scalar(anchor)
            case _:
                pass


def load_yaml(text: str | bytes) -> Any:
    """The value of one YAML document; raises `yaml.YAMLError`, `OversizedInput` among them."""
    check_yaml(text)
    try:
        return yaml.load(text, Loader=LOADER)  # noqa: S506 - a safe loader
    except ValueError as error:  # a date or a number that only looks like one
        raise yaml.MarkedYAMLError(problem=str(error)) from None


def load_all_yaml(text: str | bytes) -> list[Any]:
    """The values of all YAML documents; raises `yaml.YAMLError`, `OversizedInput` among them."""
    check_yaml(text)
    try:
        return list(yaml.load_all(text, Loader=LOADER))
    except ValueError as error:  # a date or a number that only looks like one
        raise yaml.MarkedYAMLError(problem=str(error)) from None


class _Node(Struct):
    """A collection: the values in it, and how many levels it has."""

    anchor: str | None
    values: int = 1
    levels: int = 1


class _ExpandedSize:
    """Counts values and levels of a document as if each alias were written out."""

    def __init__(self) -> None:
        self._aliased = 0
        self._anchored: dict[str | None, _Node] = {}
        self._open: list[_Node] = []

    def add_scalar(self, anchor: str | None) -> None:
        """Count a scalar into the open collection, and keep it by its anchor, if any."""
        self._add(_Node(anchor, levels=0))

    def add_alias(self, event: yaml.AliasEvent) -> None:
        """Add the values of an anchor; an unknown one is left to the loader to refuse.

        Raises `OversizedInput` if aliases add too much or nest too deeply, or one is inside itself.
        """
        if any(event.anchor == opened.anchor for opened in self._open):
            raise OversizedInput(
                f"alias *{event.anchor} stands inside itself; write it out", event.start_mark
            )
        meant = self._anchored.get(event.anchor, _Node(None))
        self._aliased += meant.values
        if self._aliased > MAX_ALIASED:
            why = f"aliases add more than {MAX_ALIASED} values; write them out"
            raise OversizedInput(why, event.start_mark)
        self._check_depth(meant.levels, event)
        self._add(_Node(None, meant.values, meant.levels))

    def begin(self, event: yaml.CollectionStartEvent) -> None:
        """Open a list or map; raises `OversizedInput` if it nests too deeply."""
        self._check_depth(1, event)
        self._open.append(_Node(event.anchor))

    def end(self) -> None:
        """Close the innermost open list or map, and count it."""
        self._add(self._open.pop())

    def _add(self, node: _Node) -> None:
        """Count a node that has ended into the one around it, and keep it by its anchor, if any."""
        if node.anchor is not None:
            self._anchored[node.anchor] = node
        if self._open:
            around = self._open[-1]
            around.values += node.values
            around.levels = max(around.levels, node.levels + 1)

    def _check_depth(self, levels: int, event: yaml.NodeEvent) -> None:
        """Raise `OversizedInput` if a node with `levels` below it nests too deep here."""
        if len(self._open) + levels > MAX_DEPTH:
            raise OversizedInput(
                f"it nests deeper than {MAX_DEPTH} levels; no kind does", event.start_mark
            )
