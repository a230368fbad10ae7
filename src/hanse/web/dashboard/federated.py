"""The section of federated Services: member Services, and clusters that have them."""

from collections.abc import Iterable

from hanse.features.federated.names import FEDERATED
from hanse.features.federated.records import BY_SERVICE, MemberRecord, read_record
from hanse.model.fleet import MultiClusterSnapshot
from hanse.model.kinds.core import ConfigMap, Service
from hanse.model.objects import ClusterId
from hanse.model.snapshot import Change, FactChange, Watch
from hanse.model.view import ClusterPart, FeatureItem


class FederatedSection:
    """Every federated Service with a record."""

    name = "federated"
    reads: tuple[Watch, ...] = ()

    def keys(self, snapshot: MultiClusterSnapshot) -> Iterable[str]:
        """`namespace/name` of every service that has a member record in any cluster."""
        return {
            key
            for _, config_map in snapshot.everywhere(ConfigMap)
            for key in BY_SERVICE.values(config_map)
        }

    def keys_for(self, change: Change) -> Iterable[str]:
        """The services of a changed ConfigMap, or a changed federated Service; none for facts."""
        if isinstance(change, FactChange):
            return ()
        match change.object:
            case ConfigMap() as config_map:
                return BY_SERVICE.values(config_map)
            case Service() as made if FEDERATED in made.metadata.annotations:
                return (f"{made.namespace}/{made.name}",)
            case _:
                return ()

    def render(self, key: str, snapshot: MultiClusterSnapshot) -> FeatureItem | None:
        """The item of a service; None if it has no member record, bad if nothing is ready."""
        namespace, _, name = key.partition("/")
        records = list(_member_records(key, snapshot))
        if not records:
            return None
        standing = [c for c in snapshot.clusters if _has_service(c, namespace, name, snapshot)]
        ready = sum(_ready_count(record) for record in records)
        ports = dict.fromkeys(f"{p.port}/{p.protocol}" for r in records for p in r.ports)
        return FeatureItem(
            namespace=namespace,
            name=name,
            state="good" if ready else "bad",
            told=f"{ready} ready" if ready else "nothing ready",
            facts=(
                ("Ports", ", ".join(ports)),
                ("Stands in", ", ".join(standing) or "no cluster that is seen from here"),
            ),
            parts=tuple(_member_part(record) for record in records),
        )


def _member_records(key: str, snapshot: MultiClusterSnapshot) -> Iterable[MemberRecord]:
    """The readable member records of a service in all clusters."""
    for where in snapshot.clusters:
        for config_map in snapshot.by(where, BY_SERVICE, key):
            joined = read_record(config_map, where)
            if joined is not None:
                yield joined.record


def _has_service(
    where: ClusterId, namespace: str, name: str, snapshot: MultiClusterSnapshot
) -> bool:
    """Whether a cluster has the Service, with annotation `FEDERATED`."""
    found = snapshot.get(where, Service, name, namespace)
    return found is not None and FEDERATED in found.metadata.annotations


def _ready_count(record: MemberRecord) -> int:
    return sum(len(one.ready) for one in record.backends)


def _member_part(record: MemberRecord) -> ClusterPart:
    """A member's part: good if it has a ready endpoint, else bad."""
    ready = _ready_count(record)
    return ClusterPart(
        cluster=record.cluster,
        state="good" if ready else "bad",
        text=f"{record.kind} {record.namespace}/{record.name}: {ready} ready",
    )
