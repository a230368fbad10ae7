"""What every feature that goes by a broker knows of the fleet: the broker, and who is alive."""

from hanse.model.facts import LeaseLiveness, Role
from hanse.model.objects import ClusterId
from hanse.model.snapshot import Snapshot


def broker_cluster(snapshot: Snapshot) -> ClusterId | None:
    """The broker that clusters share by; one that we are leaving is none any more."""
    return next(iter(snapshot.clusters(Role.BROKER)), None)


def is_alive(cluster: ClusterId, snapshot: Snapshot, broker: ClusterId, home: str) -> bool:
    """Whether a cluster counts: all do but those whose Lease ran out before our eyes."""
    pulse = snapshot.fact(LeaseLiveness, (broker, home, cluster))
    return pulse is None or pulse.alive


def is_local_or_alive(cluster: ClusterId, snapshot: Snapshot, broker: ClusterId, home: str) -> bool:
    """The same, but our own cluster always counts: here it is at work."""
    return cluster == snapshot.local or is_alive(cluster, snapshot, broker, home)
