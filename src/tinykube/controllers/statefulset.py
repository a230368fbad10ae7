"""The StatefulSet controller: pods with stable names and claims, in ordinal order."""

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
    min_ready_seconds,
    name_of,
    namespace_of,
    spec_of,
    status_of,
    time_until_next_available,
)
from tinykube.controllers.owner_references import claim_pods_and_revisions, owner_keys
from tinykube.controllers.pod_template import REVISION_LABEL
from tinykube.controllers.revisions import RevisionHistory, find_revisions, revisions_to_delete
from tinykube.controllers.statefulset_pods import (
    claim_names,
    claim_owner_patches,
    first_ordinal,
    missing_claims,
    ordinal_of,
    ordinals_of,
    stateful_pod,
)
from tinykube.resources import Object
from tinykube.storage import Change

_COMPONENT = "statefulset-controller"


class StatefulSetController:
    """Enqueues a StatefulSet, the owner of a pod or revision, and those that wait for a claim."""

    name = "statefulset"
    watches = frozenset((STATEFUL_SETS, PODS, CONTROLLER_REVISIONS, VOLUME_CLAIMS))

    def keys_for(self, change: Change, lister: Lister) -> Iterable[Key]:
        """The StatefulSet itself, the owner of a pod or revision, or those that may adopt a pod.

        For a deleted claim, all StatefulSets of its namespace with claim templates.
        """
        if change.store == STATEFUL_SETS:
            yield Key(STATEFUL_SETS, namespace_of(change.object), name_of(change.object))
        elif change.store == VOLUME_CLAIMS:
            if change.type == "DELETED":
                for one in lister.objects(STATEFUL_SETS, namespace_of(change.object)):
                    if spec_of(one).get("volumeClaimTemplates"):
                        yield Key(STATEFUL_SETS, namespace_of(one), name_of(one))
        else:
            yield from owner_keys(change, "StatefulSet", STATEFUL_SETS, lister)

    def reconcile(self, key: Key, lister: Lister) -> Result:
        """The writes that adopt or release, if any; else those that sync pods, claims and status.

        The latter also record the template's revision and delete those above the history limit.
        Pods whose names have no ordinal are ignored; no writes for an absent StatefulSet.
        """
        stateful_set = lister.get(STATEFUL_SETS, key.namespace, key.name)
        if stateful_set is None:
            return DONE
        owned = claim_pods_and_revisions(stateful_set, lister)
        if owned.writes:
            return Result(owned.writes)
        pods = [pod for pod in owned.pods if ordinal_of(stateful_set, pod) is not None]
        history = find_revisions(stateful_set, owned.revisions, lister)
        claims = _existing_claims(stateful_set, pods, lister)
        result = sync_stateful_set(stateful_set, history, pods, claims, lister.now)
        used = (name_of(history.current), name_of(history.update))
        old = revisions_to_delete(stateful_set, owned.revisions, used, pods)
        return Result((*history.writes, *result.writes, *old), result.requeue_after)


def _existing_claims(
    stateful_set: Object, pods: Iterable[Object], lister: Lister
) -> dict[str, Object]:
    """The existing claims, by name, of all present and desired ordinals."""
    ordinals = {ordinal_of(stateful_set, pod) or 0 for pod in pods} | set(ordinals_of(stateful_set))
    names = (name for one in ordinals for name in claim_names(stateful_set, one).values())
    found = ((name, lister.get(VOLUME_CLAIMS, namespace_of(stateful_set), name)) for name in names)
    return {name: claim for name, claim in found if claim is not None}


class _Step(Struct):
    """The writes so far, and whether further steps must wait for them."""

    writes: list[Write]
    waiting: bool = False


def sync_stateful_set(
    stateful_set: Object,
    history: RevisionHistory,
    pods: Sequence[Object],
    claims: Mapping[str, Object],
    now: datetime,
) -> Result:
    """The writes that create missing pods, then scale down, then delete outdated ones; set status.

    With podManagementPolicy OrderedReady a step waits for the one before; with OnDelete no outdated
    pod is deleted. A terminating StatefulSet only gets its status. `claims` are the existing claims
    by name. Requeues for the next pod to become available.
    """
    by_ordinal = {ordinal_of(stateful_set, pod) or 0: pod for pod in pods}
    status = stateful_set_status(stateful_set, history, pods, now)
    step = _Step([])
    if not is_deleting(stateful_set):
        _add_missing(stateful_set, history, by_ordinal, claims, now, step)
        if not step.waiting:
            _add_scale_down(stateful_set, by_ordinal, claims, now, step)
        strategy = spec_of(stateful_set).get("updateStrategy") or {}
        if not step.waiting and strategy.get("type") != "OnDelete":
            step.writes += _rolling_update_deletions(stateful_set, history, by_ordinal, now)
    requeue_after = time_until_next_available(pods, min_ready_seconds(stateful_set), now)
    writes = (*step.writes, *status_patch(STATEFUL_SETS, stateful_set, status))
    return Result(writes, requeue_after)


