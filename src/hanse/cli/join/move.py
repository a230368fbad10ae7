"""Move a fleet to another broker: members join the new one before any of them leaves the old.

While a fleet moves, its records say so on both brokers, and nobody takes a member for silent that
renews its Lease only on the other one: what it published stands.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta

import click
import msgspec
from msgspec import Struct

from hanse.cli.clusters import ClusterAccess, connect
from hanse.cli.errors import CommandFailed, InputError
from hanse.cli.member_records import (
    BrokerObject,
    MemberPlace,
    delete_objects,
    list_prepared,
    list_published,
)
from hanse.kube.client import Client
from hanse.kube.optional_reads import list_or_empty, read_or_none
from hanse.model.broker_namespace import accounts_namespace
from hanse.model.clusterset import oldest_clusterset
from hanse.model.kinds.core import Namespace
from hanse.model.kinds.hanse import ClusterMember, ClusterSet
from hanse.model.kinds.stateful import StatefulSetPart
from hanse.model.objects import ClusterId

SWITCH_TIMEOUT = timedelta(minutes=10)
"""How long the next member may take to be ready on the new broker."""

_POLL_INTERVAL = timedelta(seconds=1)


class Broker(Struct, frozen=True):
    """A broker by its context, and the connection to it."""

    name: str
    client: Client


class Brokers(Struct, frozen=True):
    """The broker that a fleet leaves, and the one that it moves to."""

    old: Broker
    new: Broker
    namespace: str


@asynccontextmanager
async def connect_brokers(
    old: ClusterAccess, new: ClusterAccess, namespace: str
) -> AsyncIterator[Brokers]:
    """Connect the old and the new broker of a move until the block ends.

    Raises `InputError` if they are the same context, or one of them lacks the namespace.
    """
    if old.name == new.name:
        raise InputError(f"{old.name} is both the old and the new broker; name two")
    async with connect(old) as first, connect(new) as second:
        for name, client in ((old.name, first), (new.name, second)):
            if await read_or_none(client, Namespace, namespace) is None:
                raise InputError(
                    f"{name} is no broker: it has no namespace {namespace}; name the context of "
                    "the one that has it"
                )
        yield Brokers(Broker(old.name, first), Broker(new.name, second), namespace)


async def begin_move(brokers: Brokers, *, dry_run: bool) -> None:
    """Copy the old broker's rules to the new one, and set `status.moving` of all its members.

    The records on the old broker are set; members that have left do not count. Raises `InputError`
    if the old broker has StatefulSets over clusters, or the rules differ and the new broker has
    members. A dry run only prints.
    """
    await _check_sets(brokers)
    await _copy_rules(brokers, dry_run=dry_run)
    for one in await _members(brokers.old.client, brokers.namespace):
        if one.status.moving:
            continue
        if dry_run:
            click.echo(f"# {brokers.old.name}: would say that ClusterMember {one.name} moves")
        else:
            await set_moving(brokers.old.client, one, moving=True)


async def set_moving(broker: Client, record: ClusterMember, *, moving: bool) -> None:
    """Patch `status.moving` of a record on a broker, whatever it was."""
    change = {"status": {"moving": moving}}
    place = (ClusterMember, record.name, record.namespace, change)
    await broker.patch(*place, subresource="status")


async def _check_sets(brokers: Brokers) -> None:
    """Raise `InputError` if the old broker has StatefulSetParts, which do not move with members."""
    old = brokers.old.client
    if parts := await list_or_empty(old, StatefulSetPart, brokers.namespace):
        raise InputError(
            f"{brokers.old.name} spreads StatefulSets over clusters, first "
            f"{parts[0].spec.namespace}/{parts[0].spec.name}: they do not move with their "
            "members; delete them there first, or keep this broker"
        )


async def _copy_rules(brokers: Brokers, *, dry_run: bool) -> None:
    """Patch the new broker's ClusterSet with the spec of the old one's, if they differ; prints it.

    Nothing if either has no ClusterSet; of several, the oldest counts. Raises `InputError` if they
    differ and the new broker has members already. A dry run only prints.
    """
    old, new = brokers.old.client, brokers.new.client
    former = oldest_clusterset((await old.list(ClusterSet)).objects)
    current = oldest_clusterset((await new.list(ClusterSet)).objects)
    if former is None or current is None or former.spec == current.spec:
        return
    if await _members(new, brokers.namespace):
        raise InputError(
            f"ClusterSet {current.name} of {brokers.new.name} has other rules than that of "
            f"{brokers.old.name}; make them the same first: kubectl --context {brokers.new.name} "
            f"edit clusterset {current.name}"
        )
    click.echo(
        f"{'# ' * dry_run}{brokers.new.name}: {'would give' if dry_run else 'gave'} ClusterSet "
        f"{current.name} the rules of {brokers.old.name}"
    )
    if not dry_run:
        spec = msgspec.to_builtins(former.spec)
        await new.patch(ClusterSet, current.name, "", {"spec": spec})


async def retire_broker(brokers: Brokers, *, dry_run: bool) -> None:
    """Wait until all members of the old broker are Ready on the new one, and end the move.

    On the old broker their accounts, rights, published objects and records are deleted; on the new
    one `status.moving` is unset. Resumes what was begun. Raises `CommandFailed` if the number that
    is not Ready stays the same for `SWITCH_TIMEOUT`. A dry run only prints.
    """
    old, new = brokers.old.client, brokers.new.client
    members = await _members(old, brokers.namespace)
    if dry_run:
        await _show_dry_run(brokers, members)
        return
    await _wait_until_ready(members, brokers)
    for one in members:
        await _delete_member(old, MemberPlace(brokers.old.name, brokers.namespace, one.name))
    for record in await _members(new, brokers.namespace):
        if record.status.moving:
            await set_moving(new, record, moving=False)
    click.echo(
        f"{brokers.old.name} has no members any more: {len(members)} are on {brokers.new.name}"
    )


async def _show_dry_run(brokers: Brokers, members: Sequence[ClusterMember]) -> None:
    """Print which members a retirement would wait for, and which objects it would delete."""
    for cluster in await _missing(members, brokers):
        click.echo(f"# {brokers.new.name}: would wait until {cluster} is ready there")
    for record in members:
        place = MemberPlace(brokers.old.name, brokers.namespace, record.name)
        for one in await _objects_of(brokers.old.client, place):
            click.echo(f"# {brokers.old.name}: would delete {one}")


async def _delete_member(old: Client, place: MemberPlace) -> None:
    """Delete a member's account and rights, what it published, and its record on the old broker."""
    await delete_objects(old, await _objects_of(old, place))
    await delete_objects(old, [BrokerObject(ClusterMember.kind, place.cluster, place.namespace)])


