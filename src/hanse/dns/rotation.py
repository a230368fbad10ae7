"""Smooth weighted round robin: who is whose turn, spread as evenly as weights allow."""

from collections.abc import Sequence
from functools import lru_cache
from math import gcd

LONGEST = 4096
"""Turns of one round; weights whose round would be longer are rounded to fit."""


@lru_cache(maxsize=1024)
def weighted_order(weights: tuple[int, ...]) -> tuple[int, ...]:
    """One round: each index as often as its weight says, never bunched.

    A weight of 0 has no turn, unless all are 0.
    """
    shares = list(_reduced(weights if any(weights) else (1,) * len(weights)))
    whole = sum(shares)
    credit = [0] * len(shares)
    order: list[int] = []
    for _ in range(whole):
        for index, share in enumerate(shares):
            credit[index] += share
        best = credit.index(max(credit))
        credit[best] -= whole
        order.append(best)
    return tuple(order)


def _reduced(weights: Sequence[int]) -> Sequence[int]:
    common = gcd(*weights)
    least = [weight // common for weight in weights]
    whole = sum(least)
    if whole <= LONGEST:
        return least
    return [max(1, weight * LONGEST // whole) if weight else 0 for weight in least]
