"""The local plan of a set: its StatefulSet, headless Service and load balancers in this cluster."""

from collections.abc import Iterator
from datetime import timedelta

from msgspec.structs import replace

from hanse.features.statefulsets.acceptance import ReceivedSet, set_terms
from hanse.features.statefulsets.collisions import read_submitted_set
from hanse.features.statefulsets.deletion import (
    plan_awaiting_acceptance,
    plan_missing_set,
    plan_release_with_tombstone,
    plan_without_objects,
    plan_without_shares,
    read_report,
)
from hanse.features.statefulsets.disruption import PartState, Step, next_step, unchanged_step
from hanse.features.statefulsets.fleet import (
    clusters_with_newer_parts,
    departed_broker,
    is_broker_listed,
)
from hanse.features.statefulsets.headless_services import is_kept_for_another_set
from hanse.features.statefulsets.identity import (
    belongs_to,
    is_rebuilt,
    rebuilt_message,
    runs_for_deleted_set,
)
from hanse.features.statefulsets.load_balancers import (
    broker_services,
    build_replica_services,
    conflicting_service_removals,
    overwrite_events,
)
from hanse.features.statefulsets.owned_objects import (
    is_released_by,
    list_owned,
    plan_release,
    plan_unchanged,
    running_stateful_set,
)
from hanse.features.statefulsets.part_report import (
    STARTING,
    PartProgress,
    build_report,
    is_starting,
    replica_names,
)
from hanse.features.statefulsets.permits import (
    FleetPart,
    is_scaled_to_zero,
    permit_patch,
    read_fleet_part,
    read_part_state,
)
from hanse.features.statefulsets.placed_set import PlacedSet, desired_objects, disruption_budget
from hanse.features.statefulsets.replica_lists import list_replica_names
from hanse.features.statefulsets.shares import believed_share
from hanse.features.statefulsets.submitted import (
    SubmittedSet,
    with_last_applied,
)
from hanse.features.statefulsets.tombstones import keeps_empty_stateful_set
from hanse.model.clusterset import broker_cluster
from hanse.model.kinds.apps import StatefulSet
from hanse.model.kinds.core import Pod, Service
from hanse.model.kinds.stateful import StatefulSetPart, StatefulSetShares
from hanse.model.objects import ClusterId, ClusterObjectRef, ObjectRef, object_ref
from hanse.model.ownership import OWNER
from hanse.model.plan import Desired, Key, Patch, Plan, Removal, TakeOver
from hanse.model.snapshot import Snapshot


def plan_local(key: Key, snapshot: Snapshot, broker_namespace: str) -> Plan:
    """The objects of one set in this cluster, and its report and replicas' Services at the broker.

    They are deleted with the set, released if it was orphaned or this cluster has left the fleet,
    and kept if the broker has lost it, or while that cannot be told.
    """
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
    """Let the set's objects run on without our owner label if we are leaving or left the broker.

    That is by the agent's own facts; budgets are deleted, and our report once all is released.
    Else an empty plan, by which objects stay as long as no broker is connected.
    """
    broker = departed_broker(snapshot)
    if broker is None:
        return Plan()
    return plan_release(key, snapshot, broker, broker_namespace)


def _plan_set(key: Key, snapshot: Snapshot, broker: ClusterId, broker_namespace: str) -> Plan:
    """The plan by the state of the set: placed by its shares, deleted with it, or released.

    It is released if the set was orphaned. Everything is kept before the broker is listed, with
    records of a newer schema, until the set has shares, while shares of a deleted or earlier set
    remain, and if the broker has lost the set.
    """
    record = snapshot.get(broker, StatefulSetShares, key.name, key.namespace)
    newer = snapshot.local in clusters_with_newer_parts(key, snapshot, broker) or (
        record and record.spec.has_newer_schema
    )
    if newer or not is_broker_listed(broker, snapshot):
        return plan_unchanged(key, snapshot, broker, broker_namespace)
    submitted = read_submitted_set(key, snapshot, broker, broker_namespace)
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
    if not belongs_to(record, submitted):
        return plan_unchanged(key, snapshot, broker, broker_namespace)
    return _plan_live_set(key, submitted, record, snapshot, broker, broker_namespace)


