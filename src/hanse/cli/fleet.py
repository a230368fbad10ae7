"""The fleet as a person sees it: every cluster read once, as snapshots that views judge."""

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from hanse.app import BROKER
from hanse.app.views import first_reads, further_reads
from hanse.cli.clusters import MAX_CONCURRENT_READS, ClusterAccess, ReadFailure
from hanse.features.services.names import SOURCE_CLUSTER
from hanse.features.services.reading import COUNTED, NARROWED
from hanse.features.services.status import DISCONNECTED
from hanse.kube.client import Client
from hanse.kube.errors import (
    ApiError,
    BadCredentials,
    Forbidden,
    KubeError,
    NotFound,
    ServerError,
    Throttled,
)
from hanse.kube.listed_objects import ListedObjects
from hanse.kube.watch_events import Counted, Listed
from hanse.model.broker_namespace import MEMBER
from hanse.model.conditions import Condition
from hanse.model.crds import CUSTOM_RESOURCES
from hanse.model.facts import (
    AgentRun,
    ClusterState,
    CredentialsRefused,
    Fact,
    Facts,
    HolderState,
    KindCounted,
    KindServed,
    LeaseLiveness,
    ListDenied,
    Phase,
    Role,
)
from hanse.model.fleet import MultiClusterSnapshot
from hanse.model.kinds.coordination import Lease
from hanse.model.kinds.core import Namespace
from hanse.model.kinds.federation import Federation
from hanse.model.kinds.hanse import ClusterMember, ClusterSet
from hanse.model.kinds.multicluster import ServiceExport
from hanse.model.naming import AGENT, BROKER_NAMESPACE, SYSTEM_NAMESPACE, holder_cluster
from hanse.model.objects import ClusterId, Kind, Object
from hanse.model.snapshot import Snapshot, Watch

GRACE = timedelta(seconds=5)
"""How much longer than its Lease a holder may be silent, as its clock is not ours."""

SAMPLE = 10
"""How many objects are on the page by which a kind is counted: so many without a count."""

BROKER_READS = tuple(Watch(Role.LOCAL, kind) for kind in (Lease, ClusterSet, ClusterMember))


class ClusterRead(Struct, frozen=True):
    """One cluster as it was read: what it listed, and why not the rest."""

    context: str
    lists: dict[Watch, Listed[Any]] = {}
    counts: dict[Kind, Counted[Any]] = {}
    """Kinds whose objects were counted, also if they were not listed."""
    unserved: frozenset[Kind] = frozenset()
    denied: dict[Kind, str] = {}
    failure: str = ""
    """Why it could not be read at all."""
    refused: bool = False
    """Whether that is for our credentials."""
    failed: frozenset[Watch] = frozenset()
    """Further lists that could not be read."""

    def objects(self, kind: type[Any]) -> list[Any]:
        """All objects of a kind, from every list of it that was read; none if it was not listed."""
        found = (one.objects for watch, one in self.lists.items() if watch.kind is kind)
        return [obj for several in found for obj in several]

    def listed(self, watch: Watch) -> tuple[Any, ...]:
        """The objects of one list; none if it was not read."""
        found = self.lists.get(watch)
        return found.objects if found is not None else ()

    @property
    def tried(self) -> set[Watch]:
        """All lists that were asked for, in vain or not, but for those that failed at first."""
        return {*self.lists, *self.failed}

    @property
    def cluster(self) -> ClusterId:
        """The id by the holder of its agent's Lease; the context where no agent ran."""
        lease = self.agent_lease
        holder = lease.spec.holder_identity if lease is not None else ""
        return holder_cluster(holder) if "_" in holder else self.context

    @property
    def agent_lease(self) -> Lease | None:
        """The Lease of its agent among what was read; None if it is not there."""
        own = (SYSTEM_NAMESPACE, AGENT)
        leases = (one for one in self.objects(Lease) if (one.namespace, one.name) == own)
        return next(leases, None)

    @property
    def is_broker(self) -> bool:
        """Whether it has ClusterSets, or records of members: only brokers do."""
        return bool(self.objects(ClusterSet) or self.objects(ClusterMember))


