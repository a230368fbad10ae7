"""What a Deployment says about itself: counts and conditions as `kubectl rollout` reads them."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from msgspec import Struct

from tinykube.controllers.conditions import condition, merge_conditions
from tinykube.controllers.deployment_rollout import rollout_bounds
from tinykube.controllers.objects import (
    condition as standing_condition,
)
from tinykube.controllers.objects import (
    desired_replicas,
    format_time,
    generation_of,
    name_of,
    parse_time,
    spec_of,
    status_of,
)
from tinykube.resources import Object

_ALWAYS_TOLD = ("observedGeneration", "terminatingReplicas")
_NO_DEADLINE = 2**31 - 1


class ReplicaSetState(Struct, frozen=True):
    """A Deployment's ReplicaSets, and the name of the one that is being made in this step."""

    new: Object | None
    old: Sequence[Object]
    making: str = ""
    last_error: str = ""

    @property
    def all(self) -> list[Object]:
        return [*self.old, *([self.new] if self.new is not None else [])]


class DeploymentStatusResult(Struct, frozen=True):
    """A status, and how long until the progress deadline must be looked at again."""

    status: Object
    requeue_after: timedelta | None = None


def deployment_status(
    deployment: Object, seen: ReplicaSetState, now: datetime
) -> DeploymentStatusResult:
    """The status that the observed ReplicaSets amount to."""
    counts = _counts(deployment, seen)
    before = status_of(deployment)
    conditions = [_availability(deployment, counts)]
    progress = _progress(deployment, seen, counts, now)
    if progress is not None:
        conditions.append(progress)
    conditions += _failure(seen)
    standing = before.get("conditions") or []
    settled = merge_conditions(standing, conditions, now, updated=True)
    if _has_moved(before, counts) and progress is not None and progress["status"] == "True":
        settled = [_touched(one, now) if one["type"] == "Progressing" else one for one in settled]
    status = {**counts, "conditions": settled}
    if before.get("collisionCount"):
        status["collisionCount"] = before["collisionCount"]
    return DeploymentStatusResult(
        {name: value for name, value in status.items() if value or name in _ALWAYS_TOLD},
        _until_deadline(deployment, settled, now),
    )


def is_complete(deployment: Object, counts: Object) -> bool:
    """Whether every pod is of the newest template and available."""
    wanted = desired_replicas(deployment)
    fields = ("updatedReplicas", "replicas", "availableReplicas")
    observed = int(counts.get("observedGeneration", 0))
    return observed >= generation_of(deployment) and all(
        counts.get(field, 0) == wanted for field in fields
    )


def _counts(deployment: Object, seen: ReplicaSetState) -> Object:
    statuses = [status_of(one) for one in seen.all]
    available = sum(int(one.get("availableReplicas") or 0) for one in statuses)
    updated = status_of(seen.new).get("replicas", 0) if seen.new is not None else 0
    return {
        "observedGeneration": generation_of(deployment),
        "replicas": sum(int(one.get("replicas") or 0) for one in statuses),
        "updatedReplicas": int(updated or 0),
        "readyReplicas": sum(int(one.get("readyReplicas") or 0) for one in statuses),
        "availableReplicas": available,
        "unavailableReplicas": max(0, sum(map(desired_replicas, seen.all)) - available),
        "terminatingReplicas": sum(int(one.get("terminatingReplicas") or 0) for one in statuses),
    }


def _availability(deployment: Object, counts: Object) -> Object:
    least = desired_replicas(deployment) - rollout_bounds(deployment).unavailable
    if counts["availableReplicas"] >= least:
        return condition(
            "Available",
            True,
            "MinimumReplicasAvailable",
            "Deployment has minimum availability.",
        )
    return condition(
        "Available",
        False,
        "MinimumReplicasUnavailable",
        "Deployment does not have minimum availability.",
    )


