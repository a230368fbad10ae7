"""Rules of CRD schemas in CEL (`x-kubernetes-validations`): compiled once, evaluated at writes.

Rules over `oldSelf` hold for updates of values that have a counterpart in the old object; items of
a list have one only if it is of type map. Other rules do not hold again for a value that an update
leaves as it is.
"""

import re
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from tinykube.errors import FieldError, forbidden, invalid, quoted, required
from tinykube.expressions import (
    CompileError,
    EvaluationError,
    Expression,
    Scope,
    compile_expression,
)
from tinykube.structural_schema import Schema

_VARIABLES = frozenset(("self", "oldSelf"))
_RULES = "x-kubernetes-validations"
_REASONS = ("FieldValueInvalid", "FieldValueForbidden", "FieldValueRequired", "FieldValueDuplicate")
_BLOCKING = frozenset(
    (
        *("FieldValueNotSupported", "FieldValueRequired", "FieldValueTooLong"),
        *("FieldValueTooMany", "FieldValueTypeInvalid"),
    )
)
"""Errors of a schema with which rules cannot be relied on to have a value."""

_KEYWORDS = frozenset(
    (
        *("true", "false", "null", "in", "as", "break", "const", "continue", "else", "for"),
        *("function", "if", "import", "let", "loop", "package", "namespace", "return", "var"),
        *("void", "while"),
    )
)
_ESCAPES = (
    ("__", "__underscores__"),
    (".", "__dot__"),
    ("-", "__dash__"),
    ("/", "__slash__"),
)
_PATH_KEY = re.compile(r"\[['\"]([^'\"]*)['\"]\]")


class SchemaRule(Struct, frozen=True):
    """One compiled rule."""

    expression: Expression
    text: str
    """What is said if it does not hold."""
    message: Expression | None
    field_path: str
    reason: str

    @property
    def is_transition(self) -> bool:
        """Whether the rule reads `oldSelf`.

        Such a rule is evaluated only where there is an old value.
        """
        return "oldSelf" in self.expression.variables


class RuleNode(Struct, frozen=True):
    """The rules of a schema and of those below it, as far as there are any."""

    schema: Schema
    rules: tuple[SchemaRule, ...]
    properties: dict[str, "RuleNode"]
    items: "RuleNode | None"
    values: "RuleNode | None"


def compile_rules(schema: Schema) -> RuleNode | None:
    """The compiled rules of a schema and those below it; None if there are no rules at all.

    Raises `CompileError` if one of them is not valid.
    """
    properties = {
        name: node
        for name, inner in (schema.get("properties") or {}).items()
        if (node := compile_rules(inner)) is not None
    }
    inner, more = schema.get("items"), schema.get("additionalProperties")
    items = compile_rules(inner) if isinstance(inner, dict) else None
    values = compile_rules(more) if isinstance(more, dict) else None
    rules = tuple(_compile(rule) for rule in schema.get(_RULES) or ())
    if not (rules or properties or items or values):
        return None
    return RuleNode(schema, rules, properties, items, values)


def _compile(rule: dict[str, Any]) -> SchemaRule:
    """One compiled rule; raises `CompileError`, also for optionalOldSelf (it is not supported).

    Its message defaults to `failed rule:` and its source, its reason to FieldValueInvalid.
    """
    if rule.get("optionalOldSelf"):
        raise CompileError("optionalOldSelf is not available in an embedded cluster")
    source, dynamic = rule.get("rule") or "", rule.get("messageExpression")
    return SchemaRule(
        compile_expression(source, _VARIABLES),
        rule.get("message") or f"failed rule: {source.strip()}",
        compile_expression(dynamic, _VARIABLES) if dynamic else None,
        rule.get("fieldPath") or "",
        rule.get("reason") or _REASONS[0],
    )


def is_uncorrelated(schema: Schema) -> bool:
    """Whether parts of a value of this schema cannot be correlated with those of the old value.

    That is so for lists that are no maps, and for atomic maps.
    """
    if schema.get("type") == "array":
        return schema.get("x-kubernetes-list-type") != "map"
    return schema.get("x-kubernetes-map-type") == "atomic"


def rule_definition_errors(schema: Schema, field: str, uncorrelated: str) -> Iterator[FieldError]:
    """Errors of the rules of one schema, not of those below it.

    A rule must not be empty, must compile here and have a known reason. `uncorrelated` is the field
    of a schema around it without old values, within which `oldSelf` is refused; empty if there is
    none.
    """
    for at, rule in enumerate(schema.get(_RULES) or ()):
        where = f"{field}.{_RULES}[{at}]"
        if not (rule.get("rule") or "").strip():
            yield required(f"{where}.rule", "rule is not specified")
            continue
        if rule.get("reason") and rule["reason"] not in _REASONS:
            yield invalid(
                f"{where}.reason", rule["reason"], f"must be one of {', '.join(_REASONS)}"
            )
        try:
            compiled = _compile(rule)
        except CompileError as error:
            yield invalid(f"{where}.rule", rule, str(error))
            continue
        if uncorrelated and compiled.is_transition:
            detail = "oldSelf cannot be used on the uncorrelatable portion of the schema within "
            yield invalid(f"{where}.rule", rule["rule"], detail + uncorrelated)