def stateful_set_status(
    stateful_set: Object, history: RevisionHistory, pods: Sequence[Object], now: datetime
) -> Object:
    """The status: counts of the existing pods by readiness and by revision.

    When all desired pods and no others exist, are updated and ready, the update revision becomes
    current, unless the strategy is OnDelete. Zero is omitted of readyReplicas, currentReplicas and
    updatedReplicas alone.
    """
    min_ready = min_ready_seconds(stateful_set)
    running = [pod for pod in pods if _is_running(pod)]
    revisions = [labels_of(pod).get(REVISION_LABEL) for pod in pods if not is_deleting(pod)]
    current, update = name_of(history.current), name_of(history.update)
    status: Object = {
        "observedGeneration": generation_of(stateful_set),
        "replicas": len(pods),
        "readyReplicas": sum(map(is_ready, running)),
        "availableReplicas": sum(is_available(pod, min_ready, now) for pod in running),
        "currentReplicas": revisions.count(current),
        "updatedReplicas": revisions.count(update),
        "currentRevision": current,
        "updateRevision": update,
        "collisionCount": int(status_of(stateful_set).get("collisionCount") or 0),
    }
    desired = desired_replicas(stateful_set)
    is_rolling = (spec_of(stateful_set).get("updateStrategy") or {}).get("type") != "OnDelete"
    counts = (status["updatedReplicas"], status["readyReplicas"], status["replicas"])
    if is_rolling and counts == (desired,) * 3:
        status |= {"currentReplicas": status["updatedReplicas"], "currentRevision": update}
    always_present = ("replicas", "observedGeneration", "collisionCount", "availableReplicas")
    return {name: value for name, value in status.items() if value or name in always_present}


def _add_missing(
    stateful_set: Object,
    history: RevisionHistory,
    pods: Mapping[int, Object],
    claims: Mapping[str, Object],
    now: datetime,
    step: _Step,
) -> None:
    """Add to `step` creations of missing pods; if ordered, each after its predecessor is available.

    Also the deletions of finished pods and writes to claims; if ordered, `step.waiting` is set at
    the first pod that is missing, finished or not available. No pod is created while a claim of it
    is terminating.
    """
    in_order = _is_ordered(stateful_set)
    for ordinal in ordinals_of(stateful_set):
        pod = pods.get(ordinal)
        if pod is None:
            terminating = _has_terminating_claim(stateful_set, ordinal, claims)
            if not terminating:
                step.writes += _pod_creation(stateful_set, history, ordinal, claims)
            step.waiting = step.waiting or in_order
        elif is_finished(pod):
            if not is_deleting(pod):
                step.writes.append(Delete(PODS, pod))
            step.waiting = step.waiting or in_order
        else:
            if status_of(pod).get("phase") == "Pending":
                step.writes += missing_claims(stateful_set, ordinal, claims)
            step.writes += claim_owner_patches(stateful_set, ordinal, pod, claims)
            step.waiting = in_order and _is_unavailable(stateful_set, pod, now)
        if step.waiting:
            return


def _pod_creation(
    stateful_set: Object, history: RevisionHistory, ordinal: int, claims: Mapping[str, Object]
) -> list[Write]:
    """Creations of an ordinal's missing claims and its pod, and an Event.

    The pod is of the current or the update revision, as `_uses_current_revision` says.
    """
    revision = history.current if _uses_current_revision(stateful_set, ordinal) else history.update
    pod = stateful_pod(stateful_set, revision, ordinal)
    text = f"create Pod {name_of(pod)} in StatefulSet {name_of(stateful_set)} successful"
    return [
        *missing_claims(stateful_set, ordinal, claims),
        Create(PODS, pod),
        RecordEvent(stateful_set, "SuccessfulCreate", text, _COMPONENT),
    ]