Wanted = Mapping[str, Collection[Watch]]
"""Lists by the context of the cluster that is to be asked for them."""


def nothing_more(reads: Iterable[ClusterRead]) -> Wanted:  # noqa: ARG001 - as every such function
    """Nothing beside what views need."""
    return {}


async def complete(
    reads: dict[str, ClusterRead],
    clients: Mapping[str, Client],
    beside: Callable[[Collection[ClusterRead]], Wanted] = nothing_more,
) -> dict[str, ClusterRead]:
    """List from API servers what `missing_reads` names, repeatedly, until nothing is missing.

    `beside` names what others than views need, and may name again what was tried. At most
    `MAX_CONCURRENT_READS` clusters at a time; there is no time limit beside requests' own.
    """
    turns = asyncio.Semaphore(MAX_CONCURRENT_READS)

    async def read_in_turn(name: str, more: Collection[Watch]) -> ClusterRead:
        """The reading of a cluster with further lists, once it is its turn."""
        async with turns:
            return await read_further(reads[name], clients[name], more)

    while True:
        wanted = missing_reads(reads.values())
        for name, several in beside(reads.values()).items():
            if more := {*several} - reads[name].tried:
                wanted.setdefault(name, set()).update(more)
        if not wanted:
            return reads
        found = await asyncio.gather(*(read_in_turn(*one) for one in wanted.items()))
        reads = {**reads, **dict(zip(wanted, found, strict=True))}


def missing_reads(reads: Iterable[ClusterRead]) -> dict[str, set[Watch]]:
    """By context, the lists that views need and that were not tried; nothing is read here.

    Clusters that could not be read at all are left out.
    """
    known = [one for one in reads if not one.failure]
    fleet = build_fleet(known, datetime.now(UTC))
    tried = {one.cluster: one.tried for one in known}
    wanted = further_reads(fleet, tried, {one.cluster: one.failed for one in known})
    return {
        one.context: more for one in known if (more := wanted[one.cluster] - tried[one.cluster])
    }


async def read_further(
    read: ClusterRead, client: Client, watches: Collection[Watch]
) -> ClusterRead:
    """List more from the API server, and return the reading with it; errors do not raise.

    Lists that fail go to `failed`, so that they are not tried again, and their kinds to `denied`.
    """
    try:
        found = await _list_all(client, watches)
    except (KubeError, TimeoutError) as error:
        reason = str(error) or "no answer in time"
        denied = {**read.denied, **{watch.kind.kind: reason for watch in watches}}
        return replace(read, denied=denied, failed=read.failed | {*watches})
    merged = {**read.lists, **found.lists}
    lists = {w: one for w, one in merged.items() if not _is_part(w, merged)}
    failed = read.failed | ({*watches} - found.lists.keys())
    return replace(read, lists=lists, denied={**read.denied, **found.denied}, failed=failed)


def _is_part(watch: Watch, lists: Collection[Watch]) -> bool:
    """Whether a list of some objects of a kind is superseded by a list of all of them."""
    narrowed = NARROWED.get(watch.kind) == watch or bool(watch.name)
    return narrowed and Watch(watch.role, watch.kind) in lists


def unread(failure: ReadFailure) -> ClusterRead:
    """The reading of a cluster that could not be read, with the error's text as its `failure`.

    `refused` for bad credentials and 4xx answers, except 429.
    """
    error = failure.error
    answered = isinstance(error, ApiError) and not isinstance(error, ServerError | Throttled)
    refused = answered or isinstance(error, BadCredentials)
    message = failure.message("no answer in time")
    return ClusterRead(failure.cluster, failure=message, refused=refused)


def build_fleet(
    reads: Iterable[ClusterRead], now: datetime, *, local: bool = False
) -> MultiClusterSnapshot:
    """The snapshots of all clusters, read or not, by cluster id; nothing is read here.

    Each is as the cluster's own agent would have it. A sole broker goes by its own id in all.
    """
    found = {one.cluster: one for one in reads}
    brokers = [name for name, one in found.items() if one.is_broker]
    broker = brokers[0] if len(brokers) == 1 else BROKER
    return MultiClusterSnapshot(
        {name: _snapshot(name, one, now, broker) for name, one in found.items()},
        contexts={name: one.context for name, one in found.items()},
        local=local,
        indexed=True,
    )


