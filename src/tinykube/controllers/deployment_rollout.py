"""The desired replicas of each ReplicaSet during a rollout or when scaling; pure."""

from collections.abc import Iterable, Sequence
from math import ceil, floor

from msgspec import Struct

from tinykube.controllers.objects import (
    annotations_of,
    creation_timestamp,
    desired_replicas,
    spec_of,
    status_of,
)
from tinykube.resources import Object

DESIRED_REPLICAS = "deployment.kubernetes.io/desired-replicas"
MAX_REPLICAS = "deployment.kubernetes.io/max-replicas"


class RolloutBounds(Struct, frozen=True):
    """maxSurge and maxUnavailable as numbers of pods."""

    surge: int
    unavailable: int


class ReplicaTarget(Struct, frozen=True):
    """A ReplicaSet and its desired replicas."""

    replica_set: Object
    replicas: int


def rollout_bounds(deployment: Object) -> RolloutBounds:
    """maxSurge, rounded up, and maxUnavailable, rounded down, as numbers of pods.

    Both are 25 % by default; the latter is at most the desired replicas. If both are zero, one pod
    may be unavailable; for Recreate both stay zero.
    """
    strategy = spec_of(deployment).get("strategy") or {}
    if strategy.get("type") == "Recreate":
        return RolloutBounds(0, 0)
    rolling = strategy.get("rollingUpdate") or {}
    desired = desired_replicas(deployment)
    surge = ceil(resolve_int_or_percent(rolling.get("maxSurge", "25%"), desired))
    unavailable = floor(resolve_int_or_percent(rolling.get("maxUnavailable", "25%"), desired))
    if not surge and not unavailable:
        unavailable = 1
    return RolloutBounds(surge, min(unavailable, desired))


def resolve_int_or_percent(value: int | str, total: int) -> float:
    """An integer, also as text, as it is; a percentage as its share of the total, not rounded."""
    if isinstance(value, str) and value.endswith("%"):
        percent = int(value[:-1])
        return total * percent / 100
    return int(value)


def max_pods(deployment: Object) -> int:
    """The desired replicas plus maxSurge; zero if no replicas are desired."""
    desired = desired_replicas(deployment)
    return desired + rollout_bounds(deployment).surge if desired else 0


def is_scaling(deployment: Object, replica_sets: Iterable[Object]) -> bool:
    """Whether `spec.replicas` differs from the annotation desired-replicas of any ReplicaSet.

    Only those count that have the annotation, and spec.replicas above 0.
    """
    desired = str(desired_replicas(deployment))
    return any(
        annotations_of(one).get(DESIRED_REPLICAS, desired) != desired
        for one in replica_sets
        if desired_replicas(one) > 0
    )


def new_replica_set_size(deployment: Object, current: int, total: int) -> int:
    """The next size of the new ReplicaSet, given its size and the total of all ReplicaSets.

    It is the desired replicas for Recreate, or if it has more than those; otherwise it grows as far
    as maxSurge allows, and does not shrink.
    """
    desired = desired_replicas(deployment)
    if (spec_of(deployment).get("strategy") or {}).get("type") == "Recreate":
        return desired
    if current > desired:
        return desired
    allowed = desired + rollout_bounds(deployment).surge - total
    return current + max(0, min(allowed, desired - current))


def rolling_targets(deployment: Object, new: Object, old: Sequence[Object]) -> list[ReplicaTarget]:
    """One step of a rolling update: scale the new ReplicaSet or, if it stays, the old ones down.

    Only ReplicaSets whose size changes are returned; none if the rollout is done or waits for pods.
    """
    total = sum(desired_replicas(one) for one in (new, *old))
    size = new_replica_set_size(deployment, desired_replicas(new), total)
    if size != desired_replicas(new):
        return [ReplicaTarget(new, size)]
    return _old_targets(deployment, new, [one for one in old if desired_replicas(one) > 0])


