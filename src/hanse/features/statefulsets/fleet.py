"""The fleet as the feature observes it: its broker, its members, and their reports."""

from collections.abc import Mapping
from datetime import timedelta

from msgspec import Struct

from hanse.model.clusterset import joined_clusters
from hanse.model.facts import ClusterDeparted, ClusterState, HolderState, LeaseLiveness, Role
from hanse.model.kinds.coordination import Lease
from hanse.model.kinds.hanse import ClusterMember
from hanse.model.kinds.stateful import StatefulSetPart, StatefulSetPartSpec
from hanse.model.objects import ClusterId
from hanse.model.plan import Key
from hanse.model.snapshot import Index, Snapshot

PARTS_BY_SET = Index(
    StatefulSetPart, "statefulsets-parts", lambda p: [f"{p.spec.namespace}/{p.spec.name}"]
)


class FleetMember(Struct, frozen=True):
    """A cluster of the fleet."""

    cluster: ClusterId
    healthy: bool
    labels: Mapping[str, str] = {}
    """Those of its ClusterMember."""


def departed_broker(snapshot: Snapshot) -> ClusterId | None:
    """The broker that this cluster is leaving or has left, by the agent's own facts; else None."""
    leaving = (
        s.cluster for s in snapshot.facts(ClusterState) if s.leaving and Role.BROKER in s.roles
    )
    return next(leaving, None) or next((d.cluster for d in snapshot.facts(ClusterDeparted)), None)


def is_broker_listed(broker: ClusterId, snapshot: Snapshot) -> bool:
    """Whether all that is watched at the broker was listed once."""
    state = snapshot.fact(ClusterState, broker)
    return state is not None and state.listed


def list_members(
    snapshot: Snapshot, broker: ClusterId, broker_namespace: str
) -> tuple[FleetMember, ...]:
    """The members of the broker, by name, with labels and whether they may get replicas."""
    place = (snapshot, broker, broker_namespace)
    found = (
        (cluster, snapshot.get(broker, ClusterMember, cluster, broker_namespace))
        for cluster in sorted(joined_clusters(*place))
    )
    return tuple(
        FleetMember(
            cluster,
            _may_get_replicas(cluster, record, *place),
            record.metadata.labels if record is not None else {},
        )
        for cluster, record in found
    )


def list_parts(
    key: Key, snapshot: Snapshot, broker: ClusterId, set_uid: str
) -> dict[ClusterId, StatefulSetPartSpec]:
    """By cluster its report about one set, without tombstones and newer schemas.

    Reports that name another set's uid do not count, unless `set_uid` is empty; those that name
    none do.
    """
    found = snapshot.by(broker, PARTS_BY_SET, f"{key.namespace}/{key.name}")
    specs = (part.spec for part in found)
    return {
        part.cluster: part
        for part in specs
        if not part.has_newer_schema
        and part.ended is None
        and (not set_uid or part.set_uid in ("", set_uid))
    }


def list_parts_and_releases(
    key: Key,
    snapshot: Snapshot,
    broker: ClusterId,
    set_uid: str,
    members: tuple[FleetMember, ...],
) -> dict[ClusterId, StatefulSetPartSpec]:
    """As `list_parts`; of healthy clusters without a report, the tombstone if it has a share.

    That is what an earlier set released and runs on: the cluster adopts it.
    """
    found = snapshot.by(broker, PARTS_BY_SET, f"{key.namespace}/{key.name}")
    healthy = {member.cluster for member in members if member.healthy}
    ended = (p.spec for p in found if p.spec.ended is not None and not p.spec.has_newer_schema)
    released = {part.cluster: part for part in ended if part.share and part.cluster in healthy}
    return {**released, **list_parts(key, snapshot, broker, set_uid)}


def clusters_with_newer_parts(
    key: Key, snapshot: Snapshot, broker: ClusterId
) -> frozenset[ClusterId]:
    """The clusters whose reports have a newer schema: they count as unobserved."""
    found = snapshot.by(broker, PARTS_BY_SET, f"{key.namespace}/{key.name}")
    return frozenset(part.spec.cluster for part in found if part.spec.has_newer_schema)


def _may_get_replicas(
    cluster: ClusterId,
    record: ClusterMember | None,
    snapshot: Snapshot,
    broker: ClusterId,
    broker_namespace: str,
) -> bool:
    """Whether a member may be given replicas; this cluster always may, one that leaves may not.

    The observed liveness of its Lease decides; while that is unknown, whether its renew time is
    less than a lease duration from now. False without a Lease.
    """
    if cluster == snapshot.local:
        return True
    lease = snapshot.get(broker, Lease, cluster, broker_namespace)
    if lease is None or (record is not None and record.status.phase == "Leaving"):
        return False
    liveness = snapshot.fact(LeaseLiveness, (broker, broker_namespace, cluster))
    if liveness is not None and liveness.state is not HolderState.UNKNOWN:
        return liveness.state is HolderState.READY
    renewed = lease.renewed
    if renewed is None:
        return False
    return abs(snapshot.now - renewed) < timedelta(seconds=lease.spec.lease_duration_seconds)
