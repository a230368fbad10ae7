"""The fleet as the feature observes it: its broker, its members, and their reports."""

from collections.abc import Mapping
from datetime import datetime, timedelta

from msgspec import Struct

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
    """The broker that this cluster is leaving or has left for good; None in all other cases."""
    leaving = (
        s.cluster for s in snapshot.facts(ClusterState) if s.leaving and Role.BROKER in s.roles
    )
    return next(leaving, None) or next((d.cluster for d in snapshot.facts(ClusterDeparted)), None)


def is_broker_listed(broker: ClusterId, snapshot: Snapshot) -> bool:
    """Whether everything at the broker was listed once: nothing is decided on a part of it."""
    state = snapshot.fact(ClusterState, broker)
    return state is not None and state.listed


def list_members(
    snapshot: Snapshot, broker: ClusterId, broker_namespace: str
) -> tuple[FleetMember, ...]:
    """The clusters whose Lease at the broker names them as holder, by name, with their health."""
    leases = [
        lease
        for lease in snapshot.in_namespace(broker, Lease, broker_namespace)
        if lease.spec.holder_identity == lease.metadata.name
    ]
    leases.sort(key=lambda lease: lease.metadata.name)
    return tuple(
        FleetMember(
            le.metadata.name,
            _may_get_replicas(le, snapshot, broker, broker_namespace),
            found.metadata.labels if found is not None else {},
        )
        for le in leases
        for found in (snapshot.get(broker, ClusterMember, le.metadata.name, broker_namespace),)
    )


def list_parts(
    key: Key, snapshot: Snapshot, broker: ClusterId, set_uid: str
) -> dict[ClusterId, StatefulSetPartSpec]:
    """The reports of clusters about one set, without tombstones and newer schemas.

    Reports about an earlier set of that name do not count.
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


def clusters_with_newer_parts(
    key: Key, snapshot: Snapshot, broker: ClusterId
) -> frozenset[ClusterId]:
    """The clusters whose reports have a newer schema: they count as unobserved."""
    found = snapshot.by(broker, PARTS_BY_SET, f"{key.namespace}/{key.name}")
    return frozenset(part.spec.cluster for part in found if part.spec.has_newer_schema)


def _may_get_replicas(
    lease: Lease, snapshot: Snapshot, broker: ClusterId, broker_namespace: str
) -> bool:
    """Whether the Lease's cluster may be given replicas; this cluster always may.

    The observed liveness of the Lease decides; before there is any, whether its renew time is less
    than a lease duration from now. False if it has none.
    """
    cluster = lease.metadata.name
    liveness = snapshot.fact(LeaseLiveness, (broker, broker_namespace, cluster))
    if cluster == snapshot.local:
        return True
    if liveness is not None and liveness.state is not HolderState.UNKNOWN:
        return liveness.state is HolderState.READY
    renewed = _parse_time(lease.spec.renew_time)
    if renewed is None:
        return False
    return abs(snapshot.now - renewed) < timedelta(seconds=lease.spec.lease_duration_seconds)


def _parse_time(text: str | None) -> datetime | None:
    """The time in ISO format; None if it is missing or invalid."""
    try:
        return datetime.fromisoformat(text) if text else None
    except ValueError:
        return None
