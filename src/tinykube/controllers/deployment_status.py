"""The status of a Deployment: counts and conditions as `kubectl rollout` reads them."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from msgspec import Struct

from tinykube.controllers.conditions import merge_conditions, new_condition
from tinykube.controllers.deployment_rollout import rollout_bounds
from tinykube.controllers.objects import (
    desired_replicas,
    format_time,
    generation_of,
    get_condition,
    name_of,
    parse_time,
    spec_of,
    status_of,
)
from tinykube.resources import Object

_ALWAYS_PRESENT = ("observedGeneration", "terminatingReplicas")
_NO_DEADLINE = 2**31 - 1


class ReplicaSetState(Struct, frozen=True):
    """The ReplicaSets of a Deployment; `creating` names the one that this step creates."""

    new: Object | None
    old: Sequence[Object]
    creating: str = ""
    last_error: str = ""

    @property
    def all(self) -> list[Object]:
        """The old ReplicaSets, then the new one if there is one."""
        return [*self.old, *([self.new] if self.new is not None else [])]


class DeploymentStatusResult(Struct, frozen=True):
    """A status, and how long until the progress deadline must be checked."""

    status: Object
    requeue_after: timedelta | None = None


def deployment_status(
    deployment: Object, state: ReplicaSetState, now: datetime
) -> DeploymentStatusResult:
    """The status for the observed ReplicaSets, and how long until the progress deadline, if any.

    Progress renews lastUpdateTime of the condition Progressing. Zero counts are left out, except of
    terminating replicas; collisionCount is kept.
    """
    counts = _replica_counts(deployment, state)
    previous = status_of(deployment)
    conditions = [_available_condition(deployment, counts)]
    progress = _progressing_condition(deployment, state, counts, now)
    if progress is not None:
        conditions.append(progress)
    conditions += _replica_failure(state)
    existing = previous.get("conditions") or []
    merged = merge_conditions(existing, conditions, now, updated=True)
    if _has_progressed(previous, counts) and progress is not None and progress["status"] == "True":
        merged = [
            _with_update_time(one, now) if one["type"] == "Progressing" else one for one in merged
        ]
    status = {**counts, "conditions": merged}
    if previous.get("collisionCount"):
        status["collisionCount"] = previous["collisionCount"]
    return DeploymentStatusResult(
        {name: value for name, value in status.items() if value or name in _ALWAYS_PRESENT},
        _until_deadline(deployment, merged, now),
    )


def is_complete(deployment: Object, counts: Object) -> bool:
    """Whether the generation is observed and all pods are of the newest template and available.

    That is, updatedReplicas, replicas and availableReplicas all equal spec.replicas.
    """
    desired = desired_replicas(deployment)
    fields = ("updatedReplicas", "replicas", "availableReplicas")
    observed = int(counts.get("observedGeneration", 0))
    return observed >= generation_of(deployment) and all(
        counts.get(field, 0) == desired for field in fields
    )


def _replica_counts(deployment: Object, state: ReplicaSetState) -> Object:
    """The observed generation and the sums of replica counts over all ReplicaSets.

    updatedReplicas are those of the new one; unavailableReplicas is the sum of the ReplicaSets'
    desired replicas less those available, at least 0.
    """
    statuses = [status_of(one) for one in state.all]
    available = sum(int(one.get("availableReplicas") or 0) for one in statuses)
    updated = status_of(state.new).get("replicas", 0) if state.new is not None else 0
    return {
        "observedGeneration": generation_of(deployment),
        "replicas": sum(int(one.get("replicas") or 0) for one in statuses),
        "updatedReplicas": int(updated or 0),
        "readyReplicas": sum(int(one.get("readyReplicas") or 0) for one in statuses),
        "availableReplicas": available,
        "unavailableReplicas": max(0, sum(map(desired_replicas, state.all)) - available),
        "terminatingReplicas": sum(int(one.get("terminatingReplicas") or 0) for one in statuses),
    }


def _available_condition(deployment: Object, counts: Object) -> Object:
    """The Available condition: True if at least replicas minus maxUnavailable are available."""
    min_available = desired_replicas(deployment) - rollout_bounds(deployment).unavailable
    if counts["availableReplicas"] >= min_available:
        return new_condition(
            "Available",
            True,
            "MinimumReplicasAvailable",
            "Deployment has minimum availability.",
        )
    return new_condition(
        "Available",
        False,
        "MinimumReplicasUnavailable",
        "Deployment does not have minimum availability.",
    )


def _progressing_condition(
    deployment: Object, state: ReplicaSetState, counts: Object, now: datetime
) -> Object | None:
    """The Progressing condition; None if the Deployment has no progress deadline.

    Unknown when paused or just resumed, False while creating the ReplicaSet fails, True when one is
    created. Of a completed rollout it stays while all pods are updated; else see
    `_rollout_condition`.
    """
    if not _progress_deadline(deployment):
        return None
    existing = get_condition(deployment, "Progressing")
    reason = (existing or {}).get("reason", "")
    if spec_of(deployment).get("paused"):
        return new_condition("Progressing", None, "DeploymentPaused", "Deployment is paused")
    if reason == "DeploymentPaused":
        return new_condition("Progressing", None, "DeploymentResumed", "Deployment is resumed")
    if state.last_error and state.new is None:
        return new_condition("Progressing", False, "ReplicaSetCreateError", state.last_error)
    if state.creating:
        text = f'Created new replica set "{state.creating}"'
        return new_condition("Progressing", True, "NewReplicaSetCreated", text)
    if reason == "NewReplicaSetAvailable" and counts["replicas"] == counts["updatedReplicas"]:
        return existing
    return _rollout_condition(deployment, state, counts, now)


def _rollout_condition(
    deployment: Object, state: ReplicaSetState, counts: Object, now: datetime
) -> Object:
    """The Progressing condition: True if complete or progressing, False if overdue.

    Otherwise the existing one; without any it is progressing.
    """
    existing = get_condition(deployment, "Progressing")
    subject = f'ReplicaSet "{name_of(state.new)}"' if state.new is not None else "Deployment"
    if is_complete(deployment, counts):
        text = f"{subject} has successfully progressed."
        return new_condition("Progressing", True, "NewReplicaSetAvailable", text)
    if _has_progressed(status_of(deployment), counts):
        text = f"{subject} is progressing."
        return new_condition("Progressing", True, "ReplicaSetUpdated", text)
    if existing is not None and _is_overdue(deployment, existing, now):
        text = f"{subject} has timed out progressing."
        return new_condition("Progressing", False, "ProgressDeadlineExceeded", text)
    if existing is not None:
        return existing
    return new_condition("Progressing", True, "ReplicaSetUpdated", f"{subject} is progressing.")


def _has_progressed(previous: Object, counts: Object) -> bool:
    """Whether old replicas decreased, or updated, ready or available ones increased."""
    previous_old = previous.get("replicas", 0) - previous.get("updatedReplicas", 0)
    fields = ("updatedReplicas", "readyReplicas", "availableReplicas")
    fewer_old = bool(counts["replicas"] - counts["updatedReplicas"] < previous_old)
    return fewer_old or any(counts[field] > previous.get(field, 0) for field in fields)


def _replica_failure(state: ReplicaSetState) -> list[Object]:
    """The first ReplicaFailure condition, of the new ReplicaSet or else of an old one.

    Without timestamps; empty if there is none.
    """
    replica_sets = [*([state.new] if state.new is not None else []), *state.old]
    for one in replica_sets:
        found = get_condition(one, "ReplicaFailure")
        if found is not None:
            desired = {k: v for k, v in found.items() if not k.startswith("last")}
            return [desired]
    return []


def _with_update_time(one: Object, now: datetime) -> Object:
    """A copy of a condition with lastUpdateTime now."""
    return {**one, "lastUpdateTime": format_time(now)}


def _progress_deadline(deployment: Object) -> int:
    """The progress deadline in seconds, 600 by default; zero means none.

    It is zero if spec.progressDeadlineSeconds is null or the largest 32-bit integer.
    """
    seconds = spec_of(deployment).get("progressDeadlineSeconds", 600)
    return 0 if seconds is None or seconds >= _NO_DEADLINE else int(seconds)


def _is_overdue(deployment: Object, existing: Object, now: datetime) -> bool:
    """Whether the deadline has passed since the condition's lastUpdateTime.

    True once it was exceeded; False if the time is not known.
    """
    if existing.get("reason") == "ProgressDeadlineExceeded":
        return True
    since = parse_time(existing.get("lastUpdateTime"))
    return since is not None and now >= since + timedelta(seconds=_progress_deadline(deployment))


def _until_deadline(
    deployment: Object, conditions: Sequence[Object], now: datetime
) -> timedelta | None:
    """How long (at least 1 s) until a rollout without progress exceeds its deadline, or None.

    None if it is complete, paused or overdue, or has no condition Progressing with a
    lastUpdateTime.
    """
    found = next((one for one in conditions if one["type"] == "Progressing"), None)
    final_reasons = ("NewReplicaSetAvailable", "ProgressDeadlineExceeded", "DeploymentPaused")
    if found is None or found.get("reason") in final_reasons:
        return None
    since = parse_time(found.get("lastUpdateTime"))
    if since is None:
        return None
    return max(
        timedelta(seconds=1), since + timedelta(seconds=_progress_deadline(deployment)) - now
    )
