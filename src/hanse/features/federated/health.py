"""Members that answer nothing: after a time their endpoints are drained in all other members.

Draining endpoints are not ready and still serving: kube-proxy uses them only while no others are
ready, so the last member of a federated Service is never taken away.
"""

from collections.abc import Iterable
from datetime import timedelta

from hanse.model.facts import ClusterState, age
from hanse.model.objects import ClusterId
from hanse.model.snapshot import Snapshot

SILENT_AFTER = timedelta(seconds=30)


def silent_for(cluster: ClusterId, snapshot: Snapshot) -> timedelta | None:
    """How long a cluster has answered nothing; None if it answers, if only with errors."""
    state = snapshot.fact(ClusterState, cluster)
    return age(state.since, snapshot.now) if state is not None and state.silent else None


def silent_clusters(clusters: Iterable[ClusterId], snapshot: Snapshot) -> frozenset[ClusterId]:
    """Those of the clusters that have answered nothing for so long that they count as gone."""
    return frozenset(
        cluster
        for cluster in clusters
        if (silence := silent_for(cluster, snapshot)) is not None and silence >= SILENT_AFTER
    )


def judged_again_after(clusters: Iterable[ClusterId], snapshot: Snapshot) -> timedelta | None:
    """When the next of the clusters may count as gone; None if all answer, or are gone."""
    silences = (silent_for(cluster, snapshot) for cluster in clusters)
    return min(
        (SILENT_AFTER - time for time in silences if time is not None and time < SILENT_AFTER),
        default=None,
    )
