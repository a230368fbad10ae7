"""How many replicas each ReplicaSet of a Deployment should have; arithmetic only."""

from collections.abc import Iterable, Sequence
from math import ceil, floor

from msgspec import Struct

from tinykube.controllers.objects import (
    annotations_of,
    created_at,
    replicas_of,
    spec_of,
    status_of,
)
from tinykube.resources import Object

DESIRED = "deployment.kubernetes.io/desired-replicas"
MAXIMUM = "deployment.kubernetes.io/max-replicas"


class Bounds(Struct, frozen=True):
    """How far a rollout may go above and below the wanted number of pods."""

    surge: int
    unavailable: int


class Target(Struct, frozen=True):
    """A ReplicaSet and the number of replicas it should have."""

    replica_set: Object
    replicas: int


def bounds_of(deployment: Object) -> Bounds:
    """The strategy's limits as numbers of pods; were both zero, nothing could ever move."""
    strategy = spec_of(deployment).get("strategy") or {}
    if strategy.get("type") == "Recreate":
        return Bounds(0, 0)
    rolling = strategy.get("rollingUpdate") or {}
    wanted = replicas_of(deployment)
    surge = ceil(share(rolling.get("maxSurge", "25%"), wanted))
    unavailable = floor(share(rolling.get("maxUnavailable", "25%"), wanted))
    if not surge and not unavailable:
        unavailable = 1
    return Bounds(surge, min(unavailable, wanted))


def share(value: int | str, whole: int) -> float:
    """An int-or-percent of a whole, not yet rounded."""
    if isinstance(value, str) and value.endswith("%"):
        percent = int(value[:-1])
        return whole * percent / 100
    return int(value)


def maximum_of(deployment: Object) -> int:
    """The most pods that a rollout may have at one time."""
    wanted = replicas_of(deployment)
    return wanted + bounds_of(deployment).surge if wanted else 0


def is_scaling(deployment: Object, replica_sets: Iterable[Object]) -> bool:
    """Whether the number of replicas was changed since the ReplicaSets were last sized."""
    wanted = str(replicas_of(deployment))
    return any(
        annotations_of(one).get(DESIRED, wanted) != wanted
        for one in replica_sets
        if replicas_of(one) > 0
    )


def new_size(deployment: Object, present: int, total: int) -> int:
    """The size of the newest ReplicaSet, given its present one and that of all together."""
    wanted = replicas_of(deployment)
    if (spec_of(deployment).get("strategy") or {}).get("type") == "Recreate":
        return wanted
    if present > wanted:
        return wanted
    room = wanted + bounds_of(deployment).surge - total
    return present + max(0, min(room, wanted - present))


def rolling_targets(deployment: Object, new: Object, old: Sequence[Object]) -> list[Target]:
    """One step of a rolling update: first the new one grows, then the old ones shrink."""
    total = sum(replicas_of(one) for one in (new, *old))
    size = new_size(deployment, replicas_of(new), total)
    if size != replicas_of(new):
        return [Target(new, size)]
    return _shrink(deployment, new, [one for one in old if replicas_of(one) > 0])


def _shrink(deployment: Object, new: Object, old: Sequence[Object]) -> list[Target]:
    """Old ReplicaSets lose broken pods first, then as many good ones as availability allows."""
    least = replicas_of(deployment) - bounds_of(deployment).unavailable
    total = sum(replicas_of(one) for one in (new, *old))
    spare = total - least - (replicas_of(new) - _available(new))
    if spare <= 0:
        return []
    sizes = {id(one): replicas_of(one) for one in old}
    by_age = sorted(old, key=created_at)
    for one in by_age:
        broken = min(spare, max(0, sizes[id(one)] - _available(one)))
        sizes[id(one)] -= broken
        spare -= broken
    good = sum(_available(one) for one in (new, *old)) - least
    for one in by_age:
        fewer = min(sizes[id(one)], max(0, good))
        sizes[id(one)] -= fewer
        good -= fewer
    return [Target(one, sizes[id(one)]) for one in by_age if sizes[id(one)] != replicas_of(one)]


def scaling_targets(deployment: Object, new: Object | None, old: Sequence[Object]) -> list[Target]:
    """Spread a changed number of replicas over ReplicaSets in the proportions they have."""
    everyone = [*old, *([new] if new is not None else [])]
    active = [one for one in everyone if replicas_of(one) > 0]
    wanted = replicas_of(deployment)
    if len(active) <= 1:
        chosen = active or ([new] if new is not None else sorted(old, key=created_at)[-1:])
        return [Target(one, wanted) for one in chosen]
    if new is not None and _is_saturated(deployment, new):
        return [Target(one, 0) for one in active if one is not new]
    if (spec_of(deployment).get("strategy") or {}).get("type") == "Recreate":
        return []
    return _proportional(deployment, active)


def _proportional(deployment: Object, active: Sequence[Object]) -> list[Target]:
    total = sum(replicas_of(one) for one in active)
    allowed = maximum_of(deployment)
    to_add = allowed - total
    # the largest are changed first; among equals the newest grows and the oldest shrinks
    by_age = sorted(active, key=created_at, reverse=to_add > 0)
    order = sorted(by_age, key=replicas_of, reverse=True)
    sizes: list[int] = []
    added = 0
    for one in order:
        part = _part(deployment, one, to_add, added) if to_add else 0
        sizes.append(replicas_of(one) + part)
        added += part
    sizes[0] = max(0, sizes[0] + to_add - added)
    return [Target(one, size) for one, size in zip(order, sizes, strict=True)]


def _part(deployment: Object, one: Object, to_add: int, added: int) -> int:
    """A ReplicaSet's own part of what is added or taken, never more than what is left."""
    before = int(annotations_of(one).get(MAXIMUM) or status_of(deployment).get("replicas") or 0)
    if not before or to_add == added:
        return 0
    exact = replicas_of(one) * maximum_of(deployment) / before
    part = floor(exact + 0.5) - replicas_of(one)
    left = to_add - added
    return min(part, left) if to_add > 0 else max(part, left)


def _is_saturated(deployment: Object, new: Object) -> bool:
    wanted = replicas_of(deployment)
    return (
        replicas_of(new) == wanted
        and annotations_of(new).get(DESIRED) == str(wanted)
        and _available(new) == wanted
    )


def _available(replica_set: Object) -> int:
    return int(status_of(replica_set).get("availableReplicas") or 0)
