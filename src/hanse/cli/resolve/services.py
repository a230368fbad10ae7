"""DNS answers of each cluster for services and global hosts, from what is read of it now."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from hanse.app.explain import Explanation, explain, parse_service_name, service_watches
from hanse.cli.clusters import READ_TIMEOUT, ClusterAccess, ReadFailure, read_clusters
from hanse.features.services.names import SERVICE_NAME
from hanse.kube.client import Client
from hanse.kube.errors import Forbidden, NotFound
from hanse.kube.store import Store
from hanse.kube.watch_events import Listed
from hanse.model.dns.names import wire_name
from hanse.model.dns.zones import View
from hanse.model.facts import (
    ClusterState,
    Facts,
    HolderState,
    KindServed,
    LeaseLiveness,
    Phase,
    Role,
)
from hanse.model.kinds.coordination import Lease
from hanse.model.kinds.discovery import EndpointSlice
from hanse.model.kinds.globalservice import GlobalService
from hanse.model.kinds.gslb import NAMESPACE as GLOBAL
from hanse.model.kinds.hanse import ClusterSet
from hanse.model.kinds.multicluster import ServiceImport
from hanse.model.naming import BROKER_NAMESPACE
from hanse.model.objects import ClusterId, K, Kind, Object
from hanse.model.snapshot import Lister, Snapshot

BROKER = "broker"


class ClusterAnswer(Struct, frozen=True):
    """The answer of one cluster's DNS, with the reasons."""

    cluster: ClusterId
    explanation: Explanation


class NoAnswer(Struct, frozen=True):
    """A cluster that could not be read, and why."""

    cluster: ClusterId
    why: str


class _ClusterRead(Struct, frozen=True):
    """The objects of one cluster that decide an answer; None for kinds that it does not serve."""

    imports: Listed[ServiceImport] | None
    slices: Listed[EndpointSlice] | None
    sets: Listed[ClusterSet] | None
    leases: Listed[Lease] | None
    hosts: Listed[GlobalService] | None

    @property
    def is_broker(self) -> bool:
        """Whether it has ClusterSets: only brokers do."""
        return bool(self.sets and self.sets.objects)


async def resolve_services(
    name: str, rtype: int, clusters: Sequence[ClusterAccess], view: View
) -> list[ClusterAnswer | NoAnswer]:
    """The answer of every cluster but the broker; a broker that is the only one answers, too."""
    question = parse_service_name(wire_name(name), view)
    namespace = question.key.namespace if question is not None else ""

    async def read(_: ClusterAccess, client: Client) -> _ClusterRead:
        return await _read_cluster(client, namespace)

    results = await read_clusters(clusters, read)
    broker = next((r for r in results if isinstance(r, _ClusterRead) and r.is_broker), None)
    answers: list[ClusterAnswer | NoAnswer] = []
    for cluster, result in zip(clusters, results, strict=True):
        if isinstance(result, ReadFailure):
            answers.append(no_answer(result))
        elif len(clusters) == 1 or not result.is_broker:
            snapshot = _snapshot(cluster.name, result, broker, datetime.now(UTC))
            own_view = replace(view, name=cluster.name, local=cluster.name)
            answers.append(ClusterAnswer(cluster.name, explain(name, rtype, own_view, snapshot)))
    return answers


def no_answer(failure: ReadFailure) -> NoAnswer:
    on_timeout = f"no answer within {READ_TIMEOUT.total_seconds():.0f} s"
    return NoAnswer(failure.cluster, failure.message(on_timeout))


async def _read_cluster(client: Client, namespace: str) -> _ClusterRead:
    """List what answers depend on, one after another; None for kinds that are not served."""
    return _ClusterRead(
        await _list_if_served(client, ServiceImport, namespace),
        await _list_if_served(client, EndpointSlice, namespace, SERVICE_NAME),
        await _list_if_served(client, ClusterSet),
        await _leases(client),
        await _list_if_served(client, GlobalService, GLOBAL),
    )


async def _list_if_served(
    client: Client, kind: type[K], namespace: str = "", labels: str = ""
) -> Listed[K] | None:
    """The listed objects, None where the kind is not served."""
    try:
        return await client.list(kind, namespace=namespace, labels=labels)
    except NotFound:
        return None


async def _leases(client: Client) -> Listed[Lease] | None:
    """The Leases on a broker; None where they may not be read: then no cluster counts as dead."""
    try:
        return await _list_if_served(client, Lease, BROKER_NAMESPACE)
    except Forbidden:
        return None


def expired_leases(leases: Iterable[Lease], now: datetime) -> list[Lease]:
    """The Leases that were not renewed in time.

    A server watches renewals; a single read has only times, written by other machines' clocks.
    Where all Leases look expired, our own clock is as likely to be wrong, and none is expired.
    """
    held = [lease for lease in leases if lease.spec.holder_identity and lease.spec.renew_time]
    late = [lease for lease in held if _lease_age(lease, now) > lease.spec.lease_duration_seconds]
    return late if len(late) < len(held) else []


def _lease_age(lease: Lease, now: datetime) -> float:
    """The seconds since a Lease was renewed; 0 if it has no valid renew time."""
    try:
        return (now - datetime.fromisoformat(lease.spec.renew_time or "")).total_seconds()
    except ValueError:
        return 0.0  # an unreadable time expires no Lease


def _snapshot(
    local: ClusterId, read: _ClusterRead, broker: _ClusterRead | None, now: datetime
) -> Snapshot:
    """The snapshot that an agent of the cluster would have."""
    facts = Facts()
    sets = broker.sets if broker is not None else None
    leases = broker.leases.objects if broker is not None and broker.leases is not None else ()
    for lease in expired_leases(leases, now):
        meta, holder = lease.metadata, lease.spec.holder_identity
        facts.put(LeaseLiveness(BROKER, meta.namespace, meta.name, holder, HolderState.SILENT, now))
    for name, role in ((local, Role.LOCAL), (BROKER, Role.BROKER)):
        facts.put(ClusterState(name, frozenset({role}), Phase.SYNCED, now, listed=True))
    stores: dict[tuple[ClusterId, Kind], list[Lister[Any]]] = {}
    indexes = {watch.kind: watch.indexes for watch in service_watches()}
    several: list[tuple[ClusterId, type[Object], Listed[Any] | None]] = [
        (local, ServiceImport, read.imports),
        (local, EndpointSlice, read.slices),
        (BROKER, ClusterSet, sets),
        (local, GlobalService, read.hosts),
    ]
    for where, kind, listed in several:
        if listed is None:
            facts.put(KindServed(where, kind.kind, served=False))
            continue
        store: Store[Any] = Store(indexes[kind])
        store.apply_event(listed)
        stores[(where, kind.kind)] = [store]
    return Snapshot(stores, facts, now, local)
