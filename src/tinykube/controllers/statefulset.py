"""StatefulSets: pods with fixed names and claims, made, updated and removed in their order."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from math import ceil

from msgspec import Struct

from tinykube.controllers.conditions import status_patch
from tinykube.controllers.controller import (
    CONTROLLER_REVISIONS,
    DONE,
    PODS,
    STATEFUL_SETS,
    VOLUME_CLAIMS,
    Create,
    Delete,
    Key,
    Lister,
    RecordEvent,
    Result,
    Write,
)
from tinykube.controllers.deployment_rollout import resolve_int_or_percent
from tinykube.controllers.objects import (
    desired_replicas,
    generation_of,
    is_available,
    is_deleting,
    is_finished,
    is_ready,
    labels_of,
    name_of,
    namespace_of,
    spec_of,
    status_of,
    time_until_available,
)
from tinykube.controllers.owner_references import (
    claim_objects,
    controller_keys,
    potential_owner_keys,
)
from tinykube.controllers.pod_template import REVISION_LABEL
from tinykube.controllers.revisions import (
    RevisionHistory,
    find_revisions,
    new_revision_name,
    revisions_to_delete,
)
from tinykube.controllers.statefulset_pods import (
    claim_names,
    claim_owners,
    first_ordinal,
    missing_claims,
    ordinal_of,
    ordinals_of,
    stateful_pod,
)
from tinykube.resources import Object
from tinykube.storage import Change

_BY = "statefulset-controller"


class StatefulSetController:
    """Wakes with a StatefulSet, its pods and revisions, and claims that were in the way."""

    name = "statefulset"
    watches = frozenset((STATEFUL_SETS, PODS, CONTROLLER_REVISIONS, VOLUME_CLAIMS))

    def keys_for(self, change: Change, lister: Lister) -> Iterable[Key]:
        if change.store == STATEFUL_SETS:
            yield Key(STATEFUL_SETS, namespace_of(change.object), name_of(change.object))
        elif change.store == VOLUME_CLAIMS:
            if change.type == "DELETED":
                for one in lister.objects(STATEFUL_SETS, namespace_of(change.object)):
                    if spec_of(one).get("volumeClaimTemplates"):
                        yield Key(STATEFUL_SETS, namespace_of(one), name_of(one))
        else:
            yield from controller_keys(change, "StatefulSet", STATEFUL_SETS)
            if change.store == PODS:
                yield from potential_owner_keys(change, STATEFUL_SETS, lister)

    def reconcile(self, key: Key, lister: Lister) -> Result:
        stateful_set = lister.get(STATEFUL_SETS, key.namespace, key.name)
        if stateful_set is None:
            return DONE
        pods = claim_objects(stateful_set, PODS, lister)
        revisions = claim_objects(stateful_set, CONTROLLER_REVISIONS, lister)
        if pods.writes or revisions.writes:
            return Result((*pods.writes, *revisions.writes))
        held = [pod for pod in pods.held if ordinal_of(stateful_set, pod) is not None]
        taken = lister.get(CONTROLLER_REVISIONS, key.namespace, new_revision_name(stateful_set))
        ours = {name_of(one) for one in revisions.held}
        occupied = taken is not None and name_of(taken) not in ours
        history = find_revisions(stateful_set, revisions.held, occupied=occupied)
        claims = _claims(stateful_set, held, lister)
        result = sync_stateful_set(stateful_set, history, held, claims, lister.now)
        live = (name_of(history.current), name_of(history.update))
        old = revisions_to_delete(stateful_set, revisions.held, live, held)
        writes = (*history.writes, *result.writes, *old)
        return Result(writes, result.requeue_after)


def _claims(stateful_set: Object, pods: Iterable[Object], lister: Lister) -> dict[str, Object]:
    numbers = {ordinal_of(stateful_set, pod) or 0 for pod in pods} | set(ordinals_of(stateful_set))
    wanted = (name for one in numbers for name in claim_names(stateful_set, one).values())
    found = ((name, lister.get(VOLUME_CLAIMS, namespace_of(stateful_set), name)) for name in wanted)
    return {name: claim for name, claim in found if claim is not None}


class _Step(Struct):
    """The writes of one step, and whether something must happen before any further ones."""

    writes: list[Write]
    waiting: bool = False


def sync_stateful_set(
    stateful_set: Object,
    history: RevisionHistory,
    pods: Sequence[Object],
    claims: Mapping[str, Object],
    now: datetime,
) -> Result:
    """One step: missing pods first, then those too many, then those of an old revision."""
    by_ordinal = {ordinal_of(stateful_set, pod) or 0: pod for pod in pods}
    status = stateful_set_status(stateful_set, history, pods, now)
    step = _Step([])
    if not is_deleting(stateful_set):
        _fill(stateful_set, history, by_ordinal, claims, now, step)
        if not step.waiting:
            _shrink(stateful_set, by_ordinal, claims, now, step)
        strategy = spec_of(stateful_set).get("updateStrategy") or {}
        if not step.waiting and strategy.get("type") != "OnDelete":
            step.writes += _updates(stateful_set, history, by_ordinal, now)
    min_ready = int(spec_of(stateful_set).get("minReadySeconds") or 0)
    waits = (time_until_available(pod, min_ready, now) for pod in pods)
    writes = (*step.writes, *status_patch(STATEFUL_SETS, stateful_set, status))
    return Result(writes, min((wait for wait in waits if wait), default=None))


def stateful_set_status(
    stateful_set: Object, history: RevisionHistory, pods: Sequence[Object], now: datetime
) -> Object:
    """Counts of the pods that are there, by readiness and by revision."""
    min_ready = int(spec_of(stateful_set).get("minReadySeconds") or 0)
    running = [pod for pod in pods if _is_running(pod)]
    staying = [labels_of(pod).get(REVISION_LABEL) for pod in pods if not is_deleting(pod)]
    current, update = name_of(history.current), name_of(history.update)
    status: Object = {
        "observedGeneration": generation_of(stateful_set),
        "replicas": len(pods),
        "readyReplicas": sum(map(is_ready, running)),
        "availableReplicas": sum(is_available(pod, min_ready, now) for pod in running),
        "currentReplicas": staying.count(current),
        "updatedReplicas": staying.count(update),
        "currentRevision": current,
        "updateRevision": update,
        "collisionCount": int(status_of(stateful_set).get("collisionCount") or 0),
    }
    wanted = desired_replicas(stateful_set)
    rolls = (spec_of(stateful_set).get("updateStrategy") or {}).get("type") != "OnDelete"
    counts = (status["updatedReplicas"], status["readyReplicas"], status["replicas"])
    if rolls and counts == (wanted,) * 3:
        status |= {"currentReplicas": status["updatedReplicas"], "currentRevision": update}
    kept = ("replicas", "observedGeneration", "collisionCount", "availableReplicas")
    return {name: value for name, value in status.items() if value or name in kept}


def _fill(
    stateful_set: Object,
    history: RevisionHistory,
    pods: Mapping[int, Object],
    claims: Mapping[str, Object],
    now: datetime,
    step: _Step,
) -> None:
    """Make the pods that are missing; in order, each only after its predecessor is available."""
    in_order = _is_ordered(stateful_set)
    for ordinal in ordinals_of(stateful_set):
        pod = pods.get(ordinal)
        if pod is None:
            stale = _is_stale(stateful_set, ordinal, claims)
            if not stale:
                step.writes += _creation(stateful_set, history, ordinal, claims)
            step.waiting = step.waiting or in_order
        elif is_finished(pod):
            if not is_deleting(pod):
                step.writes.append(Delete(PODS, pod))
            step.waiting = step.waiting or in_order
        else:
            if status_of(pod).get("phase") == "Pending":
                step.writes += missing_claims(stateful_set, ordinal, claims)
            step.writes += claim_owners(stateful_set, ordinal, pod, claims)
            step.waiting = in_order and _is_unavailable(stateful_set, pod, now)
        if step.waiting:
            return


def _creation(
    stateful_set: Object, history: RevisionHistory, ordinal: int, claims: Mapping[str, Object]
) -> list[Write]:
    revision = history.current if _keeps_current(stateful_set, ordinal) else history.update
    pod = stateful_pod(stateful_set, revision, ordinal)
    text = f"create Pod {name_of(pod)} in StatefulSet {name_of(stateful_set)} successful"
    return [
        *missing_claims(stateful_set, ordinal, claims),
        Create(PODS, pod),
        RecordEvent(stateful_set, "SuccessfulCreate", text, _BY),
    ]


def _keeps_current(stateful_set: Object, ordinal: int) -> bool:
    """Whether a pod made now is still of the revision that was rolled out last."""
    strategy = spec_of(stateful_set).get("updateStrategy") or {}
    start = first_ordinal(stateful_set)
    rolling = strategy.get("rollingUpdate")
    if rolling is not None:
        return ordinal < start + int(rolling.get("partition") or 0)
    if strategy.get("type") == "OnDelete":
        return False
    return ordinal < start + int(status_of(stateful_set).get("currentReplicas") or 0)


def _shrink(
    stateful_set: Object,
    pods: Mapping[int, Object],
    claims: Mapping[str, Object],
    now: datetime,
    step: _Step,
) -> None:
    """Remove pods whose ordinals are no longer wanted, from the top."""
    in_order = _is_ordered(stateful_set)
    wanted = ordinals_of(stateful_set)
    condemned = sorted((one for one in pods if one not in wanted), reverse=True)
    unhealthy = [one for one in condemned if _is_unavailable(stateful_set, pods[one], now)]
    for ordinal in condemned:
        pod = pods[ordinal]
        step.writes += claim_owners(stateful_set, ordinal, pod, claims)
        # a broken pod is waited for, except the lowest broken one, or nothing would ever move
        blocked = ordinal in unhealthy and ordinal != unhealthy[-1]
        if not is_deleting(pod) and not (in_order and blocked):
            text = f"delete Pod {name_of(pod)} in StatefulSet {name_of(stateful_set)} successful"
            step.writes += [
                Delete(PODS, pod),
                RecordEvent(stateful_set, "SuccessfulDelete", text, _BY),
            ]
        if in_order:
            step.waiting = True
            return


def _updates(
    stateful_set: Object, history: RevisionHistory, pods: Mapping[int, Object], now: datetime
) -> list[Write]:
    """Delete pods of another revision from the top, as many as may be missing at one time."""
    rolling = (spec_of(stateful_set).get("updateStrategy") or {}).get("rollingUpdate") or {}
    wanted = ordinals_of(stateful_set)
    may_miss = max(1, ceil(resolve_int_or_percent(rolling.get("maxUnavailable") or 1, len(wanted))))
    missing = sum(
        one not in pods or _is_unavailable(stateful_set, pods[one], now) for one in wanted
    )
    floor = first_ordinal(stateful_set) + int(rolling.get("partition") or 0)
    outdated = [
        pods[one]
        for one in reversed(wanted)
        if one >= floor
        and one in pods
        and not is_deleting(pods[one])
        and labels_of(pods[one]).get(REVISION_LABEL) != name_of(history.update)
    ]
    writes: list[Write] = []
    for pod in outdated[: max(0, may_miss - missing)]:
        text = f"delete Pod {name_of(pod)} in StatefulSet {name_of(stateful_set)} successful"
        writes += [Delete(PODS, pod), RecordEvent(stateful_set, "SuccessfulDelete", text, _BY)]
    return writes


def _is_stale(stateful_set: Object, ordinal: int, claims: Mapping[str, Object]) -> bool:
    """Whether a claim of a former pod is still going; the new pod must not get it."""
    names = claim_names(stateful_set, ordinal).values()
    return any(is_deleting(claims[name]) for name in names if name in claims)


def _is_ordered(stateful_set: Object) -> bool:
    return spec_of(stateful_set).get("podManagementPolicy") != "Parallel"


def _is_running(pod: Object) -> bool:
    return status_of(pod).get("phase") == "Running"


def _is_unavailable(stateful_set: Object, pod: Object, now: datetime) -> bool:
    min_ready = int(spec_of(stateful_set).get("minReadySeconds") or 0)
    return is_deleting(pod) or not _is_running(pod) or not is_available(pod, min_ready, now)
