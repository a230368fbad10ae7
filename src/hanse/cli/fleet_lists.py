"""Lists what views need from the API servers of a fleet: first of each cluster, then the rest."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from hanse.app.views import first_reads, further_reads
from hanse.cli.clusters import MAX_CONNECTIONS, ClusterAccess
from hanse.cli.fleet import ClusterRead, SelectedList, build_fleet, identified
from hanse.cli.permissions import LEASE_RENEWAL, denied_permissions
from hanse.features.services.reading import COUNTED, NARROWED
from hanse.kube.client import Client
from hanse.kube.concurrency_limit import BEFORE_SENDING
from hanse.kube.errors import (
    ApiError,
    BadCredentials,
    Forbidden,
    KubeError,
    NotFound,
    ServerError,
    Unreachable,
)
from hanse.kube.watch_events import Counted, Listed
from hanse.model.crds import CUSTOM_RESOURCES
from hanse.model.facts import Role
from hanse.model.kinds.coordination import Lease
from hanse.model.kinds.core import Namespace
from hanse.model.kinds.hanse import ClusterMember, ClusterSet
from hanse.model.objects import Kind, Object
from hanse.model.refused_writes import admission_refusal
from hanse.model.snapshot import Watch

SAMPLE = 10
"""How many objects are on the page by which a kind is counted: so many without a count."""

BROKER_READS = tuple(Watch(Role.LOCAL, kind) for kind in (Lease, ClusterSet, ClusterMember))

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

    Returns the readings with these lists and ids of clusters. `reads`, `clients` and the result are
    by context. `beside` names what findings need in addition. At most `MAX_CONNECTIONS` clusters at
    a time; there is no time limit beside requests' own.
    """
    turns = asyncio.Semaphore(MAX_CONNECTIONS)

    async def read_in_turn(name: str, more: Collection[Watch]) -> ClusterRead:
        """The reading of a cluster with further lists, once it is its turn."""
        async with turns:
            return await read_further(reads[name], clients[name], more)

    reads = {one.context: one for one in identified(reads.values())}
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
    known = {one.context: one for one in reads}
    wanted = wanted_reads(known.values())
    return {name: more for name, lists in wanted.items() if (more := lists - known[name].tried)}


def wanted_reads(reads: Iterable[ClusterRead]) -> dict[str, set[Watch]]:
    """By context, the lists that views need beside the first ones, tried or not.

    Clusters that could not be read at all are left out; nothing is read here.
    """
    known = [one for one in reads if not one.failure]
    tried = {one.cluster: one.tried for one in known}
    failed = {one.cluster: one.failed for one in known}
    wanted = further_reads(build_fleet(known, datetime.now(UTC)), tried, failed)
    return {one.context: wanted[one.cluster] for one in known}


async def read_further(
    read: ClusterRead, client: Client, watches: Collection[Watch]
) -> ClusterRead:
    """List more from the API server, and return the reading with it; errors do not raise.

    What was not listed goes to `failed`, and its kind to `denied` unless the error is 404, or 403
    of an optional list. Once a list is not answered or our credentials are rejected, those that
    wait for a connection are not sent, and fail with that error. A list of some objects goes if all
    are listed.
    """
    lost: list[KubeError] = []

    def check_answers() -> None:
        """Raise the error of the list that was not answered, if there is one."""
        if lost:
            raise lost[0]

    async def list_or_fail(client: Client, watch: Watch, found: _Lists) -> None:
        """List what one watch names into the result; errors go to it and are not raised.

        All errors go to `denied` but 404, and 403 of an optional list. No answer, or rejected
        credentials, also keep the lists that wait from being sent.
        """
        token = BEFORE_SENDING.set(check_answers)
        try:
            await _list_one(client, watch, found)
        except (KubeError, TimeoutError) as error:
            found.denied[watch.kind.kind] = str(error) or "no answer in time"
            if isinstance(error, Unreachable | BadCredentials):
                lost.append(error)
        finally:
            BEFORE_SENDING.reset(token)

    found = await _list_all(client, watches, list_or_fail)
    merged = {**read.lists, **found.lists}
    lists = {w: one for w, one in merged.items() if not _is_part(w, merged)}
    failed = read.failed | ({*watches} - found.lists.keys())
    return replace(read, lists=lists, denied={**read.denied, **found.denied}, failed=failed)


def _is_part(watch: Watch, lists: Collection[Watch]) -> bool:
    """Whether a list of some objects of a kind is superseded by a list of all of them."""
    narrowed = NARROWED.get(watch.kind) == watch or bool(watch.name)
    return narrowed and Watch(watch.role, watch.kind) in lists


