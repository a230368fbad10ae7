"""Let a cluster leave a broker: its agent withdraws everything, then its account ends."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta

import click
from msgspec import Struct

from hanse.app import BROKER
from hanse.cli.apply import apply, remove
from hanse.cli.clusters import ClusterAccess, connect
from hanse.cli.errors import CommandFailed, InputError
from hanse.cli.member_records import (
    BrokerObject,
    MemberPlace,
    delete_objects,
    find_record,
    has_share,
    list_prepared,
    list_published,
    set_phase,
)
from hanse.features.services import manifests
from hanse.kube import credentials
from hanse.kube.client import Client
from hanse.kube.errors import BadCredentials
from hanse.kube.optional_reads import list_or_empty, read_or_none
from hanse.model.kinds.coordination import Lease
from hanse.model.kinds.core import Namespace, Secret, Service
from hanse.model.kinds.discovery import EndpointSlice
from hanse.model.kinds.hanse import ClusterMember
from hanse.model.kinds.multicluster import ServiceImport
from hanse.model.manifests import SECRET, SERVICE_ACCOUNT, manifest
from hanse.model.naming import AGENT, BROKER_SECRET, IDENTITY_NAMESPACE, SYSTEM_NAMESPACE
from hanse.model.objects import Object
from hanse.model.ownership import OWNER, SOURCES, owner_claim

WITHDRAWAL_TIMEOUT = timedelta(seconds=120)
"""How long an agent may take to withdraw the next object."""

_POLL_INTERVAL = timedelta(milliseconds=500)


class BrokerLeave(Struct, frozen=True):
    """A cluster that leaves a broker; without a `member` it is dead, and not asked."""

    place: MemberPlace
    broker: ClusterAccess
    member: ClusterAccess | None = None


async def leave_broker(request: BrokerLeave, *, dry_run: bool) -> None:
    """Let a cluster leave, and print the progress; resumes what was begun. A dry run only prints.

    Without `request.member` the cluster is given up without asking it. If it has left already, and
    has no Secret of this broker any more, that is printed. Raises `CommandFailed` if its agent does
    not withdraw in time, or objects remain; `InputError` if the broker lacks the namespace or never
    had such a member, or its record there is missing or another cluster's.
    """
    async with connect(request.broker) as broker:
        await _check_namespace(broker, request.place)
        has_remains = await _has_remains(broker, request.place)
        if has_remains and request.member is None:
            await give_up_member(broker, request.place, dry_run=dry_run)
        elif request.member is not None:
            async with connect(request.member) as member:
                if has_remains or await _has_secret(broker, member, request.place):
                    await _leave(broker, member, request, dry_run=dry_run)
                    return
        if not has_remains:
            await _check_was_member(broker, request.place)
            place = request.place
            click.echo(f"{place.cluster} is no member of {place.broker}: nothing is left to do")


async def _check_namespace(broker: Client, place: MemberPlace) -> None:
    """Raise `InputError` if the broker lacks the namespace where clusters share."""
    if await read_or_none(broker, Namespace, place.namespace) is None:
        raise InputError(
            f"{place.broker} is no broker: it has no namespace {place.namespace}; name the "
            "one that has it with --broker and --broker-namespace"
        )


async def _check_was_member(broker: Client, place: MemberPlace) -> None:
    """Raise `InputError` if the broker has no ClusterMember of this name, whatever its phase.

    The error's text lists the ClusterMembers that there are.
    """
    if await find_record(broker, place) is None:
        records = await list_or_empty(broker, ClusterMember, place.namespace)
        known = ", ".join(sorted(one.name for one in records)) or "none"
        raise InputError(
            f"{place.cluster} is no member of {place.broker} and never was one; there is: {known}"
        )


async def _has_remains(broker: Client, place: MemberPlace) -> bool:
    """Whether a cluster has not left a broker in full.

    True if its record is there and not Left or Replaced; whatever the record says, if its account,
    rights, Lease or published objects are there; without a record also if a StatefulSetShares has a
    share for it.
    """
    record = await find_record(broker, place)
    if record is not None and not record.has_left:
        return True
    if await list_prepared(broker, place) or await list_published(broker, place):
        return True
    return record is None and await has_share(broker, place.cluster)


async def _leave(broker: Client, member: Client, request: BrokerLeave, *, dry_run: bool) -> None:
    """Set the record's phase to Leaving, wait until the agent has withdrawn, and delete the rest.

    It does not wait if the record has left already, or no agent ever ran: that record is set to
    Left. The rest is what is still published, account, rights and Lease on the broker and, unless
    the cluster has joined elsewhere, the broker's Secret in it. The record stays. A dry run only
    prints what goes, there and here. Raises `InputError` if the record is missing or another
    cluster's, `CommandFailed` if the agent does not withdraw, or something is left.
    """
    place = request.place
    record = await _checked_record(broker, member, request)
    prepared = await list_prepared(broker, place)
    if dry_run:
        _show_leave(place, record, [*await list_published(broker, place), *prepared])
        if not await _is_joined_elsewhere(broker, member, place):
            derived = await list_derived(member, place.namespace, released=False)
            _show_deletions(place.cluster, derived)
        return
    if not record.has_left and await _had_agent(broker, record):
        if record.status.phase != "Leaving":
            await set_phase(broker, record, "Leaving")
        await _wait_until_left(broker, request)
    elif not record.has_left:
        await set_phase(broker, record, "Left")
    elsewhere = await _is_joined_elsewhere(broker, member, place)
    await delete_objects(broker, await list_published(broker, place))
    await delete_objects(broker, prepared)
    if not elsewhere:
        await remove(member, [manifest(SECRET, BROKER_SECRET, SYSTEM_NAMESPACE)])
    await _check_nothing_left(broker, None if elsewhere else member, request)
    click.echo(
        f"{place.cluster} has left {place.broker}: nothing of it is left there but its record"
    )


async def _had_agent(broker: Client, record: ClusterMember) -> bool:
    """Whether an agent may have run for a member: its Lease has a holder, or is missing.

    False if the record's `status.since` is not set: the join was killed before a token was issued.
    """
    if record.status.since is None:
        return False
    lease = await read_or_none(broker, Lease, record.name, record.namespace)
    return lease is None or bool(lease.spec.holder_identity)


async def _is_joined_elsewhere(broker: Client, member: Client, place: MemberPlace) -> bool:
    """Whether the broker Secret in the cluster is of another broker, member id or broker namespace.

    False without the Secret; what the Secret does not name counts as the same.
    """
    secret = await read_or_none(member, Secret, BROKER_SECRET, SYSTEM_NAMESPACE)
    known = secret.metadata.annotations if secret is not None else {}
    uid = (await broker.read(Namespace, IDENTITY_NAMESPACE)).metadata.uid
    other_id = known.get(manifests.CLUSTER_ID, place.cluster) != place.cluster
    if other_id or known.get(manifests.BROKER_UID, uid) != uid:
        return True
    return secret is not None and await _shared_namespace(secret) not in ("", place.namespace)


async def _shared_namespace(secret: Secret) -> str:
    """The namespace of the kubeconfig in a broker Secret, where clusters share on that broker.

    Empty if the kubeconfig names none or cannot be used.
    """
    text = secret.data.get(manifests.KUBECONFIG, b"")
    try:
        return (await credentials.from_secret(text, origin=BROKER_SECRET).config()).namespace
    except BadCredentials:
        return ""


async def _has_secret(broker: Client, member: Client, place: MemberPlace) -> bool:
    """Whether the cluster still has this broker's Secret, and the broker a ClusterMember of it.

    The phase of that record is not looked at. False if the Secret lacks the broker's uid, or is of
    another broker, id or namespace.
    """
    if await find_record(broker, place) is None:
        return False
    secret = await read_or_none(member, Secret, BROKER_SECRET, SYSTEM_NAMESPACE)
    is_known = secret is not None and manifests.BROKER_UID in secret.metadata.annotations
    return is_known and not await _is_joined_elsewhere(broker, member, place)


async def _checked_record(broker: Client, member: Client, request: BrokerLeave) -> ClusterMember:
    """Read the cluster's ClusterMember; raises `InputError` if it is missing or another cluster's.

    They are compared by the uid of the namespace kube-system, which is read from the cluster.
    """
    place = request.place
    assert request.member is not None, "a dead cluster is not read"
    record = await find_record(broker, place)
    if record is None:
        raise InputError(
            f"{place.cluster} has no ClusterMember on {place.broker}: it joined with an earlier "
            "version; run `hanse broker init` and `hanse join` again, or add --force"
        )
    uid = (await member.read(Namespace, IDENTITY_NAMESPACE)).metadata.uid
    if uid != record.spec.uid:
        raise InputError(
            f"{request.member.name} is not the cluster that joined {place.broker} as "
            f"{place.cluster!r} (kube-system uid {record.spec.uid}); name its --context, or add "
            "--force if it is gone"
        )
    return record


async def _wait_until_left(broker: Client, request: BrokerLeave) -> None:
    """Poll until the record's phase is Left or Replaced, or it is gone.

    Prints to stderr how many published objects are left, each time that changes. Raises
    `CommandFailed` if it does not change for `WITHDRAWAL_TIMEOUT`.
    """
    clock = asyncio.get_running_loop().time
    last, known = clock(), -1
    while True:
        record = await find_record(broker, request.place)
        if record is None or record.has_left:
            return
        left = len(await list_published(broker, request.place))
        if left != known:
            last, known = clock(), left
            place = request.place
            click.echo(
                f"{place.cluster} is leaving: {place.broker} has {left} of its objects", err=True
            )
        if clock() - last > WITHDRAWAL_TIMEOUT.total_seconds():
            raise CommandFailed(_stuck_message(request, left))
        await asyncio.sleep(_POLL_INTERVAL.total_seconds())


def _stuck_message(request: BrokerLeave, left: int) -> str:
    """The error text for an agent that does not withdraw its objects, with what to do."""
    context = request.member.name if request.member is not None else request.place.cluster
    return (
        f"{request.place.cluster} does not withdraw {left} objects from {request.place.broker}; "
        "`hanse doctor` tells whether its agent runs and reaches the broker, and kubectl --context "
        f"{context} -n {SYSTEM_NAMESPACE} logs deployment/{AGENT} what it does; run this again to "
        "go on, or with --force if the cluster is dead"
    )


async def give_up_member(broker: Client, place: MemberPlace, *, dry_run: bool) -> None:
    """Give a dead cluster up: set its record to Left and abandoned, and delete what it published.

    Its rights and its Lease go, too; its account stays with the right to read its own record, by
    which its agent, if it returns, learns that it has left. A record is created if there is none;
    one that has left stays as it is. Prints the result; a dry run only prints.
    """
    kept = (SERVICE_ACCOUNT,)
    gone = [one for one in await list_prepared(broker, place) if one.kind not in kept]
    published = await list_published(broker, place)
    record = await find_record(broker, place)
    if dry_run:
        _show_leave(place, record, [*published, *gone])
        return
    if record is None:
        made = manifests.member_record(place.namespace, place.cluster, "unknown")
        await apply(broker, (made,))
        record = await broker.read(ClusterMember, place.cluster, place.namespace)
    if not record.has_left:
        await set_phase(broker, record, "Left", abandoned=True)
    await delete_objects(broker, [*gone, *published])
    await apply(broker, manifests.former_member(place.namespace, place.cluster))
    await delete_objects(broker, await list_published(broker, place))  # written meanwhile
    click.echo(
        f"{place.cluster} was made to leave {place.broker}: {len(published)} objects that it "
        "published are deleted; what Hanse wrote in the cluster itself stands until its agent runs "
        "again, or: hanse uninstall --context CONTEXT --yes, with its context"
    )


def _show_leave(
    place: MemberPlace, record: ClusterMember | None, objects: Sequence[BrokerObject]
) -> None:
    """Print what a dry run would do on the broker: set the record to Left, and delete objects."""
    if record is None or not record.has_left:
        click.echo(
            f"# {place.broker}: would set the phase of ClusterMember {place.cluster} to Left"
        )
    _show_deletions(place.broker, objects)


def _show_deletions(cluster: str, objects: Sequence[BrokerObject]) -> None:
    """Print the objects that a dry run would delete in a cluster."""
    for one in objects:
        click.echo(f"# {cluster}: would delete {one}")


async def _check_nothing_left(broker: Client, member: Client | None, request: BrokerLeave) -> None:
    """Raise `CommandFailed` naming the first of what is left on the broker or in the cluster.

    Without a `member` only on the broker: what the cluster has may be of another one.
    """
    place = request.place
    left = [str(one) for one in await list_published(broker, place)]
    left += [str(one) for one in await list_prepared(broker, place)]
    derived = await list_derived(member, place.namespace) if member is not None else []
    left += [f"{one} in the cluster" for one in derived]
    if left:
        raise CommandFailed(
            f"{len(left)} objects of {place.cluster} are left, first {left[0]}; "
            "something wrote them again: is a second agent running?"
        )


async def list_derived(
    member: Client, broker_namespace: str, *, released: bool = True
) -> list[BrokerObject]:
    """List what agents wrote in a cluster from its broker, and the broker's Secret.

    That is ServiceImports, EndpointSlices and Services with the owner label whose sources name the
    broker, except those in `broker_namespace`, which are the broker's own if the API server is also
    the broker. Without `released` also except those of sets, which an agent that leaves lets be.
    """
    found: list[BrokerObject] = []
    for kind in (ServiceImport, EndpointSlice, Service):
        found += [
            BrokerObject(kind.kind, obj.name, obj.namespace)
            for obj in await list_or_empty(member, kind, labels=OWNER)
            if BROKER in obj.metadata.annotations.get(SOURCES, "").split(",")
            and obj.namespace != broker_namespace
            and (released or not _is_released(obj))
        ]
    if await read_or_none(member, Secret, BROKER_SECRET, SYSTEM_NAMESPACE) is not None:
        found.append(BrokerObject(SECRET, BROKER_SECRET, SYSTEM_NAMESPACE))
    return found


def _is_released(obj: Object) -> bool:
    """Whether an agent that leaves keeps an object and takes its owner off: what sets run."""
    claim = owner_claim(obj)
    return claim is not None and claim.feature == "statefulsets"
