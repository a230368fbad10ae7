"""Label selectors: how they are written in a line, and whether they match."""

import re
from collections.abc import Mapping
from typing import Any, Literal, assert_never

import msgspec

from hanse.model.kinds.networking import LabelRequirement, LabelSelector

_LABEL = r"[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?"
_KEY = rf"(?:{_LABEL}/)?{_LABEL}"
_TERM = re.compile(
    rf"\s*(?:(?P<key>{_KEY})\s*(?:(?P<equal>==?|!=)\s*(?P<value>{_LABEL}|)"
    rf"|\s(?P<set>in|notin)\s*\((?P<values>[^()]*)\))?|!\s*(?P<absent>{_KEY}))\s*(?:,|$)"
)
EXAMPLE = "`region=eu,tier in (gold,silver),!retired`"


class InvalidSelector(ValueError):
    """A text is no label selector."""


def parse_selector(text: str) -> LabelSelector:
    """Parse a selector as `kubectl get -l` takes it, to matchExpressions; raises `InvalidSelector`.

    An empty one selects everything.
    """
    found, at = list[LabelRequirement](), 0
    while at < len(text.rstrip()):
        term = _TERM.match(text, at)
        if term is None:
            part = text[at:].strip()[:40]
            raise InvalidSelector(f"{part!r} is no condition on labels; write it as {EXAMPLE}")
        found.append(_requirement(term))
        at = term.end()
    return LabelSelector(match_expressions=tuple(found))


def _requirement(term: re.Match[str]) -> LabelRequirement:
    """The requirement that one parsed term of a label selector stands for."""
    if absent := term["absent"]:
        return LabelRequirement(key=absent, operator="DoesNotExist")
    if term["set"]:
        values = tuple(value.strip() for value in term["values"].split(","))
        return LabelRequirement(
            key=term["key"], operator="In" if term["set"] == "in" else "NotIn", values=values
        )
    if term["equal"]:
        operator: Literal["In", "NotIn"] = "NotIn" if term["equal"] == "!=" else "In"
        return LabelRequirement(key=term["key"], operator=operator, values=(term["value"],))
    return LabelRequirement(key=term["key"], operator="Exists")


def decode_selector(wire: Any) -> LabelSelector:
    """The selector in an object that is not decoded; None and an empty one select everything.

    Raises `msgspec.ValidationError` for what is no selector.
    """
    return msgspec.convert(wire or {}, LabelSelector, strict=False)


def selects(selector: LabelSelector, labels: Mapping[str, str]) -> bool:
    """Whether a selector matches labels; an empty one matches everything."""
    return all(labels.get(k) == v for k, v in selector.match_labels.items()) and all(
        _matches_requirement(requirement, labels) for requirement in selector.match_expressions
    )


def _matches_requirement(requirement: LabelRequirement, labels: Mapping[str, str]) -> bool:
    """Whether labels satisfy a requirement; NotIn also matches if the label is missing."""
    value = labels.get(requirement.key)
    match requirement.operator:
        case "In":
            return value in requirement.values
        case "NotIn":
            return value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case _:
            assert_never(requirement.operator)
