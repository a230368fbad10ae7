"""ReplicaSets: as many pods of one template as were asked for."""

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from tinykube.controllers.conditions import condition, status_patch, timed
from tinykube.controllers.controller import (
    PODS,
    REPLICA_SETS,
    SETTLED,
    Create,
    Delete,
    Key,
    Outcome,
    Tell,
    View,
    Write,
)
from tinykube.controllers.objects import (
    annotations_of,
    created_at,
    generation_of,
    is_active,
    is_available,
    is_deleting,
    is_finished,
    is_ready,
    labels_of,
    name_of,
    namespace_of,
    replicas_of,
    spec_of,
    status_of,
    unavailable_for,
)
from tinykube.controllers.owner_references import claim, owner_key, selecting_keys
from tinykube.controllers.pod_template import pod_from
from tinykube.resources import Object
from tinykube.storage import Change

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
_BY = "replicaset-controller"
_BURST = 500
_FREE_FAILURES = 3
_ALWAYS_TOLD = ("replicas", "observedGeneration", "terminatingReplicas")
_PHASES = {"Pending": 0, "Unknown": 1}


class ReplicaSets:
    """Wakes with a ReplicaSet, its pods, and orphan pods that it could adopt."""

    name = "replicaset"
    follows = frozenset((REPLICA_SETS, PODS))

    def keys_for(self, change: Change, view: View) -> Iterable[Key]:
        if change.store == REPLICA_SETS:
            yield Key(REPLICA_SETS, namespace_of(change.object), name_of(change.object))
            return
        yield from owner_key(change, "ReplicaSet", REPLICA_SETS)
        yield from selecting_keys(change, REPLICA_SETS, view)

    def reconcile(self, key: Key, view: View) -> Outcome:
        replica_set = view.get(REPLICA_SETS, key.namespace, key.name)
        if replica_set is None:
            return SETTLED
        claims = claim(replica_set, PODS, view)
        if claims.writes:
            return Outcome(claims.writes)
        return decide(replica_set, claims.held, view.now, view.refusal(self.name, key))


def decide(
    replica_set: Object, pods: Sequence[Object], now: datetime, refusal: str = ""
) -> Outcome:
    """Create what is missing or delete what is too many, and tell how it stands."""
    active = [pod for pod in pods if is_active(pod)]
    missing = replicas_of(replica_set) - len(active)
    status = replica_set_status(replica_set, pods, now, refusal if missing else "")
    writes: list[Write] = [*status_patch(REPLICA_SETS, replica_set, status)]
    waits = [_until_available(replica_set, active, now)]
    if missing > 0 and not is_deleting(replica_set):
        pause = _pause_after_failures(pods, now)
        waits.append(pause)
        if pause is None:
            writes += _creations(replica_set, min(missing, _BURST))
    elif missing < 0 and not is_deleting(replica_set):
        for victim in victims(active, -missing):
            writes.append(Delete(PODS, victim))
            text = f"Deleted pod: {name_of(victim)}"
            writes.append(Tell(replica_set, "SuccessfulDelete", text, _BY))
    return Outcome(tuple(writes), min((w for w in waits if w is not None), default=None))


def replica_set_status(
    replica_set: Object, pods: Sequence[Object], now: datetime, refusal: str = ""
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
    if refusal:
        failed = condition("ReplicaFailure", True, "FailedCreate", refusal)
        standing = status_of(replica_set).get("conditions") or ()
        status["conditions"] = timed(standing, [failed], now)
    return status


def victims(active: Sequence[Object], count: int) -> list[Object]:
    """The pods that are missed least: unassigned, pending, unready, crowded, young."""
    crowd = Counter(spec_of(pod).get("nodeName", "") for pod in active)
    youngest_first = sorted(active, key=lambda pod: (created_at(pod), name_of(pod)), reverse=True)
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
    pod = pod_from(template, replica_set, metadata)
    text = f"Created {count} pods" if count > 1 else "Created 1 pod"
    told = Tell(replica_set, "SuccessfulCreate", text, _BY)
    return [*(Create(PODS, pod) for _ in range(count)), told]


def _pause_after_failures(pods: Sequence[Object], now: datetime) -> timedelta | None:
    """How long to wait before replacing yet another failed pod; a template that always fails must
    not fill the cluster with its remains."""
    failed = [pod for pod in pods if status_of(pod).get("phase") == "Failed"]
    if len(failed) <= _FREE_FAILURES:
        return None
    exponent = min(len(failed) - _FREE_FAILURES, 6)
    pause = timedelta(seconds=min(10 * 2**exponent, 300))
    latest = max(created_at(pod) for pod in failed)
    since = now - datetime.fromisoformat(latest)
    return pause - since if since < pause else None


def _until_available(
    replica_set: Object, active: Sequence[Object], now: datetime
) -> timedelta | None:
    min_ready = int(spec_of(replica_set).get("minReadySeconds") or 0)
    waits = (unavailable_for(pod, min_ready, now) for pod in active)
    return min((wait for wait in waits if wait), default=None)
