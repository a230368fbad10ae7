"""Replaces what may differ between servers and runs by placeholders."""

import re
from ipaddress import ip_address, ip_network
from typing import Any

from msgspec import Struct

UUID = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")
TIME = re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
QUAD = re.compile(r"\b\d+\.\d+\.\d+\.\d+\b")
AGE = re.compile(r"\b\d+[ydhms](?:\d+[dhms])?\b")
VERSION = re.compile(r"(?<=resource version: )\d+|(?<=current: )\d+|(?<=\()\d+(?=\))")
SCHEME = re.compile(r'(?<=in scheme ")[^"]*')
WHOLE_OBJECT = re.compile(r'(?<=Invalid value: )(?:"\{.*\}"|\[\{.*?\}\])(?=: )')
INTERNAL_DIFF = re.compile(r"\n@@.*", re.DOTALL)
NODE_PORT = re.compile(r":3\d{4}(?=/)")
PLACEHOLDERS = {
    UUID: "$uid",
    TIME: "$time",
    VERSION: "$version",
    SCHEME: "$scheme",
    WHOLE_OBJECT: "$object",
    INTERNAL_DIFF: "",
    NODE_PORT: ":$port",
}
UNORDERED = {"resourceRules", "nonResourceRules"}
SERVER_SPECIFIC = {"resourceVersion", "continue", "token", "audiences", "caBundle"}
"""Fields whose values differ between servers."""


class Normalizer(Struct, frozen=True):
    """Replaces what belongs to one server or one case."""

    namespace: str
    service_range: str
    webhook: str

    def normalize(self, value: Any, name: str = "") -> Any:
        """A JSON value with placeholders for names, addresses, uids and times."""
        match value:
            case dict():
                return self._object(value)
            case list():
                normalized = [self.normalize(one, name) for one in value]
                return sorted(normalized, key=str) if name in UNORDERED else normalized
            case str():
                return self._text(value, name)
            case int() if name in ("nodePort", "healthCheckNodePort"):
                return "$port"
            case _:
                return value

    def _object(self, value: dict[str, Any]) -> dict[str, Any]:
        # The embedded cluster keeps no managers of fields and puts no account into pods.
        dropped = {"managedFields", "userInfo", "serviceAccount", "serviceAccountName"}
        if "priority" in value and "format" in value:
            dropped.add("description")  # of a table's column
        normalize = {
            name: self.normalize(inner, name)
            for name, inner in value.items()
            if name not in dropped
        }
        prefix = normalize.get("generateName")
        if prefix and str(normalize.get("name", "")).startswith(prefix):
            normalize["name"] = f"{prefix}$generated"
        return normalize

    def _text(self, text: str, name: str) -> str:
        if name in SERVER_SPECIFIC and text:
            return f"${name}"
        text = text.replace(self.webhook, "$webhook")
        for quad in set(QUAD.findall(text)):
            text = text.replace(quad, "$address") if self._is_inside(quad) else text
        for pattern, sign in PLACEHOLDERS.items():
            text = pattern.sub(sign, text)
        if name == "cells":  # after uids, of which a part may look like an age: `-512d-`
            text = AGE.sub("$age", text)
        return text.replace(self.namespace, "$ns")

    def _is_inside(self, quad: str) -> bool:
        try:
            return ip_address(quad) in ip_network(self.service_range)
        except ValueError:
            return False
