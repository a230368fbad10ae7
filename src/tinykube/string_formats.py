"""The string formats that schemas of custom resources may require."""

import ipaddress
import re
from base64 import b64decode
from binascii import Error as BadBase64
from collections.abc import Callable
from datetime import date, datetime
from typing import Any


def _is_parsable(parse: Callable[[str], Any]) -> Callable[[str], bool]:
    """A function that says whether `parse` accepts a text.

    It returns False where `parse` raises ValueError or `BadBase64`, else True.
    """

    def is_parsable(text: str) -> bool:
        """Whether `parse` takes the text without `ValueError` or `BadBase64`."""
        try:
            parse(text)
        except (ValueError, BadBase64):
            return False
        return True

    return is_parsable


_HOST = re.compile(
    r"(?=.{1,253}$)[a-zA-Z0-9]([-a-zA-Z0-9]*[a-zA-Z0-9])?(\.[a-zA-Z0-9]([-a-zA-Z0-9]*[a-zA-Z0-9])?)*"
)
_UUID = re.compile(r"[0-9a-fA-F]{8}-?([0-9a-fA-F]{4}-?){3}[0-9a-fA-F]{12}")
_DURATION = re.compile(r"([0-9.]+\s*(ns|us|µs|ms|s|m|h|d|w|[a-z]+)\s*)+")
FORMATS: dict[str, Callable[[str], bool]] = {
    "date-time": _is_parsable(datetime.fromisoformat),
    "date": _is_parsable(date.fromisoformat),
    "ipv4": _is_parsable(ipaddress.IPv4Address),
    "ipv6": _is_parsable(ipaddress.IPv6Address),
    "cidr": _is_parsable(lambda text: ipaddress.ip_network(text, strict=False)),
    "byte": _is_parsable(lambda text: b64decode(text, validate=True)),
    "hostname": lambda text: _HOST.fullmatch(text) is not None,
    "uuid": lambda text: _UUID.fullmatch(text) is not None,
    "duration": lambda text: _DURATION.fullmatch(text) is not None,
    "email": lambda text: "@" in text.strip("@"),
    "uri": lambda text: re.match(r"[a-zA-Z][a-zA-Z0-9+.-]*:|/", text) is not None,
}
"""By name, whether a text has the format."""
