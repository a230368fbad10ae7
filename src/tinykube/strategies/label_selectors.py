"""Validation of LabelSelectors where they are stored."""

from collections.abc import Iterator

from tinykube.errors import FieldError, forbidden, invalid, required
from tinykube.object_meta import label_errors
from tinykube.resources import Object
from tinykube.validation import label_value_problems, qualified_name_problems

_WITH_VALUES = ("In", "NotIn")
_WITHOUT_VALUES = ("Exists", "DoesNotExist")


def label_selector_errors(selector: Object | None, field: str) -> Iterator[FieldError]:
    """Errors of a LabelSelector, with paths below this field; none if it is None."""
    if selector is None:
        return
    yield from label_errors(selector.get("matchLabels") or {}, f"{field}.matchLabels")
    for at, expression in enumerate(selector.get("matchExpressions") or ()):
        yield from _expression_errors(expression, f"{field}.matchExpressions[{at}]")


def _expression_errors(expression: Object, field: str) -> Iterator[FieldError]:
    """Errors of one matchExpression: operator, values that it needs or may not have, key."""
    operator, values = expression.get("operator", ""), expression.get("values") or ()
    if operator in _WITH_VALUES and not values:
        detail = "must be specified when `operator` is 'In' or 'NotIn'"
        yield required(f"{field}.values", detail)
    if operator in _WITHOUT_VALUES and values:
        detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
        yield forbidden(f"{field}.values", detail)
    if operator not in (*_WITH_VALUES, *_WITHOUT_VALUES):
        yield invalid(f"{field}.operator", operator, "not a valid selector operator")
    key = expression.get("key", "")
    for problem in qualified_name_problems(key):
        yield invalid(f"{field}.key", key, problem)
    for at, value in enumerate(values):
        for problem in label_value_problems(value):
            yield invalid(f"{field}.values[{at}]", value, problem)
