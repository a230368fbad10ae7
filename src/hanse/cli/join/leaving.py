"""Let a cluster leave a Federation, and end one: nothing of ours remains."""

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import AsyncExitStack, suppress
from datetime import UTC, datetime, timedelta

import click
import msgspec

from hanse import app
from hanse.cli.agent.running import running_agent
from hanse.cli.apply import AppliedManifest, deleted, read_existing, remove, report_applied
from hanse.cli.errors import CommandFailed, InputError
from hanse.cli.join.claims import check_cluster_id
from hanse.cli.join.federation import (
    MembershipRequest,
    federation_manifest,
    named_supervisors,
)
from hanse.cli.join.led_objects import delete_led_objects
from hanse.cli.join.participants import Fleet, Participant, find_fleet, open_participant
from hanse.cli.join.supervisor_access import account_owners, revoke_account
from hanse.features.federation import manifests
from hanse.features.federation.members import ABANDONED
from hanse.features.federation.other_supervisors import (
    DISSOLVE,
    LEAVING,
    LEAVING_SUPERVISORS,
    is_dissolved,
)
from hanse.kube.errors import NotFound
from hanse.kube.lease import ObservedLease
from hanse.kube.optional_reads import read_or_none
from hanse.model.kinds.coordination import Lease
from hanse.model.kinds.federation import (
    CLUSTER_ID,
    CLUSTER_SET,
    SUPERVISOR,
    SYSTEM,
    ClusterClaim,
    Federation,
    Member,
    label_spellings,
)
from hanse.model.manifests import SECRET, Manifest, manifest
from hanse.model.naming import holder_cluster
from hanse.model.objects import ClusterId, Wire

RELEASE_TIMEOUT = timedelta(seconds=60)
"""How long supervisors may take to remove what they wrote, or to hand a member over."""

STOPPED_AFTER = timedelta(seconds=5)
"""How long no agent is seen to run before it counts as stopped."""

_POLL_INTERVAL = timedelta(milliseconds=500)
_DISSOLVED: Wire = {"metadata": {"annotations": {DISSOLVE: "true"}}}


async def leave_federation(request: MembershipRequest, *, dry_run: bool) -> None:
    """Let a cluster leave, step by step; repeating it resumes it. A dry run only prints.

    A supervisor retires first: another one leads its members before anything is taken away. Raises
    `InputError` for the last supervisor, a cluster of another id or Federation, or if the
    kubeconfig lacks a supervisor; `CommandFailed` if a leader does not let go, or its objects stay,
    in time.
    """
    async with AsyncExitStack() as stack:
        member = await open_participant(stack, request.member)
        named = await named_supervisors(stack, request)
        await _check_leaving(member, named, request)
        named = [member, *named, *await _connect_leaders(member, stack, request)]
        fleet = await find_fleet(stack, request.federation, named, request.contexts)
        others = fleet.supervising - {request.cluster}
        fleet.require(others, f"supervises {request.federation}, too")
        if not member.supervises and not others:
            raise InputError(f"name a supervisor of {request.federation} with --supervisor")
        if member.supervises and not others:
            raise InputError(
                f"{request.cluster} is the last supervisor of {request.federation}: its members "
                f"would have no leader; let another supervise, or end the federation: hanse "
                f"dissolve --federation {request.federation} --context {member.name}"
            )
        if not dry_run:
            await _mark_leaving(member, others, request)
        await _retire(member, fleet, request, dry_run=dry_run)
        supervisors = [fleet.reached[cluster] for cluster in sorted(others)]
        for supervisor in supervisors:
            await _remove_member(supervisor, request, abandon=False, dry_run=dry_run)
        if not dry_run:
            await _wait_until_released(member, request.cluster)
            await _wait_until_left(member, supervisors, request)
            await delete_led_objects(member.client, member.name, request.cluster)
        for supervisor in supervisors:
            secret = manifests.member_secret(request.cluster, "", b"")
            done = await remove(supervisor.client, [secret], dry_run=dry_run)
            report_applied(supervisor.name, done, dry_run=dry_run)
        await _revoke_everywhere(fleet, request.cluster, dry_run=dry_run)
        await _remove_traces(member, request.cluster, request.federation, dry_run=dry_run)
    if not dry_run:
        click.echo(f"{request.cluster} has left federation {request.federation}")


