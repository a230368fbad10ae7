"""Strategic merge patch: lists of built-in types are merged by their merge keys."""

from typing import Any

from tinykube.builtin_types import Field, fields_of, json_fields
from tinykube.resources import Object

_DIRECTIVE = "$patch"
_RETAIN = "$retainKeys"
_ORDER = "$setElementOrder/"
_DELETE = "$deleteFromPrimitiveList/"


class BadDirective(Exception):
    """A directive of the patch is invalid."""


class KeyMissing(Exception):
    """An element of a merged list lacks its merge key."""


def strategic_merge(type_name: str, target: Object, patch: Object) -> Object:
    """The target with the patch applied; neither argument is changed, but parts are shared.

    Fields of types not in the table are merged as in a JSON merge patch. With `$patch: replace` the
    result is the patch without directives and nulls, with `delete` {}. Raises `BadDirective` and
    `KeyMissing`.
    """
    fields = json_fields(type_name) if fields_of(type_name) is not None else {}
    match patch.get(_DIRECTIVE):
        case None | "merge":
            pass
        case "replace":
            return dict(_strip_directives(patch))
        case "delete":
            return {}
        case other:
            raise BadDirective(f"Unknown patch type: {other}")
    merged = dict(target)
    for key, value in patch.items():
        if not key.startswith("$"):
            _merge_field(merged, key, value, fields.get(key), patch)
    _delete_primitives(merged, patch)
    _apply_order(merged, patch, fields)
    return _retain_keys(merged, patch)


def _merge_field(merged: Object, key: str, value: Any, field: Field | None, patch: Object) -> None:
    """Merge one field of the patch into `merged` in place, by its type and patch strategy.

    Null removes it. Objects are merged unless their strategy is replace, lists are replaced unless
    it is merge. Raises `BadDirective` or `KeyMissing`.
    """
    if value is None:
        merged.pop(key, None)
        return
    current = merged.get(key)
    type_name = field.type if field is not None else ""
    strategy = field.patch if field is not None else ""
    match value, current:
        case dict(), dict() if "replace" not in strategy.split(","):
            inner = type_name if field is not None and field.shape == "one" else ""
            merged[key] = strategic_merge(inner, current, value)
        case dict(), _:
            inner = type_name if field is not None and field.shape == "one" else ""
            merged[key] = strategic_merge(inner, {}, value)
        case list(), list() | None if field is not None and "merge" in strategy:
            merged[key] = _merge_list(field, current or [], value, patch.get(_ORDER + key))
        case list(), _:
            merged[key] = [_strip_directives(element) for element in value]
        case _:
            merged[key] = value


def _merge_list(field: Field, current: list[Any], patch: list[Any], order: Any) -> list[Any]:
    """A new list, merged by its merge key or, of primitives, as a set; sorted by `order`.

    Without `order` ($setElementOrder) the order is that of the patch. Objects and lists in place of
    primitives are appended: the result is not of the field's type, and is refused as such. Raises
    `BadDirective`, or `KeyMissing` for an element without the merge key. With a `$patch: replace`
    element, the patch's other elements replace the list; `$patch: delete` removes by merge key.
    """
    if not field.is_message:
        if any(isinstance(value, dict | list) for value in patch):
            return [*current, *patch]
        added = [value for value in dict.fromkeys(patch) if value not in current]
        return _sort_elements([*current, *added], current, order or patch, "")
    key = field.merge_key
    if not all(isinstance(element, dict) for element in patch):
        raise BadDirective("Invalid type of patch element")
    if any(e.get(_DIRECTIVE) == "replace" for e in patch):
        return [_strip_directives(e) for e in patch if _DIRECTIVE not in e]
    merged = list(current)
    for element in patch:
        if key not in element:
            raise KeyMissing(f"map: {_go_map(element)} does not contain declared merge key: {key}")
        at = _find_element(merged, key, element[key])
        if element.get(_DIRECTIVE) == "delete":
            merged = [e for e in merged if e.get(key) != element[key]]
        elif at is None:
            merged.append(strategic_merge(field.type, {}, element))
        else:
            merged[at] = strategic_merge(field.type, merged[at], element)
    return _sort_elements(merged, current, order or patch, key)


