"""DNS answers of each cluster for replicas of federated StatefulSets."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct

from hanse.app.explain_replicas import ReplicaQuestion, explain_replica, replica_zone
from hanse.cli.clusters import ClusterAccess, ReadFailure, read_cluster, read_clusters
from hanse.cli.inventory import find_broker
from hanse.cli.liveness import BrokerMembers, read_members
from hanse.cli.resolve.services import BROKER, ClusterAnswer, NoAnswer, no_answer
from hanse.features.statefulsets.options import StatefulSetOptions
from hanse.kube.client import Client
from hanse.kube.store import Store
from hanse.kube.watch_events import Listed
from hanse.model.dns.zones import ZoneSource
from hanse.model.facts import ClusterState, Facts, Phase, Role
from hanse.model.kinds.discovery import KUBE_SERVICE, EndpointSlice
from hanse.model.kinds.hanse import ClusterMember
from hanse.model.kinds.stateful import StatefulSetPart, StatefulSetShares
from hanse.model.naming import BROKER_NAMESPACE
from hanse.model.objects import ClusterId, Kind
from hanse.model.snapshot import Lister, Snapshot


class _BrokerRead(Struct, frozen=True):
    """The objects on the broker that decide an answer."""

    shares: Listed[StatefulSetShares]
    parts: Listed[StatefulSetPart]
    members: BrokerMembers


async def resolve_replicas(
    name: str,
    rtype: int,
    question: ReplicaQuestion,
    clusters: Sequence[ClusterAccess],
    *,
    candidates: Sequence[ClusterAccess],
    options: StatefulSetOptions,
) -> list[ClusterAnswer | NoAnswer]:
    """Compute the answer of every cluster but the broker, from lists of API servers.

    The broker is found among `candidates`, and answers itself if no other cluster is in `clusters`.
    A cluster that cannot be read is a `NoAnswer`; if that is the broker, its `NoAnswer` is the only
    result. Raises `CommandFailed` without a broker.
    """
    broker = await find_broker(candidates)
    namespace = question.namespace
    shared = await read_cluster(broker, lambda _, client: _read_broker(client, namespace))
    if isinstance(shared, ReadFailure):
        return [no_answer(shared)]
    members = [cluster for cluster in clusters if cluster.name != broker.name] or [broker]
    results = await read_clusters(members, lambda _, client: _list_slices(client, namespace))
    answers: list[ClusterAnswer | NoAnswer] = []
    for member, pods in zip(members, results, strict=True):
        if isinstance(pods, ReadFailure):
            answers.append(no_answer(pods))
            continue
        zone = replica_zone(member.name, options)
        snapshot = _snapshot(member.name, pods, shared, zone)
        explanation = explain_replica(name, rtype, options, zone, snapshot)
        answers.append(ClusterAnswer(member.name, explanation))
    return answers


async def _read_broker(client: Client, namespace: str) -> _BrokerRead:
    """List what decides an answer from the broker; raises `KubeError`.

    The StatefulSetShares of `namespace`, and all parts, Leases and records of the broker's
    namespace.
    """
    return _BrokerRead(
        await client.list(StatefulSetShares, namespace=namespace),
        await client.list(StatefulSetPart, namespace=BROKER_NAMESPACE),
        await read_members(client),
    )


async def _list_slices(client: Client, namespace: str) -> Listed[EndpointSlice]:
    """The EndpointSlices of a namespace that belong to a Service."""
    return await client.list(EndpointSlice, namespace=namespace, labels=KUBE_SERVICE)


def _snapshot(
    local: ClusterId, pods: Listed[EndpointSlice], shared: _BrokerRead, zone: ZoneSource
) -> Snapshot:
    """The snapshot that the agent of `local` would have, with the broker's objects as `BROKER`.

    Both clusters count as synced; `zone` says which indexes the stores have.
    """
    now, facts = datetime.now(UTC), Facts()
    for name, role in ((local, Role.LOCAL), (BROKER, Role.BROKER)):
        facts.put(ClusterState(name, frozenset({role}), Phase.SYNCED, now, listed=True))
    for state in shared.members.states:
        facts.put(state)
    indexes = {watch.kind: watch.indexes for watch in zone.watches}
    stores: dict[tuple[ClusterId, Kind], list[Lister[Any]]] = {}
    read: tuple[tuple[ClusterId, type[Any], Listed[Any]], ...] = (
        (local, EndpointSlice, pods),
        (BROKER, StatefulSetShares, shared.shares),
        (BROKER, StatefulSetPart, shared.parts),
    )
    records = shared.members.records
    known = ((BROKER, ClusterMember, records),) if records is not None else ()
    for where, kind, listed in (*read, *known):
        store: Store[Any] = Store(indexes[kind])
        store.apply_event(listed)
        stores[(where, kind.kind)] = [store]
    return Snapshot(stores, facts, now, local)
