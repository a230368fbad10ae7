"""Where objects take values from: given values for manifests, Helm templates for the chart."""

import hashlib
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
        """The value at a path, its parts separated by dots; for a chart a `Template` of it."""
        ...

    def value_or(self, path: str, other: str) -> Any:
        """The value at a path or, where that is empty, at the path `other`."""
        ...

    def text_or(self, path: str, other: str) -> Any:
        """The text at a path, or the text `other` itself where that is empty."""
        ...

    def either(self, path: str, yes: str, no: str = "") -> Any:
        """The text `yes`, or `no` where the value at the path is false or empty."""
        ...

    def joined(self, path: str, separator: str = ",") -> Any:
        """The items of the list at a path as one text, with `separator` between them."""
        ...

    def text(self, path: str) -> Any:
        """The number at a path as a text."""
        ...

    def digest(self, path: str) -> Any:
        """The SHA-256 of the text at a path, in hexadecimal."""
        ...

    def network_dns_image(self) -> Any:
        """The image of networks' name servers: `networks.dnsImage`, if that is set.

        Else our own image or, if `networks.dns` is coredns, "".
        """
        ...

    def image(self) -> Any:
        """The container image of Hanse, as `repository:tag`."""
        ...


class PlainValues:
    """Given values, for plain manifests."""

    def __init__(self, values: Values) -> None:
        """Read from these values; paths have the names of the YAML, as `image.pullPolicy`."""
        self._values = values
        self._tree = msgspec.to_builtins(values)

    def value(self, path: str) -> Any:
        """The value at a path whose parts are separated by dots; `KeyError` for an unknown path."""
        return reduce(lambda tree, part: tree[part], path.split("."), self._tree)

    def value_or(self, path: str, other: str) -> Any:
        """The value of a path, or of the path `other` if it is empty; `KeyError` if not there."""
        return self.value(path) or self.value(other)

    def text_or(self, path: str, other: str) -> Any:
        """The text of a path, or `other` itself where it is empty."""
        return self.value(path) or other

    def either(self, path: str, yes: str, no: str = "") -> Any:
        """`yes`, or `no` where the value of the path is false or empty."""
        return yes if self.value(path) else no

    def joined(self, path: str, separator: str = ",") -> Any:
        """The items of the list at a path as one text, with `separator` between them."""
        return separator.join(self.value(path))

    def text(self, path: str) -> Any:
        """The value of a path as a text."""
        return str(self.value(path))

    def digest(self, path: str) -> Any:
        """The SHA-256 of the text of a path, in hexadecimal."""
        return hashlib.sha256(self.value(path).encode()).hexdigest()

    def network_dns_image(self) -> Any:
        """The image of networks' name servers: `networks.dnsImage`, if that is set.

        Else our own image or, if `networks.dns` is coredns, "".
        """
        own = "" if self._values.networks.dns == "coredns" else self.image()
        return self._values.networks.dns_image or own

    def image(self) -> Any:
        """`repository:tag` of the image; the tag is our own version unless one is chosen."""
        return f"{self._values.image.repository}:{self._values.tag}"


_HELM_IMAGE = (
    'printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion)'
)


class HelmValues:
    """Helm templates, for the chart."""

    def value(self, path: str) -> Any:
        """A template of the value of a path, as JSON."""
        return Template(f"{{{{ toJson .Values.{path} }}}}")

    def value_or(self, path: str, other: str) -> Any:
        """A template of the value of a path, or of the path `other` where it is empty."""
        return Template(f"{{{{ toJson (.Values.{path} | default .Values.{other}) }}}}")

    def text_or(self, path: str, other: str) -> Any:
        """A template of the text of a path, or of `other` itself where it is empty."""
        return Template(f'{{{{ .Values.{path} | default "{other}" | quote }}}}')

    def either(self, path: str, yes: str, no: str = "") -> Any:
        """A template of `yes`, or of `no` where the value of the path is false or empty."""
        return Template(f'{{{{ ternary "{no}" "{yes}" (empty .Values.{path}) | quote }}}}')

    def joined(self, path: str, separator: str = ",") -> Any:
        """A template of the items of the list at a path as one text, with `separator` between."""
        return Template(f'{{{{ join "{separator}" .Values.{path} | quote }}}}')

    def text(self, path: str) -> Any:
        """A template of the number at a path as a text."""
        return Template(f"{{{{ .Values.{path} | int64 | quote }}}}")

    def digest(self, path: str) -> Any:
        """A template of the SHA-256 of the text of a path."""
        return Template(f"{{{{ sha256sum .Values.{path} | quote }}}}")

    def image(self) -> Any:
        """A template of the image, by default with the chart's version as its tag."""
        return Template(f"{{{{ {_HELM_IMAGE} | quote }}}}")

    def network_dns_image(self) -> Any:
        """A template of the image of networks' name servers: `networks.dnsImage`, if set.

        Else our own image or, if `networks.dns` is coredns, "".
        """
        own = f'(ternary "" ({_HELM_IMAGE}) (eq .Values.networks.dns "coredns"))'
        return Template(f"{{{{ .Values.networks.dnsImage | default {own} | quote }}}}")


class Condition(Struct, frozen=True):
    """When a file is part of an installation: values are set, and one of the features is on.

    A value that is missing, as with `helm upgrade --reuse-values`, is not set.
    """

    value: str = ""
    """The path of a value; empty: whatever the values are."""
    features: tuple[str, ...] = ()
    """Empty: whatever features are on."""
    served: str = ""
    """For Helm: an API version that the cluster serves already, as Helm checks kinds first."""
    also: str = ""
    """The path of a further value that is set."""
    unless: str = ""
    """The path of a value that is not set."""
    equals: str = ""
    """What `value` has to be; empty: it is set."""

    def holds(self, values: Values) -> bool:
        """Whether the values meet the condition, and one of its features, if it has any, is on.

        `served` is not looked at: that is for Helm alone.
        """
        source = PlainValues(values)
        is_set = all(source.value(path) for path in (self.value, self.also) if path)
        is_set = is_set and (not self.equals or source.value(self.value) == self.equals)
        is_unset = not self.unless or not source.value(self.unless)
        has_feature = not self.features or bool({*self.features} & {*values.features})
        return is_set and is_unset and has_feature

    def guard(self, text: str) -> str:
        """The text within a Helm `if` of the condition; unchanged if it has no condition."""
        tests = [f".Values.{path}" for path in (self.value, self.also) if path]
        if self.equals:
            tests[0] = f'(eq .Values.{self.value} "{self.equals}")'
        if self.unless:
            tests.append(f"(not .Values.{self.unless})")
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
