"""Distributes replicas over clusters: a divisor method that never moves a replica.

Replicas are added one by one to the cluster with the smallest share for its weight, and removed one
by one from the largest, so that each number of replicas is one step from the next. The result
depends on the previous shares, the preferences and the healthy clusters; ties on the fleet's order.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import heapify, heappop, heapreplace

from msgspec import Struct

from hanse.model.objects import ClusterId

NO_LIMIT = 2**31
Shares = Mapping[ClusterId, int]


class ReplicaPreference(Struct, frozen=True):
    """The preference for one cluster: its weight, and its smallest and largest share."""

    weight: int = 1
    min: int = 0
    max: int = NO_LIMIT


DEFAULT_PREFERENCE = ReplicaPreference()


class Distribution(Struct, frozen=True):
    """The shares of all replicas that could be placed."""

    shares: dict[ClusterId, int]
    """Of clusters with replicas, by name, so that the order does not depend on health."""
    unplaced: int = 0
    """The number of replicas that no healthy cluster may take."""
    surplus: int = 0
    """The number of excess replicas in unhealthy clusters, which cannot be removed now."""
    below_min: tuple[ClusterId, ...] = ()
    """Healthy clusters with a share below their minimum."""
    above_max: tuple[ClusterId, ...] = ()
    """Healthy clusters with a share above their maximum, from before it was set."""


class _Candidate(Struct, frozen=True):
    """One healthy cluster; its position in the fleet's order breaks ties."""

    cluster: ClusterId
    position: int
    preference: ReplicaPreference


def distribute(
    wanted: int,
    before: Shares,
    healthy: Sequence[ClusterId],
    preferences: Mapping[ClusterId, ReplicaPreference] | None = None,
) -> Distribution:
    """The shares of `wanted` replicas; `healthy` is in the fleet's order.

    Shares of unhealthy clusters stay as they are. No share shrinks when the sum grows, and none
    grows when it shrinks.
    """
    preferences = preferences or {}
    shares = {cluster: n for cluster, n in before.items() if n > 0}
    candidates = [
        _Candidate(c, at, preferences.get(c, DEFAULT_PREFERENCE)) for at, c in enumerate(healthy)
    ]
    missing = wanted - sum(shares.values())
    if missing > 0:
        missing = _grow(shares, candidates, missing)
    elif missing < 0:
        missing = -_shrink(shares, candidates, -missing)
    below_min = [b.cluster for b in candidates if shares.get(b.cluster, 0) < b.preference.min]
    above_max = [b.cluster for b in candidates if shares.get(b.cluster, 0) > b.preference.max]
    return Distribution(
        {cluster: shares[cluster] for cluster in sorted(shares) if shares[cluster]},
        unplaced=max(missing, 0),
        surplus=max(-missing, 0),
        below_min=tuple(below_min),
        above_max=tuple(above_max),
    )


def _grow(shares: dict[ClusterId, int], candidates: Sequence[_Candidate], missing: int) -> int:
    """Add replicas, first to shares below their minimum; returns how many could not be placed."""
    below = [(b, min(b.preference.min, b.preference.max)) for b in candidates]
    missing = _add(shares, below, missing, weight_of=_equally)
    weighed = [(b, b.preference.max) for b in candidates if b.preference.weight]
    return _add(shares, weighed, missing, weight_of=_by_weight)


def _shrink(shares: dict[ClusterId, int], candidates: Sequence[_Candidate], surplus: int) -> int:
    """Remove replicas, first from shares above their maximum, last from those at their minimum.

    Returns how many could not be removed.
    """
    surplus = _remove(
        shares,
        [(b, max(b.preference.max, b.preference.min)) for b in candidates],
        surplus,
        weight_of=_equally,
    )
    unweighed = [(b, b.preference.min) for b in candidates if not b.preference.weight]
    surplus = _remove(shares, unweighed, surplus, weight_of=_equally)
    above = [(b, b.preference.min) for b in candidates if b.preference.weight]
    surplus = _remove(shares, above, surplus, weight_of=_by_weight)
    return _remove(shares, [(b, 0) for b in candidates], surplus, weight_of=_equally)