def _uses_current_revision(stateful_set: Object, ordinal: int) -> bool:
    """Whether a new pod of this ordinal gets the current instead of the update revision.

    With rollingUpdate in the strategy, below its partition. Without it, below
    status.currentReplicas, or never if the strategy is OnDelete. Both count from the first ordinal.
    """
    strategy = spec_of(stateful_set).get("updateStrategy") or {}
    start = first_ordinal(stateful_set)
    rolling = strategy.get("rollingUpdate")
    if rolling is not None:
        return ordinal < start + int(rolling.get("partition") or 0)
    if strategy.get("type") == "OnDelete":
        return False
    return ordinal < start + int(status_of(stateful_set).get("currentReplicas") or 0)


def _add_scale_down(
    stateful_set: Object,
    pods: Mapping[int, Object],
    claims: Mapping[str, Object],
    now: datetime,
    step: _Step,
) -> None:
    """Add to `step` the deletions of pods outside the desired ordinals, highest first, with Events.

    Also patches of claims' owners. If ordered, only the highest is handled, and `step.waiting` is
    set; it is not deleted if it is unavailable and a lower one outside is, too.
    """
    in_order = _is_ordered(stateful_set)
    ordinals = ordinals_of(stateful_set)
    surplus = sorted((one for one in pods if one not in ordinals), reverse=True)
    unhealthy = [one for one in surplus if _is_unavailable(stateful_set, pods[one], now)]
    for ordinal in surplus:
        pod = pods[ordinal]
        step.writes += claim_owner_patches(stateful_set, ordinal, pod, claims)
        # wait for an unhealthy pod, except the lowest one, or nothing would ever move
        blocked = ordinal in unhealthy and ordinal != unhealthy[-1]
        if not is_deleting(pod) and not (in_order and blocked):
            text = f"delete Pod {name_of(pod)} in StatefulSet {name_of(stateful_set)} successful"
            step.writes += [
                Delete(PODS, pod),
                RecordEvent(stateful_set, "SuccessfulDelete", text, _COMPONENT),
            ]
        if in_order:
            step.waiting = True
            return


def _rolling_update_deletions(
    stateful_set: Object, history: RevisionHistory, pods: Mapping[int, Object], now: datetime
) -> list[Write]:
    """Deletions of outdated pods from the partition on, highest first, as maxUnavailable allows.

    maxUnavailable, 1 at least, also counts missing and unavailable pods. Each deletion also records
    an Event.
    """
    rolling = (spec_of(stateful_set).get("updateStrategy") or {}).get("rollingUpdate") or {}
    ordinals = ordinals_of(stateful_set)
    max_unavailable = max(
        1, ceil(resolve_int_or_percent(rolling.get("maxUnavailable") or 1, len(ordinals)))
    )
    unavailable = sum(
        one not in pods or _is_unavailable(stateful_set, pods[one], now) for one in ordinals
    )
    lowest = first_ordinal(stateful_set) + int(rolling.get("partition") or 0)
    outdated = [
        pods[one]
        for one in reversed(ordinals)
        if one >= lowest
        and one in pods
        and not is_deleting(pods[one])
        and labels_of(pods[one]).get(REVISION_LABEL) != name_of(history.update)
    ]
    writes: list[Write] = []
    for pod in outdated[: max(0, max_unavailable - unavailable)]:
        text = f"delete Pod {name_of(pod)} in StatefulSet {name_of(stateful_set)} successful"
        writes += [
            Delete(PODS, pod),
            RecordEvent(stateful_set, "SuccessfulDelete", text, _COMPONENT),
        ]
    return writes


def _has_terminating_claim(
    stateful_set: Object, ordinal: int, claims: Mapping[str, Object]
) -> bool:
    """Whether an existing claim of this ordinal is terminating; a new pod must not use it."""
    names = claim_names(stateful_set, ordinal).values()
    return any(is_deleting(claims[name]) for name in names if name in claims)


def _is_ordered(stateful_set: Object) -> bool:
    """Whether podManagementPolicy is not Parallel."""
    return spec_of(stateful_set).get("podManagementPolicy") != "Parallel"


def _is_running(pod: Object) -> bool:
    """Whether the phase of a pod is Running."""
    return status_of(pod).get("phase") == "Running"


def _is_unavailable(stateful_set: Object, pod: Object, now: datetime) -> bool:
    """Whether a pod is terminating, not running, or not yet available."""
    min_ready = min_ready_seconds(stateful_set)
    return is_deleting(pod) or not _is_running(pod) or not is_available(pod, min_ready, now)