async def abandon_member(request: MembershipRequest, *, dry_run: bool) -> None:
    """Give up a dead cluster without asking it: remove it from all supervisors' Federations.

    They record it as abandoned; its Secrets there and its accounts in other members are deleted. A
    dry run writes nothing. Raises `InputError` if no supervisor lists the cluster, or the
    kubeconfig lacks one.
    """
    async with AsyncExitStack() as stack:
        named = [await open_participant(stack, access) for access in request.supervisors]
        await _check_abandoned(named, request)
        fleet = await find_fleet(
            stack, request.federation, named, request.contexts, dead=request.cluster
        )
        fleet.require(
            fleet.supervising - {request.cluster}, f"supervises {request.federation}, too"
        )
        for supervisor in fleet.supervisors:
            await _remove_member(supervisor, request, abandon=True, dry_run=dry_run)
            secret = manifests.member_secret(request.cluster, "", b"")
            done = deleted(await remove(supervisor.client, [secret], dry_run=dry_run))
            if done:
                report_applied(supervisor.name, done, dry_run=dry_run)
        await _revoke_everywhere(fleet, request.cluster, dry_run=dry_run)
    if not dry_run:
        click.echo(
            f"{request.cluster} is given up; what was written there stays behind, "
            "see status.abandoned of the Federation"
        )


async def dissolve_federation(request: MembershipRequest, *, dry_run: bool) -> None:
    """End a Federation: annotate it in all supervisors, wait until nobody leads, delete the rest.

    In every member what leaders wrote, Secrets, accounts, claims and the Federation are deleted; it
    is printed. All members must be reached, and `request.member` must supervise, else `InputError`;
    `CommandFailed` if a leader does not let go, or objects stay, in time. A dry run only prints.
    """
    async with AsyncExitStack() as stack:
        first = await open_participant(stack, request.member)
        wanted = federation_manifest(request, {})
        if await read_existing(first.client, wanted) is None or not first.supervises:
            raise InputError(
                f"{first.name} does not supervise a Federation {request.federation!r}; see: "
                f"kubectl --context {first.name} get federations"
            )
        fleet = await find_fleet(stack, request.federation, [first], request.contexts)
        fleet.require(fleet.members, f"is a member of {request.federation}")
        for supervisor in fleet.supervisors:
            if not dry_run:
                await supervisor.client.patch(Federation, request.federation, "", _DISSOLVED)
            verb = "would dissolve" if dry_run else "dissolves"
            click.echo(f"{supervisor.name}: {verb} {wanted}")
        for cluster, member in sorted(fleet.reached.items()):
            if not dry_run:
                await _wait_until_released(member, cluster)
                await delete_led_objects(member.client, member.name, cluster)
        for cluster, member in sorted(fleet.reached.items()):
            await _remove_traces(member, cluster, request.federation, dry_run=dry_run)
    if not dry_run:
        click.echo(f"federation {request.federation} has ended")


async def _check_leaving(
    member: Participant, supervisors: Sequence[Participant], request: MembershipRequest
) -> None:
    """Raise `InputError` unless the cluster is in the Federation, or may repeat leaving it.

    It is if it claims the Federation; another claimed id or Federation is refused. Without such a
    claim it passes if it, or a supervisor given, has the Federation object, and either the cluster
    claims its id or one of those objects lists it, also as abandoned.
    """
    check_cluster_id(member.claims, member.name, request.cluster)
    claimed_set = member.claims.get(CLUSTER_SET, "")
    if claimed_set == request.federation:
        return
    if claimed_set:
        raise InputError(
            f"there is no Federation {request.federation!r} in {member.name}, which belongs to "
            f"{claimed_set!r} (ClusterClaim {CLUSTER_SET}); use --federation {claimed_set}"
        )
    wanted = federation_manifest(request, {})
    read = [await read_existing(one.client, wanted) for one in (member, *supervisors)]
    found = [one for one in read if one is not None]
    if not found:
        raise _no_federation(member, request)
    known = frozenset[str]().union(*map(_known_members, found))
    if CLUSTER_ID not in member.claims and request.cluster not in known:
        raise _no_member(known, request)