_WeightOf = Callable[[_Candidate], int]


def _equally(_: _Candidate) -> int:
    return 1


def _by_weight(bounds: _Candidate) -> int:
    return bounds.preference.weight


def _add(
    shares: dict[ClusterId, int],
    limits: Iterable[tuple[_Candidate, int]],
    missing: int,
    *,
    weight_of: _WeightOf,
) -> int:
    """Add to the smallest share for its weight, up to each limit; returns what is left."""
    open_ = [(b, limit) for b, limit in limits if shares.get(b.cluster, 0) < limit]
    missing -= _add_many(shares, open_, missing, weight_of)
    heap = [
        ((2 * n + 1) / weight_of(b), b.position, n, limit, b)
        for b, limit in open_
        if (n := shares.get(b.cluster, 0)) < limit
    ]
    heapify(heap)
    while missing > 0 and heap:
        _, position, n, limit, b = heap[0]
        shares[b.cluster] = n = n + 1
        missing -= 1
        if n < limit:
            heapreplace(heap, ((2 * n + 1) / weight_of(b), position, n, limit, b))
        else:
            heappop(heap)
    return missing


def _add_many(
    shares: dict[ClusterId, int],
    limits: Sequence[tuple[_Candidate, int]],
    missing: int,
    weight_of: _WeightOf,
) -> int:
    """Add in bulk all but the last few replicas; returns how many were added."""
    if missing <= 4 * len(limits) or not limits:
        return 0

    def at(level: int) -> dict[ClusterId, int]:
        """The shares at which the next replica of each cluster costs more than a level."""
        given: dict[ClusterId, int] = {}
        for b, limit in limits:
            n = shares.get(b.cluster, 0)
            given[b.cluster] = max(n, min(limit, level * weight_of(b) // 2))
        return given

    def added(level: int) -> int:
        return sum(n - shares.get(c, 0) for c, n in at(level).items())

    low, high = 0, 2 * (missing + max(shares.get(b.cluster, 0) for b, _ in limits) + 1)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if added(middle) <= missing else (low, middle - 1)
    given = added(low)
    shares.update(at(low))
    return given


def _remove(
    shares: dict[ClusterId, int],
    floors: Iterable[tuple[_Candidate, int]],
    surplus: int,
    *,
    weight_of: _WeightOf,
) -> int:
    """Remove from the largest share for its weight, down to each floor; returns what is left."""
    open_ = [(b, floor) for b, floor in floors if shares.get(b.cluster, 0) > floor]
    surplus -= _remove_many(shares, open_, surplus, weight_of)
    heap = [
        (-(2 * n - 1) / weight_of(b), -b.position, n, floor, b)
        for b, floor in open_
        if (n := shares.get(b.cluster, 0)) > floor
    ]
    heapify(heap)
    while surplus > 0 and heap:
        _, position, n, floor, b = heap[0]
        shares[b.cluster] = n = n - 1
        surplus -= 1
        if n > floor:
            heapreplace(heap, (-(2 * n - 1) / weight_of(b), position, n, floor, b))
        else:
            heappop(heap)
    return surplus


def _remove_many(
    shares: dict[ClusterId, int],
    floors: Sequence[tuple[_Candidate, int]],
    surplus: int,
    weight_of: _WeightOf,
) -> int:
    """Remove in bulk all but the last few replicas; returns how many were removed."""
    if surplus <= 4 * len(floors) or not floors:
        return 0

    def at(level: int) -> dict[ClusterId, int]:
        """The shares at which the last replica of each cluster costs no more than a level."""
        left: dict[ClusterId, int] = {}
        for b, floor in floors:
            n = shares.get(b.cluster, 0)
            left[b.cluster] = min(n, max(floor, (level * weight_of(b) + 1) // 2))
        return left

    def taken(level: int) -> int:
        return sum(shares.get(c, 0) - n for c, n in at(level).items())

    low, high = 0, 2 * (max(shares.get(b.cluster, 0) for b, _ in floors) + 1)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if taken(middle) <= surplus else (middle + 1, high)
    gone = taken(low)
    shares.update(at(low))
    return gone
