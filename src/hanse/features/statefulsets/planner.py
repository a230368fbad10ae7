"""Distributes replicas over clusters: a divisor method that never moves a replica.

Replicas are added one by one to the cluster with the smallest share for its weight, and removed one
by one from the largest, so that each number of replicas is one step from the next. The result
depends on the previous shares, the preferences and the healthy clusters; ties on the fleet's order.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from heapq import heapify, heappop, heapreplace

from msgspec import Struct

from hanse.model.objects import ClusterId

NO_LIMIT = 2**31
Shares = Mapping[ClusterId, int]
Groups = Mapping[ClusterId, str]


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
    groups: Groups | None = None,
) -> Distribution:
    """The shares of `wanted` replicas, starting from the shares `before`, and what does not fit.

    With groups, each group gets an equal part before its clusters get theirs. No share shrinks when
    the sum grows, and none grows when it shrinks; unhealthy clusters get nothing, and are the first
    to lose replicas. Of equal clusters the first of `healthy` gets one.
    """
    preferences = preferences or {}
    shares = {cluster: n for cluster, n in before.items() if n > 0}
    candidates = [
        _Candidate(c, at, preferences.get(c, DEFAULT_PREFERENCE)) for at, c in enumerate(healthy)
    ]
    missing = wanted - sum(shares.values())
    if missing > 0:
        missing = _grow(shares, candidates, missing, groups or {})
    elif missing < 0:
        surplus = _shrink_unhealthy(shares, healthy, -missing)
        missing = -_shrink(shares, candidates, surplus, groups or {})
    below_min = [
        candidate.cluster
        for candidate in candidates
        if shares.get(candidate.cluster, 0) < candidate.preference.min
    ]
    above_max = [
        candidate.cluster
        for candidate in candidates
        if shares.get(candidate.cluster, 0) > candidate.preference.max
    ]
    return Distribution(
        {cluster: shares[cluster] for cluster in sorted(shares) if shares[cluster]},
        unplaced=max(missing, 0),
        below_min=tuple(below_min),
        above_max=tuple(above_max),
    )


def _grow(
    shares: dict[ClusterId, int], candidates: Sequence[_Candidate], missing: int, groups: Groups
) -> int:
    """Adds `missing` replicas in place, first up to each min, then by weight up to max.

    A cluster of weight 0 gets no more than its min. Returns how many could not be added.
    """
    below = [
        (candidate, min(candidate.preference.min, candidate.preference.max))
        for candidate in candidates
    ]
    missing = _add(shares, below, missing, weight_of=_equal_weight)
    weighted = [
        (candidate, candidate.preference.max)
        for candidate in candidates
        if candidate.preference.weight
    ]
    for group in _groups_after(shares, weighted, missing, groups, add=True):
        missing -= group.count - _add(shares, group.limits, group.count, weight_of=_cluster_weight)
    return missing


def _shrink_unhealthy(
    shares: dict[ClusterId, int], healthy: Sequence[ClusterId], surplus: int
) -> int:
    """Remove `surplus` replicas from shares of unhealthy clusters, the largest first, in place.

    Returns how many are still to be removed, from healthy clusters.
    """
    unhealthy = sorted(shares.keys() - set(healthy))
    floors = [(_Candidate(c, at, DEFAULT_PREFERENCE), 0) for at, c in enumerate(unhealthy)]
    return _remove(shares, floors, surplus, weight_of=_equal_weight)


def _shrink(
    shares: dict[ClusterId, int], candidates: Sequence[_Candidate], surplus: int, groups: Groups
) -> int:
    """Remove from `shares` in place: above max first, then of weight 0, by weight, last below min.

    Returns how many could not be removed.
    """
    surplus = _remove(
        shares,
        [
            (candidate, max(candidate.preference.max, candidate.preference.min))
            for candidate in candidates
        ],
        surplus,
        weight_of=_equal_weight,
    )
    unweighted = [
        (candidate, candidate.preference.min)
        for candidate in candidates
        if not candidate.preference.weight
    ]
    surplus = _remove(shares, unweighted, surplus, weight_of=_equal_weight)
    above = [
        (candidate, candidate.preference.min)
        for candidate in candidates
        if candidate.preference.weight
    ]
    for group in _groups_after(shares, above, surplus, groups, add=False):
        left = _remove(shares, group.limits, group.count, weight_of=_cluster_weight)
        surplus -= group.count - left
    return _remove(
        shares, [(candidate, 0) for candidate in candidates], surplus, weight_of=_equal_weight
    )


class _Group(Struct, frozen=True):
    """Clusters that are added to, or removed from, together."""

    limits: list[tuple[_Candidate, int]]
    """Each cluster with the share at which it stops."""
    count: int
    """How many replicas are added or removed in all of them."""


def _groups_after(
    shares: Shares,
    limits: list[tuple[_Candidate, int]],
    count: int,
    groups: Groups,
    *,
    add: bool,
) -> Iterator[_Group]:
    """The groups, each with its clusters and how many of `count` replicas it gets, or loses.

    Groups are treated as clusters of equal weight; without any, all clusters are one group.
    """
    if not groups:
        yield _Group(limits, count)
        return
    members: dict[str, list[tuple[_Candidate, int]]] = {}
    for candidate, limit in limits:
        members.setdefault(groups.get(candidate.cluster, ""), []).append((candidate, limit))
    before: dict[str, int] = dict.fromkeys(members, 0)
    for cluster, n in shares.items():  # those of unhealthy clusters count for their group
        before[groups.get(cluster, "")] = before.get(groups.get(cluster, ""), 0) + n
    bounds = [
        (
            _Candidate(name, at, DEFAULT_PREFERENCE),
            before[name] + sum(_room(shares, *each, add=add) for each in members[name]),
        )
        for at, name in enumerate(members)
    ]
    after = dict(before)
    (_add if add else _remove)(after, bounds, count, weight_of=_equal_weight)
    for name, limited in members.items():
        yield _Group(limited, abs(after[name] - before[name]))


def _room(shares: Shares, candidate: _Candidate, limit: int, *, add: bool) -> int:
    """How far a share is from its limit: at least 0 with `add`, else at most 0."""
    n = shares.get(candidate.cluster, 0)
    return max(limit - n, 0) if add else min(limit - n, 0)


_WeightOf = Callable[[_Candidate], int]


def _equal_weight(_: _Candidate) -> int:
    """1 for every cluster."""
    return 1


def _cluster_weight(candidate: _Candidate) -> int:
    """The weight in the cluster's preference."""
    return candidate.preference.weight


