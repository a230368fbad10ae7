"""The local plan of a set: its StatefulSet, headless Service and load balancers in this cluster."""

from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from hanse.features.statefulsets.acceptance import Terms, set_terms
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
    broker_services,
    build_replica_services,
    conflicting_service_removals,
    overwrite_events,
)
from hanse.features.statefulsets.names import (
    REVISION,
    SET,
    cluster_set_name,
    part_name,
    user_metadata,
)
from hanse.features.statefulsets.owned_objects import (
    is_released_by,
    list_owned,
    owned_stateful_set,
    plan_release,
    plan_unchanged,
)
from hanse.features.statefulsets.part_report import build_report
from hanse.features.statefulsets.shares import believed_share, list_replica_names
from hanse.features.statefulsets.submitted import (
    SubmittedSet,
    find_submitted_set,
    with_last_applied,
)
from hanse.features.statefulsets.tombstones import deletes_claims
from hanse.model.acceptance import CREATED_BY
from hanse.model.clusterset import broker_cluster
from hanse.model.kinds.apps import StatefulSet
from hanse.model.kinds.core import Namespace, Service, ServiceSpec
from hanse.model.kinds.stateful import StatefulSetPart, StatefulSetPartSpec, StatefulSetShares
from hanse.model.objects import ClusterId, ClusterObjectRef, Meta, Object, ObjectRef, object_ref
from hanse.model.ownership import OWNER
from hanse.model.plan import Desired, Key, Plan
from hanse.model.snapshot import Snapshot


class _PlacedSet(Struct, frozen=True):
    """A set with shares, as this cluster plans its part of it."""

    key: Key
    submitted: SubmittedSet
    record: StatefulSetShares
    broker: ClusterId
    service: Service | None
    """The headless Service at the broker."""
    parts: dict[ClusterId, StatefulSetPartSpec]
    terms: Terms
    """What this cluster takes of the set."""
    share: int
    """The replicas that it runs."""


def plan_local(key: Key, snapshot: Snapshot, broker_namespace: str) -> Plan:
    """The objects of one set in this cluster, and its report at the broker."""
    broker = broker_cluster(snapshot)
    if broker is None:
        return _plan_departed(key, snapshot, broker_namespace)
    plan = _plan_set(key, snapshot, broker, broker_namespace)
    kept = tuple(
        ClusterObjectRef(snapshot.local, object_ref(obj))
        for obj in list_owned(key, snapshot)
        if is_kept_for_another_set(obj, key, snapshot, broker)  # until that set has adopted it
    )
    return replace(plan, kept=(*plan.kept, *kept)) if kept else plan


def _plan_departed(key: Key, snapshot: Snapshot, broker_namespace: str) -> Plan:
    """Release the set's objects if this cluster has left; nothing if it never joined."""
    broker = departed_broker(snapshot)
    if broker is None:
        return Plan()
    return plan_release(key, snapshot, broker, broker_namespace)


def _plan_set(key: Key, snapshot: Snapshot, broker: ClusterId, broker_namespace: str) -> Plan:
    """The plan by the state of the set: placed, invalid, terminating, orphaned, or missing."""
    record = snapshot.get(broker, StatefulSetShares, key.name, key.namespace)
    newer = snapshot.local in clusters_with_newer_parts(key, snapshot, broker) or (
        record and record.spec.has_newer_schema
    )
    if newer or not is_broker_listed(broker, snapshot):
        return plan_unchanged(key, snapshot, broker, broker_namespace)
    submitted = find_submitted_set(key, snapshot, broker)
    if submitted is None or submitted.terminating:
        if record is None:
            return plan_missing_set(key, snapshot, broker, broker_namespace)
        if record.metadata.owner_references:
            return plan_unchanged(key, snapshot, broker, broker_namespace)
        return plan_release_with_tombstone(key, snapshot, broker, broker_namespace)
    if submitted.orphaned:
        return plan_release_with_tombstone(key, snapshot, broker, broker_namespace)
    if record is None:
        return plan_without_shares(key, snapshot, broker, broker_namespace)
    return _plan_live_set(key, submitted, record, snapshot, broker, broker_namespace)


