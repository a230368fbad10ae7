"""Labels and annotations that an export may put on imports: what every API server takes."""

import re
from collections.abc import Mapping

from hanse.features.services.names import RESERVED

MOST_CHARACTERS = 64 * 1024
"""Of all annotations of one export together; an object may carry four times as much."""

_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
_PREFIX = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*")


def allowed_labels(marks: Mapping[str, str]) -> dict[str, str]:
    """Those that can be labels and are not ours to give."""
    return {
        name: value
        for name, value in marks.items()
        if _is_name(name) and (not value or _NAME.fullmatch(value))
    }


def allowed_annotations(marks: Mapping[str, str]) -> dict[str, str]:
    """Those that can be annotations, are not ours to give, and fit together."""
    allowed: dict[str, str] = {}
    room = MOST_CHARACTERS
    for name, value in sorted(marks.items()):
        room -= len(name) + len(value.encode("utf-8", "surrogatepass"))
        if _is_name(name) and room >= 0:
            allowed[name] = value
    return allowed


def _is_name(name: str) -> bool:
    prefix, slash, rest = name.rpartition("/")
    if name.startswith(RESERVED) or not _NAME.fullmatch(rest):
        return False
    return not slash or (len(prefix) <= 253 and _PREFIX.fullmatch(prefix) is not None)
