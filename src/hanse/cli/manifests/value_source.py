"""The same objects for both: a choice is its value in a manifest, and a template in a chart."""

from collections.abc import Callable
from functools import reduce
from typing import Any, Protocol

import msgspec

from hanse.cli.manifests.values import Values
from hanse.cli.yaml_text import Template


class ValueSource(Protocol):
    """Reads what was chosen, by the path that it has among the values."""

    def value(self, path: str) -> Any:
        """What was chosen."""
        ...

    def value_or(self, path: str, other: str) -> Any:
        """What was chosen, or another choice where nothing was."""
        ...

    def either(self, path: str, yes: str, no: str = "") -> Any:
        """One of two texts, by a choice of yes or no."""
        ...

    def image(self) -> Any:
        """The whole name of the image."""
        ...


class PlainValues:
    """Choices that were made: plain manifests."""

    def __init__(self, values: Values) -> None:
        self._values = values
        self._tree = msgspec.to_builtins(values)

    def value(self, path: str) -> Any:
        return reduce(lambda tree, part: tree[part], path.split("."), self._tree)

    def value_or(self, path: str, other: str) -> Any:
        return self.value(path) or self.value(other)

    def either(self, path: str, yes: str, no: str = "") -> Any:
        return yes if self.value(path) else no

    def image(self) -> Any:
        return f"{self._values.image.repository}:{self._values.tag}"


class HelmValues:
    """Choices that are left to whoever installs the chart."""

    def value(self, path: str) -> Any:
        return Template(f"{{{{ toJson .Values.{path} }}}}")

    def value_or(self, path: str, other: str) -> Any:
        return Template(f"{{{{ toJson (.Values.{path} | default .Values.{other}) }}}}")

    def either(self, path: str, yes: str, no: str = "") -> Any:
        return Template(f'{{{{ ternary "{yes}" "{no}" .Values.{path} | quote }}}}')

    def image(self) -> Any:
        tag = "(.Values.image.tag | default .Chart.AppVersion)"
        return Template(f'{{{{ printf "%s:%s" .Values.image.repository {tag} | quote }}}}')


ChartFile = tuple[str, str, Callable[[ValueSource], list[dict[str, Any]]]]
"""The name of a file, the choice that it hangs on (empty: none), and its objects."""
