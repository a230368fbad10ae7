"""Shares of traffic: weight and priority, with one meaning for every feature that divides it.

Exports, federated Services and global hosts say them in the same words, and one function tells
which of several parts get traffic.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

from msgspec import Struct

from hanse.model.affinity import AffinityMode

MOST_WEIGHT = 1000
MOST_PRIORITY = 100
P = TypeVar("P")


class Weighting(Struct, frozen=True, gc=False):
    """The share of traffic among parts of one priority; those of the highest priority get it."""

    weight: int = 1
    priority: int = 10


def effective_weights(weights: Sequence[int]) -> Sequence[int]:
    """The weights by which selected parts share traffic: equal ones if all are 0."""
    return weights if any(weights) else (1,) * len(weights)


def select_parts(
    ready: Sequence[P],
    weighting: Callable[[P], Weighting],
    mode: AffinityMode = "none",
    is_local: Callable[[P], bool] = lambda _: False,
) -> list[P]:
    """The ready parts that get traffic, in the given order; those of weight 0 only if all are.

    Mode `local` selects all local parts, whatever their priority, if there are any. Mode `remote`
    leaves out the local parts if there are others. Unless local parts are selected so, only parts
    of the highest priority are.
    """
    parts = [part for part in ready if weighting(part).weight] or list(ready)
    local = [part for part in parts if is_local(part)]
    if mode == "local" and local:
        return local
    if mode == "remote":
        parts = [part for part in parts if not is_local(part)] or parts
    highest = max((weighting(part).priority for part in parts), default=0)
    return [part for part in parts if weighting(part).priority == highest]
