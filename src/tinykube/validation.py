"""Validation of names, label keys and label values, with the messages of apimachinery."""

import re

_LABEL_FMT = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN_FMT = rf"{_LABEL_FMT}(\.{_LABEL_FMT})*"
_DNS1035_FMT = "[a-z]([-a-z0-9]*[a-z0-9])?"
_QUALIFIED_FMT = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE_FMT = "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?"

_LABEL = re.compile(_LABEL_FMT)
_SUBDOMAIN = re.compile(_SUBDOMAIN_FMT)
_DNS1035 = re.compile(_DNS1035_FMT)
_QUALIFIED = re.compile(_QUALIFIED_FMT)
_VALUE = re.compile(_VALUE_FMT)

_LABEL_MESSAGE = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and "
    "must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used "
    f"for validation is '{_LABEL_FMT}')"
)
_SUBDOMAIN_MESSAGE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used "
    f"for validation is '{_SUBDOMAIN_FMT}')"
)
_DNS1035_MESSAGE = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an "
    "alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', "
    f"regex used for validation is '{_DNS1035_FMT}')"
)
_QUALIFIED_MESSAGE = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end "
    "with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for "
    f"validation is '{_QUALIFIED_FMT}')"
)
_VALUE_MESSAGE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  "
    f"or '12345', regex used for validation is '{_VALUE_FMT}')"
)


def _length_problems(value: str, limit: int) -> list[str]:
    """The message, in a list, if a value has more bytes than the limit; else empty."""
    return [f"must be no more than {limit} characters"] if len(value.encode()) > limit else []


def dns1123_label_problems(value: str) -> list[str]:
    """Why a value is not a DNS-1123 label of at most 63 characters; empty if it is one."""
    if _LABEL.fullmatch(value):
        return _length_problems(value, 63)
    dotted = _SUBDOMAIN.fullmatch(value) is not None
    return [*_length_problems(value, 63), "must not contain dots" if dotted else _LABEL_MESSAGE]


def dns1123_subdomain_problems(value: str) -> list[str]:
    """Why a value is not a DNS-1123 subdomain of at most 253 characters; empty if it is."""
    messages = [] if _SUBDOMAIN.fullmatch(value) else [_SUBDOMAIN_MESSAGE]
    return _length_problems(value, 253) + messages


def dns1035_label_problems(value: str) -> list[str]:
    """Why a value is not a DNS-1035 label of at most 63 characters; empty if it is one."""
    messages = [] if _DNS1035.fullmatch(value) else [_DNS1035_MESSAGE]
    return _length_problems(value, 63) + messages


def path_segment_problems(value: str) -> list[str]:
    """Why a value is not a path segment: it is `.` or `..`, or has `/` or `%`; else empty."""
    if value in (".", ".."):
        return [f"may not be '{value}'"]
    return [f"may not contain '{char}'" for char in ("/", "%") if char in value]


def qualified_name_problems(value: str) -> list[str]:
    """Why a value is not a qualified name, such as the keys of labels and annotations.

    Empty if it is one: up to 63 characters after an optional prefix, a subdomain and a slash.
    """
    prefix, slash, name = value.rpartition("/")
    problems: list[str] = []
    if slash:
        if "/" in prefix:
            return [
                "a qualified name "
                + _QUALIFIED_MESSAGE.removeprefix("name part ")
                + " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            ]
        if not prefix:
            problems.append("prefix part must be non-empty")
        else:
            problems += [
                f"prefix part {messages}" for messages in dns1123_subdomain_problems(prefix)
            ]
    if not name:
        problems.append("name part must be non-empty")
    elif len(name) > 63:
        problems.append("name part must be no more than 63 characters")
    if not _QUALIFIED.fullmatch(name):
        problems.append(_QUALIFIED_MESSAGE)
    return problems


def is_label_value(value: str) -> bool:
    """Whether a value is a label value: at most 63 characters, and it may be empty."""
    return len(value) <= 63 and _VALUE.fullmatch(value) is not None


def label_value_problems(value: str) -> list[str]:
    """Why a value is not a label value of at most 63 characters; empty if it is one."""
    messages = [] if _VALUE.fullmatch(value) else [_VALUE_MESSAGE]
    return _length_problems(value, 63) + messages
