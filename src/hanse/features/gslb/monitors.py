"""Parses and validates health monitors in ConfigMaps."""

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
    """The monitor in a ConfigMap's data; raises ValueError for data with `monitor_errors`."""
    return msgspec.convert(dict(data), Monitor, strict=False)


def monitor_errors(data: Mapping[str, str]) -> Iterator[str]:
    """The errors of a ConfigMap's data, each with its field and the values that are allowed."""
    for field in _NEEDED:
        if field not in data:
            yield f"{field}: it is needed"
    for field, value in data.items():
        if field not in _FIELDS:
            yield f"{field}: it is no field of a monitor; there are {', '.join(_FIELDS)}"
        elif field == "type" and value not in _TYPES:
            yield f"type: {value[:50]!r} is none of {', '.join(_TYPES)}"
        elif field == "path" and value and not is_http_path(value):
            yield "path: it must begin with / and have no blanks or other than ASCII letters"
        elif field in _NUMBERS:
            low, high = _NUMBERS[field]
            if not (value.isascii() and value.isdecimal() and low <= int(value[:9]) <= high):
                yield f"{field}: {value[:50]!r} is not from {low} to {high}"


def is_http_path(text: str) -> bool:
    """Whether a text is a path that an HTTP request may contain unchanged."""
    clean = text.isascii() and text.isprintable() and " " not in text
    return clean and text.startswith("/") and len(text) <= MAX_PATH_LENGTH
