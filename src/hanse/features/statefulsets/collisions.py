"""Sets whose replicas would have the same names: `store` in `eu-west` and `store-eu` in `west`."""

from collections.abc import Collection, Iterator

from msgspec import Struct
from msgspec.structs import replace

from hanse.features.statefulsets.fleet import list_members
from hanse.features.statefulsets.names import replica_name
from hanse.features.statefulsets.submitted import SubmittedSet, find_submitted_set
from hanse.model.objects import ClusterId
from hanse.model.plan import Key
from hanse.model.snapshot import Snapshot


class Collision(Struct, frozen=True):
    """Another set, and the clusters in which replicas of both have one name."""

    other: str
    cluster: ClusterId
    others_cluster: ClusterId


def read_submitted_set(
    key: Key, snapshot: Snapshot, broker: ClusterId, broker_namespace: str
) -> SubmittedSet | None:
    """The StatefulSet or FederatedStatefulSet of a key at the broker, with its errors; or None.

    Besides its validation errors it has one if a replica would have the name of an older set's
    replica: `store` in cluster `eu-west` and `store-eu` in `west` both have `store-eu-west-0`.
    """
    submitted = find_submitted_set(key, snapshot, broker)
    if submitted is None:
        return None
    clusters = frozenset(m.cluster for m in list_members(snapshot, broker, broker_namespace))
    error = collision_error(submitted, clusters, snapshot, broker)
    return replace(submitted, errors=(*submitted.errors, error)) if error else submitted


def collision_error(
    submitted: SubmittedSet, clusters: Collection[ClusterId], snapshot: Snapshot, broker: ClusterId
) -> str:
    """The message if a replica would have the name of an older set's at the broker; else empty."""
    for collision in list_collisions(submitted.name, clusters):
        key = Key("local", collision.other, submitted.namespace)
        other = find_submitted_set(key, snapshot, broker)
        if other is not None and _is_older(other, submitted):
            name = replica_name(submitted.name, collision.cluster, 0)
            return (
                f"metadata.name: its replica {name!r} in cluster {collision.cluster} would have "
                f"the name of one of set {other.name} in cluster {collision.others_cluster}; "
                "choose another name"
            )
    return ""


def list_collisions(name: str, clusters: Collection[ClusterId]) -> Iterator[Collision]:
    """The names that no other set may have, each with the clusters where replicas would collide.

    By the ids of these clusters: they collide if one id ends with a dash and another. Whether such
    a set exists is not asked.
    """
    for cluster in sorted(clusters):
        parts = cluster.split("-")
        for at in range(1, len(parts)):
            start, rest = "-".join(parts[:at]), "-".join(parts[at:])
            if rest not in clusters:
                continue
            yield Collision(f"{name}-{start}", cluster, rest)
            if name.endswith(f"-{start}"):
                yield Collision(name.removesuffix(f"-{start}"), rest, cluster)


def _is_older(other: SubmittedSet, submitted: SubmittedSet) -> bool:
    """Whether `other` was created before `submitted`; by name if at once.

    One that is not created yet (a set under admission) is the youngest.
    """
    mine, others = (s.object.metadata.creation_timestamp for s in (submitted, other))
    if mine is None or others is None:
        return mine is None
    return (others, other.name) < (mine, submitted.name)
