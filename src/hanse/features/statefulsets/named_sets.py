"""Sets as their reports name them: by which Services each cluster's replicas are found."""

from msgspec import Struct

from hanse.features.statefulsets.fleet import PARTS_BY_SET
from hanse.model.kinds.stateful import (
    ReplicaNames,
    StatefulSetPart,
    StatefulSetPartSpec,
    StatefulSetShares,
)
from hanse.model.objects import ClusterId
from hanse.model.plan import Key
from hanse.model.snapshot import Index, Snapshot

SHARES_BY_SERVICE = Index(
    StatefulSetShares,
    "dns-stateful-service",
    lambda s: [f"{s.metadata.namespace}/{s.spec.service}"] if s.spec.service else [],
)
PARTS_BY_SERVICE = Index(
    StatefulSetPart,
    "dns-stateful-parts",
    lambda p: [f"{p.spec.namespace}/{p.spec.names.service}"] if p.spec.names is not None else [],
)


class NamedPart(Struct, frozen=True):
    """The report of one cluster, and how its replicas are found by name."""

    spec: StatefulSetPartSpec
    names: ReplicaNames


class NamedSet(Struct, frozen=True):
    """A set, with the reports about it."""

    name: str
    record: StatefulSetShares | None
    parts: tuple[NamedPart, ...]

    @property
    def services(self) -> frozenset[str]:
        """The governing Service, or several where reports differ; by the record without reports."""
        if self.parts:
            return frozenset(part.names.service for part in self.parts)
        service = self.record.spec.service if self.record is not None else ""
        return frozenset({service} if service else ())


def set_names(namespace: str, service: str, snapshot: Snapshot, broker: ClusterId) -> set[str]:
    """The names of the sets that a Service governs, by reports and records of shares."""
    key = f"{namespace}/{service}"
    reported = {part.spec.name for part in snapshot.by(broker, PARTS_BY_SERVICE, key)}
    return reported | {r.metadata.name for r in snapshot.by(broker, SHARES_BY_SERVICE, key)}


def named_set(name: str, namespace: str, snapshot: Snapshot, broker: ClusterId) -> NamedSet:
    """A set with its reports by cluster, without those of newer schemas and earlier sets.

    Each says by which names its own replicas are found. So no other member can take them away.
    """
    record = snapshot.get(broker, StatefulSetShares, name, namespace)
    owners = {o.uid for o in record.metadata.owner_references} if record is not None else set()
    found = [part.spec for part in snapshot.by(broker, PARTS_BY_SET, f"{namespace}/{name}")]
    parts: list[NamedPart] = []
    for spec in sorted(found, key=lambda p: p.cluster):
        names = _names_of(spec, broker, snapshot)
        is_of_this_set = not spec.set_uid or not owners or spec.set_uid in owners
        is_read = not spec.has_newer_schema and spec.ended is None
        if names is not None and names.service and is_read and is_of_this_set:
            parts.append(NamedPart(spec, names))
    return NamedSet(name, record, tuple(parts))


def is_replica_name(key: Key, snapshot: Snapshot, broker: ClusterId) -> bool:
    """Whether a cluster reports a replica of that name: it stands, and no Service takes it."""
    stem, _, ordinal = key.name.rpartition("-")
    splits = (i for i, letter in enumerate(stem) if letter == "-" and ordinal.isdecimal())
    return any(
        part.spec.cluster == stem[i + 1 :] and any(r.name == key.name for r in part.spec.replicas)
        for i in splits
        for part in snapshot.by(broker, PARTS_BY_SET, f"{key.namespace}/{stem[:i]}")
    )


def _names_of(
    part: StatefulSetPartSpec, broker: ClusterId, snapshot: Snapshot
) -> ReplicaNames | None:
    """How replicas of a report are found: as it says, or (of older agents) its record of shares."""
    if part.names is not None:
        return part.names
    record = snapshot.get(broker, StatefulSetShares, part.name, part.namespace)
    return record.spec.names if record is not None else None