async def read_objects(
    cluster: ClusterAccess, client: Client, beside: Iterable[Watch] = ()
) -> ClusterRead:
    """List what views need first, what tells a broker, and what `beside` names.

    The kinds have been discovered before. Kinds that are not served go to `unserved`; those
    forbidden or failing with 5xx to `denied`.
    """
    unserved = unserved_kinds(client)
    needed = dict.fromkeys((*first_reads(unserved), *BROKER_READS, *beside))
    counts: dict[Kind, Counted[Any]] = {}

    async def count(kind: type[Any]) -> None:
        """Count a kind, and keep its first objects; after an error it is not counted."""
        with suppress(ApiError):
            counts[kind.kind] = await client.count(kind, first=SAMPLE)

    counting = asyncio.gather(*(count(one) for one in COUNTED if one not in unserved))
    found, _ = await asyncio.gather(_list_all(client, needed), counting)
    return ClusterRead(cluster.name, found.lists, counts, frozenset(found.unserved), found.denied)


async def read_watches(name: str, client: Client, watches: Collection[Watch]) -> ClusterRead:
    """List what the watches name, and nothing else."""
    found = await _list_all(client, watches)
    return ClusterRead(name, found.lists, {}, frozenset(found.unserved), found.denied)


def unserved_kinds(client: Client) -> frozenset[type[Object]]:
    """The custom resources that a server does not serve, as discovered; none before discovery."""
    served = client.rest_mapper.served
    if served is None:
        return frozenset()
    return frozenset(kind for kind in CUSTOM_RESOURCES if served.resolve(kind) is None)


class _Lists(Struct):
    """Lists of one cluster while they are read."""

    lists: dict[Watch, Listed[Any]] = {}
    unserved: set[Kind] = set()
    denied: dict[Kind, str] = {}


_NAMESPACES = Watch(Role.LOCAL, Namespace)


async def _list_all(client: Client, watches: Collection[Watch]) -> _Lists:
    """List concurrently from the API server what the watches name, and nothing twice.

    Namespaces come first, if they are among it: what is not there has no objects. Errors by kind:
    404 to `unserved`, as kinds that discovery did not find; 403, unless the watch is optional, and
    5xx to `denied`.
    """
    found = _Lists({}, set(), {})
    unserved = unserved_kinds(client)

    async def read(watch: Watch) -> None:
        if watch.kind in unserved:
            found.unserved.add(watch.kind.kind)
            return
        spaces = found.lists.get(_NAMESPACES)
        if watch.namespace and spaces is not None and not _has_name(spaces, watch.namespace):
            found.lists[watch] = Listed((), spaces.resource_version)
            return
        fields = f"metadata.name={watch.name}" if watch.name else ""
        try:
            found.lists[watch] = await client.list(
                watch.kind, namespace=watch.namespace, labels=watch.labels, fields=fields
            )
        except NotFound:
            found.unserved.add(watch.kind.kind)
        except Forbidden as error:
            if not watch.optional:
                found.denied[watch.kind.kind] = str(error)
        except ServerError as error:
            found.denied[watch.kind.kind] = str(error)

    if _NAMESPACES in watches:
        await read(_NAMESPACES)
    await asyncio.gather(*(read(watch) for watch in watches if watch != _NAMESPACES))
    return found


def _has_name(listed: Listed[Namespace], name: str) -> bool:
    """Whether a namespace exists, also one that is being deleted or cannot be decoded."""
    names = (*(one.name for one in listed.objects), *(one.name for one in listed.unreadable))
    return name in names


def _snapshot(name: ClusterId, read: ClusterRead, now: datetime, broker: ClusterId) -> Snapshot:
    """The snapshot of one cluster from its lists and facts; `broker` is the broker's id in it."""
    facts = Facts()
    stores: dict[tuple[ClusterId, Kind], list[Any]] = {}
    for watch, listed in read.lists.items():
        complete = NARROWED.get(watch.kind) != watch and not (
            watch.name
            or watch.labels.startswith(SOURCE_CLUSTER)
            or (watch.kind in NARROWED and watch.namespace)
        )
        found = ListedObjects(listed, watch.indexes, complete=complete)
        stores.setdefault((name, watch.kind.kind), []).append(found)
    for fact in (*_facts(name, read, now), *_reported_links(name, read, now, broker)):
        facts.put(fact)
    return Snapshot(stores, facts, now, name)


