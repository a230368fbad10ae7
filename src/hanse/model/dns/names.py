"""Domain names in wire format (RFC 1035): length-prefixed labels in lower case, then the root."""

from collections.abc import Iterator
from functools import lru_cache

ROOT = b"\0"
MAX_NAME_LENGTH = 255
MAX_LABEL_LENGTH = 63


class InvalidName(ValueError):
    """A text that is not a domain name; the message says why."""


def wire_name(text: str) -> bytes:
    """Parse a domain name into lower-case wire format; a final dot is optional, empty is root.

    White space around it is ignored. Raises InvalidName if it is not ASCII, or a label or the name
    is too short or too long; no ASCII character in a label is refused.
    """
    bare = text.strip().removesuffix(".")
    if not bare:
        return ROOT
    try:
        labels = [label.encode("ascii").lower() for label in bare.split(".")]
    except UnicodeEncodeError:
        raise InvalidName(
            f"{text!r} has letters that are not ASCII; write it in punycode"
        ) from None
    for label in labels:
        if not 0 < len(label) <= MAX_LABEL_LENGTH:
            raise InvalidName(f"{text!r} has a label that is not 1 to 63 bytes long")
    name = b"".join(bytes((len(label),)) + label for label in labels) + ROOT
    if len(name) > MAX_NAME_LENGTH:
        raise InvalidName(f"{text!r} is longer than 255 bytes")
    return name


def parse_name(text: str) -> bytes | None:
    """The name in wire format; None if it is invalid."""
    try:
        return wire_name(text)
    except InvalidName:
        return None


def child_name(label: str, parent: bytes) -> bytes | None:
    """The name one label below `parent`, in lower case; None if label or name would be invalid."""
    wire = _wire_label(label)
    return wire + parent if wire and len(wire) + len(parent) <= MAX_NAME_LENGTH else None


@lru_cache(maxsize=4096)
def _wire_label(label: str) -> bytes:
    """A label in lower case with its length byte.

    Empty if it is not ASCII, has a dot, or is not 1 to 63 bytes long.
    """
    if not label.isascii() or "." in label or not 0 < len(label) <= MAX_LABEL_LENGTH:
        return b""
    return bytes((len(label),)) + label.lower().encode()


def parent_name(name: bytes) -> bytes:
    """The name without its first label; must not be called for the root."""
    return name[name[0] + 1 :]


def name_text(name: bytes) -> str:
    """The name in presentation format, with a final dot; the root is `.`.

    Dots, backslashes and bytes that are not printable ASCII are escaped in labels (RFC 1035).
    """
    written = "".join(_escape_label(label) + "." for label in split_labels(name))
    return written or "."


def split_labels(name: bytes) -> Iterator[bytes]:
    """The labels of a well-formed name, leftmost first, without the root; none for the root."""
    at = 0
    while name[at]:
        yield name[at + 1 : at + 1 + name[at]]
        at += name[at] + 1


def is_subdomain(name: bytes, zone: bytes) -> bool:
    """Whether a name is the apex of the zone or below it."""
    while len(name) > len(zone):
        name = parent_name(name)
    return name == zone


def _escape_label(label: bytes) -> str:
    """A label as text; dots, backslashes and bytes that are not printable ASCII are escaped.

    An escape is a backslash and three decimal digits.
    """
    return "".join(chr(b) if 0x21 <= b <= 0x7E and b not in b".\\" else f"\\{b:03d}" for b in label)
