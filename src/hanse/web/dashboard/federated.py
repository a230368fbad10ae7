"""Federated Services: which member Services make them, and where they stand."""

from collections.abc import Iterable

from hanse.features.federated.names import FEDERATED
from hanse.features.federated.records import BY_SERVICE, MemberRecord, read_record
from hanse.model.kinds.core import ConfigMap, Service
from hanse.model.objects import ClusterId
from hanse.model.snapshot import Change, FactChange
from hanse.web.dashboard.section import FeatureShown, PartShown
from hanse.web.dashboard.snapshot import Sights


class Federated:
    """Every federated Service that a record tells of."""

    name = "federated"

    def keys(self, sights: Sights) -> Iterable[str]:
        return {key for _, told in sights.everywhere(ConfigMap) for key in BY_SERVICE.values(told)}

    def keys_for(self, change: Change) -> Iterable[str]:
        if isinstance(change, FactChange):
            return ()
        match change.object:
            case ConfigMap() as told:
                return BY_SERVICE.values(told)
            case Service() as made if FEDERATED in made.metadata.annotations:
                return (f"{made.namespace}/{made.name}",)
            case _:
                return ()

    def show(self, key: str, sights: Sights) -> FeatureShown | None:
        namespace, _, name = key.partition("/")
        records = list(_records(key, sights))
        if not records:
            return None
        standing = [c for c in sights.clusters if _stands(c, namespace, name, sights)]
        ready = sum(_ready(record) for record in records)
        ports = dict.fromkeys(f"{p.port}/{p.protocol}" for r in records for p in r.ports)
        return FeatureShown(
            namespace=namespace,
            name=name,
            state="good" if ready else "bad",
            told=f"{ready} ready" if ready else "nothing ready",
            facts=(
                ("Ports", ", ".join(ports)),
                ("Stands in", ", ".join(standing) or "no cluster that is seen from here"),
            ),
            parts=tuple(_part(record) for record in records),
        )


def _records(key: str, sights: Sights) -> Iterable[MemberRecord]:
    for where in sights.clusters:
        for told in sights.by(where, BY_SERVICE, key):
            joined = read_record(told, where)
            if joined is not None:
                yield joined.record


def _stands(where: ClusterId, namespace: str, name: str, sights: Sights) -> bool:
    found = sights.get(where, Service, name, namespace)
    return found is not None and FEDERATED in found.metadata.annotations


def _ready(record: MemberRecord) -> int:
    return sum(len(one.ready) for one in record.backends)


def _part(record: MemberRecord) -> PartShown:
    ready = _ready(record)
    return PartShown(
        cluster=record.cluster,
        state="good" if ready else "bad",
        text=f"{record.kind} {record.namespace}/{record.name}: {ready} ready",
    )
