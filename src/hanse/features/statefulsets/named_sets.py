"""Sets as their reports name them: by which Services each cluster's replicas are found."""

from msgspec import Struct
from msgspec.structs import replace

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
        """The names of governing Services by the reports.

        Without any, that of the record, if any.
        """
        if self.parts:
            return frozenset(part.names.service for part in self.parts)
        service = self.record.spec.service if self.record is not None else ""
        return frozenset({service} if service else ())


def set_names(namespace: str, service: str, snapshot: Snapshot, broker: ClusterId) -> set[str]:
    """The names of the sets that a Service governs, by reports and shares at the broker."""
    key = f"{namespace}/{service}"
    reported = {part.spec.name for part in snapshot.by(broker, PARTS_BY_SERVICE, key)}
    return reported | {r.metadata.name for r in snapshot.by(broker, SHARES_BY_SERVICE, key)}


def named_set(
    name: str, namespace: str, snapshot: Snapshot, broker: ClusterId, local: ClusterId
) -> NamedSet:
    """A set with its reports by cluster, but for tombstones, newer schemas and earlier sets.

    Reports without a governing Service are left out, and so are replicas whose names are another
    set's. No reports without a record of shares. For the local cluster a report without replicas,
    by the record, stands in for one that is missing.
    """
    record = snapshot.get(broker, StatefulSetShares, name, namespace)
    if record is None:
        return NamedSet(name, None, ())
    owners = {o.uid for o in record.metadata.owner_references}
    found = [part.spec for part in snapshot.by(broker, PARTS_BY_SET, f"{namespace}/{name}")]
    if local and all(spec.cluster != local for spec in found):
        found.append(StatefulSetPartSpec(namespace=namespace, name=name, cluster=local))
    parts: list[NamedPart] = []
    for spec in sorted(found, key=lambda p: p.cluster):
        names = spec.names if spec.names is not None else record.spec.names
        is_of_this_set = not spec.set_uid or not owners or spec.set_uid in owners
        is_read = not spec.has_newer_schema and spec.ended is None
        if names.service and is_read and is_of_this_set:
            parts.append(NamedPart(_without_names_of_others(spec, snapshot, broker), names))
    return NamedSet(name, record, tuple(parts))


def is_service_name(
    name: str, namespace: str, snapshot: Snapshot, broker: ClusterId, local: ClusterId
) -> bool:
    """Whether a set has a governing Service of that name, by a report or its record of shares."""
    return any(
        name in named_set(each, namespace, snapshot, broker, local).services
        for each in set_names(namespace, name, snapshot, broker)
    )


def is_replica_name(key: Key, snapshot: Snapshot, broker: ClusterId) -> bool:
    """Whether a cluster's report at the broker has a replica of that name.

    The name has to be `<set>-<cluster>-<ordinal>` of the set and the cluster of that report.
    """
    stem, _, ordinal = key.name.rpartition("-")
    splits = (i for i, letter in enumerate(stem) if letter == "-" and ordinal.isdecimal())
    return any(
        part.spec.cluster == stem[i + 1 :] and any(r.name == key.name for r in part.spec.replicas)
        for i in splits
        for part in snapshot.by(broker, PARTS_BY_SET, f"{key.namespace}/{stem[:i]}")
    )


def _without_names_of_others(
    part: StatefulSetPartSpec, snapshot: Snapshot, broker: ClusterId
) -> StatefulSetPartSpec:
    """The report without replicas that another cluster, with a longer id, reports for another set.

    Both may be called `store-eu-lubeck-0`: of `store` in eu-lubeck, or of `store-eu` in lubeck.
    """
    claimed = {
        replica.name
        for i, letter in enumerate(part.name)
        if letter == "-" and snapshot.get(broker, StatefulSetShares, part.name[:i], part.namespace)
        for other in snapshot.by(broker, PARTS_BY_SET, f"{part.namespace}/{part.name[:i]}")
        if other.spec.cluster == f"{part.name[i + 1 :]}-{part.cluster}"
        for replica in other.spec.replicas
    }
    if not claimed:
        return part
    return replace(part, replicas=tuple(r for r in part.replicas if r.name not in claimed))