async def _check_abandoned(supervisors: Sequence[Participant], request: MembershipRequest) -> None:
    """Raise `InputError` if no supervisor lists the cluster as a member, or as abandoned.

    Also if one of the supervisors does not have the Federation.
    """
    known: frozenset[str] = frozenset()
    for participant in supervisors:
        found = await read_existing(participant.client, federation_manifest(request, {}))
        if found is None:
            raise _no_federation(participant, request)
        known |= _known_members(found)
    if request.cluster not in known:
        raise _no_member(known, request)


def _known_members(federation: Wire) -> frozenset[str]:
    """The ids of a Federation's members, and of those that it names as abandoned."""
    listed = federation.get("spec", {}).get("members") or ()
    return frozenset({*map(_id_of, listed), *_abandoned_members(federation)})


def _no_member(known: frozenset[str], request: MembershipRequest) -> InputError:
    """The error, returned to be raised, for a cluster that is none of the `known` members."""
    return InputError(
        f"Federation {request.federation!r} has no member {request.cluster!r}; "
        f"there is: {', '.join(sorted(known))}"
    )


async def _mark_leaving(
    member: Participant, supervisors: Iterable[ClusterId], request: MembershipRequest
) -> None:
    """Annotate a cluster's Federation with the present time, and the ids of `supervisors`.

    Who resumes the leave finds the supervisors by that, also after they have forgotten the cluster.
    Nothing if it is annotated already, or there is no Federation.
    """
    found = await read_or_none(member.client, Federation, request.federation)
    if found is not None and LEAVING not in found.metadata.annotations:
        began = datetime.now(UTC).isoformat(timespec="seconds")
        marks = {LEAVING: began, LEAVING_SUPERVISORS: ",".join(sorted(supervisors))}
        change = {"metadata": {"annotations": marks}}
        await member.client.patch(Federation, request.federation, "", change)


def _no_federation(participant: Participant, request: MembershipRequest) -> InputError:
    """The error, returned to be raised, for a cluster without that Federation."""
    return InputError(
        f"there is no Federation {request.federation!r} in {participant.name}; "
        f"see: kubectl --context {participant.name} get federations"
    )


async def _connect_leaders(
    member: Participant, stack: AsyncExitStack, request: MembershipRequest
) -> list[Participant]:
    """Connect the holder of the member's Lease, and supervisors recorded by an unfinished leave.

    Only those whose id is the name of a context, without those that the user named and the member
    itself.
    """
    lease = await read_or_none(member.client, Lease, request.cluster, SYSTEM)
    found = await read_or_none(member.client, Federation, request.federation)
    marks = found.metadata.annotations if found is not None else {}
    known = set(marks.get(LEAVING_SUPERVISORS, "").split(","))
    if lease is not None:
        known.add(holder_cluster(lease.spec.holder_identity))
    named = {access.name for access in (*request.supervisors, request.member)}
    return [
        await open_participant(stack, access)
        for access in request.contexts
        if access.name in known - named
    ]


async def _retire(
    member: Participant, fleet: Fleet, request: MembershipRequest, *, dry_run: bool
) -> None:
    """Delete the claims that mark a supervisor, and wait until other supervisors lead its members.

    Then its Federation is annotated as dissolved, and it is awaited that it leads nobody. All but
    the deletion is also done for a cluster without such claims: it may have been killed after they
    went. A dry run waits for nothing. Raises `CommandFailed` if it still leads another member at
    the time-out.
    """
    if member.supervises:
        claims = [_claim(name) for name in (SUPERVISOR, *label_spellings("supervisor"))]
        done = deleted(await remove(member.client, claims, dry_run=dry_run))
        report_applied(member.name, done, dry_run=dry_run)
    if dry_run:
        return
    others = fleet.supervising - {request.cluster}
    named = {c for other in others for c in fleet.named_by.get(other, ())}
    for cluster, participant in sorted(fleet.reached.items()):
        if cluster in named:
            await _wait_for_holder(participant, cluster, request.cluster, successor=True)
        elif cluster != request.cluster:  # the own one may be struck off: it is left at the end
            await _wait_for_holder(participant, cluster, request.cluster)
    await _wait_for_handover(member, request)


