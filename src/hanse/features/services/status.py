"""What is told on a ServiceExport: conditions as one patch, and Events for what turned bad."""

from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec

from hanse.features.services.labels import allowed_annotations, allowed_labels
from hanse.features.services.names import PRIORITY, TO_CLUSTERS, WEIGHT
from hanse.features.services.records import (
    MOST_PRIORITY,
    MOST_WEIGHT,
    parse_cluster_list,
    parse_number,
)
from hanse.model.conditions import Condition, condition, find, merged
from hanse.model.kinds.multicluster import ServiceExport
from hanse.model.objects import ClusterObjectRef, object_ref
from hanse.model.plan import EventRequest, Patch, Plan
from hanse.model.snapshot import Snapshot

SETTINGS = "SettingsValid"

_QUIET = frozenset({"Valid", "NoConflicts", "Pending", "Exported", "Allowed", "Imported"})
_GOOD = frozenset({("Ready", "True"), ("Valid", "True"), (r"Conflict", "False")})


def told(export: ServiceExport, snapshot: Snapshot, wanted: Sequence[Condition]) -> Plan:
    """The conditions as a patch, and an Event for those that turned bad."""
    standing = export.status.conditions
    after = merged(standing, wanted, snapshot.now, export.metadata.generation)
    place = ClusterObjectRef(snapshot.local, object_ref(export))
    change = {"status": {"conditions": msgspec.to_builtins(after)}}
    events = tuple(
        EventRequest(place, c.reason.split(",")[0], c.message, _severity(c))
        for c in wanted
        if _turned(c, find(standing, c.type)) and c.message
    )
    return Plan(patches=(Patch(place, change, "status"),), events=events)


def settings_conditions(export: ServiceExport, members: frozenset[str] | None) -> list[Condition]:
    """What a person asked for that cannot be done; once told, also that it is mended.

    `members` are the clusters that have joined the broker; while they are not known, nothing is
    said that rests on them.
    """
    faults = list(_faults(export, members))
    if faults:
        text = "; ".join(faults)[:32000]
        return [condition(SETTINGS, False, "InvalidSetting", text)]
    if members is None and TO_CLUSTERS in export.metadata.annotations:
        return []
    if find(export.status.conditions, SETTINGS) is not None:
        return [condition(SETTINGS, True, "Valid")]
    return []


def _faults(export: ServiceExport, members: frozenset[str] | None) -> Iterator[str]:
    marks, spec = export.metadata.annotations, export.spec
    yield from _strangers(marks.get(TO_CLUSTERS, ""), members)
    for name, most in ((WEIGHT, MOST_WEIGHT), (PRIORITY, MOST_PRIORITY)):
        value = marks.get(name, "")
        if name in marks and parse_number(value, most) is None:
            wrong = f"{value[:40]!r} is not a number from 0 to {most}"
            yield f"annotation {name}: {wrong}; it is ignored"
    if TO_CLUSTERS in marks and not marks[TO_CLUSTERS].strip(", "):
        yield f"annotation {TO_CLUSTERS} names no cluster; it is ignored"
    for field, given, allowed in (
        ("exportedLabels", spec.exported_labels, allowed_labels(spec.exported_labels)),
        (
            "exportedAnnotations",
            spec.exported_annotations,
            allowed_annotations(spec.exported_annotations),
        ),
    ):
        if left := sorted(given.keys() - allowed.keys()):
            shown = ", ".join(name[:60] for name in left[:3])
            yield f"{field}: {shown} cannot stand on imports; it is left out"


def _strangers(named: str, members: frozenset[str] | None) -> Iterator[str]:
    """Clusters that are named and have not joined: nobody imports the service by that name."""
    strange = [
        name for name in parse_cluster_list(named) if members is not None and name not in members
    ]
    if strange:
        shown, known = (
            ", ".join(repr(s[:40]) for s in strange[:3]),
            ", ".join(sorted(members or ())),
        )
        yield f"annotation {TO_CLUSTERS}: no cluster {shown} has joined; there are {known}"


def _turned(now: Condition, before: Condition | None) -> bool:
    changed = before is None or before.status != now.status or before.reason != now.reason
    return changed and now.reason not in _QUIET


def _severity(condition_: Condition) -> Literal["Normal", "Warning"]:
    return "Normal" if (condition_.type, condition_.status) in _GOOD else "Warning"
