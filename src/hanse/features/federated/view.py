"""Federated Services: member Services, the clusters that have them, and what is wrong."""

from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from hanse.features.federated.merge import merge_members
from hanse.features.federated.names import FEDERATED, JOIN, RECORD
from hanse.features.federated.records import (
    BY_SERVICE,
    MemberRecord,
    Origin,
    StoredRecord,
    read_record,
)
from hanse.features.federated.settings import affinity_rule
from hanse.features.federated.status import (
    FEDERATED_CONDITION,
    NAME_FREE_CONDITION,
    SETTINGS_CONDITION,
)
from hanse.model.affinity import format_affinity
from hanse.model.facts import Role
from hanse.model.findings import Finding, Ref, Severity, cluster_ref, remedy
from hanse.model.fleet import MultiClusterSnapshot
from hanse.model.kinds.core import ConfigMap, Service
from hanse.model.kinds.federation import SYSTEM, NativeService
from hanse.model.object_view import ConditionRule, ObjectRule, ObjectsView, check_conditions
from hanse.model.objects import ClusterId, Object
from hanse.model.remedies import start_pods_commands
from hanse.model.snapshot import Change, FactChange, Watch
from hanse.model.unread import unread_finding
from hanse.model.view import ClusterPart, FeatureItem, state_of
from hanse.model.weights import Weighting


class FederatedView:
    """Every federated Service with a record."""

    name = "federated"
    reads = (
        Watch(Role.LOCAL, ConfigMap, SYSTEM, RECORD, indexes=(BY_SERVICE,)),
        Watch(Role.LOCAL, Service),
    )

    def keys(self, snapshot: MultiClusterSnapshot) -> Iterable[str]:
        """`namespace/name` of every service with a member record in any cluster.

        Also of Services with annotation `FEDERATED`, whose records may be in clusters that are
        lost.
        """
        recorded = {
            key
            for _, config_map in snapshot.everywhere(ConfigMap)
            for key in BY_SERVICE.values(config_map)
        }
        standing = (
            f"{made.namespace}/{made.name}"
            for _, made in snapshot.everywhere(Service)
            if FEDERATED in made.metadata.annotations
        )
        return {*recorded, *standing}

    def keys_for(self, change: Change) -> Iterable[str]:
        """The services of a record, or of a federated Service, before and after a change.

        None for facts.
        """
        if isinstance(change, FactChange):
            return ()
        sides = (side for side in (change.before, change.after) if side is not None)
        return {key for side in sides for key in _service_keys(side)}

    def render(self, key: str, snapshot: MultiClusterSnapshot) -> FeatureItem | None:
        """The item of a service; bad if nothing is ready; None if it has no member record.

        A Service that stands without a record while some member is not reached is shown as down,
        and while records could not be read as not known.
        """
        namespace, _, name = key.partition("/")
        stored = list(_stored_records(key, snapshot))
        records = [one.record for one in stored]
        standing = [c for c in snapshot.clusters if _has_service(c, namespace, name, snapshot)]
        if not records:
            unread = [c for c in snapshot.members if snapshot.denied(c, ConfigMap)]
            if standing and unread:
                return _unread_item(namespace, name, unread[0], snapshot)
            lost = [c for c in snapshot.members if snapshot.is_lost(c)]
            return _lost_item(namespace, name, lost) if standing and lost else None
        members = merge_members(one.origin for one in stored).members
        lost = [r.cluster for r in records if snapshot.is_lost(r.cluster)]
        ready = sum(_ready_count(record) for record in records if record.cluster not in lost)
        findings = tuple(_findings(records, (namespace, name), ready, lost, snapshot))
        ports = dict.fromkeys(f"{p.port}/{p.protocol}" for r in records for p in r.ports)
        return FeatureItem(
            namespace=namespace,
            name=name,
            state=state_of(findings),
            findings=findings,
            told=f"{ready} ready" if ready else "nothing ready",
            facts=(
                ("Ports", ", ".join(ports)),
                ("Affinity", format_affinity(affinity_rule(members))),
                *_weight_facts(members),
                ("Stands in", ", ".join(standing) or "no cluster that is seen from here"),
            ),
            parts=tuple(_member_part(record, record.cluster in lost) for record in records),
        )


def _service_keys(obj: Object) -> Iterable[str]:
    """`namespace/name` of the service of a record, or of a federated Service; else none."""
    match obj:
        case ConfigMap():
            return BY_SERVICE.values(obj)
        case Service() if FEDERATED in obj.metadata.annotations:
            return (f"{obj.namespace}/{obj.name}",)
        case _:
            return ()


def _unread_item(
    namespace: str, name: str, cluster: ClusterId, snapshot: MultiClusterSnapshot
) -> FeatureItem:
    """The item of a service whose records could not be read in a cluster, and are in no other."""
    subject = Ref("FederatedService", name, namespace)
    summary = f"who serves federated Service {namespace}/{name} is not known"
    found = unread_finding(subject, summary, cluster, ConfigMap, snapshot)
    return FeatureItem(
        namespace=namespace, name=name, state="warn", told="not known", findings=(found,)
    )


