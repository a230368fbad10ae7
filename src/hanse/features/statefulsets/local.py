"""What one cluster does for a set: its StatefulSet, the headless Service, replicas' balancers."""

from msgspec import Struct
from msgspec.structs import replace

from hanse.features.statefulsets.deletion import (
    plan_missing_set,
    plan_release_with_tombstone,
    plan_without_shares,
)
from hanse.features.statefulsets.fleet import (
    clusters_with_newer_parts,
    departed_broker,
    is_broker_listed,
    list_parts,
)
from hanse.features.statefulsets.headless_services import is_kept_for_another_set, service_keeper
from hanse.features.statefulsets.load_balancers import (
    balancers,
    conflicting_service_removals,
    overwrite_events,
    pod_label_patches,
    stand_ins,
)
from hanse.features.statefulsets.names import REVISION, SET, cluster_set_name, part_name, users
from hanse.features.statefulsets.owned_objects import is_released_by, kept, released, standing
from hanse.features.statefulsets.part_report import report
from hanse.features.statefulsets.shares import list_replica_names
from hanse.features.statefulsets.submitted import (
    SubmittedSet,
    find_submitted_set,
    with_last_applied,
)
from hanse.features.statefulsets.tombstones import deletes_claims
from hanse.model.clusterset import broker_cluster
from hanse.model.kinds.apps import StatefulSet
from hanse.model.kinds.core import Namespace, Service, ServiceSpec
from hanse.model.kinds.stateful import StatefulSetPart, StatefulSetPartSpec, StatefulSetShares
from hanse.model.objects import ClusterId, ClusterObjectRef, Meta, Object, object_ref
from hanse.model.ownership import OWNER
from hanse.model.plan import Desired, Key, Plan
from hanse.model.snapshot import Snapshot


class _Case(Struct, frozen=True):
    """One set that this cluster has to do with."""

    key: Key
    submitted: SubmittedSet
    record: StatefulSetShares
    broker: ClusterId
    service: Service | None
    """The headless Service at the door."""
    parts: dict[ClusterId, StatefulSetPartSpec]


def plan_local(key: Key, snapshot: Snapshot, home: str) -> Plan:
    """All that this cluster has of one set, and its report about it."""
    plan, broker = _plan(key, snapshot, home), broker_cluster(snapshot)
    if broker is None:
        return plan
    theirs = [
        o for o in standing(key, snapshot) if is_kept_for_another_set(o, key, snapshot, broker)
    ]
    left = tuple(
        ClusterObjectRef(snapshot.local, object_ref(o)) for o in theirs
    )  # until they have taken it over
    return replace(plan, kept=(*plan.kept, *left)) if left else plan


def _plan(key: Key, snapshot: Snapshot, home: str) -> Plan:
    broker = broker_cluster(snapshot)
    if broker is None:
        left = departed_broker(snapshot)
        return released(key, snapshot, left, home) if left is not None else Plan()
    record = snapshot.get(broker, StatefulSetShares, key.name, key.namespace)
    newer = snapshot.local in clusters_with_newer_parts(key, snapshot, broker) or (
        record and record.spec.newer
    )
    if newer or not is_broker_listed(broker, snapshot):
        return kept(key, snapshot, broker, home)
    submitted = find_submitted_set(key, snapshot, broker)
    if submitted is None or submitted.terminating:
        if record is None:
            return plan_missing_set(key, snapshot, broker, home)
        orphaned = not record.metadata.owner_references
        return (
            plan_release_with_tombstone(key, snapshot, broker, home)
            if orphaned
            else kept(key, snapshot, broker, home)
        )
    if submitted.orphaned:
        return plan_release_with_tombstone(key, snapshot, broker, home)
    if submitted.faults and record is not None:
        own = snapshot.get(
            snapshot.local, StatefulSet, cluster_set_name(key.name, snapshot.local), key.namespace
        )
        submitted = with_last_applied(submitted, record.spec, own)
    if record is None:
        return plan_without_shares(key, snapshot, broker, home)
    if submitted is None:
        return kept(key, snapshot, broker, home)
    service = snapshot.get(broker, Service, submitted.spec.service_name, submitted.namespace)
    case = _Case(key, submitted, record, broker, service, list_parts(key, snapshot, broker))
    return _held(case, snapshot, home)


def _held(case: _Case, snapshot: Snapshot, home: str) -> Plan:
    submitted, share = case.submitted, case.record.spec.of(snapshot.local)
    here = _of_set(case, share, snapshot)
    replicas = (
        list_replica_names(submitted.name, case.record.spec, snapshot.local)
        if submitted.balanced
        else []
    )
    several = balancers(submitted, case.service, replicas)
    sources = frozenset({case.broker})
    here += [Desired(s, snapshot.local, step=3, sources=sources, takes_over=True) for s in several]
    there = list(stand_ins(several, snapshot, case.broker))
    part = report(
        submitted, share, [*here, *there], snapshot, home, _made_before(case, snapshot, home)
    )
    if share or part.spec.replicas or part.spec.trouble or part.spec.made:
        there.append(Desired(part, case.broker, sources=frozenset({snapshot.local})))
    return Plan(
        (*here, *there),
        removals=tuple(conflicting_service_removals(several, snapshot)),
        patches=tuple(pod_label_patches(submitted, snapshot)),
        events=tuple(overwrite_events(several, snapshot)),
    )