def rule_errors(
    node: RuleNode | None, new: dict[str, Any], old: dict[str, Any] | None, found: list[FieldError]
) -> Iterator[FieldError]:
    """The errors of rules that an object violates; `found` are its errors of other kinds.

    If one of `found` is of a missing value, a type, a size or an unsupported value, no rule is
    evaluated, and a single error says so. `old` is None for a new object; without a node there are
    no errors.
    """
    if node is None:
        return
    if any(error.type in _BLOCKING for error in found):
        yield invalid(
            "<nil>",
            None,
            "some validation rules were not checked because the object was invalid; "
            "correct the existing errors to complete validation",
        )
        return
    yield from _node_errors(node, _visible(new), None if old is None else _visible(old), "")


def _visible(obj: dict[str, Any]) -> dict[str, Any]:
    """A copy as rules see it: of its metadata only name and generateName."""
    metadata = obj.get("metadata") or {}
    names = {key: metadata[key] for key in ("name", "generateName") if key in metadata}
    return {**obj, "metadata": names}


def _node_errors(node: RuleNode, new: Any, old: Any, path: str) -> Iterator[FieldError]:
    """The errors of rules for a value and for all values in it; none for null.

    `old` is None without counterpart in the old object: items have one only in lists of type map.
    """
    if new is None:
        return
    yield from _value_errors(node, new, old, path)
    match new:
        case dict():
            known = old if isinstance(old, dict) else {}
            for key, value in new.items():
                inner = node.properties.get(key) or node.values
                if inner is not None:
                    where = f"{path}[{key}]" if key not in node.properties else _child(path, key)
                    yield from _node_errors(inner, value, known.get(key), where)
        case list() if node.items is not None:
            counterparts = _by_key(node.schema, old)
            for at, item in enumerate(new):
                before = counterparts.get(_key(node.schema, item))
                yield from _node_errors(node.items, item, before, f"{path}[{at}]")


def _value_errors(node: RuleNode, new: Any, old: Any, path: str) -> Iterator[FieldError]:
    """The errors of the rules of one value itself, not of those in it.

    A rule is violated if its result is not true, or it fails to evaluate. Skipped are transition
    rules without an old value, and other rules if the value is unchanged.
    """
    rules = [rule for rule in node.rules if old is not None or not rule.is_transition]
    rules = [rule for rule in rules if rule.is_transition or new != old]
    if not rules:
        return
    variables = {"self": _cel_value(node.schema, new)}
    if old is not None:
        variables["oldSelf"] = _cel_value(node.schema, old)
    scope = Scope(variables)
    for rule in rules:
        where = path or "<nil>"
        try:
            if rule.expression.evaluate(scope) is not True:
                yield _error(rule, path, new, _message(rule, scope))
        except EvaluationError as error:
            text = f"{error} evaluating rule: {rule.text}"
            yield invalid(where, node.schema.get("type", ""), text)


def _message(rule: SchemaRule, scope: Scope) -> str:
    """The text of a rule's messageExpression; the rule's fixed text if there is none.

    Also if it fails to evaluate, or does not give one line of text that is not blank.
    """
    if rule.message is None:
        return rule.text
    try:
        text = rule.message.evaluate(scope)
    except EvaluationError:
        return rule.text
    return text if isinstance(text, str) and text.strip() and "\n" not in text else rule.text


def _error(rule: SchemaRule, path: str, value: Any, text: str) -> FieldError:
    """The error of a rule that does not hold, with this text and of the rule's reason.

    Its field is the path with the rule's fieldPath, `<nil>` at the root. The value is shown if it
    is no object or list, unless the reason is Forbidden or Required.
    """
    path = _PATH_KEY.sub(r".\1", f"{path}{rule.field_path}".lstrip(".")) or "<nil>"
    match rule.reason:
        case "FieldValueForbidden":
            return forbidden(path, text)
        case "FieldValueRequired":
            return required(path, text)
        case reason:
            shown = "" if isinstance(value, dict | list) else f"{quoted(value)}: "
            return FieldError(reason, path, f"Invalid value: {shown}{text}")


def _cel_value(schema: Schema, value: Any) -> Any:
    """A value with the names of properties escaped, as rules spell them, also of values in it.

    Keys of additionalProperties stay as they are.
    """
    match value:
        case dict():
            known = schema.get("properties") or {}
            more = schema.get("additionalProperties")
            others = more if isinstance(more, dict) else {}
            return {
                _escape(key) if key in known else key: _cel_value(known.get(key, others), inner)
                for key, inner in value.items()
            }
        case list():
            items = schema.get("items")
            inner_schema = items if isinstance(items, dict) else {}
            return [_cel_value(inner_schema, item) for item in value]
        case _:
            return value


def _escape(name: str) -> str:
    """A property name as rules spell it: `__dash__` for `-`, so also `__`, `.` and `/`.

    A keyword of CEL is put between `__` and `__`.
    """
    if name in _KEYWORDS:
        return f"__{name}__"
    for plain, escaped in _ESCAPES:
        name = name.replace(plain, escaped)
    return name


def _by_key(schema: Schema, old: Any) -> dict[tuple[str, ...], Any]:
    """The items of an old list of type map by their keys; empty for other lists and values."""
    if schema.get("x-kubernetes-list-type") != "map" or not isinstance(old, list):
        return {}
    return {_key(schema, item): item for item in old}


def _key(schema: Schema, item: Any) -> tuple[str, ...]:
    """The values of x-kubernetes-list-map-keys in an item; empty if it is no object."""
    keys = schema.get("x-kubernetes-list-map-keys") or ()
    return tuple(repr(item.get(key)) for key in keys) if isinstance(item, dict) else ()


def _child(path: str, key: str) -> str:
    """The path of a property below a path, which may be empty."""
    return f"{path}.{key}" if path else key
