"""What the feature knows of the fleet: its broker, its members, and who is alive."""

from datetime import datetime, timedelta

from msgspec import Struct

from hanse.model.facts import ClusterDeparted, ClusterState, LeaseLiveness, Role
from hanse.model.kinds.coordination import Lease
from hanse.model.kinds.stateful import StatefulSetPart, StatefulSetPartSpec
from hanse.model.objects import ClusterId
from hanse.model.plan import Key
from hanse.model.snapshot import Index, Snapshot

PARTS_BY_SET = Index(
    StatefulSetPart, "statefulsets-parts", lambda p: [f"{p.spec.namespace}/{p.spec.name}"]
)


class Member(Struct, frozen=True):
    """A cluster of the fleet."""

    cluster: ClusterId
    healthy: bool


def departed_broker(snapshot: Snapshot) -> ClusterId | None:
    """The broker that this cluster is taking leave of, or has left for good."""
    leaving = (
        s.cluster for s in snapshot.facts(ClusterState) if s.leaving and Role.BROKER in s.roles
    )
    return next(leaving, None) or next((d.cluster for d in snapshot.facts(ClusterDeparted)), None)


def is_broker_listed(broker: ClusterId, snapshot: Snapshot) -> bool:
    """Whether everything at the broker was read once; from half of it nothing is decided."""
    state = snapshot.fact(ClusterState, broker)
    return state is not None and state.listed


def members(snapshot: Snapshot, broker: ClusterId, home: str) -> tuple[Member, ...]:
    """The clusters whose agents have worked, in the order of their names."""
    leases = [
        lease
        for lease in snapshot.in_namespace(broker, Lease, home)
        if lease.spec.holder_identity == lease.metadata.name
    ]
    leases.sort(key=lambda lease: lease.metadata.name)
    return tuple(Member(le.metadata.name, _is_healthy(le, snapshot, broker, home)) for le in leases)


def list_parts(
    key: Key, snapshot: Snapshot, broker: ClusterId
) -> dict[ClusterId, StatefulSetPartSpec]:
    """What clusters report of one set that they still have to do with, in a form that we know."""
    found = snapshot.by(broker, PARTS_BY_SET, f"{key.namespace}/{key.name}")
    told = (part.spec for part in found)
    return {part.cluster: part for part in told if not part.newer and part.ended is None}


def clusters_with_newer_parts(
    key: Key, snapshot: Snapshot, broker: ClusterId
) -> frozenset[ClusterId]:
    """The clusters whose reports are of a later form than we know: as if out of sight."""
    found = snapshot.by(broker, PARTS_BY_SET, f"{key.namespace}/{key.name}")
    return frozenset(part.spec.cluster for part in found if part.spec.newer)


def _is_healthy(lease: Lease, snapshot: Snapshot, broker: ClusterId, home: str) -> bool:
    """Whether a cluster may be given replicas: alive, and as far as we know not for the last time.

    Before we have watched a Lease for a while its own time must do; clocks that are far apart only
    make us wait.
    """
    cluster = lease.metadata.name
    pulse = snapshot.fact(LeaseLiveness, (broker, home, cluster))
    if cluster == snapshot.local:
        return True
    if pulse is not None:
        return pulse.alive
    renewed = _time_in(lease.spec.renew_time)
    if renewed is None:
        return False
    return abs(snapshot.now - renewed) < timedelta(seconds=lease.spec.lease_duration_seconds)


def _time_in(text: str | None) -> datetime | None:
    try:
        return datetime.fromisoformat(text) if text else None
    except ValueError:
        return None
