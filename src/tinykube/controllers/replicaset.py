"""ReplicaSets: as many pods of one template as were asked for."""

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from tinykube.controllers.conditions import condition, merge_conditions, status_patch
from tinykube.controllers.controller import (
    DONE,
    PODS,
    REPLICA_SETS,
    Create,
    Delete,
    Key,
    Lister,
    RecordEvent,
    Result,
    Write,
)
from tinykube.controllers.objects import (
    annotations_of,
    creation_timestamp,
    desired_replicas,
    generation_of,
    is_active,
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
from tinykube.controllers.pod_template import pod_from_template
from tinykube.resources import Object
from tinykube.storage import Change

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
_BY = "replicaset-controller"
_BURST = 500
_FREE_FAILURES = 3
_ALWAYS_TOLD = ("replicas", "observedGeneration", "terminatingReplicas")
_PHASES = {"Pending": 0, "Unknown": 1}


class ReplicaSetController:
    """Wakes with a ReplicaSet, its pods, and orphan pods that it could adopt."""

    name = "replicaset"
    watches = frozenset((REPLICA_SETS, PODS))

    def keys_for(self, change: Change, lister: Lister) -> Iterable[Key]:
        if change.store == REPLICA_SETS:
            yield Key(REPLICA_SETS, namespace_of(change.object), name_of(change.object))
            return
        yield from controller_keys(change, "ReplicaSet", REPLICA_SETS)
        yield from potential_owner_keys(change, REPLICA_SETS, lister)

    def reconcile(self, key: Key, lister: Lister) -> Result:
        replica_set = lister.get(REPLICA_SETS, key.namespace, key.name)
        if replica_set is None:
            return DONE
        claims = claim_objects(replica_set, PODS, lister)
        if claims.writes:
            return Result(claims.writes)
        return sync_replica_set(
            replica_set, claims.held, lister.now, lister.last_error(self.name, key)
        )


def sync_replica_set(
    replica_set: Object, pods: Sequence[Object], now: datetime, last_error: str = ""
) -> Result:
    """Create what is missing or delete what is too many, and tell how it stands."""
    active = [pod for pod in pods if is_active(pod)]
    missing = desired_replicas(replica_set) - len(active)
    status = replica_set_status(replica_set, pods, now, last_error if missing else "")
    writes: list[Write] = [*status_patch(REPLICA_SETS, replica_set, status)]
    waits = [_until_available(replica_set, active, now)]
    if missing > 0 and not is_deleting(replica_set):
        pause = _pause_after_failures(pods, now)
        waits.append(pause)
        if pause is None:
            writes += _creations(replica_set, min(missing, _BURST))
    elif missing < 0 and not is_deleting(replica_set):
        for victim in pods_to_delete(active, -missing):
            writes.append(Delete(PODS, victim))
            text = f"Deleted pod: {name_of(victim)}"
            writes.append(RecordEvent(replica_set, "SuccessfulDelete", text, _BY))
    return Result(tuple(writes), min((w for w in waits if w is not None), default=None))


def replica_set_status(
    replica_set: Object, pods: Sequence[Object], now: datetime, last_error: str = ""
) -> Object:
    """Counts of the pods that are there, and the failure to make others."""
    active = [pod for pod in pods if is_active(pod)]
    wanted = ((spec_of(replica_set).get("template") or {}).get("metadata") or {}).get(
        "labels"
    ) or {}
    min_ready = int(spec_of(replica_set).get("minReadySeconds") or 0)
    status: Object = {
        "observedGeneration": generation_of(replica_set),
        "replicas": len(active),
        "fullyLabeledReplicas": sum(wanted.items() <= labels_of(pod).items() for pod in active),
        "readyReplicas": sum(map(is_ready, active)),
        "availableReplicas": sum(is_available(pod, min_ready, now) for pod in active),
        "terminatingReplicas": sum(is_deleting(pod) and not is_finished(pod) for pod in pods),
    }
    status = {name: count for name, count in status.items() if count or name in _ALWAYS_TOLD}
    if last_error:
        failed = condition("ReplicaFailure", True, "FailedCreate", last_error)
        standing = status_of(replica_set).get("conditions") or ()
        status["conditions"] = merge_conditions(standing, [failed], now)
    return status


def pods_to_delete(active: Sequence[Object], count: int) -> list[Object]:
    """The pods that are missed least: unassigned, pending, unready, crowded, young."""
    crowd = Counter(spec_of(pod).get("nodeName", "") for pod in active)
    youngest_first = sorted(
        active, key=lambda pod: (creation_timestamp(pod), name_of(pod)), reverse=True
    )
    return sorted(youngest_first, key=lambda pod: _worth(pod, crowd))[:count]


def _worth(pod: Object, crowd: Counter[str]) -> tuple[int, int, int, int, int, int]:
    node = spec_of(pod).get("nodeName", "")
    cost = annotations_of(pod).get(DELETION_COST, "0")
    restarts = sum(
        int(one.get("restartCount") or 0) for one in status_of(pod).get("containerStatuses") or ()
    )
    return (
        1 if node else 0,
        _PHASES.get(status_of(pod).get("phase", "Pending"), 2),
        1 if is_ready(pod) else 0,
        int(cost) if cost.lstrip("-").isdecimal() else 0,
        -crowd[node],
        -restarts,
    )


def _creations(replica_set: Object, count: int) -> list[Write]:
    template = spec_of(replica_set).get("template") or {}
    metadata = {"generateName": f"{name_of(replica_set)}-"}
    pod = pod_from_template(template, replica_set, metadata)
    text = f"Created {count} pods" if count > 1 else "Created 1 pod"
    told = RecordEvent(replica_set, "SuccessfulCreate", text, _BY)
    return [*(Create(PODS, pod) for _ in range(count)), told]


def _pause_after_failures(pods: Sequence[Object], now: datetime) -> timedelta | None:
    """How long to wait before replacing yet another failed pod; a template that always fails must
    not fill the cluster with its remains."""
    failed = [pod for pod in pods if status_of(pod).get("phase") == "Failed"]
    if len(failed) <= _FREE_FAILURES:
        return None
    exponent = min(len(failed) - _FREE_FAILURES, 6)
    pause = timedelta(seconds=min(10 * 2**exponent, 300))
    latest = max(creation_timestamp(pod) for pod in failed)
    since = now - datetime.fromisoformat(latest)
    return pause - since if since < pause else None


def _until_available(
    replica_set: Object, active: Sequence[Object], now: datetime
) -> timedelta | None:
    min_ready = int(spec_of(replica_set).get("minReadySeconds") or 0)
    waits = (time_until_available(pod, min_ready, now) for pod in active)
    return min((wait for wait in waits if wait), default=None)
