"""Objects that a person paused and agents would write, as an agent finds them; pure.

An agent knows them as facts. For people who read its cluster they stand in an annotation of its
Lease, as long as they are paused: nobody else reads all that agents write.
"""

from collections.abc import Iterable
from shlex import quote

import msgspec

from hanse.model.facts import PausedObject
from hanse.model.findings import Finding, Ref, Severity, remedy
from hanse.model.fleet import MultiClusterSnapshot
from hanse.model.json_input import decode_json
from hanse.model.kinds.coordination import Lease
from hanse.model.objects import ClusterObjectRef
from hanse.model.ownership import PAUSED

PAUSED_OBJECTS = "hanse.dev/paused-objects"
"""Annotation of an agent's Lease: JSON of `PausedObject`, the first of them."""
MOST_REPORTED = 20


def pause_annotations(paused: Iterable[PausedObject]) -> dict[str, str]:
    """The annotation of an agent's Lease: JSON of the first 20 paused objects, sorted by cluster.

    Without any its value is empty, which removes it.
    """
    found = sorted(paused, key=lambda one: one.target)[:MOST_REPORTED]
    return {PAUSED_OBJECTS: msgspec.json.encode(found).decode() if found else ""}


def reported_pauses(lease: Lease | None) -> tuple[PausedObject, ...]:
    """The paused objects in a Lease's annotation; none if it is missing or cannot be parsed."""
    text = lease.metadata.annotations.get(PAUSED_OBJECTS, "") if lease is not None else ""
    try:
        return decode_json(text, tuple[PausedObject, ...]) if text else ()
    except msgspec.DecodeError:
        return ()


def pause_finding(place: ClusterObjectRef, snapshot: MultiClusterSnapshot) -> Finding:
    """A finding ObjectPaused (a risk) about an object; its command removes the pause annotation.

    Whether the object is paused is not checked. A cluster `gslb/lubeck` is shown as `lubeck`.
    """
    where, ref = place.where.rpartition("/")[2], place.ref
    resource = f"{ref.kind.plural}.{ref.kind.group}" if ref.kind.group else ref.kind.plural
    command = f"annotate {quote(resource)} {quote(ref.name)} {PAUSED}-"
    return Finding(
        code="ObjectPaused",
        severity=Severity.RISK,
        subject=Ref(ref.kind.name, ref.name, ref.namespace, where),
        summary=f"{ref} in {where} is paused: agents neither change nor delete it; it is annotated "
        f"{PAUSED}",
        remedy=remedy(snapshot.kubectl(where, command, ref.namespace)),
    )