def _facts(name: ClusterId, read: ClusterRead, now: datetime) -> Iterable[Fact]:
    """The facts of a cluster: roles, counts, unserved and denied kinds, agent, heartbeats."""
    phase = Phase.UNREACHABLE if read.failure else Phase.SYNCED
    lease = read.agent_lease
    roles = {Role.BROKER} if read.is_broker else set()
    if lease is not None or not (roles or read.failure):
        roles.add(Role.LOCAL)
    yield ClusterState(name, frozenset(roles), phase, now, read.failure, listed=not read.failure)
    for kind, counted in read.counts.items():
        yield KindCounted(name, kind, counted.total)
    for kind in read.unserved:
        yield KindServed(name, kind, served=False)
    for kind, reason in read.denied.items():
        yield ListDenied(name, kind, reason)
    if read.refused:
        yield CredentialsRefused(name, read.failure)
    if read.failure:
        return
    if Lease.kind not in read.denied:
        yield _agent_run(name, lease, now)
    if read.is_broker:
        yield from _heartbeats(name, read, now)


def _reported_links(
    name: ClusterId, read: ClusterRead, now: datetime, broker: ClusterId
) -> Iterator[ClusterState]:
    """The agent's connections to members and broker, by the status of its Federations and exports.

    The broker only where an export has a condition with the reason of a lost connection.
    """
    if read.failure:
        return
    for federation in read.objects(Federation):
        for one in federation.status.members:
            if one.cluster_id != name and not one.leaving:
                phase = Phase.SYNCED if one.reachable else Phase.UNREACHABLE
                yield ClusterState(
                    one.cluster_id,
                    frozenset({Role.MEMBER}),
                    phase,
                    one.since or now,
                    one.message,
                    rejected="hanse join" in one.message,
                )
    lost = next((c for e in read.objects(ServiceExport) for c in _disconnections(e)), None)
    if lost is not None and name != broker:
        since = lost.last_transition_time or now
        yield ClusterState(
            broker, frozenset({Role.BROKER}), Phase.UNREACHABLE, since, "its exports say so"
        )


def _disconnections(export: ServiceExport) -> Iterator[Condition]:
    """The condition by which an agent says that it does not reach the broker."""
    return (one for one in export.status.conditions if one.reason == DISCONNECTED)


def _agent_run(name: ClusterId, lease: Lease | None, now: datetime) -> AgentRun:
    """Whether the agent holds its Lease and renews it; one without holder was released by it."""
    if lease is None:
        return AgentRun(name, "", alive=False)
    if not lease.spec.holder_identity:
        return AgentRun(name, "nobody", alive=False, renewed=lease.renewed)
    return AgentRun(name, lease.spec.holder_identity, not is_late(lease, now), lease.renewed)


def _heartbeats(broker: ClusterId, read: ClusterRead, now: datetime) -> Iterable[LeaseLiveness]:
    """Ready or silent, for each Lease with a member's label or in the default broker namespace."""
    for lease in read.objects(Lease):
        if MEMBER in lease.metadata.labels or lease.namespace == BROKER_NAMESPACE:
            state = HolderState.SILENT if is_late(lease, now) else HolderState.READY
            since = lease.renewed or now
            holder = lease.spec.holder_identity
            yield LeaseLiveness(broker, lease.namespace, lease.name, holder, state, since)


def is_late(lease: Lease, now: datetime) -> bool:
    """Whether a Lease has a holder and was not renewed within its duration and `GRACE`.

    False for one that nobody holds, or whose renewTime is missing or unreadable.
    """
    last, duration = lease.renewed, timedelta(seconds=lease.spec.lease_duration_seconds)
    held = bool(lease.spec.holder_identity)
    return held and last is not None and now - last > duration + GRACE
