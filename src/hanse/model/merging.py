"""Merge patches (RFC 7386) over plain values."""

from typing import Any


def merge(target: Any, patch: Any) -> Any:
    """The target with a merge patch applied; neither is changed, both may be shared."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merge(result.get(name), value)
    return result