def _add(
    shares: dict[ClusterId, int],
    limits: Iterable[tuple[_Candidate, int]],
    missing: int,
    *,
    weight_of: _WeightOf,
) -> int:
    """Adds one by one to the smallest share for its weight, up to its limit, in place.

    Of equal ones the first in the fleet's order gets it. Returns how many could not be added.
    """
    eligible = [
        (candidate, limit)
        for candidate, limit in limits
        if shares.get(candidate.cluster, 0) < limit
    ]
    missing -= _add_many(shares, eligible, missing, weight_of)
    heap = [
        ((2 * n + 1) / weight_of(candidate), candidate.position, n, limit, candidate)
        for candidate, limit in eligible
        if (n := shares.get(candidate.cluster, 0)) < limit
    ]
    heapify(heap)
    while missing > 0 and heap:
        _, position, n, limit, candidate = heap[0]
        shares[candidate.cluster] = n = n + 1
        missing -= 1
        if n < limit:
            heapreplace(heap, ((2 * n + 1) / weight_of(candidate), position, n, limit, candidate))
        else:
            heappop(heap)
    return missing


def _add_many(
    shares: dict[ClusterId, int],
    limits: Sequence[tuple[_Candidate, int]],
    missing: int,
    weight_of: _WeightOf,
) -> int:
    """Adds replicas to `shares` in bulk, in place, as far as balance allows; returns how many.

    0 if at most four per cluster are missing.
    """
    if missing <= 4 * len(limits) or not limits:
        return 0

    def shares_at(level: int) -> dict[ClusterId, int]:
        """The shares at a level: level * weight / 2 each, between the present one and the limit."""
        result: dict[ClusterId, int] = {}
        for candidate, limit in limits:
            n = shares.get(candidate.cluster, 0)
            result[candidate.cluster] = max(n, min(limit, level * weight_of(candidate) // 2))
        return result

    def added(level: int) -> int:
        """How many replicas the shares at a level have more than the present ones."""
        return sum(n - shares.get(c, 0) for c, n in shares_at(level).items())

    low, high = (
        0,
        2 * (missing + max(shares.get(candidate.cluster, 0) for candidate, _ in limits) + 1),
    )
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if added(middle) <= missing else (low, middle - 1)
    result = added(low)
    shares.update(shares_at(low))
    return result


def _remove(
    shares: dict[ClusterId, int],
    floors: Iterable[tuple[_Candidate, int]],
    surplus: int,
    *,
    weight_of: _WeightOf,
) -> int:
    """Removes one by one from the largest share for its weight, down to its floor, in place.

    Of equal ones the last in the fleet's order loses it. Returns how many could not be removed.
    """
    eligible = [
        (candidate, floor)
        for candidate, floor in floors
        if shares.get(candidate.cluster, 0) > floor
    ]
    surplus -= _remove_many(shares, eligible, surplus, weight_of)
    heap = [
        (-(2 * n - 1) / weight_of(candidate), -candidate.position, n, floor, candidate)
        for candidate, floor in eligible
        if (n := shares.get(candidate.cluster, 0)) > floor
    ]
    heapify(heap)
    while surplus > 0 and heap:
        _, position, n, floor, candidate = heap[0]
        shares[candidate.cluster] = n = n - 1
        surplus -= 1
        if n > floor:
            heapreplace(heap, (-(2 * n - 1) / weight_of(candidate), position, n, floor, candidate))
        else:
            heappop(heap)
    return surplus


def _remove_many(
    shares: dict[ClusterId, int],
    floors: Sequence[tuple[_Candidate, int]],
    surplus: int,
    weight_of: _WeightOf,
) -> int:
    """Remove nearly all of a large surplus from `shares` at once, in place.

    Returns how many were removed: 0 for a surplus of at most four per cluster, else as many as keep
    the balance and the floors.
    """
    if surplus <= 4 * len(floors) or not floors:
        return 0

    def shares_at(level: int) -> dict[ClusterId, int]:
        """The shares at a level: level * weight / 2 each, between the floor and the present one."""
        left: dict[ClusterId, int] = {}
        for candidate, floor in floors:
            n = shares.get(candidate.cluster, 0)
            left[candidate.cluster] = min(n, max(floor, (level * weight_of(candidate) + 1) // 2))
        return left

    def taken(level: int) -> int:
        """How many replicas the shares at a level have fewer than the present ones."""
        return sum(shares.get(c, 0) - n for c, n in shares_at(level).items())

    low, high = 0, 2 * (max(shares.get(candidate.cluster, 0) for candidate, _ in floors) + 1)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if taken(middle) <= surplus else (middle + 1, high)
    gone = taken(low)
    shares.update(shares_at(low))
    return gone
