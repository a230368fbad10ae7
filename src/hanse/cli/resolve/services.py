"""DNS answers of each cluster for services and global hosts, from what is read of it now."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from hanse.app.explain import Explanation, explain, parse_service_name, service_watches
from hanse.cli.clusters import READ_TIMEOUT, ClusterAccess, ReadFailure, read_clusters
from hanse.cli.liveness import BrokerMembers, read_members
from hanse.features.services.names import SERVICE_NAME
from hanse.kube.client import Client
from hanse.kube.errors import NotFound
from hanse.kube.store import Store
from hanse.kube.watch_events import Listed
from hanse.model.dns.names import wire_name
from hanse.model.dns.zones import View
from hanse.model.facts import (
    ClusterState,
    Facts,
    KindServed,
    Phase,
    Role,
)
from hanse.model.kinds.discovery import EndpointSlice
from hanse.model.kinds.globalservice import GlobalService
from hanse.model.kinds.gslb import NAMESPACE as GLOBAL
from hanse.model.kinds.hanse import ClusterMember, ClusterSet
from hanse.model.kinds.multicluster import ServiceImport
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
    members: BrokerMembers
    hosts: Listed[GlobalService] | None

    @property
    def is_broker(self) -> bool:
        """Whether it has ClusterSets, or records of members: only brokers do."""
        return any(listed and listed.objects for listed in (self.sets, self.members.records))


async def resolve_services(
    name: str, rtype: int, clusters: Sequence[ClusterAccess], view: View
) -> list[ClusterAnswer | NoAnswer]:
    """Compute the answer of every cluster but brokers, in order, from lists of API servers.

    A sole cluster answers, also if it is the broker; a cluster that cannot be read is a `NoAnswer`.
    The ClusterSet and the liveness of members are those of the first broker among the clusters.
    """
    question = parse_service_name(wire_name(name), view)
    namespace = question.key.namespace if question is not None else ""

    async def read(_: ClusterAccess, client: Client) -> _ClusterRead:
        """List what decides an answer from one cluster, in the namespace that the name is in."""
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
    """The `NoAnswer` of a cluster that could not be read, with the error's text as its reason."""
    on_timeout = f"no answer within {READ_TIMEOUT.total_seconds():.0f} s"
    return NoAnswer(failure.cluster, failure.message(on_timeout))


async def _read_cluster(client: Client, namespace: str) -> _ClusterRead:
    """List what answers depend on, one kind after another; None for kinds that are not served.

    ServiceImports and slices only of `namespace`, all for "".
    """
    return _ClusterRead(
        await _list_if_served(client, ServiceImport, namespace),
        await _list_if_served(client, EndpointSlice, namespace, SERVICE_NAME),
        await _list_if_served(client, ClusterSet),
        await read_members(client),
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


def _snapshot(
    local: ClusterId, read: _ClusterRead, broker: _ClusterRead | None, now: datetime
) -> Snapshot:
    """The snapshot that the agent of `local` would have, with the broker's objects as `BROKER`.

    Both clusters count as synced, also without a `broker`; kinds that were not listed count as not
    served.
    """
    facts = Facts()
    sets = broker.sets if broker is not None else None
    members = broker.members if broker is not None else BrokerMembers()
    for state in members.states:
        facts.put(state)
    for name, role in ((local, Role.LOCAL), (BROKER, Role.BROKER)):
        facts.put(ClusterState(name, frozenset({role}), Phase.SYNCED, now, listed=True))
    stores: dict[tuple[ClusterId, Kind], list[Lister[Any]]] = {}
    indexes = {watch.kind: watch.indexes for watch in service_watches()}
    several: list[tuple[ClusterId, type[Object], Listed[Any] | None]] = [
        (local, ServiceImport, read.imports),
        (local, EndpointSlice, read.slices),
        (BROKER, ClusterSet, sets),
        (BROKER, ClusterMember, members.records),
        (local, GlobalService, read.hosts),
    ]
    for where, kind, listed in several:
        if listed is None:
            facts.put(KindServed(where, kind.kind, served=False))
            continue
        store: Store[Any] = Store(indexes.get(kind, ()))
        store.apply_event(listed)
        stores[(where, kind.kind)] = [store]
    return Snapshot(stores, facts, now, local)