def _find_element(elements: list[Any], key: str, value: Any) -> int | None:
    """The index of the element with this value of the merge key; None if there is none."""
    return next((i for i, e in enumerate(elements) if e.get(key) == value), None)


def _sort_elements(merged: list[Any], current: list[Any], order: Any, key: str) -> list[Any]:
    """A new list: the elements that `order` names, in its order, the others among them.

    The others keep their order; each comes before a named one if it did in `current`. `merged`
    itself is returned if `order` is no list; `key` is the merge key, empty for primitives.
    """
    if not isinstance(order, list):
        return merged
    wanted = [_merge_key_value(entry, key) for entry in order]
    listed = [e for e in merged if _merge_key_value(e, key) in wanted]
    listed.sort(key=lambda e: wanted.index(_merge_key_value(e, key)))
    others = [e for e in merged if _merge_key_value(e, key) not in wanted]
    positions = [_merge_key_value(e, key) for e in current]
    result: list[Any] = []
    while listed and others:
        left, right = _merge_key_value(others[0], key), _merge_key_value(listed[0], key)
        first = (
            left in positions
            and right in positions
            and positions.index(left) < positions.index(right)
        )
        result.append((others if first else listed).pop(0))
    return [*result, *listed, *others]


def _merge_key_value(element: Any, key: str) -> Any:
    """The value of an element's merge key; the element itself in a list without one."""
    return element.get(key) if key and isinstance(element, dict) else element


def _delete_primitives(merged: Object, patch: Object) -> None:
    """Remove from `merged`, in place, the elements that $deleteFromPrimitiveList names.

    Raises `BadDirective` unless it names elements of a list.
    """
    for directive, values in patch.items():
        if directive.startswith(_DELETE):
            key = directive.removeprefix(_DELETE)
            if not isinstance(values, list) or not isinstance(merged.get(key, []), list):
                raise BadDirective("invalid patch format of primitive list")
            if key in merged:
                merged[key] = [value for value in merged[key] if value not in values]


def _apply_order(merged: Object, patch: Object, fields: dict[str, Field]) -> None:
    """Sort lists that the patch does not change by $setElementOrder, in `merged` in place."""
    for directive, order in patch.items():
        if directive.startswith(_ORDER):
            key = directive.removeprefix(_ORDER)
            field = fields.get(key)
            if key not in patch and field is not None and isinstance(merged.get(key), list):
                merge_key = field.merge_key if field.is_message else ""
                merged[key] = _sort_elements(merged[key], merged[key], order, merge_key)


def _retain_keys(merged: Object, patch: Object) -> Object:
    """The object with only the keys that $retainKeys lists; as it is without the directive.

    Raises `BadDirective` if that is no list.
    """
    retained = patch.get(_RETAIN)
    if retained is None:
        return merged
    if not isinstance(retained, list):
        raise BadDirective("invalid patch format of retainKeys")
    return {key: value for key, value in merged.items() if key in retained}


def _strip_directives(value: Any) -> Any:
    """A value of a patch without directives and nulls."""
    if isinstance(value, dict):
        return {
            key: _strip_directives(inner)
            for key, inner in value.items()
            if inner is not None and not key.startswith("$")
        }
    return [_strip_directives(inner) for inner in value] if isinstance(value, list) else value


def _go_map(value: Object) -> str:
    """A map as Go prints it with %v, sorted by key."""
    return "map[" + " ".join(f"{key}:{go_text(v)}" for key, v in sorted(value.items())) + "]"


def go_text(value: Any) -> str:
    """A value as Go prints it with %v."""
    match value:
        case dict():
            return _go_map(value)
        case list():
            return "[" + " ".join(go_text(inner) for inner in value) + "]"
        case None:
            return "<nil>"
        case bool():
            return "true" if value else "false"
        case _:
            return str(value)
