"""What each cluster would answer about replicas of federated sets, from what is read of it now."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec import Struct

from hanse.cli.clusters import ClusterAccess
from hanse.cli.resolve.services import BROKER, ClusterAnswer, NoAnswer, read_from
from hanse.cli.statefulsets.replicas import broker_among
from hanse.dns.explain_replicas import ReplicaQuestion, explain_replica
from hanse.features.services.feature import BROKER_NAMESPACE
from hanse.features.statefulsets.options import StatefulSetOptions
from hanse.features.statefulsets.zone import StatefulSetZone
from hanse.kube.client import Client
from hanse.kube.store import Store
from hanse.kube.watch_events import Listed
from hanse.model.dns.zones import View
from hanse.model.facts import ClusterState, Facts, LeaseLiveness, Phase, Role
from hanse.model.kinds.coordination import Lease
from hanse.model.kinds.discovery import KUBE_SERVICE, EndpointSlice
from hanse.model.kinds.stateful import StatefulSetPart, StatefulSetShares
from hanse.model.objects import ClusterId, Kind
from hanse.model.snapshot import Lister, Snapshot


class _Shared(Struct, frozen=True):
    """What the broker has to say about a namespace's sets."""

    shares: Listed[StatefulSetShares]
    parts: Listed[StatefulSetPart]
    leases: Listed[Lease]


class Asking(Struct, frozen=True):
    """The clusters that are asked, and all there are, the broker among them."""

    chosen: tuple[ClusterAccess, ...]
    everyone: tuple[ClusterAccess, ...]


async def resolve_replicas(
    name: str, rtype: int, about: ReplicaQuestion, asking: Asking, options: StatefulSetOptions
) -> list[ClusterAnswer | NoAnswer]:
    """Ask every chosen cluster but the broker; one that is silent does not hide the others."""
    broker = await broker_among(asking.everyone)
    shared = await read_from(broker, lambda client: _shared(client, about.namespace))
    if isinstance(shared, NoAnswer):
        return [shared]
    members = [way for way in asking.chosen if way.name != broker.name] or [broker]

    async def ask(way: ClusterAccess) -> ClusterAnswer | NoAnswer:
        pods = await read_from(way, lambda client: _slices(client, about.namespace))
        if isinstance(pods, NoAnswer):
            return pods
        zone = StatefulSetZone(View(way.name, local=way.name), BROKER_NAMESPACE, options)
        seen = _seen(way.name, pods, shared, zone)
        return ClusterAnswer(way.name, explain_replica(name, rtype, options, zone, seen))

    return list(await asyncio.gather(*(ask(way) for way in members)))


async def _shared(client: Client, namespace: str) -> _Shared:
    return _Shared(
        await client.list(StatefulSetShares, namespace=namespace),
        await client.list(StatefulSetPart, namespace=BROKER_NAMESPACE),
        await client.list(Lease, namespace=BROKER_NAMESPACE),
    )


async def _slices(client: Client, namespace: str) -> Listed[EndpointSlice]:
    return await client.list(EndpointSlice, namespace=namespace, labels=KUBE_SERVICE)


def _seen(
    local: ClusterId, pods: Listed[EndpointSlice], shared: _Shared, zone: StatefulSetZone
) -> Snapshot:
    """What was read, as an agent of the cluster would see it."""
    now, facts = datetime.now(UTC), Facts()
    for name, role in ((local, Role.LOCAL), (BROKER, Role.BROKER)):
        facts.put(ClusterState(name, frozenset({role}), Phase.SYNCED, now, listed=True))
    for lease in shared.leases.objects:
        facts.put(_pulse(lease, now))
    indexes = {watch.kind: watch.indexes for watch in zone.watches}
    stores: dict[tuple[ClusterId, Kind], list[Lister[Any]]] = {}
    read: tuple[tuple[ClusterId, type[Any], Listed[Any]], ...] = (
        (local, EndpointSlice, pods),
        (BROKER, StatefulSetShares, shared.shares),
        (BROKER, StatefulSetPart, shared.parts),
    )
    for where, kind, listed in read:
        store: Store[Any] = Store(indexes[kind])
        store.take(listed)
        stores[(where, kind.kind)] = [store]
    return Snapshot(stores, facts, now, local)


def _pulse(lease: Lease, now: datetime) -> LeaseLiveness:
    """Whether a cluster is alive, by what its Lease says of itself."""
    renewed = lease.spec.renew_time
    lasts = timedelta(seconds=lease.spec.lease_duration_seconds)
    alive = renewed is None or now - datetime.fromisoformat(renewed) <= lasts
    meta, holder = lease.metadata, lease.spec.holder_identity
    return LeaseLiveness(BROKER, meta.namespace, meta.name, holder, alive, now)
