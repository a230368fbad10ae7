"""The objects that a pod template refers to: ServiceAccount, Secrets, ConfigMaps and claims.

Mounting needs no RBAC permission of whoever wrote the template, so that each reference counts.
Known places are read by name; any other field whose name says Secret, ConfigMap or claim is a
reference to something unknown, so that a new volume type or a driver's attributes hide nothing.
"""

import re
from collections.abc import Iterator
from typing import Any, Literal

from msgspec import Struct

from hanse.model.objects import Wire

ReferredKind = Literal["ServiceAccount", "Secret", "ConfigMap", "PersistentVolumeClaim", "Unknown"]

_BY_KEY: dict[str, tuple[ReferredKind, str]] = {
    "secretRef": ("Secret", "name"),
    "secretKeyRef": ("Secret", "name"),
    "nodePublishSecretRef": ("Secret", "name"),
    "configMapRef": ("ConfigMap", "name"),
    "configMapKeyRef": ("ConfigMap", "name"),
    "configMap": ("ConfigMap", "name"),
    "persistentVolumeClaim": ("PersistentVolumeClaim", "claimName"),
}
_SECRET_NAMES = ("secretName", "name")
"""Where a `secret` has its name: in a volume, or in a projected source."""
_SUSPICIOUS = re.compile(r"secret|config_?map|claim_?name|resourceclaim", re.IGNORECASE)
_NO_REFERENCES = frozenset(
    {"nodeSelector", "affinity", "topologySpreadConstraints", "tolerations", "overhead"}
)
"""Fields with label keys that users choose, which refer to nothing."""
_FIXED_SOURCES = ("dataSource", "dataSourceRef", "volumeName")
"""Fields of a claim that choose its content."""


class Reference(Struct, frozen=True, order=True):
    """A reference to an object in the pod's namespace, and the field that has it."""

    field: str
    kind: ReferredKind
    name: str


def references(template: Wire, path: str = "") -> tuple[Reference, ...]:
    """Every reference in the spec of a pod template; none without a spec.

    `path` is that of the template, with which the fields of references begin.
    """
    spec = template.get("spec")
    prefix = f"{path}.spec" if path else "spec"
    if not isinstance(spec, dict):
        return ()
    return (*_service_accounts(spec, prefix), *_pull_secrets(spec, prefix), *_scan(spec, prefix))


def claim_references(claims: tuple[Wire, ...], path: str) -> tuple[Reference, ...]:
    """The dataSource, dataSourceRef and volumeName of claim templates, as kind `Unknown`."""
    return tuple(
        found
        for number, claim in enumerate(claims)
        for found in _claim_sources(claim.get("spec"), f"{path}[{number}].spec")
    )


def _service_accounts(spec: Wire, path: str) -> Iterator[Reference]:
    """The accounts in serviceAccountName and in the older serviceAccount, each if it is set."""
    for name in ("serviceAccountName", "serviceAccount"):
        if spec.get(name):
            yield Reference(f"{path}.{name}", "ServiceAccount", str(spec[name]))


def _pull_secrets(spec: Wire, path: str) -> Iterator[Reference]:
    """A Secret for each entry of imagePullSecrets; a malformed one, too, with its text as name."""
    listed = spec.get("imagePullSecrets")
    for number, entry in enumerate(listed if isinstance(listed, list) else ()):
        name = entry.get("name") if isinstance(entry, dict) else entry
        yield Reference(f"{path}.imagePullSecrets[{number}].name", "Secret", str(name))


def _scan(value: Any, path: str) -> Iterator[Reference]:
    """The references in a value and all below it.

    At any depth imagePullSecrets, the fields in `_NO_REFERENCES` and null values are skipped.
    """
    if isinstance(value, list):
        for number, item in enumerate(value):
            yield from _scan(item, f"{path}[{number}]")
    elif isinstance(value, dict):
        for key, item in value.items():
            if key not in _NO_REFERENCES and key != "imagePullSecrets" and item is not None:
                yield from _field_references(str(key), item, f"{path}.{key}")


def _field_references(key: str, item: Any, path: str) -> Iterator[Reference]:
    """The references of one field, if its name is that of a reference; else those in all below it.

    A name that merely resembles one of a reference gives a reference of kind `Unknown`.
    """
    if key in _BY_KEY:
        kind, name = _BY_KEY[key]
        yield Reference(f"{path}.{name}", kind, _name_in(item, name))
    elif key == "secret":
        given = [n for n in _SECRET_NAMES if isinstance(item, dict) and n in item]
        for name in given or _SECRET_NAMES[:1]:
            yield Reference(f"{path}.{name}", "Secret", _name_in(item, name))
    elif key == "secretName":
        yield Reference(path, "Secret", str(item))
    elif key == "volumeClaimTemplate":
        yield from _claim_sources(
            item.get("spec") if isinstance(item, dict) else None, f"{path}.spec"
        )
    elif _SUSPICIOUS.search(key):
        yield Reference(path, "Unknown", item if isinstance(item, str) else "")
    else:
        yield from _scan(item, path)


def _name_in(item: Any, name: str) -> str:
    """The text in field `name` of a reference; empty if it is missing or the item is no object."""
    return str(item.get(name, "")) if isinstance(item, dict) else ""


def _claim_sources(spec: Any, path: str) -> Iterator[Reference]:
    """A reference of kind `Unknown` for each of dataSource, dataSourceRef and volumeName, if set.

    None if the claim's spec is no object.
    """
    for name in _FIXED_SOURCES if isinstance(spec, dict) else ():
        if spec.get(name):
            yield Reference(f"{path}.{name}", "Unknown", str(spec[name]))
