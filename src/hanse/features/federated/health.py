"""Members that answer nothing: after a time their endpoints are drained in all other members.

By default a member counts by its API server (`lease`); with `probe` each of its addresses counts by
connections that this supervisor makes to it.

Draining endpoints are not ready and still serving: kube-proxy uses them only while no others are
ready, so the last member of a federated Service is never taken away.
"""

from collections.abc import Iterable, Iterator
from datetime import timedelta

from msgspec.structs import replace

from hanse.features.federated.records import Backends, MemberRecord
from hanse.model.facts import ClusterState, age
from hanse.model.objects import ClusterId
from hanse.model.probes import Probe, ProbePolicy, ProbeTarget, TargetHealth
from hanse.model.snapshot import Snapshot

PROBE_POLICY = ProbePolicy(timedelta(seconds=5), timedelta(seconds=2), up=2, down=3)

SILENT_AFTER = timedelta(seconds=30)


def silent_for(cluster: ClusterId, snapshot: Snapshot) -> timedelta | None:
    """How long a cluster has answered nothing; None if it answers, or was never connected."""
    state = snapshot.fact(ClusterState, cluster)
    return age(state.since, snapshot.now) if state is not None and state.silent else None


def silent_clusters(clusters: Iterable[ClusterId], snapshot: Snapshot) -> frozenset[ClusterId]:
    """Those of the clusters that have answered nothing for `SILENT_AFTER`: they count as gone."""
    return frozenset(
        cluster
        for cluster in clusters
        if (silence := silent_for(cluster, snapshot)) is not None and silence >= SILENT_AFTER
    )


def judged_again_after(clusters: Iterable[ClusterId], snapshot: Snapshot) -> timedelta | None:
    """The time until the next silent cluster reaches `SILENT_AFTER`; None if none is below it."""
    silences = (silent_for(cluster, snapshot) for cluster in clusters)
    return min(
        (SILENT_AFTER - time for time in silences if time is not None and time < SILENT_AFTER),
        default=None,
    )


def member_probes(record: MemberRecord) -> Iterator[Probe]:
    """A TCP probe of each ready address of a member Service, at the first TCP port of its backends.

    None for host names and backends without TCP port.
    """
    for backends in record.backends:
        port = next((p.port for p in backends.ports if p.protocol == "TCP" and p.port), None)
        for address in backends.ready if backends.family != "FQDN" and port is not None else ():
            yield Probe(ProbeTarget("TCP", address, port or 0), PROBE_POLICY)


def failed_targets(record: MemberRecord, snapshot: Snapshot) -> dict[str, str]:
    """The addresses of a member Service that do not answer probes, each with the reason.

    Addresses without a result of a probe are not among them.
    """
    healths = (snapshot.fact(TargetHealth, probe.target) for probe in member_probes(record))
    return {h.target.address: h.reason for h in healths if h is not None and not h.up}


def with_draining(record: MemberRecord, addresses: Iterable[str]) -> MemberRecord:
    """The record with these of its ready addresses draining."""
    failed = frozenset(addresses)
    return replace(record, backends=tuple(_drained(b, failed) for b in record.backends))


def _drained(backends: Backends, addresses: frozenset[str]) -> Backends:
    """The backends with those of their ready addresses that are in `addresses` as draining."""
    if addresses.isdisjoint(backends.ready):
        return backends
    return replace(
        backends,
        ready=tuple(a for a in backends.ready if a not in addresses),
        draining=tuple(sorted({*backends.draining, *(addresses & set(backends.ready))})),
    )
