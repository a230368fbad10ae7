"""Members that answer nothing: after a time their endpoints are drained in all other members.

Draining endpoints are not ready and still serving: kube-proxy uses them only while no others are
ready, so the last member of a federated Service is never taken away.
"""

from collections.abc import Iterable, Iterator
from datetime import timedelta

from msgspec.structs import replace

from hanse.features.federated.names import DOMAIN
from hanse.features.federated.records import Origin
from hanse.model.facts import ClusterState, age
from hanse.model.kinds.discovery import EndpointConditions, EndpointSlice
from hanse.model.objects import ClusterId
from hanse.model.snapshot import Snapshot

HEALTH = f"{DOMAIN}/health"
"""Annotation of a member Service: how a federated Service learns that a member is gone."""
HEALTH_CHOICES = ("lease", "none")
"""`lease`: a member that answers nothing is drained after a time; `none`: it never is."""
SILENT_AFTER = timedelta(seconds=30)

DRAINING = EndpointConditions(ready=False, serving=True, terminating=True)


def ruling_member(members: Iterable[Origin]) -> Origin | None:
    """The first of the members, which are in the order of joining, that has a rule."""
    return next((member for member in members if member.health in HEALTH_CHOICES), None)


def drains_silent_members(members: Iterable[Origin]) -> bool:
    """Whether the endpoints of members that answer nothing are drained."""
    ruling = ruling_member(members)
    return ruling is None or ruling.health == "lease"


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


def drained(slices: Iterable[EndpointSlice]) -> Iterator[EndpointSlice]:
    """The slices with their ready endpoints draining."""
    for endpoint_slice in slices:
        endpoints = endpoint_slice.endpoints or ()
        yield replace(
            endpoint_slice,
            endpoints=tuple(replace(e, conditions=DRAINING) if e.ready else e for e in endpoints),
        )
