"""Label and field selectors: parsed from text or objects, and matched against objects."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal

from msgspec import Struct

from tinykube.errors import StatusError, bad_request
from tinykube.resources import Object, Resource
from tinykube.validation import is_label_value, label_value_problems, qualified_name_problems

Operator = Literal["=", "!=", "in", "notin", "exists", "!", ">", "<"]


class Requirement(Struct, frozen=True):
    """One requirement of a label selector."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Whether labels satisfy it; `!=` and `notin` hold for labels without the key."""
        return self.predicate()(labels)

    def predicate(self) -> Callable[[Mapping[str, str]], bool]:
        """A function that says whether labels satisfy it, to be called for many labels.

        `!=` and `notin` hold for labels without the key, `>` and `<` only for values that are
        integers.
        """
        key, values, operator = self.key, self.values, self.operator
        match operator:
            case "=" | "in":
                return lambda labels: labels.get(key) in values
            case "!=" | "notin":
                return lambda labels: labels.get(key) not in values
            case "exists":
                return lambda labels: key in labels
            case "!":
                return lambda labels: key not in labels
            case ">" | "<":
                return lambda labels: (
                    key in labels and _compare_integers(operator, labels[key], values[0])
                )


def _compare_integers(operator: str, left: str, right: str) -> bool:
    """Whether left > right or left < right as integers; False if either is no integer."""
    try:
        return int(left) > int(right) if operator == ">" else int(left) < int(right)
    except ValueError:
        return False


class FieldTerm(Struct, frozen=True):
    """One requirement of a field selector."""

    path: str
    value: str
    equal: bool = True


_UNLABELLED: dict[str, str] = {}


class Selector(Struct, frozen=True):
    """The label and field selectors of a request."""

    labels: tuple[Requirement, ...] = ()
    fields: tuple[FieldTerm, ...] = ()

    @property
    def matches_all(self) -> bool:
        """Whether it is empty, and so selects every object."""
        return not self.labels and not self.fields

    def matches(self, obj: Object) -> bool:
        """Whether it selects an object, read as it is stored (Events in the form of core/v1)."""
        if self.labels:
            labels = obj["metadata"].get("labels") or {}
            if not all(requirement.holds(labels) for requirement in self.labels):
                return False
        return all(
            (field_value(obj, term.path) == term.value) == term.equal for term in self.fields
        )

    def select(self, objects: Iterable[Object]) -> list[Object]:
        """A new list of the objects that it matches, in their order."""
        found = list(objects)
        for requirement in self.labels:
            holds = requirement.predicate()
            found = [one for one in found if holds(one["metadata"].get("labels") or _UNLABELLED)]
        return [one for one in found if self.matches(one)] if self.fields else found


def field_value(obj: Object, path: str) -> str:
    """A field as field selectors compare it: as text, empty (some booleans: false) when absent."""
    value: Any = obj
    for part in path.split("."):
        if not isinstance(value, dict):
            return ""
        value = value.get(part)
    match value:
        case None:
            return "false" if path in _BOOLEAN_FIELDS else ""
        case bool():
            return "true" if value else "false"
        case _:
            return str(value)


_BOOLEAN_FIELDS = frozenset(("spec.unschedulable", "spec.hostNetwork"))
_INVOLVED = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
_FIELDS: dict[str, frozenset[str]] = {
    "pods": frozenset(
        (
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.podIPs",
            "status.nominatedNodeName",
        )
    ),
    "nodes": frozenset(("spec.unschedulable",)),
    "namespaces": frozenset(("status.phase",)),
    "secrets": frozenset(("type",)),
    "services": frozenset(("spec.clusterIP", "spec.type")),
    "events": frozenset(
        (
            *(f"involvedObject.{name}" for name in _INVOLVED),
            *(f"regarding.{name}" for name in _INVOLVED),
            "reason",
            "reportingComponent",
            "reportingController",
            "source",
            "type",
        )
    ),
    "replicasets.apps": frozenset(("status.replicas",)),
    "jobs.batch": frozenset(("status.successful",)),
    "ipaddresses.networking.k8s.io": frozenset(("spec.parentRef.name",)),
}
_EVENT_ALIASES = {"source": "source.component", "reportingController": "reportingComponent"}


