"""Preferences of users about clusters, from an annotation or a placement."""

from collections.abc import Iterable, Iterator
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from hanse.features.statefulsets.names import PREFERENCES
from hanse.features.statefulsets.planner import DEFAULT_PREFERENCE, NO_LIMIT, ReplicaPreference
from hanse.model.json_input import decode_json
from hanse.model.kinds.hanse import Placement
from hanse.model.objects import ClusterId

OTHERS = "*"
EXAMPLE = '{"clusters": {"lubeck": {"weight": 2, "minReplicas": 1, "maxReplicas": 5}}}'
Number = Annotated[int, Meta(ge=0, le=NO_LIMIT)]


class Preferences(Struct, frozen=True):
    """Preferences by cluster, the default for the others, and their errors."""

    by_cluster: dict[ClusterId, ReplicaPreference] = {}
    default: ReplicaPreference = DEFAULT_PREFERENCE
    errors: tuple[str, ...] = ()
    rebalances: bool = False
    """Whether each change of them is a wish to share out anew."""

    def of(self, clusters: Iterable[ClusterId]) -> dict[ClusterId, ReplicaPreference]:
        """The preference for each of these clusters, the default where it is not named."""
        return {c: self.by_cluster.get(c, self.default) for c in clusters}


class _ClusterPreference(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    weight: Annotated[int, Meta(ge=0, le=1000)] = 1
    min_replicas: Number = 0
    max_replicas: Number | None = None


class _PreferencesAnnotation(Struct, frozen=True, forbid_unknown_fields=True):
    clusters: dict[str, _ClusterPreference] = {}
    rebalance: bool = False


def parse_preferences(text: str) -> Preferences:
    """Parse the annotation: clusters that it does not name get no replicas, unless `*` does.

    Without any cluster all are equal. Errors are in the result.
    """
    try:
        annotation = decode_json(text, type=_PreferencesAnnotation)
    except msgspec.DecodeError as error:
        return Preferences(errors=(f"annotation {PREFERENCES}: {error}; write it as {EXAMPLE}",))
    by_cluster = {
        name: ReplicaPreference(
            c.weight, c.min_replicas, NO_LIMIT if c.max_replicas is None else c.max_replicas
        )
        for name, c in annotation.clusters.items()
    }
    default = by_cluster.pop(
        OTHERS, ReplicaPreference(weight=0) if annotation.clusters else DEFAULT_PREFERENCE
    )
    declared = {**by_cluster, **({OTHERS: default} if OTHERS in annotation.clusters else {})}
    errors = tuple(_preference_errors(declared, f"annotation {PREFERENCES}"))
    return Preferences(by_cluster, default, errors, rebalances=annotation.rebalance)


def placement_preferences(placement: Placement) -> Preferences:
    """The preferences of `spec.placement`: clusters that it does not name get an equal share."""
    by_cluster = {
        c.name: ReplicaPreference(c.weight, c.min, NO_LIMIT if c.max is None else c.max)
        for c in placement.clusters
    }
    return Preferences(
        by_cluster, errors=tuple(_preference_errors(by_cluster, "spec.placement.clusters"))
    )


def _preference_errors(by_cluster: dict[str, ReplicaPreference], where: str) -> Iterator[str]:
    """An error for each cluster whose min is over its max."""
    for name, preference in by_cluster.items():
        low, high = preference.min, preference.max
        if low > high:
            yield (
                f"{where}: of {name} it wants at least {low} and at most {high} "
                "replicas; lower one or raise the other"
            )