async def read_objects(
    cluster: ClusterAccess, client: Client, beside: Iterable[Watch] = ()
) -> ClusterRead:
    """List what views need first, what tells a broker, and what `beside` names; count some kinds.

    The kinds have been discovered before. Kinds that are not served go to `unserved`; those
    forbidden, unless optional, or failing with 5xx to `denied`. Other errors are raised.
    """
    unserved = unserved_kinds(client)
    needed = dict.fromkeys((*first_reads(unserved), *BROKER_READS, *beside))
    counts: dict[Kind, Counted[Any]] = {}

    async def count(kind: type[Any]) -> None:
        """Count a kind, and keep its first objects; without a total if the API server fails.

        One that is forbidden or not served is left out.
        """
        try:
            counts[kind.kind] = await client.count(kind, first=SAMPLE)
        except (Forbidden, NotFound):
            return  # as its list, which says so
        except ApiError:
            counts[kind.kind] = Counted((), None)

    counting = asyncio.gather(*(count(one) for one in COUNTED if one not in unserved))
    found, _ = await asyncio.gather(_list_all(client, needed), counting)
    return ClusterRead(cluster.name, found.lists, counts, frozenset(found.unserved), found.denied)


async def ask_renewal(read: ClusterRead, client: Client) -> ClusterRead:
    """The reading, with why admission refuses renewals of its agent's Lease, if it does.

    Asked by a dry run, which stores nothing, and only where the Lease has run out and our
    credentials may renew it: those of a console may only read.
    """
    lease = read.agent_lease
    if lease is None or read.silence(lease, datetime.now(UTC)) is None:
        return read
    if await denied_permissions(client, (LEASE_RENEWAL,)):
        return read
    change = {"metadata": {"annotations": {"hanse.dev/asked": "true"}}}
    try:
        await client.patch(Lease, lease.name, lease.namespace, change, dry_run=True)
    except (KubeError, TimeoutError) as error:
        return replace(read, refused_renewal=admission_refusal(error))
    return read


async def read_watches(name: str, client: Client, watches: Collection[Watch]) -> ClusterRead:
    """List what the watches name, and nothing else; errors as in `read_objects`."""
    found = await _list_all(client, watches)
    return ClusterRead(name, found.lists, {}, frozenset(found.unserved), found.denied)


def unserved_kinds(client: Client) -> frozenset[type[Object]]:
    """The custom resources that a server does not serve, as discovered; none before discovery."""
    return frozenset(kind for kind in CUSTOM_RESOURCES if _is_unserved(client, kind))


def _is_unserved(client: Client, kind: type[Object]) -> bool:
    """Whether discovery did not find a kind; False before discovery."""
    served = client.rest_mapper.served
    return served is not None and served.resolve(kind) is None


class _Lists(Struct):
    """Lists of one cluster while they are read."""

    lists: dict[Watch, Listed[Any]] = {}
    unserved: set[Kind] = set()
    denied: dict[Kind, str] = {}


_NAMESPACES = Watch(Role.LOCAL, Namespace)


async def _list_one(client: Client, watch: Watch, found: _Lists) -> None:
    """List what one watch names into the result, or its kind to `unserved` or `denied`.

    Empty in a namespace that the list of Namespaces lacks; nothing for an optional one that is
    forbidden. Of errors, 404 goes to `unserved`, as kinds that discovery did not find; 403 and 5xx
    to `denied`; others are raised.
    """
    if watch.kind in CUSTOM_RESOURCES and _is_unserved(client, watch.kind):
        found.unserved.add(watch.kind.kind)
        return
    spaces = found.lists.get(_NAMESPACES)
    if watch.namespace and spaces is not None and not _has_name(spaces, watch.namespace):
        found.lists[watch] = Listed((), spaces.resource_version)
        return
    fields = f"metadata.name={watch.name}" if watch.name else ""
    fields = watch.fields if isinstance(watch, SelectedList) else fields
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


async def _list_all(
    client: Client,
    watches: Collection[Watch],
    list_one: Callable[[Client, Watch, _Lists], Awaitable[None]] = _list_one,
) -> _Lists:
    """List concurrently from the API server what the watches name, Namespaces first, if among them.

    Lists in namespaces that do not exist are then empty without a request. Errors as in `list_one`.
    What was not listed has no entry in `lists`.
    """
    found = _Lists({}, set(), {})
    if _NAMESPACES in watches:
        await list_one(client, _NAMESPACES, found)
    await asyncio.gather(*(list_one(client, one, found) for one in watches if one != _NAMESPACES))
    return found


def _has_name(listed: Listed[Namespace], name: str) -> bool:
    """Whether a namespace exists, also one that is being deleted or cannot be decoded."""
    names = (*(one.name for one in listed.objects), *(one.name for one in listed.unreadable))
    return name in names