def parse_selectors(resource: Resource, labels: str, fields: str) -> Selector:
    """Parse the label and the field selector of a request; an empty text selects everything.

    Raises a 400 if one is not valid, or objects of the resource cannot be selected by a field.
    """
    return Selector(parse_labels(labels), _parse_fields(resource, fields))


def _parse_fields(resource: Resource, text: str) -> tuple[FieldTerm, ...]:
    """The terms of a field selector; raises 400 for a bad term or an unsupported field.

    Values are taken literally: escapes are not undone.
    """
    terms: list[FieldTerm] = []
    for part in filter(None, re.split(r"(?<!\\),", text)):
        found = re.match(r"^(.*?)(==|!=|=)(.*)$", part)
        if found is None:
            raise bad_request(f"invalid selector: '{text}'; can't understand '{part}'")
        path, operator, value = found.groups()
        terms.append(FieldTerm(_check_field(resource, path), value, operator != "!="))
    return tuple(terms)


def _check_field(resource: Resource, path: str) -> str:
    """The path to compare for a field selector, some of Events under their stored name.

    Raises 400 if objects of the resource cannot be selected by it.
    """
    if path == "metadata.name" or (path == "metadata.namespace" and resource.namespaced):
        return path
    if resource.custom is not None:
        if path in resource.custom.selectable_fields:
            return path
        raise bad_request(f"field label not supported: {path}")
    known = _FIELDS.get(resource.store)
    if known is None:
        raise bad_request(
            f'"{path}" is not a known field selector: only "metadata.name", "metadata.namespace"'
        )
    if path not in known:
        raise bad_request(f"field label not supported: {path}")
    return _EVENT_ALIASES.get(path, path) if resource.store == "events" else path


_TOKEN = re.compile(r"\s*(==|!=|=|>|<|\(|\)|,|!|[^\s=!<>(),]+)")
_SYMBOLS = frozenset(("==", "!=", "=", ">", "<", "(", ")", ",", "!"))


class _Tokens:
    """The tokens of one label selector."""

    def __init__(self, text: str) -> None:
        """Split a label selector into tokens; whitespace between them is dropped."""
        self._found = _TOKEN.findall(text)
        self._next = 0

    def peek(self) -> str:
        """The next token without taking it; empty at the end."""
        return self._found[self._next] if self._next < len(self._found) else ""

    def take(self) -> str:
        """The next token, which is consumed; empty at the end."""
        token = self.peek()
        self._next += 1
        return token


def parse_labels(text: str) -> tuple[Requirement, ...]:
    """Parse a label selector in text form; none for an empty text, 400 if it is not valid."""
    tokens = _Tokens(text)
    return tuple(_parse_requirements(tokens))


def _parse_requirements(tokens: _Tokens) -> Iterator[Requirement]:
    """Consume all tokens and yield the requirements between commas; raises 400."""
    while tokens.peek():
        if tokens.peek() in _SYMBOLS and tokens.peek() != "!":
            wanted = "!, identifier, or 'end of string'"
            raise bad_request(f"found '{tokens.peek()}', expected: {wanted}")
        yield _parse_requirement(tokens)
        match tokens.peek():
            case "":
                return
            case ",":
                tokens.take()
                if tokens.peek() in ("", ","):
                    raise bad_request(f"found '{tokens.peek()}', expected: identifier after ','")
            case other:
                raise _unexpected_token(other, "',' or 'end of string'")


def _parse_requirement(tokens: _Tokens) -> Requirement:
    """Consume one requirement, such as `!key`, `key`, `key=value`, `key in (a,b)`; raises 400."""
    absent = tokens.peek() == "!"
    if absent:
        tokens.take()
    key = tokens.take()
    if not key or key in _SYMBOLS:
        raise _unexpected_token(key, "identifier")
    _check_key(key)
    if absent:
        return Requirement(key, "!")
    match tokens.peek():
        case "" | ",":
            return Requirement(key, "exists")
        case "=" | "==":
            tokens.take()
            return Requirement(key, "=", (_parse_value(tokens, key),))
        case "!=":
            tokens.take()
            return Requirement(key, "!=", (_parse_value(tokens, key),))
        case ">" | "<":
            operator: Operator = ">" if tokens.take() == ">" else "<"
            return Requirement(key, operator, (_parse_number(tokens, key),))
        case "in" | "notin":
            word: Operator = "in" if tokens.take() == "in" else "notin"
            return Requirement(key, word, _parse_values(tokens, key))
        case other:
            raise _unexpected_token(other, "in, notin, =, ==, !=, gt, lt")


