"""Removes secrets from objects and logs; pure."""

import re
from typing import Any

HIDDEN = "<redacted>"

_SECRET_KEY = re.compile(
    r"(?i)^(.*password.*|.*passwd.*|token|.*-token|bearer|authorization|client-?key.*|private-?key|"
    r"api-?key|credentials?|tls\.key)$"
)
_SECRET_TEXT = re.compile(
    r"eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*"  # a JSON web token
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"
    r"|(?i:bearer\s+)[A-Za-z0-9._~+/=-]{8,}"
    r"|(?i:(?:password|passwd|secret|token|api[-_]?key)\s*[=:]\s*)[^\s,;\"'}]+"
    r"|(?<=://)[^/\s:@]+:[^/\s@]+(?=@)",  # a password in a URL
    re.DOTALL,
)
_DROPPED = frozenset({"managedFields", "kubectl.kubernetes.io/last-applied-configuration"})


def redact_text(text: str) -> str:
    """The text with tokens, private keys and passwords, by their patterns, replaced."""
    return _SECRET_TEXT.sub(HIDDEN, text)


def redact(value: Any) -> Any:
    """A copy of a JSON value with secrets replaced, by names of fields and patterns in texts.

    Of the data of Secrets only the names of the keys are kept; managedFields and kubectl's
    last-applied annotation are dropped.
    """
    if isinstance(value, dict):
        if value.get("kind") == "Secret" or _is_secret(value):
            value = {**value, "data": dict.fromkeys(value.get("data") or {}, HIDDEN)}
            value.pop("stringData", None)
        return {
            name: HIDDEN if isinstance(one, str) and _SECRET_KEY.match(name) else redact(one)
            for name, one in value.items()
            if name not in _DROPPED
        }
    if isinstance(value, list):
        return [_redact_variable(one) for one in value]
    return redact_text(value) if isinstance(value, str) else value


def _is_secret(value: dict[str, Any]) -> bool:
    """Whether it looks like a Secret: items of a list have no kind, but type, data and no spec."""
    return "metadata" in value and "type" in value and "data" in value and "spec" not in value


def _redact_variable(value: Any) -> Any:
    """An item of a list, redacted; {name, value} without its value if the name is a secret's."""
    if isinstance(value, dict) and {"name", "value"} <= value.keys():
        hidden = _SECRET_KEY.match(str(value["name"]).replace("_", "-"))
        return {**redact(value), "value": HIDDEN} if hidden else redact(value)
    return redact(value)
