"""Who runs how many replicas: a divisor method that grows and shrinks without moving anybody.

Replicas are given one by one to the cluster whose share is smallest for its weight, and taken one
by one from where it is largest, so that each number of replicas is one step from the next. What
comes out depends on the shares before, the wishes and who is healthy; on no order but the fleet's.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import heapify, heappop, heapreplace

from msgspec import Struct

from hanse.model.objects import ClusterId

NO_LIMIT = 2**31
Shares = Mapping[ClusterId, int]


class ReplicaPreference(Struct, frozen=True):
    """What is wished of one cluster: its weight beside others, and how few and many it takes."""

    weight: int = 1
    min: int = 0
    max: int = NO_LIMIT


DEFAULT_PREFERENCE = ReplicaPreference()


class Distribution(Struct, frozen=True):
    """Shares for all replicas that found a place."""

    shares: dict[ClusterId, int]
    """Of clusters that have any, by name, so that who is away changes nothing."""
    unplaced: int = 0
    """Replicas that no healthy cluster may take."""
    surplus: int = 0
    """Replicas too many that stand in clusters which cannot be reached."""
    below_min: tuple[ClusterId, ...] = ()
    """Healthy clusters that have fewer than they should at least."""
    above_max: tuple[ClusterId, ...] = ()
    """Healthy clusters that have more than they should at most, from before that was wished."""


class _Bounds(Struct, frozen=True):
    """One healthy cluster as a candidate: its place in the order breaks ties."""

    cluster: ClusterId
    place: int
    wish: ReplicaPreference


def distribute(
    wanted: int,
    before: Shares,
    healthy: Sequence[ClusterId],
    wishes: Mapping[ClusterId, ReplicaPreference] | None = None,
) -> Distribution:
    """The shares of `wanted` replicas; `healthy` is in the fleet's order.

    Shares of clusters that are not healthy stand as they are. No share shrinks when the sum grows,
    none grows when it shrinks.
    """
    wishes = wishes or {}
    shares = {cluster: n for cluster, n in before.items() if n > 0}
    candidates = [_Bounds(c, at, wishes.get(c, DEFAULT_PREFERENCE)) for at, c in enumerate(healthy)]
    missing = wanted - sum(shares.values())
    if missing > 0:
        missing = _grow(shares, candidates, missing)
    elif missing < 0:
        missing = -_shrink(shares, candidates, -missing)
    below_min = [b.cluster for b in candidates if shares.get(b.cluster, 0) < b.wish.min]
    above_max = [b.cluster for b in candidates if shares.get(b.cluster, 0) > b.wish.max]
    return Distribution(
        {cluster: shares[cluster] for cluster in sorted(shares) if shares[cluster]},
        unplaced=max(missing, 0),
        surplus=max(-missing, 0),
        below_min=tuple(below_min),
        above_max=tuple(above_max),
    )


def _grow(shares: dict[ClusterId, int], candidates: Sequence[_Bounds], missing: int) -> int:
    """Add replicas, first where there are fewer than there should be; gives what found no place."""
    below = [(b, min(b.wish.min, b.wish.max)) for b in candidates]
    missing = _add(shares, below, missing, weigh=_alike)
    weighed = [(b, b.wish.max) for b in candidates if b.wish.weight]
    return _add(shares, weighed, missing, weigh=_by_weight)


def _shrink(shares: dict[ClusterId, int], candidates: Sequence[_Bounds], many: int) -> int:
    """Take replicas, first from where there are too many, last from where there should be some.

    Gives what could not be taken.
    """
    many = _take(shares, [(b, max(b.wish.max, b.wish.min)) for b in candidates], many, weigh=_alike)
    unweighed = [(b, b.wish.min) for b in candidates if not b.wish.weight]
    many = _take(shares, unweighed, many, weigh=_alike)
    above = [(b, b.wish.min) for b in candidates if b.wish.weight]
    many = _take(shares, above, many, weigh=_by_weight)
    return _take(shares, [(b, 0) for b in candidates], many, weigh=_alike)


_Weigh = Callable[[_Bounds], int]


def _alike(_: _Bounds) -> int:
    return 1


def _by_weight(bounds: _Bounds) -> int:
    return bounds.wish.weight


def _add(
    shares: dict[ClusterId, int],
    limits: Iterable[tuple[_Bounds, int]],
    missing: int,
    *,
    weigh: _Weigh,
) -> int:
    """Give to the smallest share for its weight, up to each one's limit."""
    open_ = [(b, limit) for b, limit in limits if shares.get(b.cluster, 0) < limit]
    missing -= _add_many(shares, open_, missing, weigh)
    heap = [
        ((2 * n + 1) / weigh(b), b.place, n, limit, b)
        for b, limit in open_
        if (n := shares.get(b.cluster, 0)) < limit
    ]
    heapify(heap)
    while missing > 0 and heap:
        _, place, n, limit, b = heap[0]
        shares[b.cluster] = n = n + 1
        missing -= 1
        if n < limit:
            heapreplace(heap, ((2 * n + 1) / weigh(b), place, n, limit, b))
        else:
            heappop(heap)
    return missing


def _add_many(
    shares: dict[ClusterId, int],
    limits: Sequence[tuple[_Bounds, int]],
    missing: int,
    weigh: _Weigh,
) -> int:
    """Give at once what surely comes before the last few; gives how many that were."""
    if missing <= 4 * len(limits) or not limits:
        return 0

    def at(level: int) -> dict[ClusterId, int]:
        """Shares when every next replica costs more than a level."""
        given: dict[ClusterId, int] = {}
        for b, limit in limits:
            n = shares.get(b.cluster, 0)
            given[b.cluster] = max(n, min(limit, level * weigh(b) // 2))
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


def _take(
    shares: dict[ClusterId, int],
    floors: Iterable[tuple[_Bounds, int]],
    many: int,
    *,
    weigh: _Weigh,
) -> int:
    """Take from the largest share for its weight, down to each one's floor."""
    open_ = [(b, floor) for b, floor in floors if shares.get(b.cluster, 0) > floor]
    many -= _take_many(shares, open_, many, weigh)
    heap = [
        (-(2 * n - 1) / weigh(b), -b.place, n, floor, b)
        for b, floor in open_
        if (n := shares.get(b.cluster, 0)) > floor
    ]
    heapify(heap)
    while many > 0 and heap:
        _, place, n, floor, b = heap[0]
        shares[b.cluster] = n = n - 1
        many -= 1
        if n > floor:
            heapreplace(heap, (-(2 * n - 1) / weigh(b), place, n, floor, b))
        else:
            heappop(heap)
    return many


def _take_many(
    shares: dict[ClusterId, int],
    floors: Sequence[tuple[_Bounds, int]],
    many: int,
    weigh: _Weigh,
) -> int:
    """Take at once what surely goes before the last few; gives how many that were."""
    if many <= 4 * len(floors) or not floors:
        return 0

    def at(level: int) -> dict[ClusterId, int]:
        """Shares when no last replica costs more than a level."""
        left: dict[ClusterId, int] = {}
        for b, floor in floors:
            n = shares.get(b.cluster, 0)
            left[b.cluster] = min(n, max(floor, (level * weigh(b) + 1) // 2))
        return left

    def taken(level: int) -> int:
        return sum(shares.get(c, 0) - n for c, n in at(level).items())

    low, high = 0, 2 * (max(shares.get(b.cluster, 0) for b, _ in floors) + 1)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if taken(middle) <= many else (middle + 1, high)
    gone = taken(low)
    shares.update(at(low))
    return gone