def _parse_value(tokens: _Tokens, key: str) -> str:
    """Consume one label value, empty at a comma or the end; raises 400 if invalid."""
    if tokens.peek() in ("", ","):
        return ""
    value = tokens.take()
    if value in _SYMBOLS:
        raise _unexpected_token(value, "identifier")
    return _check_value(key, value)


def _parse_number(tokens: _Tokens, key: str) -> str:
    """Consume one value and return it as text; raises 400 unless it is an integer."""
    value = _parse_value(tokens, key)
    if not value.lstrip("-").isdecimal():
        raise bad_request(
            f'unable to parse requirement: values[0]: Invalid value: "{value}": '
            "for 'Gt', 'Lt' operators, the value must be an integer"
        )
    return value


def _parse_values(tokens: _Tokens, key: str) -> tuple[str, ...]:
    """Consume values in parentheses; empty parentheses hold one empty value. Raises 400."""
    opened = tokens.take()
    if opened != "(":
        raise _unexpected_token(opened, "'('")
    values: list[str] = []
    while True:
        token = tokens.take()
        match token:
            case ")":
                return tuple(values) or ("",)
            case ",":
                continue
            case "":
                raise _unexpected_token("", "',' or ')'")
            case _:
                values.append(_check_value(key, token))


def _unexpected_token(found: str, expected: str) -> StatusError:
    """The 400 to raise for a token that is not expected."""
    return bad_request(f"unable to parse requirement: found '{found}', expected: {expected}")


def _check_key(key: str) -> None:
    """Raise a 400 if a label key is not a qualified name."""
    problems = qualified_name_problems(key)
    if problems:
        raise bad_request(
            f'unable to parse requirement: <nil>: Invalid value: "{key}": {"; ".join(problems)}'
        )


def _check_value(key: str, value: str) -> str:
    """The value itself; raises 400 if it is no valid label value."""
    if not is_label_value(value):
        problems = "; ".join(label_value_problems(value))
        raise bad_request(
            f'unable to parse requirement: values[0][{key}]: Invalid value: "{value}": {problems}'
        )
    return value


def matches_labels(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Whether a LabelSelector object (matchLabels and matchExpressions) matches labels.

    An empty one matches everything, one with an unknown operator nothing; a missing one is for the
    caller to handle.
    """
    wanted = selector.get("matchLabels") or {}
    if any(labels.get(key) != value for key, value in wanted.items()):
        return False
    requirements = map(_parse_expression, selector.get("matchExpressions") or ())
    return all(
        requirement is not None and requirement.holds(labels) for requirement in requirements
    )


_EXPRESSIONS: dict[str, Operator] = {
    "In": "in",
    "NotIn": "notin",
    "Exists": "exists",
    "DoesNotExist": "!",
}


def _parse_expression(expression: Mapping[str, Any]) -> Requirement | None:
    """A matchExpression as a requirement; None for an unknown operator."""
    operator = _EXPRESSIONS.get(expression.get("operator", ""))
    if operator is None:
        return None
    return Requirement(expression.get("key", ""), operator, tuple(expression.get("values") or ()))


def selector_text(selector: Mapping[str, Any]) -> str:
    """A LabelSelector object in text form, ordered by key; empty without requirements.

    It is `<error>` if an operator is unknown.
    """
    terms = [(key, f"{key}={value}") for key, value in (selector.get("matchLabels") or {}).items()]
    for expression in selector.get("matchExpressions") or ():
        requirement = _parse_expression(expression)
        if requirement is None:
            return "<error>"
        key, values = requirement.key, ",".join(sorted(requirement.values))
        match requirement.operator:
            case "exists":
                terms.append((key, key))
            case "!":
                terms.append((key, f"!{key}"))
            case word:
                terms.append((key, f"{key} {word} ({values})"))
    return ",".join(text for _, text in sorted(terms, key=lambda term: term[0]))
