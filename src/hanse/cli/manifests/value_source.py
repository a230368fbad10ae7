"""Where objects take values from: given values for manifests, Helm templates for the chart."""

from collections.abc import Callable
from functools import reduce
from typing import Any, Protocol

import msgspec
from msgspec import Struct

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

    def joined(self, path: str) -> Any:
        """The items of a list, parted by commas."""
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

    def joined(self, path: str) -> Any:
        return ",".join(self.value(path))

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

    def joined(self, path: str) -> Any:
        return Template(f'{{{{ join "," .Values.{path} | quote }}}}')

    def image(self) -> Any:
        tag = "(.Values.image.tag | default .Chart.AppVersion)"
        return Template(f'{{{{ printf "%s:%s" .Values.image.repository {tag} | quote }}}}')


class Condition(Struct, frozen=True):
    """When a file is part of an installation: a value is set, and one of the features is on."""

    value: str = ""
    """The path of a value; empty: whatever the values are."""
    features: tuple[str, ...] = ()
    """Empty: whatever features are on."""
    served: str = ""
    """For Helm: an API version that the cluster serves already, as Helm checks kinds first."""

    def holds(self, values: Values) -> bool:
        """Whether it holds for given values."""
        source = PlainValues(values)
        is_set = not self.value or bool(source.value(self.value))
        return is_set and (not self.features or bool({*self.features} & {*values.features}))

    def guard(self, text: str) -> str:
        """A template that has the text only where the condition holds."""
        tests = [f".Values.{self.value}"] if self.value else []
        if self.features:
            has = " ".join(f'(has "{name}" .Values.features)' for name in self.features)
            tests.append(f"(or {has})" if len(self.features) > 1 else has)
        if self.served:
            tests.append(f'(.Capabilities.APIVersions.Has "{self.served}")')
        match tests:
            case []:
                return text
            case [one]:
                return f"{{{{- if {one} }}}}\n{text}{{{{- end }}}}\n"
            case _:
                return f"{{{{- if and {' '.join(tests)} }}}}\n{text}{{{{- end }}}}\n"


ALWAYS = Condition()


class ChartFile(Struct, frozen=True):
    """A file of an installation: its name, when it is part of it, and its objects."""

    name: str
    objects: Callable[[ValueSource], list[dict[str, Any]]]
    when: Condition = ALWAYS