async def _objects_of(old: Client, place: MemberPlace) -> list[BrokerObject]:
    """List what a broker has of a member but its record; deletes nothing.

    The objects in the accounts' namespace come first, what it published last.
    """
    prepared = await list_prepared(old, place)
    accounts = accounts_namespace(place.namespace)
    prepared.sort(key=lambda one: one.namespace != accounts)
    return [*prepared, *await list_published(old, place)]


async def _wait_until_ready(members: Sequence[ClusterMember], brokers: Brokers) -> None:
    """Poll until all members are Ready on the new broker.

    Prints to stderr who is not, whenever their number changes. Raises `CommandFailed` if that does
    not change for `SWITCH_TIMEOUT`.
    """
    clock = asyncio.get_running_loop().time
    last, known = clock(), -1
    while missing := await _missing(members, brokers):
        if len(missing) != known:
            last, known = clock(), len(missing)
            click.echo(f"not on {brokers.new.name} yet: {', '.join(missing)}", err=True)
        if clock() - last > SWITCH_TIMEOUT.total_seconds():
            raise CommandFailed(_missing_message(missing[0], brokers))
        await asyncio.sleep(_POLL_INTERVAL.total_seconds())


def _missing_message(cluster: ClusterId, brokers: Brokers) -> str:
    """The error text for a member that is not ready on the new broker, with what to do."""
    old, new = brokers.old.name, brokers.new.name
    return (
        f"{cluster} is not ready on {new}: `hanse join --broker {new} --from {old} --cluster-id "
        f"{cluster} --context CONTEXT`, with its context, and restart its agent; or, if it is "
        f"dead: `hanse leave --broker {old} --cluster-id {cluster} --force`; then run this again"
    )


async def _missing(members: Sequence[ClusterMember], brokers: Brokers) -> list[ClusterId]:
    """The sorted ids of members that have no record in the phase Ready on the new broker."""
    there = await _members(brokers.new.client, brokers.namespace)
    ready = {one.name for one in there if one.status.phase == "Ready"}
    return sorted(one.name for one in members if one.name not in ready)


async def _members(broker: Client, namespace: str) -> list[ClusterMember]:
    """List the ClusterMembers of a broker that have not left; none if the kind is not served."""
    found = await list_or_empty(broker, ClusterMember, namespace)
    return [one for one in found if not one.has_left]
