"""How many replicas each ReplicaSet of a Deployment should have; arithmetic only."""

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

DESIRED = "deployment.kubernetes.io/desired-replicas"
MAXIMUM = "deployment.kubernetes.io/max-replicas"


class RolloutBounds(Struct, frozen=True):
    """How far a rollout may go above and below the wanted number of pods."""

    surge: int
    unavailable: int


class ReplicaTarget(Struct, frozen=True):
    """A ReplicaSet and the number of replicas it should have."""

    replica_set: Object
    replicas: int


def rollout_bounds(deployment: Object) -> RolloutBounds:
    """The strategy's limits as numbers of pods; were both zero, nothing could ever move."""
    strategy = spec_of(deployment).get("strategy") or {}
    if strategy.get("type") == "Recreate":
        return RolloutBounds(0, 0)
    rolling = strategy.get("rollingUpdate") or {}
    wanted = desired_replicas(deployment)
    surge = ceil(resolve_int_or_percent(rolling.get("maxSurge", "25%"), wanted))
    unavailable = floor(resolve_int_or_percent(rolling.get("maxUnavailable", "25%"), wanted))
    if not surge and not unavailable:
        unavailable = 1
    return RolloutBounds(surge, min(unavailable, wanted))


def resolve_int_or_percent(value: int | str, whole: int) -> float:
    """An int-or-percent of a whole, not yet rounded."""
    if isinstance(value, str) and value.endswith("%"):
        percent = int(value[:-1])
        return whole * percent / 100
    return int(value)


def max_pods(deployment: Object) -> int:
    """The most pods that a rollout may have at one time."""
    wanted = desired_replicas(deployment)
    return wanted + rollout_bounds(deployment).surge if wanted else 0


def is_scaling(deployment: Object, replica_sets: Iterable[Object]) -> bool:
    """Whether the number of replicas was changed since the ReplicaSets were last sized."""
    wanted = str(desired_replicas(deployment))
    return any(
        annotations_of(one).get(DESIRED, wanted) != wanted
        for one in replica_sets
        if desired_replicas(one) > 0
    )


def new_size(deployment: Object, present: int, total: int) -> int:
    """The size of the newest ReplicaSet, given its present one and that of all together."""
    wanted = desired_replicas(deployment)
    if (spec_of(deployment).get("strategy") or {}).get("type") == "Recreate":
        return wanted
    if present > wanted:
        return wanted
    room = wanted + rollout_bounds(deployment).surge - total
    return present + max(0, min(room, wanted - present))


def rolling_targets(deployment: Object, new: Object, old: Sequence[Object]) -> list[ReplicaTarget]:
    """One step of a rolling update: first the new one grows, then the old ones shrink."""
    total = sum(desired_replicas(one) for one in (new, *old))
    size = new_size(deployment, desired_replicas(new), total)
    if size != desired_replicas(new):
        return [ReplicaTarget(new, size)]
    return _shrink(deployment, new, [one for one in old if desired_replicas(one) > 0])


def _shrink(deployment: Object, new: Object, old: Sequence[Object]) -> list[ReplicaTarget]:
    """Old ReplicaSets lose broken pods first, then as many good ones as availability allows."""
    least = desired_replicas(deployment) - rollout_bounds(deployment).unavailable
    total = sum(desired_replicas(one) for one in (new, *old))
    spare = total - least - (desired_replicas(new) - _available(new))
    if spare <= 0:
        return []
    sizes = {id(one): desired_replicas(one) for one in old}
    by_age = sorted(old, key=creation_timestamp)
    for one in by_age:
        broken = min(spare, max(0, sizes[id(one)] - _available(one)))
        sizes[id(one)] -= broken
        spare -= broken
    good = sum(_available(one) for one in (new, *old)) - least
    for one in by_age:
        fewer = min(sizes[id(one)], max(0, good))
        sizes[id(one)] -= fewer
        good -= fewer
    return [
        ReplicaTarget(one, sizes[id(one)])
        for one in by_age
        if sizes[id(one)] != desired_replicas(one)
    ]


def scaling_targets(
    deployment: Object, new: Object | None, old: Sequence[Object]
) -> list[ReplicaTarget]:
    """Spread a changed number of replicas over ReplicaSets in the proportions they have."""
    everyone = [*old, *([new] if new is not None else [])]
    active = [one for one in everyone if desired_replicas(one) > 0]
    wanted = desired_replicas(deployment)
    if len(active) <= 1:
        chosen = active or ([new] if new is not None else sorted(old, key=creation_timestamp)[-1:])
        return [ReplicaTarget(one, wanted) for one in chosen]
    if new is not None and _is_saturated(deployment, new):
        return [ReplicaTarget(one, 0) for one in active if one is not new]
    if (spec_of(deployment).get("strategy") or {}).get("type") == "Recreate":
        return []
    return _proportional(deployment, active)


def _proportional(deployment: Object, active: Sequence[Object]) -> list[ReplicaTarget]:
    total = sum(desired_replicas(one) for one in active)
    allowed = max_pods(deployment)
    to_add = allowed - total
    # the largest are changed first; among equals the newest grows and the oldest shrinks
    by_age = sorted(active, key=creation_timestamp, reverse=to_add > 0)
    order = sorted(by_age, key=desired_replicas, reverse=True)
    sizes: list[int] = []
    added = 0
    for one in order:
        part = _part(deployment, one, to_add, added) if to_add else 0
        sizes.append(desired_replicas(one) + part)
        added += part
    sizes[0] = max(0, sizes[0] + to_add - added)
    return [ReplicaTarget(one, size) for one, size in zip(order, sizes, strict=True)]


def _part(deployment: Object, one: Object, to_add: int, added: int) -> int:
    """A ReplicaSet's own part of what is added or taken, never more than what is left."""
    before = int(annotations_of(one).get(MAXIMUM) or status_of(deployment).get("replicas") or 0)
    if not before or to_add == added:
        return 0
    exact = desired_replicas(one) * max_pods(deployment) / before
    part = floor(exact + 0.5) - desired_replicas(one)
    left = to_add - added
    return min(part, left) if to_add > 0 else max(part, left)


def _is_saturated(deployment: Object, new: Object) -> bool:
    wanted = desired_replicas(deployment)
    return (
        desired_replicas(new) == wanted
        and annotations_of(new).get(DESIRED) == str(wanted)
        and _available(new) == wanted
    )


def _available(replica_set: Object) -> int:
    return int(status_of(replica_set).get("availableReplicas") or 0)