def _old_targets(deployment: Object, new: Object, old: Sequence[Object]) -> list[ReplicaTarget]:
    """Scale old ReplicaSets down: unhealthy pods first, then as many as maxUnavailable allows.

    The oldest ReplicaSet comes first; those that keep their size are left out.
    """
    min_available = desired_replicas(deployment) - rollout_bounds(deployment).unavailable
    total = sum(desired_replicas(one) for one in (new, *old))
    removable = total - min_available - (desired_replicas(new) - _available_replicas(new))
    if removable <= 0:
        return []
    sizes = {id(one): desired_replicas(one) for one in old}
    by_age = sorted(old, key=creation_timestamp)
    for one in by_age:
        unhealthy = min(removable, max(0, sizes[id(one)] - _available_replicas(one)))
        sizes[id(one)] -= unhealthy
        removable -= unhealthy
    removable_healthy = sum(_available_replicas(one) for one in (new, *old)) - min_available
    for one in by_age:
        removed = min(sizes[id(one)], max(0, removable_healthy))
        sizes[id(one)] -= removed
        removable_healthy -= removed
    return [
        ReplicaTarget(one, sizes[id(one)])
        for one in by_age
        if sizes[id(one)] != desired_replicas(one)
    ]


def scaling_targets(
    deployment: Object, new: Object | None, old: Sequence[Object]
) -> list[ReplicaTarget]:
    """The sizes of ReplicaSets of a resized or paused Deployment, in proportion to their sizes.

    If at most one has replicas, that one gets all that are desired, or without one the new
    ReplicaSet, else the newest old one. If several have, a new one that is saturated
    (`_is_saturated`) scales the others to zero; if it is not, none is scaled for Recreate.
    """
    replica_sets = [*old, *([new] if new is not None else [])]
    active = [one for one in replica_sets if desired_replicas(one) > 0]
    desired = desired_replicas(deployment)
    if len(active) <= 1:
        scaled_sets = active or (
            [new] if new is not None else sorted(old, key=creation_timestamp)[-1:]
        )
        return [ReplicaTarget(one, desired) for one in scaled_sets]
    if new is not None and _is_saturated(deployment, new):
        return [ReplicaTarget(one, 0) for one in active if one is not new]
    if (spec_of(deployment).get("strategy") or {}).get("type") == "Recreate":
        return []
    return _scale_proportionally(deployment, active)


def _scale_proportionally(deployment: Object, active: Sequence[Object]) -> list[ReplicaTarget]:
    """Distribute the change over active ReplicaSets; the largest one takes the rounding error.

    Their new total is the desired replicas plus maxSurge. Of equally large ones the error goes to
    the newest if pods are added, else to the oldest.
    """
    total = sum(desired_replicas(one) for one in active)
    allowed = max_pods(deployment)
    to_add = allowed - total
    # largest first; of equal ones the newest grows and the oldest shrinks
    by_age = sorted(active, key=creation_timestamp, reverse=to_add > 0)
    order = sorted(by_age, key=desired_replicas, reverse=True)
    sizes: list[int] = []
    added = 0
    for one in order:
        change = _proportional_change(deployment, one, to_add, added) if to_add else 0
        sizes.append(desired_replicas(one) + change)
        added += change
    sizes[0] = max(0, sizes[0] + to_add - added)
    return [ReplicaTarget(one, size) for one, size in zip(order, sizes, strict=True)]


def _proportional_change(deployment: Object, one: Object, to_add: int, added: int) -> int:
    """By how many replicas a ReplicaSet changes: its proportional share of the change, rounded.

    At most what `to_add`, negative to scale down, leaves after `added`. 0 if the former maximum is
    not known, from the ReplicaSet's annotation max-replicas or else the Deployment's
    status.replicas.
    """
    previous_max = int(
        annotations_of(one).get(MAX_REPLICAS) or status_of(deployment).get("replicas") or 0
    )
    if not previous_max or to_add == added:
        return 0
    scaled = desired_replicas(one) * max_pods(deployment) / previous_max
    change = floor(scaled + 0.5) - desired_replicas(one)
    rest = to_add - added
    return min(change, rest) if to_add > 0 else max(change, rest)


def _is_saturated(deployment: Object, new: Object) -> bool:
    """Whether the ReplicaSet has all desired replicas, available and annotated with that number."""
    desired = desired_replicas(deployment)
    return (
        desired_replicas(new) == desired
        and annotations_of(new).get(DESIRED_REPLICAS) == str(desired)
        and _available_replicas(new) == desired
    )


def _available_replicas(replica_set: Object) -> int:
    return int(status_of(replica_set).get("availableReplicas") or 0)
