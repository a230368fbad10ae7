"""What each cluster would answer to a question, from what is read of it now."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from hanse.cli.clusters import ClusterAccess, at_each
from hanse.dns.explain import Explanation, explain, parse_service_name
from hanse.features.gslb.zone import GlobalZone
from hanse.features.services.feature import BROKER_NAMESPACE
from hanse.features.services.names import SERVICE_NAME
from hanse.features.services.zone import ServiceZone
from hanse.kube.client import Client
from hanse.kube.errors import BadCredentials, Forbidden, KubeError, NotFound
from hanse.kube.http_transport import HttpTransport
from hanse.kube.store import Store
from hanse.kube.watch_events import Listed
from hanse.model.dns.names import wire_name
from hanse.model.dns.zones import View
from hanse.model.facts import ClusterState, Facts, KindServed, LeaseLiveness, Phase, Role
from hanse.model.kinds.coordination import Lease
from hanse.model.kinds.discovery import EndpointSlice
from hanse.model.kinds.globalservice import GlobalService
from hanse.model.kinds.gslb import NAMESPACE as GLOBAL
from hanse.model.kinds.hanse import ClusterSet
from hanse.model.kinds.multicluster import ServiceImport
from hanse.model.objects import ClusterId, K, Kind, Object
from hanse.model.snapshot import Lister, Snapshot

T = TypeVar("T")
PATIENCE = 10.0
BROKER = "broker"


class ClusterAnswer(Struct, frozen=True):
    """What one cluster would answer."""

    cluster: ClusterId
    explanation: Explanation


class NoAnswer(Struct, frozen=True):
    """A cluster that could not be asked, and why."""

    cluster: ClusterId
    why: str


class _Read(Struct, frozen=True):
    """What one cluster has to say about a name; None of a kind that it does not serve."""

    imports: Listed[ServiceImport] | None
    slices: Listed[EndpointSlice] | None
    sets: Listed[ClusterSet] | None
    leases: Listed[Lease] | None
    hosts: Listed[GlobalService] | None

    @property
    def is_broker(self) -> bool:
        return bool(self.sets and self.sets.objects)


async def resolve_services(
    name: str, rtype: int, ways: Sequence[ClusterAccess], view: View
) -> list[ClusterAnswer | NoAnswer]:
    """Ask every cluster but the broker; one that is silent does not hide the others."""
    about = parse_service_name(wire_name(name), view)
    namespace = about.key.namespace if about is not None else ""
    found = await at_each(ways, lambda way: read_from(way, lambda client: _read(client, namespace)))
    broker = next((r for r in found if isinstance(r, _Read) and r.is_broker), None)
    answers: list[ClusterAnswer | NoAnswer] = []
    for way, read in zip(ways, found, strict=True):
        if isinstance(read, NoAnswer):
            answers.append(read)
        elif len(ways) == 1 or not read.is_broker:
            seen = _seen(way.name, read, broker, datetime.now(UTC))
            own = replace(view, name=way.name, local=way.name)
            answers.append(ClusterAnswer(way.name, explain(name, rtype, own, seen)))
    return answers


async def read_from(
    way: ClusterAccess, read: Callable[[Client], Coroutine[Any, Any, T]]
) -> T | NoAnswer:
    """What is read from a cluster, if it answers in time."""
    transport = HttpTransport(way.credentials)
    try:
        async with asyncio.timeout(PATIENCE):
            return await read(Client(transport))
    except TimeoutError:
        return NoAnswer(way.name, f"no answer within {PATIENCE:.0f} s")
    except (BadCredentials, KubeError) as error:
        return NoAnswer(way.name, str(error))
    finally:
        await transport.close()


async def _read(client: Client, namespace: str) -> _Read:
    return _Read(
        await _list(client, ServiceImport, namespace),
        await _list(client, EndpointSlice, namespace, SERVICE_NAME),
        await _list(client, ClusterSet),
        await _leases(client),
        await _list(client, GlobalService, GLOBAL),
    )


async def _list(
    client: Client, kind: type[K], namespace: str = "", labels: str = ""
) -> Listed[K] | None:
    try:
        return await client.list(kind, namespace=namespace, labels=labels)
    except NotFound:
        return None


async def _leases(client: Client) -> Listed[Lease] | None:
    """The signs of life on a broker; who may not read them cannot tell who is alive."""
    try:
        return await _list(client, Lease, BROKER_NAMESPACE)
    except Forbidden:
        return None


def expired_leases(leases: Iterable[Lease], now: datetime) -> list[Lease]:
    """The Leases that were not renewed in time.

    A server sees renewals come or fail to come; one look has only times to go by, told by clocks of
    others. Where all look late our own clock is as likely to be wrong, and none is taken for dead.
    """
    held = [lease for lease in leases if lease.spec.holder_identity and lease.spec.renew_time]
    late = [lease for lease in held if _age(lease, now) > lease.spec.lease_duration_seconds]
    return late if len(late) < len(held) else []


def _age(lease: Lease, now: datetime) -> float:
    try:
        return (now - datetime.fromisoformat(lease.spec.renew_time or "")).total_seconds()
    except ValueError:
        return 0.0  # a time that cannot be read is nobody's death


def _seen(local: ClusterId, read: _Read, broker: _Read | None, now: datetime) -> Snapshot:
    """What was read, as an agent of the cluster would see it."""
    facts = Facts()
    sets = broker.sets if broker is not None else None
    leases = broker.leases.objects if broker is not None and broker.leases is not None else ()
    for lease in expired_leases(leases, now):
        meta, holder = lease.metadata, lease.spec.holder_identity
        facts.put(LeaseLiveness(BROKER, meta.namespace, meta.name, holder, alive=False, since=now))
    for name, role in ((local, Role.LOCAL), (BROKER, Role.BROKER)):
        facts.put(ClusterState(name, frozenset({role}), Phase.SYNCED, now, listed=True))
    stores: dict[tuple[ClusterId, Kind], list[Lister[Any]]] = {}
    watches = (*ServiceZone(View(local)).watches, *GlobalZone(View(local)).watches)
    indexes = {watch.kind: watch.indexes for watch in watches}
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
        store.take(listed)
        stores[(where, kind.kind)] = [store]
    return Snapshot(stores, facts, now, local)