def _plan_live_set(
    key: Key,
    submitted: SubmittedSet,
    record: StatefulSetShares,
    snapshot: Snapshot,
    broker: ClusterId,
    broker_namespace: str,
) -> Plan:
    """The plan of a set with shares: what this cluster takes of it, or what runs, unchanged."""
    current = owned_stateful_set(key.name, key.namespace, snapshot)
    usable = with_last_applied(submitted, record.spec, current) if submitted.errors else submitted
    if usable is None:
        return plan_unchanged(key, snapshot, broker, broker_namespace)
    service = snapshot.get(broker, Service, usable.spec.service_name, usable.namespace)
    terms = set_terms(usable, service, snapshot, broker_namespace)
    if terms is None:
        return plan_unchanged(key, snapshot, broker, broker_namespace)
    running = current.spec.replicas if current is not None else None
    given = believed_share(key, snapshot, broker, broker_namespace, running)
    share = terms.replicas_of(given, running or 0)
    parts = list_parts(key, snapshot, broker)
    placed = _PlacedSet(key, usable, record, broker, service, parts, terms, share)
    if terms.refused is not None:
        return _plan_refused_set(placed, current, snapshot, broker_namespace)
    return _plan_placed_set(placed, snapshot, broker_namespace)


def _plan_refused_set(
    placed: _PlacedSet, current: StatefulSet | None, snapshot: Snapshot, broker_namespace: str
) -> Plan:
    """Keep what runs as it is, take nothing new, and report why; a smaller share is followed."""
    broker = placed.broker
    created_before = _reported_uids(placed, snapshot, broker_namespace)
    report = build_report(
        placed.submitted, placed.share, [], snapshot, broker_namespace, placed.terms, created_before
    )
    desired = [Desired(report, broker, sources=frozenset({snapshot.local}))]
    if current is not None and placed.share < current.spec.replicas:
        smaller = replace(current, spec=replace(current.spec, replicas=placed.share))
        desired.append(Desired(smaller, snapshot.local, sources=frozenset({broker})))
    dropped = {(each.where, object_ref(each.object)) for each in desired}
    dropped |= set(_surplus_objects(placed, current, snapshot))
    unchanged = plan_unchanged(placed.key, snapshot, broker, broker_namespace).kept
    return Plan(tuple(desired), kept=tuple(r for r in unchanged if (r.where, r.ref) not in dropped))


def _surplus_objects(
    placed: _PlacedSet, current: StatefulSet | None, snapshot: Snapshot
) -> Iterator[tuple[ClusterId, ObjectRef]]:
    """The StatefulSet once it has no replicas, and Services of replicas beyond the share."""
    if current is None:
        return
    if not placed.share and not current.spec.replicas and not deletes_claims(current.spec):
        yield snapshot.local, object_ref(current)
    name, namespace = placed.key.name, placed.key.namespace
    first = current.spec.ordinals.start if current.spec.ordinals is not None else 0
    replicas = list_replica_names(name, first, snapshot.local, current.spec.replicas)
    for replica in replicas[placed.share :]:
        for where in (snapshot.local, placed.broker):
            yield where, ObjectRef(Service.kind, replica, namespace)


def _plan_placed_set(placed: _PlacedSet, snapshot: Snapshot, broker_namespace: str) -> Plan:
    """StatefulSet, load balancers, pod labels and report; removes Services in conflict."""
    submitted, share = placed.submitted, placed.share
    desired_here = _desired_objects(placed, snapshot)
    replicas = (
        list_replica_names(submitted.name, submitted.first_ordinal, snapshot.local, share)
        if submitted.load_balanced
        else []
    )
    services = build_replica_services(submitted, placed.service, replicas)
    sources = frozenset({placed.broker})
    desired_here += [
        Desired(s, snapshot.local, step=3, sources=sources, takes_over=True) for s in services
    ]
    at_broker = list(broker_services(services, snapshot, placed.broker))
    part = build_report(
        submitted,
        share,
        [*desired_here, *at_broker],
        snapshot,
        broker_namespace,
        placed.terms,
        _reported_uids(placed, snapshot, broker_namespace),
    )
    if (
        share
        or part.spec.replicas
        or part.spec.trouble
        or part.spec.made
        or part.spec.most is not None
    ):
        at_broker.append(Desired(part, placed.broker, sources=frozenset({snapshot.local})))
    return Plan(
        (*desired_here, *at_broker),
        removals=tuple(conflicting_service_removals(services, snapshot)),
        events=tuple(overwrite_events(services, snapshot)),
    )


def _reported_uids(
    placed: _PlacedSet, snapshot: Snapshot, broker_namespace: str
) -> tuple[str, ...]:
    """The StatefulSet uids in our present report, including those of earlier sets of that name."""
    name = part_name(placed.key.namespace, placed.key.name, snapshot.local)
    report = snapshot.get(placed.broker, StatefulSetPart, name, broker_namespace)
    return report.spec.made if report is not None else ()


