"""What API servers accept as keys and values of labels."""

import re

_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
_PREFIX = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*")


def is_label_key(key: str) -> bool:
    """Whether a text is a qualified name, which keys of labels and annotations are."""
    prefix, slash, name = key.rpartition("/")
    if not _NAME.fullmatch(name):
        return False
    return not slash or (len(prefix) <= 253 and _PREFIX.fullmatch(prefix) is not None)


def is_label_value(value: str) -> bool:
    """Whether a text is the value of a label, which may be empty."""
    return not value or _NAME.fullmatch(value) is not None