def _plan_live_set(
    key: Key,
    submitted: SubmittedSet,
    record: StatefulSetShares,
    snapshot: Snapshot,
    broker: ClusterId,
    broker_namespace: str,
) -> Plan:
    """The plan of a set with shares: its part here, or all unchanged while that cannot be judged.

    What ran for an earlier set of this name is deleted; what one released is adopted, unless the
    set is refused. An invalid set runs on as last applied. A cluster that was built anew waits to
    be accepted.
    """
    current = running_stateful_set(key, snapshot)
    report = read_report(key, snapshot, broker, broker_namespace)
    if current is not None and runs_for_deleted_set(current, report, submitted, record):
        return plan_without_objects(current, report, snapshot, broker)
    usable: SubmittedSet | None = submitted.in_cluster(snapshot.local)
    if submitted.errors:
        told = report.spec.names if report is not None else None
        balanced = (told or record.spec.names).load_balanced
        usable = with_last_applied(submitted, current, load_balanced=balanced)
    if usable is None:
        return plan_unchanged(key, snapshot, broker, broker_namespace)
    service = snapshot.get(broker, Service, usable.spec.service_name, usable.namespace)
    received = ReceivedSet(usable, service, broker, broker_namespace)
    terms = set_terms(received, snapshot)
    if terms is None:
        return plan_unchanged(key, snapshot, broker, broker_namespace)
    if current is None and report is not None and is_rebuilt(report, usable, snapshot):
        return plan_awaiting_acceptance(report, rebuilt_message(usable, snapshot), snapshot, broker)
    if terms.refused is not None and is_released_by(current, key):
        current = None  # it runs on as it is
    running = current.spec.replicas if current is not None else None
    given = believed_share(key, snapshot, broker, broker_namespace, running)
    share = terms.replicas_of(given.replicas, running or 0)
    fleet = read_fleet_part(usable, record, snapshot, broker, broker_namespace)
    state = read_part_state(usable, current, share, fleet.partition(snapshot.local), snapshot)
    if state is not None and terms.refused is not None:
        state = replace(state, rolls=False, outdated=False)  # it keeps the template that it runs
    placed = PlacedSet(
        key,
        snapshot.local,
        usable,
        broker,
        service,
        terms,
        share,
        fleet,
        state,
        _next_step(state, share, fleet, snapshot, broker, is_current=given.is_current),
    )
    if terms.refused is not None:
        return _plan_refused_set(placed, current, snapshot, broker_namespace)
    return _plan_placed_set(placed, snapshot, broker_namespace)


def _next_step(
    state: PartState | None,
    share: int,
    fleet: FleetPart,
    snapshot: Snapshot,
    broker: ClusterId,
    *,
    is_current: bool,
) -> Step:
    """The replicas, partition and permits of the StatefulSet now; a new one gets the whole share.

    Nothing is taken down while the set is invalid, the broker is not synced, pods are not listed,
    the recorded shares are not current, or the StatefulSet is yet to be adopted.
    """
    here = snapshot.local
    if state is None:
        return Step(share, fleet.partition(here), updates=True)
    held = fleet.permit(here)
    seen = snapshot.synced(broker) and snapshot.listed(here, Pod)
    is_ours = OWNER in state.stateful_set.metadata.labels
    if fleet.submitted.errors or not (seen and is_current and is_ours):
        return unchanged_step(state, held)
    return next_step(state, fleet.others(here), fleet.rules(here), held)


def _plan_refused_set(
    placed: PlacedSet, current: StatefulSet | None, snapshot: Snapshot, broker_namespace: str
) -> Plan:
    """The plan that keeps what runs of a refused set, and reports the refusal.

    Only a smaller share and the eviction budget are applied; what these leave without use is
    deleted.
    """
    broker = placed.broker
    report = _report(placed, [], snapshot, broker_namespace)
    desired = [Desired(report, broker, sources=frozenset({snapshot.local}))]
    if current is not None and placed.step.replicas < current.spec.replicas:
        smaller = replace(current, spec=replace(current.spec, replicas=placed.step.replicas))
        desired.append(Desired(smaller, snapshot.local, sources=frozenset({broker})))
    if (budget := disruption_budget(placed, snapshot)) is not None:
        desired.append(Desired(budget, snapshot.local, sources=frozenset({broker})))
    dropped = {(each.where, object_ref(each.object)) for each in desired}
    dropped |= set(_surplus_objects(placed, current, snapshot))
    unchanged = plan_unchanged(placed.key, snapshot, broker, broker_namespace).kept
    kept = tuple(r for r in unchanged if (r.where, r.ref) not in dropped)
    return Plan(tuple(desired), kept=kept, patches=_permit_patches(placed))


