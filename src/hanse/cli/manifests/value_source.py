"""Where objects take values from: given values for manifests, Helm templates for the chart."""

from collections.abc import Callable
from functools import reduce
from typing import Any, Protocol

import msgspec

from hanse.cli.manifests.values import Values
from hanse.cli.yaml_text import Template


class ValueSource(Protocol):
    """Reads values by their path."""

    def value(self, path: str) -> Any:
        """The value of a path."""
        ...

    def value_or(self, path: str, other: str) -> Any:
        """The value of a path, or of another where it is empty."""
        ...

    def either(self, path: str, yes: str, no: str = "") -> Any:
        """One of two texts, by a boolean value."""
        ...

    def image(self) -> Any:
        """The image with its tag."""
        ...


class PlainValues:
    """Given values, for plain manifests."""

    def __init__(self, values: Values) -> None:
        self._values = values
        self._tree = msgspec.to_builtins(values)

    def value(self, path: str) -> Any:
        return reduce(lambda tree, part: tree[part], path.split("."), self._tree)

    def value_or(self, path: str, other: str) -> Any:
        return self.value(path) or self.value(other)

    def either(self, path: str, yes: str, no: str = "") -> Any:
        """`yes` if the value at the path is true, else `no`."""
        return yes if self.value(path) else no

    def image(self) -> Any:
        return f"{self._values.image.repository}:{self._values.tag}"


class HelmValues:
    """Helm templates, for the chart."""

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
"""The name of a file, the value that enables it (empty: always), and its objects."""
