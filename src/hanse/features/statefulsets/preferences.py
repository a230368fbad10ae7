"""What users wish about single clusters, as an annotation or as a placement."""

from collections.abc import Iterable, Iterator
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from hanse.features.statefulsets.names import PREFERENCES
from hanse.features.statefulsets.planner import DEFAULT_PREFERENCE, NO_LIMIT, ReplicaPreference
from hanse.model.kinds.hanse import Placement
from hanse.model.objects import ClusterId

OTHERS = "*"
EXAMPLE = '{"clusters": {"lubeck": {"weight": 2, "minReplicas": 1, "maxReplicas": 5}}}'
Number = Annotated[int, Meta(ge=0, le=NO_LIMIT)]


class Preferences(Struct, frozen=True):
    """Wishes by cluster, what holds for the others, and what is wrong with them."""

    wishes: dict[ClusterId, ReplicaPreference] = {}
    others: ReplicaPreference = DEFAULT_PREFERENCE
    faults: tuple[str, ...] = ()

    def of(self, clusters: Iterable[ClusterId]) -> dict[ClusterId, ReplicaPreference]:
        """The wish for each of these clusters."""
        return {c: self.wishes.get(c, self.others) for c in clusters}


class _Cluster(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    weight: Annotated[int, Meta(ge=0, le=1000)] = 1
    min_replicas: Number = 0
    max_replicas: Number | None = None


class _PreferencesAnnotation(Struct, frozen=True, forbid_unknown_fields=True):
    clusters: dict[str, _Cluster] = {}


def parse_preferences(text: str) -> Preferences:
    """What an annotation says; clusters that it does not name get nothing, unless `*` does."""
    try:
        told = msgspec.json.decode(text, type=_PreferencesAnnotation)
    except msgspec.DecodeError as error:
        return Preferences(faults=(f"annotation {PREFERENCES}: {error}; write it as {EXAMPLE}",))
    wishes = {
        name: ReplicaPreference(
            c.weight, c.min_replicas, NO_LIMIT if c.max_replicas is None else c.max_replicas
        )
        for name, c in told.clusters.items()
    }
    others = wishes.pop(
        OTHERS, ReplicaPreference(weight=0) if told.clusters else DEFAULT_PREFERENCE
    )
    named = {**wishes, **({OTHERS: others} if OTHERS in told.clusters else {})}
    return Preferences(wishes, others, tuple(_faults(named, f"annotation {PREFERENCES}")))


def placement_preferences(placement: Placement) -> Preferences:
    """What a placement says; clusters that it does not name get their equal part."""
    wishes = {
        c.name: ReplicaPreference(c.weight, c.min, NO_LIMIT if c.max is None else c.max)
        for c in placement.clusters
    }
    return Preferences(wishes, faults=tuple(_faults(wishes, "spec.placement.clusters")))


def _faults(wishes: dict[str, ReplicaPreference], where: str) -> Iterator[str]:
    for name, wish in wishes.items():
        if wish.min > wish.max:
            yield (
                f"{where}: of {name} it wants at least {wish.min} and at most {wish.max} replicas; "
                "lower one or raise the other"
            )