def _surplus_objects(
    placed: PlacedSet, current: StatefulSet | None, snapshot: Snapshot
) -> Iterator[tuple[ClusterId, ObjectRef]]:
    """What a refused set does not keep: Services of removed replicas, and an empty StatefulSet.

    The Services here and at the broker. The StatefulSet only if this cluster has no share, it has
    neither replicas nor pods, and its deletion deletes no claims that are to stay.
    """
    if current is None:
        return
    if (
        not placed.share
        and is_scaled_to_zero(placed.state)
        and not keeps_empty_stateful_set(current.spec)
    ):
        yield snapshot.local, object_ref(current)
    name, namespace = placed.key.name, placed.key.namespace
    first = current.spec.ordinals.start if current.spec.ordinals is not None else 0
    replicas = list_replica_names(name, first, snapshot.local, current.spec.replicas)
    for replica in replicas[placed.step.replicas :]:
        for where in (snapshot.local, placed.broker):
            yield where, ObjectRef(Service.kind, replica, namespace)


def _plan_placed_set(placed: PlacedSet, snapshot: Snapshot, broker_namespace: str) -> Plan:
    """All objects of the set here, its report and replicas' Services at the broker, and permits.

    A report that says nothing is left out. Removes pods that block a roll-out and others' Services
    that cannot be overwritten.
    """
    submitted, share = placed.submitted, placed.step.replicas
    desired_here = desired_objects(placed, snapshot)
    replicas = (
        list_replica_names(submitted.name, submitted.first_ordinal, snapshot.local, share)
        if submitted.load_balanced
        else []
    )
    services = build_replica_services(submitted, placed.service, replicas, snapshot.local)
    sources = frozenset({placed.broker})
    desired_here += [
        Desired(s, snapshot.local, step=3, sources=sources, ownership=TakeOver()) for s in services
    ]
    at_broker = list(broker_services(services, snapshot, placed.broker))
    part = _report(placed, [*desired_here, *at_broker], snapshot, broker_namespace)
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
        removals=(
            *conflicting_service_removals(services, snapshot),
            *_stuck_pod_removals(placed),
        ),
        events=tuple(overwrite_events(services, snapshot)),
        patches=_permit_patches(placed),
        requeue_after=_until_counted(placed, snapshot),
    )


def _until_counted(placed: PlacedSet, snapshot: Snapshot) -> timedelta | None:
    """STARTING if a pod is starting, so that the plan is repeated to count it; else None."""
    pods = placed.state.pods.values() if placed.state is not None else ()
    now, awaits_status = snapshot.now, placed.awaits_status
    starting = (is_starting(pod, now, awaits_status=awaits_status) for pod in pods)
    return STARTING if any(starting) else None


def _stuck_pod_removals(placed: PlacedSet) -> Iterator[Removal]:
    """Removals of pods of an old template that are not ready, if this cluster holds a permit."""
    for pod in placed.state.stuck if placed.state is not None and placed.held.pods else ():
        ref = ClusterObjectRef(placed.here, object_ref(pod))
        cause = "it is not ready, and a newer template is to replace it"
        yield Removal(ref, pod.metadata.uid, cause, as_seen=True)


def _permit_patches(placed: PlacedSet) -> tuple[Patch, ...]:
    """The patch of the shares that takes or returns permits; empty if none is needed."""
    return permit_patch(
        placed.fleet, placed.here, placed.step, placed.broker, is_complete=placed.is_complete
    )


def _report(
    placed: PlacedSet, desired: list[Desired], snapshot: Snapshot, broker_namespace: str
) -> StatefulSetPart:
    """The StatefulSetPart of this cluster, with the problems of writing the desired objects."""
    before = read_report(placed.key, snapshot, placed.broker, broker_namespace)
    is_granted = placed.fleet.record.spec.rebalanced == placed.submitted.rebalance
    progress = PartProgress(
        share=placed.step.replicas,
        settled=is_granted and placed.step.replicas == placed.share,
        complete=placed.is_complete,
        returned=placed.returned,
        waits=placed.step.waits,
        applied=placed.applied,
        stateful_set=placed.state.stateful_set if placed.state is not None else None,
        awaits_status=placed.awaits_status,
    )
    return build_report(
        placed.submitted,
        replica_names(placed.submitted, placed.service),
        progress,
        desired,
        snapshot,
        broker_namespace,
        placed.terms,
        before.spec if before is not None else None,
    )