def _desired_objects(placed: _PlacedSet, snapshot: Snapshot) -> list[Desired]:
    """A missing namespace, the headless Service and the StatefulSet, in consecutive steps."""
    sources = frozenset({placed.broker})
    key, desired = placed.key, list[Desired]()
    if snapshot.get(snapshot.local, Namespace, key.namespace) is None:
        marks = {CREATED_BY: "statefulsets"}
        namespace = Namespace(metadata=Meta(name=key.namespace, annotations=marks))
        desired.append(Desired(namespace, snapshot.local, sources=sources, unowned=True))
    headless = _headless_service(placed, snapshot)
    stateful_set = _stateful_set(placed, snapshot)
    for step, obj in ((1, headless), (2, stateful_set)):
        if obj is not None:
            meta = obj.metadata
            found = snapshot.get(snapshot.local, type(obj), meta.name, meta.namespace)
            adopts = is_released_by(found, key) or _was_kept_by_another_set(found, key)
            desired.append(
                Desired(obj, snapshot.local, step=step, sources=sources, takes_over=adopts)
            )
    return desired


def _was_kept_by_another_set(found: Object | None, key: Key) -> bool:
    """Whether a Service was owned for another set, from which this one adopts it."""
    labels = found.metadata.labels if isinstance(found, Service) else {}
    return OWNER in labels and labels.get(SET, key.name) != key.name


def _headless_service(placed: _PlacedSet, snapshot: Snapshot) -> Service | None:
    """This cluster's copy of a set's headless Service; None where it must not be written.

    So it is if the set has none, if another set writes the Service of this name, or if users have
    made one here with the same selector.
    """
    service, key = placed.service, placed.key
    if service is None:
        return None
    if service_keeper(service.metadata.name, key.namespace, snapshot, placed.broker) not in (
        "",
        key.name,
    ):
        return None
    meta, spec = service.metadata, service.spec
    current = snapshot.get(snapshot.local, Service, meta.name, meta.namespace)
    if current is not None and OWNER not in current.metadata.labels:
        same = current.headless and current.spec.selector == spec.selector
        if same and not is_released_by(current, placed.key):
            return None
    labels = {**user_metadata(meta.labels), SET: placed.key.name}
    return Service(
        metadata=Meta(
            name=meta.name,
            namespace=meta.namespace,
            labels=labels,
            annotations=user_metadata(meta.annotations),
        ),
        spec=copied_service_spec(spec),
    )


def copied_service_spec(spec: ServiceSpec) -> ServiceSpec:
    """A Service's spec without what each cluster assigns: addresses, families, node ports."""
    policy = "" if spec.ip_family_policy == "SingleStack" else spec.ip_family_policy
    cluster_ip = "None" if spec.cluster_ip == "None" else ""
    ports = tuple(replace(port, node_port=0) for port in spec.ports)
    return replace(
        spec,
        cluster_ip=cluster_ip,
        cluster_ips=(),
        ip_families=(),
        ip_family_policy=policy,
        ports=ports,
    )


def _stateful_set(placed: _PlacedSet, snapshot: Snapshot) -> StatefulSet | None:
    """The StatefulSet here; None before our report, or without a share unless claims would go.

    It keeps its template while the set is invalid or another cluster's roll-out comes first.
    """
    submitted, key, share = placed.submitted, placed.key, placed.share
    current = owned_stateful_set(key.name, key.namespace, snapshot)
    if current is None and snapshot.local not in placed.parts:
        return None  # the report is written first: it later proves that the broker knew the set
    if not share and not (current is not None and deletes_claims(submitted.spec)):
        return None
    template, revision = submitted.spec.template, submitted.revision
    if current is not None and (submitted.errors or not _may_roll_out(placed, snapshot.local)):
        template = current.spec.template
        revision = current.metadata.annotations.get(REVISION, "")
    return StatefulSet(
        metadata=Meta(
            name=cluster_set_name(key.name, snapshot.local),
            namespace=key.namespace,
            labels={**submitted.labels, SET: key.name},
            annotations={**submitted.annotations, REVISION: revision},
        ),
        spec=replace(submitted.spec, replicas=share, template=template),
    )


def _may_roll_out(placed: _PlacedSet, cluster: ClusterId) -> bool:
    """Whether the newest template may roll out here: at once, or after all clusters before us."""
    if not placed.submitted.updates_cluster_by_cluster:
        return True
    for share in placed.record.spec.shares:
        if share.name == cluster:
            return True
        part = placed.parts.get(share.name)
        if part is not None and part.refused is not None:
            continue  # it keeps the template that it runs
        if (
            part is None
            or part.revision != placed.submitted.revision
            or part.share != share.replicas
        ):
            return False
    return True