async def _wait_for_handover(member: Participant, request: MembershipRequest) -> None:
    """Annotate a former supervisor's Federation as dissolved, and wait until it leads nobody.

    That is so when its status has neither members nor retiring ones. Until then its agent would go
    on leading its own cluster, which nobody else names. After `RELEASE_TIMEOUT` it says on stderr
    that the agent does not answer, and returns. Nothing without a Federation.
    """
    began = asyncio.get_running_loop().time()
    found = await read_or_none(member.client, Federation, request.federation)
    if found is not None and not is_dissolved(found):
        await member.client.patch(Federation, request.federation, "", _DISSOLVED)
    while found is not None and (found.status.members or found.status.retiring):
        if asyncio.get_running_loop().time() - began > RELEASE_TIMEOUT.total_seconds():
            click.echo(f"{member.name}: its agent does not answer; leaving goes on", err=True)
            return
        await asyncio.sleep(_POLL_INTERVAL.total_seconds())
        found = await read_or_none(member.client, Federation, request.federation)


def _claim(name: str) -> Manifest:
    """The manifest of a ClusterClaim by name, without a value, to delete it."""
    return manifest(ClusterClaim.kind, name)


async def _remove_member(
    participant: Participant, request: MembershipRequest, *, abandon: bool, dry_run: bool
) -> None:
    """Patch the member out of a supervisor's Federation, if that lists it, and print it.

    With `abandon`, also name it in the annotation of abandoned members, listed or not. Nothing
    without a Federation. A dry run only prints.
    """
    wanted = federation_manifest(request, {})
    found = await read_existing(participant.client, wanted)
    if found is None:
        return
    listed = found.get("spec", {}).get("members") or []
    left = [one for one in listed if _id_of(one) != request.cluster]
    change: Wire = {"spec": {"members": left}}
    if abandon:
        abandoned = _abandoned_members(found) | {request.cluster}
        change["metadata"] = {"annotations": {ABANDONED: ",".join(sorted(abandoned))}}
    elif left == listed:
        click.echo(f"{participant.name}: nothing to change")
        return
    verb = "would change" if dry_run else "changed"
    if not dry_run:
        await participant.client.patch(Federation, request.federation, "", change)
    click.echo(f"{participant.name}: {verb} {wanted}")


def _id_of(entry: Wire) -> ClusterId:
    """The cluster id in a member's entry of a Federation, in any spelling that `Member` decodes."""
    return msgspec.convert(entry, Member).cluster_id


def _abandoned_members(federation: Wire) -> set[str]:
    """The members that the Federation's annotation names as abandoned."""
    annotations = federation["metadata"].get("annotations") or {}
    return {name for name in annotations.get(ABANDONED, "").split(",") if name}


async def _revoke_everywhere(fleet: Fleet, supervisor: ClusterId, *, dry_run: bool) -> None:
    """Delete the account of `supervisor` in every other member that is reached, and print it.

    If it did supervise, members that are not reached are named on stderr, with the command for
    them. A dry run deletes nothing.
    """
    for cluster, member in sorted(fleet.reached.items()):
        if cluster != supervisor:
            done = await revoke_account(member.client, cluster, supervisor, dry_run=dry_run)
            if done:
                report_applied(member.name, done, dry_run=dry_run)
    if supervisor in fleet.supervising:
        for cluster in sorted(fleet.members.keys() - fleet.reached.keys()):
            click.echo(
                f"{cluster} is not reached: {supervisor} may have an account there; delete it: "
                f"kubectl -n {SYSTEM} delete serviceaccount {manifests.account_name(supervisor)}",
                err=True,
            )


