"""Conditions of a ServiceExport as a plan of its status."""

import re
from collections.abc import Iterator, Sequence

from hanse.features.services.names import AFFINITY, DOMAIN, PRIORITY, TO_CLUSTERS, WEIGHT
from hanse.features.services.records import (
    allowed_annotations,
    allowed_labels,
    parse_cluster_list,
)
from hanse.model.affinity import FORMAT, parse_affinity
from hanse.model.conditions import Condition, condition, find_condition
from hanse.model.kinds.core import Service
from hanse.model.kinds.multicluster import ServiceExport, ServiceExportSpec
from hanse.model.numbers import parse_number
from hanse.model.plan import Key, Plan
from hanse.model.snapshot import Snapshot
from hanse.model.status import conditions_plan
from hanse.model.weights import MOST_PRIORITY, MOST_WEIGHT

SETTINGS_VALID = "SettingsValid"
ADDRESSES_ALLOWED = "AddressesAllowed"
"""Of exports and imports: whether all addresses are within the ranges of their cluster."""
IMPORTED_HERE = "ImportedHere"
"""Whether the exporting cluster itself has the import."""

API_SERVER = ("default", "kubernetes")
"""Namespace and name of the API server's own Service, which every cluster has."""

NOT_JOINED = "this cluster has not joined a broker"
"""The message of an export that nobody can publish."""
NEVER_EXPORTED = "the API server's own Service is never exported"

_FAULTY_ANNOTATION = re.compile(rf"(?:^|; )annotation ({re.escape(DOMAIN)}/[a-z-]+)")
"""The annotation that a sentence of `_setting_faults` begins with."""
_JOINED = re.compile(
    rf"annotation {re.escape(TO_CLUSTERS)}: no cluster .* has joined; there are ([^;]*)"
)
"""The members that the sentence about unknown clusters names."""


def status_plan(export: ServiceExport, snapshot: Snapshot, conditions: Sequence[Condition]) -> Plan:
    """A status patch of the conditions, and Events for those that turn bad or are bad no longer.

    Conditions of other types stay.
    """
    current = export.status.conditions
    return conditions_plan(export, snapshot.local, current, conditions, snapshot)


def settings_conditions(export: ServiceExport, joined: frozenset[str] | None) -> list[Condition]:
    """SettingsValid: False with the settings that are ignored; True if it was set before.

    Else empty. `joined` are the members of the broker; while they are unknown (None), clusters that
    have not joined are no fault, and an export with `to-clusters` does not become True.
    """
    faults = list(_setting_faults(export, joined))
    if faults:
        message = "; ".join(faults)
        return [condition(SETTINGS_VALID, False, "InvalidSetting", message)]
    if joined is None and TO_CLUSTERS in export.metadata.annotations:
        return []
    if find_condition(export.status.conditions, SETTINGS_VALID) is not None:
        return [condition(SETTINGS_VALID, True, "Valid")]
    return []


def _setting_faults(export: ServiceExport, joined: frozenset[str] | None) -> Iterator[str]:
    """A sentence for each annotation or exported label that is ignored, or for unknown clusters."""
    annotations = export.metadata.annotations
    yield from _unknown_clusters(annotations.get(TO_CLUSTERS, ""), joined)
    for name, most in ((WEIGHT, MOST_WEIGHT), (PRIORITY, MOST_PRIORITY)):
        value = annotations.get(name, "")
        if name in annotations and parse_number(value, most) is None:
            wrong = f"{value[:40]!r} is not a number from 0 to {most}"
            yield f"annotation {name}: {wrong}; it is ignored"
    affinity = annotations.get(AFFINITY, "local")
    if parse_affinity(affinity) is None:
        yield f"annotation {AFFINITY}: {affinity[:40]!r} is not {FORMAT}; it is ignored"
    if TO_CLUSTERS in annotations and not annotations[TO_CLUSTERS].strip(", "):
        yield f"annotation {TO_CLUSTERS} names no cluster; it is ignored"
    for field, left in excluded_metadata(export.spec):
        shown = ", ".join(name[:60] for name in left[:3])
        yield f"{field}: {shown} cannot stand on imports; it is left out"


def faulty_annotations(message: str) -> list[str]:
    """The annotations of an export that a message of SettingsValid is about."""
    return _FAULTY_ANNOTATION.findall(message)


def joined_clusters_in(message: str) -> list[str] | None:
    """The members of the broker by a message of SettingsValid; None if it is not about clusters."""
    found = _JOINED.search(message)
    return list(parse_cluster_list(found[1])) if found is not None else None


def excluded_metadata(spec: ServiceExportSpec) -> Iterator[tuple[str, list[str]]]:
    """The fields `exportedLabels` and `exportedAnnotations` with the names that imports do not get.

    Names are sorted; a field whose names are all allowed is left out.
    """
    for field, given, allowed in (
        ("exportedLabels", spec.exported_labels, allowed_labels(spec.exported_labels)),
        (
            "exportedAnnotations",
            spec.exported_annotations,
            allowed_annotations(spec.exported_annotations),
        ),
    ):
        if left := sorted(given.keys() - allowed.keys()):
            yield field, left


def _unknown_clusters(named: str, joined: frozenset[str] | None) -> Iterator[str]:
    """One message for clusters in `to-clusters` that have not joined; none if `joined` is None."""
    unknown = [c for c in parse_cluster_list(named) if joined is not None and c not in joined]
    if unknown:
        shown, known = (
            ", ".join(repr(c[:40]) for c in unknown[:3]),
            ", ".join(sorted(joined or ())),
        )
        yield f"annotation {TO_CLUSTERS}: no cluster {shown} has joined; there are {known}"


def is_exportable(key: Key, service: Service | None) -> bool:
    """Whether a Service exists and can be exported.

    It cannot if it is being deleted, is of type ExternalName, or is the API server's own.
    """
    return not invalid_conditions(key, service)


def invalid_conditions(key: Key, service: Service | None) -> tuple[Condition, ...]:
    """Conditions Valid and Ready, both False, of an export that cannot be published; else empty.

    It cannot without a Service, or while that is being deleted (Ready's reason is Pending), nor if
    it is of type ExternalName or the API server's (Failed).
    """
    if (key.namespace, key.name) == API_SERVER:
        return _invalid_type(NEVER_EXPORTED)
    if service is None or service.metadata.deletion_timestamp is not None:
        return (
            condition("Valid", False, "NoService", f"there is no Service {key.name} here"),
            condition("Ready", False, "Pending", "it is exported when the Service is created"),
        )
    if service.spec.type == "ExternalName":
        text = "a Service of type ExternalName has no endpoints; export one of another type"
        return _invalid_type(text)
    return ()


def _invalid_type(message: str) -> tuple[Condition, ...]:
    """Valid=False (InvalidServiceType) and Ready=False (Failed) with this message.

    They are those of a Service that can never be exported.
    """
    return (
        condition("Valid", False, "InvalidServiceType", message),
        condition("Ready", False, "Failed", message),
    )
