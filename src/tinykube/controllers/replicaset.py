"""The ReplicaSet controller: the desired number of pods of one template."""

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from tinykube.controllers.conditions import merge_conditions, new_condition, status_patch
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
    min_ready_seconds,
    name_of,
    namespace_of,
    spec_of,
    status_of,
    time_until_next_available,
)
from tinykube.controllers.owner_references import claim_objects, owner_keys
from tinykube.controllers.pod_template import pod_from_template
from tinykube.resources import Object
from tinykube.storage import Change

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
_COMPONENT = "replicaset-controller"
_BURST = 500
_FAILURES_WITHOUT_BACKOFF = 3
_ALWAYS_PRESENT = ("replicas", "observedGeneration", "terminatingReplicas")
_PHASE_RANKS = {"Pending": 0, "Unknown": 1}


class ReplicaSetController:
    """Enqueues a ReplicaSet, the owner of a pod, and the potential owners of an orphan."""

    name = "replicaset"
    watches = frozenset((REPLICA_SETS, PODS))

    def keys_for(self, change: Change, lister: Lister) -> Iterable[Key]:
        """The ReplicaSet itself, the owner of a pod, or the potential owners of an orphan."""
        if change.store == REPLICA_SETS:
            yield Key(REPLICA_SETS, namespace_of(change.object), name_of(change.object))
            return
        yield from owner_keys(change, "ReplicaSet", REPLICA_SETS, lister)

    def reconcile(self, key: Key, lister: Lister) -> Result:
        """The writes that adopt or release pods, if any; otherwise those that sync their number.

        No writes for an absent ReplicaSet.
        """
        replica_set = lister.get(REPLICA_SETS, key.namespace, key.name)
        if replica_set is None:
            return DONE
        claims = claim_objects(replica_set, PODS, lister)
        if claims.writes:
            return Result(claims.writes)
        return sync_replica_set(
            replica_set, claims.claimed, lister.now, lister.last_error(self.name, key)
        )


def sync_replica_set(
    replica_set: Object, pods: Sequence[Object], now: datetime, last_error: str = ""
) -> Result:
    """The writes that set the status, then create missing pods or delete surplus ones, with Events.

    At most 500 are created at once. More than three failed pods delay creations; a terminating
    ReplicaSet only gets its status. `last_error` becomes the condition ReplicaFailure while the
    number is wrong. Requeues for the end of the delay, or the next pod to become available.
    """
    active = [pod for pod in pods if is_active(pod)]
    missing = desired_replicas(replica_set) - len(active)
    status = replica_set_status(replica_set, pods, now, last_error if missing else "")
    writes: list[Write] = [*status_patch(REPLICA_SETS, replica_set, status)]
    waits = [time_until_next_available(active, min_ready_seconds(replica_set), now)]
    if missing > 0 and not is_deleting(replica_set):
        backoff = _failure_backoff(pods, now)
        waits.append(backoff)
        if backoff is None:
            writes += _pod_creations(replica_set, min(missing, _BURST))
    elif missing < 0 and not is_deleting(replica_set):
        for pod in pods_to_delete(active, -missing):
            writes.append(Delete(PODS, pod))
            text = f"Deleted pod: {name_of(pod)}"
            writes.append(RecordEvent(replica_set, "SuccessfulDelete", text, _COMPONENT))
    return Result(tuple(writes), min((w for w in waits if w is not None), default=None))


def replica_set_status(
    replica_set: Object, pods: Sequence[Object], now: datetime, last_error: str = ""
) -> Object:
    """Counts of the active pods, and with `last_error` the condition ReplicaFailure.

    Counts of zero are left out, except of replicas and terminating pods. Without `last_error` it
    has no conditions.
    """
    active = [pod for pod in pods if is_active(pod)]
    template_labels = ((spec_of(replica_set).get("template") or {}).get("metadata") or {}).get(
        "labels"
    ) or {}
    min_ready = min_ready_seconds(replica_set)
    status: Object = {
        "observedGeneration": generation_of(replica_set),
        "replicas": len(active),
        "fullyLabeledReplicas": sum(
            template_labels.items() <= labels_of(pod).items() for pod in active
        ),
        "readyReplicas": sum(map(is_ready, active)),
        "availableReplicas": sum(is_available(pod, min_ready, now) for pod in active),
        "terminatingReplicas": sum(is_deleting(pod) and not is_finished(pod) for pod in pods),
    }
    status = {name: count for name, count in status.items() if count or name in _ALWAYS_PRESENT}
    if last_error:
        failed = new_condition("ReplicaFailure", True, "FailedCreate", last_error)
        existing = status_of(replica_set).get("conditions") or ()
        status["conditions"] = merge_conditions(existing, [failed], now)
    return status


def pods_to_delete(active: Sequence[Object], count: int) -> list[Object]:
    """The `count` pods to delete first.

    Compared are, in this order: unassigned, pending, unready, a lower pod-deletion-cost, on a node
    with more pods, more restarts, younger.
    """
    pods_per_node = Counter(spec_of(pod).get("nodeName", "") for pod in active)
    youngest_first = sorted(
        active, key=lambda pod: (creation_timestamp(pod), name_of(pod)), reverse=True
    )
    return sorted(youngest_first, key=lambda pod: _deletion_rank(pod, pods_per_node))[:count]


def _deletion_rank(pod: Object, pods_per_node: Counter[str]) -> tuple[int, int, int, int, int, int]:
    """The sort key by which pods are deleted, the lowest first; see `pods_to_delete`."""
    node = spec_of(pod).get("nodeName", "")
    cost = annotations_of(pod).get(DELETION_COST, "0")
    restarts = sum(
        int(one.get("restartCount") or 0) for one in status_of(pod).get("containerStatuses") or ()
    )
    return (
        1 if node else 0,
        _PHASE_RANKS.get(status_of(pod).get("phase", "Pending"), 2),
        1 if is_ready(pod) else 0,
        int(cost) if cost.lstrip("-").isdecimal() else 0,
        -pods_per_node[node],
        -restarts,
    )


def _pod_creations(replica_set: Object, count: int) -> list[Write]:
    """Creations of `count` equal pods by the template, and one Event for all of them."""
    template = spec_of(replica_set).get("template") or {}
    metadata = {"generateName": f"{name_of(replica_set)}-"}
    pod = pod_from_template(template, replica_set, metadata)
    text = f"Created {count} pods" if count > 1 else "Created 1 pod"
    event = RecordEvent(replica_set, "SuccessfulCreate", text, _COMPONENT)
    return [*(Create(PODS, pod) for _ in range(count)), event]


def _failure_backoff(pods: Sequence[Object], now: datetime) -> timedelta | None:
    """How long until a failed pod is replaced; None if there is nothing to wait for.

    With more than three failed pods, until 20 s after the creation of the youngest of them, doubled
    for each further one up to 300 s: a template that always fails must not fill the cluster with
    pods.
    """
    failed = [pod for pod in pods if status_of(pod).get("phase") == "Failed"]
    if len(failed) <= _FAILURES_WITHOUT_BACKOFF:
        return None
    doublings = min(len(failed) - _FAILURES_WITHOUT_BACKOFF, 6)
    backoff = timedelta(seconds=min(10 * 2**doublings, 300))
    latest = max(creation_timestamp(pod) for pod in failed)
    since = now - datetime.fromisoformat(latest)
    return backoff - since if since < backoff else None
