"""What names, label keys and values may look like, and what is said when they do not."""

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

_LABEL_TOLD = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and "
    "must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used "
    f"for validation is '{_LABEL_FMT}')"
)
_SUBDOMAIN_TOLD = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used "
    f"for validation is '{_SUBDOMAIN_FMT}')"
)
_DNS1035_TOLD = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an "
    "alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', "
    f"regex used for validation is '{_DNS1035_FMT}')"
)
_QUALIFIED_TOLD = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end "
    "with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for "
    f"validation is '{_QUALIFIED_FMT}')"
)
_VALUE_TOLD = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  "
    f"or '12345', regex used for validation is '{_VALUE_FMT}')"
)


def _length(value: str, limit: int) -> list[str]:
    return [f"must be no more than {limit} characters"] if len(value.encode()) > limit else []


def dns1123_label_problems(value: str) -> list[str]:
    """Why a value is no DNS-1123 label."""
    if _LABEL.fullmatch(value):
        return _length(value, 63)
    dotted = _SUBDOMAIN.fullmatch(value) is not None
    return [*_length(value, 63), "must not contain dots" if dotted else _LABEL_TOLD]


def dns1123_subdomain_problems(value: str) -> list[str]:
    """Why a value is no DNS-1123 subdomain."""
    told = [] if _SUBDOMAIN.fullmatch(value) else [_SUBDOMAIN_TOLD]
    return _length(value, 253) + told


def dns1035_label_problems(value: str) -> list[str]:
    """Why a value is no DNS-1035 label."""
    told = [] if _DNS1035.fullmatch(value) else [_DNS1035_TOLD]
    return _length(value, 63) + told


def path_segment_problems(value: str) -> list[str]:
    """Why a value cannot stand in a path."""
    if value in (".", ".."):
        return [f"may not be '{value}'"]
    return [f"may not contain '{char}'" for char in ("/", "%") if char in value]


def qualified_name_problems(value: str) -> list[str]:
    """Why a value is no qualified name, which keys of labels and annotations must be."""
    prefix, slash, name = value.rpartition("/")
    problems: list[str] = []
    if slash:
        if "/" in prefix:
            return [
                "a qualified name "
                + _QUALIFIED_TOLD.removeprefix("name part ")
                + " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            ]
        if not prefix:
            problems.append("prefix part must be non-empty")
        else:
            problems += [f"prefix part {told}" for told in dns1123_subdomain_problems(prefix)]
    if not name:
        problems.append("name part must be non-empty")
    elif len(name) > 63:
        problems.append("name part must be no more than 63 characters")
    if not _QUALIFIED.fullmatch(name):
        problems.append(_QUALIFIED_TOLD)
    return problems


def is_label_value(value: str) -> bool:
    """Whether a value may stand in a label."""
    return len(value) <= 63 and _VALUE.fullmatch(value) is not None


def label_value_problems(value: str) -> list[str]:
    """Why a value may not stand in a label."""
    told = [] if _VALUE.fullmatch(value) else [_VALUE_TOLD]
    return _length(value, 63) + told