def _lost_item(namespace: str, name: str, lost: Sequence[ClusterId]) -> FeatureItem:
    """The item (bad, FederatedDown) of a service whose members are all in lost clusters."""
    found = Finding(
        code="FederatedDown",
        severity=Severity.OUTAGE,
        subject=Ref("FederatedService", name, namespace),
        summary=f"federated Service {namespace}/{name} has no member in a cluster that is reached",
        remedy=remedy(advice="bring back the cluster of its members"),
        caused_by=tuple(cluster_ref(cluster) for cluster in lost),
    )
    return FeatureItem(
        namespace=namespace, name=name, state="bad", told="nothing ready", findings=(found,)
    )


def _findings(
    records: Sequence[MemberRecord],
    service: tuple[str, str],
    ready: int,
    lost: Sequence[ClusterId],
    snapshot: MultiClusterSnapshot,
) -> Iterator[Finding]:
    """FederatedDown if nothing is ready, else FederatedDegraded if clusters of members are lost."""
    if ready and not lost:
        return
    namespace, name = service
    commands = (
        ()
        if ready
        else tuple(
            command
            for one in records
            if one.cluster not in lost and one.kind == "Service"
            for command in start_pods_commands(
                one.cluster,
                one.namespace,
                one.name,
                snapshot,
                unready=any(backends.unready for backends in one.backends),
            )
        )
    )
    where = f": not by {', '.join(lost)}" if lost else ""
    yield Finding(
        code="FederatedDegraded" if ready else "FederatedDown",
        severity=Severity.DEGRADED if ready else Severity.OUTAGE,
        subject=Ref("FederatedService", name, namespace),
        summary=f"federated Service {namespace}/{name} is served by {ready} ready endpoints{where}"
        if ready
        else f"federated Service {namespace}/{name} has no ready endpoint{where}",
        remedy=remedy(*commands, advice="start pods behind one of its member Services"),
        caused_by=tuple(cluster_ref(cluster) for cluster in lost),
    )


def _stored_records(key: str, snapshot: MultiClusterSnapshot) -> Iterable[StoredRecord]:
    """The readable member records of a service in all clusters."""
    for where in snapshot.clusters:
        for config_map in snapshot.by(where, BY_SERVICE, key):
            joined = read_record(config_map, where)
            if joined is not None:
                yield joined


def _has_service(
    where: ClusterId, namespace: str, name: str, snapshot: MultiClusterSnapshot
) -> bool:
    """Whether a cluster has the Service, with annotation `FEDERATED`."""
    found = snapshot.get(where, Service, name, namespace)
    return found is not None and FEDERATED in found.metadata.annotations


def _ready_count(record: MemberRecord) -> int:
    """The number of ready addresses in a record."""
    return sum(len(one.ready) for one in record.backends)


def _weight_facts(members: Sequence[Origin]) -> Iterator[tuple[str, str]]:
    """The fact `Shares`, with weight and priority of each member.

    Nothing if all have the defaults.
    """
    if any(one.weighting != Weighting() for one in members):
        said = (
            f"{one.cluster} weight {one.weighting.weight} priority {one.weighting.priority}"
            for one in members
        )
        yield "Shares", "; ".join(said)


def _member_part(record: MemberRecord, lost: bool) -> ClusterPart:
    """A member Service in the view: good with ready endpoints, else bad.

    A lost cluster's has none.
    """
    ready = 0 if lost else _ready_count(record)
    return ClusterPart(
        cluster=record.cluster,
        state="good" if ready else "bad",
        text=f"{record.kind} {record.namespace}/{record.name}: {ready} ready",
        ready=ready,
        all=sum(len(b.ready) + len(b.unready) + len(b.draining) for b in record.backends),
    )


_RULES = {
    FEDERATED_CONDITION: ConditionRule("NotFederated"),
    NAME_FREE_CONDITION: ConditionRule("NamesCollide"),
    SETTINGS_CONDITION: ConditionRule("SettingIgnored", Severity.RISK),
}


def _check_conditions(
    obj: Service | NativeService, where: ClusterId, snapshot: MultiClusterSnapshot
) -> Iterator[Finding]:
    """NotFederated, NamesCollide and SettingIgnored of a Service, by its conditions of `_RULES`.

    The remedy of NamesCollide annotates the Service with `JOIN`.
    """
    for found in check_conditions(_RULES)(obj, where, snapshot):
        if found.code != "NamesCollide":
            yield found
            continue
        join = snapshot.kubectl(where, f"annotate service {obj.name} {JOIN}=true", obj.namespace)
        mend = remedy(join, advice="which adds the endpoints of the others to it; or rename one")
        yield replace(found, remedy=mend)


OBJECTS = ObjectsView(
    "federated-objects",
    (ObjectRule(Service, _check_conditions), ObjectRule(NativeService, _check_conditions)),
)
"""Member Services that are not federated, and Services that have the name of a federated one."""