def _made_before(case: _Case, snapshot: Snapshot, home: str) -> tuple[str, ...]:
    """The StatefulSets that our report names already, of earlier sets of that name too."""
    name = part_name(case.key.namespace, case.key.name, snapshot.local)
    told = snapshot.get(case.broker, StatefulSetPart, name, home)
    return told.spec.made if told is not None else ()


def _of_set(case: _Case, share: int, snapshot: Snapshot) -> list[Desired]:
    """The set itself and what it stands on, one after the other."""
    sources = frozenset({case.broker})
    key, desired = case.key, list[Desired]()
    if snapshot.get(snapshot.local, Namespace, key.namespace) is None:
        space = Namespace(metadata=Meta(name=key.namespace))
        desired.append(Desired(space, snapshot.local, sources=sources, unowned=True))
    headless = _headless(case, snapshot)
    own = _stateful_set(case, share, snapshot)
    for step, obj in ((1, headless), (2, own)):
        if obj is not None:
            meta = obj.metadata
            found = snapshot.get(snapshot.local, type(obj), meta.name, meta.namespace)
            again = is_released_by(found, key) or _was_anothers(found, key)
            desired.append(
                Desired(obj, snapshot.local, step=step, sources=sources, takes_over=again)
            )
    return desired


def _was_anothers(found: Object | None, key: Key) -> bool:
    """Whether a copy was kept by another set, which leaves it to us."""
    marks = found.metadata.labels if isinstance(found, Service) else {}
    return OWNER in marks and marks.get(SET, key.name) != key.name


def _headless(case: _Case, snapshot: Snapshot) -> Service | None:
    """The copy of the headless Service; none where another set or people have the same already."""
    service, key = case.service, case.key
    if service is None:
        return None
    if service_keeper(service.metadata.name, key.namespace, snapshot, case.broker) not in (
        "",
        key.name,
    ):
        return None
    meta, spec = service.metadata, service.spec
    standing = snapshot.get(snapshot.local, Service, meta.name, meta.namespace)
    if standing is not None and OWNER not in standing.metadata.labels:
        same = standing.headless and standing.spec.selector == spec.selector
        if same and not is_released_by(standing, case.key):
            return None
    labels = {**users(meta.labels), SET: case.key.name}
    return Service(
        metadata=Meta(
            name=meta.name,
            namespace=meta.namespace,
            labels=labels,
            annotations=users(meta.annotations),
        ),
        spec=copied(spec),
    )


def copied(spec: ServiceSpec) -> ServiceSpec:
    """The spec as it was written; addresses and their families are each cluster's own."""
    policy = "" if spec.ip_family_policy == "SingleStack" else spec.ip_family_policy
    own_address = "None" if spec.cluster_ip == "None" else ""
    ports = tuple(replace(port, node_port=0) for port in spec.ports)
    return replace(
        spec,
        cluster_ip=own_address,
        cluster_ips=(),
        ip_families=(),
        ip_family_policy=policy,
        ports=ports,
    )


def _stateful_set(case: _Case, share: int, snapshot: Snapshot) -> StatefulSet | None:
    submitted, name = case.submitted, cluster_set_name(case.key.name, snapshot.local)
    found = snapshot.get(snapshot.local, StatefulSet, name, case.key.namespace)
    standing = found if found is not None and OWNER in found.metadata.labels else None
    if standing is None and snapshot.local not in case.parts:
        return None  # our report comes first: it shows later that the set was known
    if not share and not (standing is not None and deletes_claims(submitted.spec)):
        return None
    template, revision = submitted.spec.template, submitted.revision
    if standing is not None and (submitted.faults or not _may_update(case, snapshot.local)):
        template = standing.spec.template
        revision = standing.metadata.annotations.get(REVISION, "")
    return StatefulSet(
        metadata=Meta(
            name=name,
            namespace=case.key.namespace,
            labels={**submitted.labels, SET: case.key.name},
            annotations={**submitted.annotations, REVISION: revision},
        ),
        spec=replace(submitted.spec, replicas=share, template=template),
    )


def _may_update(case: _Case, here: ClusterId) -> bool:
    """Whether the newest template may come here: at once, or after every cluster before us."""
    if not case.submitted.updates_cluster_by_cluster:
        return True
    for share in case.record.spec.shares:
        if share.name == here:
            return True
        part = case.parts.get(share.name)
        if part is None or part.revision != case.submitted.revision or part.share != share.replicas:
            return False
    return True
