"""Monitors as people describe them in ConfigMaps: each field under its own name."""

from collections.abc import Iterator, Mapping
from typing import get_args

import msgspec

from hanse.model.kinds.globalservice import Monitor, MonitorType

MAX_PATH_LENGTH = 1024
_TYPES: tuple[str, ...] = get_args(MonitorType)
_NUMBERS = {
    "port": (1, 65535),
    "interval": (1, 3600),
    "timeout": (1, 3600),
    "up": (1, 50),
    "down": (1, 50),
}
_FIELDS = ("type", "path", *_NUMBERS)
_NEEDED = ("type", "port")


def parse_monitor(data: Mapping[str, str]) -> Monitor:
    """The monitor that is described; raises ValueError for what `monitor_errors` tells of."""
    return msgspec.convert(dict(data), Monitor, strict=False)


def monitor_errors(data: Mapping[str, str]) -> Iterator[str]:
    """What is wrong with a description: each with the field and what it may be."""
    for field in _NEEDED:
        if field not in data:
            yield f"{field}: it is needed"
    for field, told in data.items():
        if field not in _FIELDS:
            yield f"{field}: it is no field of a monitor; there are {', '.join(_FIELDS)}"
        elif field == "type" and told not in _TYPES:
            yield f"type: {told[:50]!r} is none of {', '.join(_TYPES)}"
        elif field == "path" and told and not is_http_path(told):
            yield "path: it must begin with / and have no blanks or other than ASCII letters"
        elif field in _NUMBERS:
            least, most = _NUMBERS[field]
            if not (told.isascii() and told.isdecimal() and least <= int(told[:9]) <= most):
                yield f"{field}: {told[:50]!r} is not from {least} to {most}"


def is_http_path(text: str) -> bool:
    """Whether something can be asked for by HTTP as it is written."""
    clean = text.isascii() and text.isprintable() and " " not in text
    return clean and text.startswith("/") and len(text) <= MAX_PATH_LENGTH