async def _remove_traces(
    member: Participant, cluster: ClusterId, federation: str, *, dry_run: bool
) -> None:
    """Delete what membership left in one cluster, and print it; a dry run only prints.

    That is members' Secrets, the Federation, supervisors' accounts, policies and claims. The claim
    of membership goes last, so that leaving can be repeated until then; the claim of the cluster's
    id stays.
    """
    done: list[AppliedManifest] = []
    with suppress(NotFound):
        found = await member.client.read(Federation, federation)
        former = {state.secret for state in found.status.members}
        names = {member.secret for member in found.spec.members} | former - {""}
        secrets = [manifest(SECRET, name, SYSTEM) for name in sorted(names)]
        done += deleted(await remove(member.client, secrets, dry_run=dry_run))
    own = manifests.federation_with_members(federation, federation, ())
    done += deleted(await remove(member.client, [own], dry_run=dry_run))
    for owner in await account_owners(member.client):
        done += await revoke_account(member.client, cluster, owner, dry_run=dry_run)
    policies = manifests.supervisor_policies(app.supervisor_rules(), cluster)
    claims = manifests.claim_manifests(cluster, federation, supervisor=True)[1:]
    rest = [*policies, *(_claim(n) for n in label_spellings("supervisor")), *reversed(claims)]
    done += deleted(await remove(member.client, rest, dry_run=dry_run))
    report_applied(member.name, done, dry_run=dry_run)


async def _wait_until_released(member: Participant, cluster: ClusterId) -> None:
    """Wait until a cluster's Lease has no holder, is gone, or is not renewed for its duration.

    A leader deletes what it wrote in the cluster before it releases the Lease; one that has died
    does not. Raises `CommandFailed` after `RELEASE_TIMEOUT`.
    """
    await _wait_for_holder(member, cluster, "")


async def _wait_until_left(
    member: Participant, supervisors: Sequence[Participant], request: MembershipRequest
) -> None:
    """Wait until no supervisor's Federation status lists a cluster, not even as one it leaves.

    Not waited for are supervisors without an account in the cluster, and those whose agent does not
    run. Returns without an error after `RELEASE_TIMEOUT` in all.
    """
    owners = await account_owners(member.client)
    try:
        async with asyncio.timeout(RELEASE_TIMEOUT.total_seconds()):
            for supervisor in supervisors:
                if {supervisor.cluster, ""} & {*owners}:
                    await _wait_until_unlisted(supervisor, request)
    except TimeoutError:
        return


async def _wait_until_unlisted(supervisor: Participant, request: MembershipRequest) -> None:
    """Wait until one supervisor's Federation status does not list a cluster any more.

    Also returns if the Federation is gone, or no agent is seen to run in the supervisor for
    `STOPPED_AFTER`: its Lease has no holder while it is rescheduled.
    """
    now = asyncio.get_running_loop().time
    seen_running = now()
    while now() - seen_running < STOPPED_AFTER.total_seconds():
        found = await read_or_none(supervisor.client, Federation, request.federation)
        members = found.status.members if found is not None else ()
        if all(one.cluster_id != request.cluster for one in members):
            return
        if await running_agent(supervisor.client):
            seen_running = now()
        await asyncio.sleep(_POLL_INTERVAL.total_seconds())


async def _wait_for_holder(
    member: Participant, cluster: ClusterId, not_by: ClusterId, *, successor: bool = False
) -> None:
    """Poll until `not_by` does not hold a cluster's Lease; if that is "", until nobody holds it.

    With `successor` until another holds it: a supervisor that is removed before has no leader. A
    Lease that is gone, or not renewed for its duration, counts as released. After `RELEASE_TIMEOUT`
    it returns if nobody holds the Lease, and else raises `CommandFailed`.
    """
    now = asyncio.get_running_loop().time
    sighting = ObservedLease(await read_or_none(member.client, Lease, cluster, SYSTEM), now())
    began = sighting.since
    while sighting.lease is not None:
        holder = sighting.lease.spec.holder_identity
        held = bool(holder) and (not not_by or holder_cluster(holder) == not_by)
        if not (held and now() < sighting.expires) and (holder or not successor):
            return
        if now() - began > RELEASE_TIMEOUT.total_seconds():
            if not holder:
                return
            raise CommandFailed(
                f"{holder_cluster(holder)} still leads {cluster} after {RELEASE_TIMEOUT.seconds} s;"
                f" see `hanse doctor`, and run this again: it goes on where it ended"
            )
        await asyncio.sleep(_POLL_INTERVAL.total_seconds())
        sighting = sighting.after(await read_or_none(member.client, Lease, cluster, SYSTEM), now())