def _progress(
    deployment: Object, seen: ReplicaSetState, counts: Object, now: datetime
) -> Object | None:
    """The Progressing condition; None when the Deployment asks for no deadline."""
    if not _deadline(deployment):
        return None
    standing = standing_condition(deployment, "Progressing")
    reason = (standing or {}).get("reason", "")
    if spec_of(deployment).get("paused"):
        return condition("Progressing", None, "DeploymentPaused", "Deployment is paused")
    if reason == "DeploymentPaused":
        return condition("Progressing", None, "DeploymentResumed", "Deployment is resumed")
    if seen.last_error and seen.new is None:
        return condition("Progressing", False, "ReplicaSetCreateError", seen.last_error)
    if seen.making:
        text = f'Created new replica set "{seen.making}"'
        return condition("Progressing", True, "NewReplicaSetCreated", text)
    if reason == "NewReplicaSetAvailable" and counts["replicas"] == counts["updatedReplicas"]:
        return standing
    return _rollout(deployment, seen, counts, now)


def _rollout(deployment: Object, seen: ReplicaSetState, counts: Object, now: datetime) -> Object:
    """How far a rollout that is under way has come."""
    standing = standing_condition(deployment, "Progressing")
    subject = f'ReplicaSet "{name_of(seen.new)}"' if seen.new is not None else "Deployment"
    if is_complete(deployment, counts):
        text = f"{subject} has successfully progressed."
        return condition("Progressing", True, "NewReplicaSetAvailable", text)
    if _has_moved(status_of(deployment), counts):
        text = f"{subject} is progressing."
        return condition("Progressing", True, "ReplicaSetUpdated", text)
    if standing is not None and _is_overdue(deployment, standing, now):
        text = f"{subject} has timed out progressing."
        return condition("Progressing", False, "ProgressDeadlineExceeded", text)
    if standing is not None:
        return standing
    return condition("Progressing", True, "ReplicaSetUpdated", f"{subject} is progressing.")


def _has_moved(before: Object, counts: Object) -> bool:
    """Whether the rollout got further since the status that stands."""
    old_before = before.get("replicas", 0) - before.get("updatedReplicas", 0)
    fields = ("updatedReplicas", "readyReplicas", "availableReplicas")
    fewer_old = bool(counts["replicas"] - counts["updatedReplicas"] < old_before)
    return fewer_old or any(counts[field] > before.get(field, 0) for field in fields)


def _failure(seen: ReplicaSetState) -> list[Object]:
    everyone = [*([seen.new] if seen.new is not None else []), *seen.old]
    for one in everyone:
        found = standing_condition(one, "ReplicaFailure")
        if found is not None:
            wanted = {k: v for k, v in found.items() if not k.startswith("last")}
            return [wanted]
    return []


def _touched(one: Object, now: datetime) -> Object:
    return {**one, "lastUpdateTime": format_time(now)}


def _deadline(deployment: Object) -> int:
    seconds = spec_of(deployment).get("progressDeadlineSeconds", 600)
    return 0 if seconds is None or seconds >= _NO_DEADLINE else int(seconds)


def _is_overdue(deployment: Object, standing: Object, now: datetime) -> bool:
    if standing.get("reason") == "ProgressDeadlineExceeded":
        return True
    since = parse_time(standing.get("lastUpdateTime"))
    return since is not None and now >= since + timedelta(seconds=_deadline(deployment))


def _until_deadline(
    deployment: Object, conditions: Sequence[Object], now: datetime
) -> timedelta | None:
    """How long until a rollout that does not move is overdue; None when that cannot happen."""
    found = next((one for one in conditions if one["type"] == "Progressing"), None)
    settled = ("NewReplicaSetAvailable", "ProgressDeadlineExceeded", "DeploymentPaused")
    if found is None or found.get("reason") in settled:
        return None
    since = parse_time(found.get("lastUpdateTime"))
    if since is None:
        return None
    return max(timedelta(seconds=1), since + timedelta(seconds=_deadline(deployment)) - now)
