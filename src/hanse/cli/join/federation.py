"""Join a cluster to a Federation."""

from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from datetime import timedelta

import click
from msgspec import Struct

from hanse import app
from hanse.cli.agent.running import check_running_agent
from hanse.cli.apply import AppliedManifest, apply, apply_definitions, report_applied
from hanse.cli.clusters import ClusterAccess
from hanse.cli.errors import InputError
from hanse.cli.join.claims import check_cluster_id
from hanse.cli.join.participants import Fleet, Participant, find_fleet, open_participant
from hanse.cli.join.supervisor_access import (
    AccessGrant,
    account_manifests,
    account_owners,
    grant_secret,
    revoke_account,
)
from hanse.features.federation import manifests
from hanse.features.federation.members import server_url_error
from hanse.features.federation.other_supervisors import DISSOLVE, LEAVING, LEAVING_SUPERVISORS
from hanse.kube.errors import NotFound
from hanse.kube.optional_reads import read_or_none
from hanse.model.feature_names import FEATURES
from hanse.model.kinds.federation import CLUSTER_SET, SYSTEM, Federation, Member
from hanse.model.manifests import Manifest, crd_manifests, namespace


class MembershipRequest(Struct, frozen=True):
    """A cluster that joins or leaves a Federation, and its supervisors."""

    federation: str
    cluster: str
    member: ClusterAccess
    supervisors: tuple[ClusterAccess, ...] = ()
    """At least one of those that there are; the others are found from it."""
    supervises: bool = False
    server: str = ""
    lifetime: timedelta = timedelta(days=7)
    features: tuple[str, ...] = FEATURES
    rotate: bool = False
    """Whether supervisors get new tokens in any case, and their earlier ones are revoked."""
    contexts: tuple[ClusterAccess, ...] = ()
    """All contexts of the kubeconfig, in which other clusters of the Federation are found."""

    @property
    def options(self) -> app.Options:
        """Options with the requested features, all else by default."""
        return app.Options(features=self.features)


async def join_federation(request: MembershipRequest, *, dry_run: bool) -> None:
    """Check, write in member and supervisors what membership lacks, and print it.

    In the member kinds, claims, accounts and a Federation; in each other supervisor a Secret with a
    token, and the member in its Federation. A new supervisor gets accounts in all members. The
    account that all supervisors shared in earlier versions is deleted if every Secret was still
    fit. An unfinished leave of the cluster is cancelled. A dry run only reads.

    Raises `InputError` if the cluster has another id or Federation, no supervisor is named, one
    does not supervise, the kubeconfig lacks one, or the server URL is invalid.
    """
    async with AsyncExitStack() as stack:
        member = await open_participant(stack, request.member)
        named = await named_supervisors(stack, request)
        await _check_joining(member, named, request)
        fleet = await find_fleet(stack, request.federation, named, request.contexts)
        others = _other_supervisors(fleet, request)
        entry = manifests.member_entry(request.cluster, await _server_url(request))
        known = {**fleet.members, request.cluster: entry}
        done = await _prepare(member, others, request, dry_run=dry_run)
        renewed = False
        for supervisor in others:
            grant = _grant(member, request.cluster, supervisor, supervisor.cluster, request)
            applied = await grant_secret(grant, rotate=request.rotate, dry_run=dry_run)
            renewed = renewed or bool(applied)
            applied += await _apply_federation(supervisor, request, known, dry_run=dry_run)
            report_applied(supervisor.name, applied, dry_run=dry_run)
        if request.supervises:
            done += await _supervise_members(member, fleet, request, dry_run=dry_run)
        own = known if request.supervises else {}
        if not dry_run:
            await _cancel_leave(member, request)
        done += await _apply_federation(member, request, own, dry_run=dry_run)
        if others and not renewed and "" in await account_owners(member.client):
            done += await revoke_account(member.client, request.cluster, "", dry_run=dry_run)
        report_applied(member.name, done, dry_run=dry_run)
    if not dry_run:
        click.echo(_next_steps(request))


async def _apply_federation(
    participant: Participant,
    request: MembershipRequest,
    known: dict[str, Member],
    *,
    dry_run: bool,
) -> list[AppliedManifest]:
    """Create a cluster's Federation with the `known` members, or patch the one that is there.

    Ids of members that it has already keep their spelling. Returns the effect; a dry run only
    reads.
    """
    wanted = federation_manifest(request, known)
    with suppress(NotFound):
        found = await participant.client.read(Federation, request.federation)
        wanted = manifests.keep_as_written(wanted, found.spec)
    return await apply(participant.client, [wanted], dry_run=dry_run)


async def _cancel_leave(member: Participant, request: MembershipRequest) -> None:
    """Remove the annotations of an unfinished leave or dissolve from the cluster's Federation.

    Nothing if it has none of them, or there is no Federation.
    """
    found = await read_or_none(member.client, Federation, request.federation)
    ending = {LEAVING, LEAVING_SUPERVISORS, DISSOLVE}
    written = found.metadata.annotations.keys() & ending if found is not None else ()
    if written:
        change = {"metadata": {"annotations": dict.fromkeys(sorted(written))}}
        await member.client.patch(Federation, request.federation, "", change)


async def named_supervisors(stack: AsyncExitStack, request: MembershipRequest) -> list[Participant]:
    """Connect the supervisors of the request, in order, until the stack ends.

    The cluster that joins or leaves is left out, told by the name of its context.
    """
    return [
        await open_participant(stack, access)
        for access in request.supervisors
        if access.name != request.member.name
    ]


def federation_manifest(request: MembershipRequest, known: dict[str, Member]) -> Manifest:
    """The manifest of the Federation with these members; writes nothing.

    With no members it serves to read or delete the object by its name.
    """
    return manifests.federation_with_members(
        request.federation, request.federation, tuple(known.values())
    )


async def _check_joining(
    member: Participant, named: Sequence[Participant], request: MembershipRequest
) -> None:
    """Raise `InputError`, before anything is written, if the cluster cannot join so.

    That is if it claims another id or another Federation, an agent of another id runs in it, no
    supervisor is named and it is not to be one itself, or a named one does not claim to supervise.
    """
    check_cluster_id(member.claims, member.name, request.cluster)
    await check_running_agent(member.client, member.name, request.cluster)
    if member.claims.get(CLUSTER_SET, request.federation) != request.federation:
        raise InputError(
            f"{member.name} belongs to {member.claims[CLUSTER_SET]!r} (ClusterClaim "
            f"{CLUSTER_SET}); let it leave that first: hanse leave --federation "
            f"{member.claims[CLUSTER_SET]}"
        )
    if not named and not request.supervises:
        raise InputError(
            "name the supervisors with --supervisor, or let this one be with --supervises"
        )
    for participant in named:
        if not participant.supervises:
            raise InputError(
                f"{participant.name} is no supervisor; let it join as one first: hanse join "
                f"--federation {request.federation} --supervises --context {participant.name}"
            )


def _other_supervisors(fleet: Fleet, request: MembershipRequest) -> list[Participant]:
    """All supervisors of the fleet but the cluster itself, sorted by id.

    Raises `InputError` if no context of the kubeconfig reaches one of them or, for a cluster that
    is to supervise, any other member.
    """
    others = fleet.supervising - {request.cluster}
    fleet.require(others, f"supervises {request.federation}, too")
    if request.supervises:
        members = fleet.members.keys() - {request.cluster}
        fleet.require(members, f"has to give {request.cluster} an account")
    return [fleet.reached[cluster] for cluster in sorted(others)]


async def _prepare(
    member: Participant,
    others: Sequence[Participant],
    request: MembershipRequest,
    *,
    dry_run: bool,
) -> list[AppliedManifest]:
    """Apply in the member: kinds, namespace, an account for each other supervisor, and claims.

    Returns each with its effect; a dry run only reads. Raises `CommandFailed` if a CRD is not
    served in time.
    """
    kinds = crd_manifests(app.own_kinds(request.options))
    done = await apply_definitions(member.client, kinds, dry_run=dry_run)
    wanted: dict[str, Manifest] = {}
    for supervisor in others:
        grant = _grant(member, request.cluster, supervisor, supervisor.cluster, request)
        wanted |= {str(one): one for one in account_manifests(grant)}
    claims = manifests.claim_manifests(
        request.cluster, request.federation, supervisor=request.supervises
    )
    system = [namespace(SYSTEM)]
    return done + await apply(member.client, (*system, *wanted.values(), *claims), dry_run=dry_run)


async def _supervise_members(
    supervisor: Participant, fleet: Fleet, request: MembershipRequest, *, dry_run: bool
) -> list[AppliedManifest]:
    """Create a new supervisor's account in each other member, and Secrets with tokens in itself.

    Prints what changed in the members, and returns the Secrets written in the supervisor; a dry run
    writes neither.
    """
    secrets: list[AppliedManifest] = []
    for cluster in sorted(fleet.members.keys() - {request.cluster}):
        member = fleet.reached[cluster]
        grant = _grant(member, cluster, supervisor, request.cluster, request)
        done = await apply(member.client, account_manifests(grant), dry_run=dry_run)
        if any(one.effect != "unchanged" for one in done):
            report_applied(member.name, done, dry_run=dry_run)
        secrets += await grant_secret(grant, rotate=False, dry_run=dry_run)
    return secrets


def _grant(
    member: Participant,
    cluster: str,
    supervisor: Participant,
    supervisor_id: str,
    request: MembershipRequest,
) -> AccessGrant:
    """The `AccessGrant` of a supervisor to a member, with the request's features and lifetime."""
    return AccessGrant(
        member, cluster, supervisor, supervisor_id, request.options, request.lifetime
    )


async def _server_url(request: MembershipRequest) -> str:
    """The URL of --server, else the server of the member's context in the kubeconfig.

    Raises `InputError` if supervisors cannot use it.
    """
    endpoint = (await request.member.credentials.config()).endpoint
    server = request.server or endpoint.url
    if why := server_url_error(server):
        raise InputError(f"--server {server!r} {why}")
    return server


def _next_steps(request: MembershipRequest) -> str:
    """The text that a cluster has joined, and the command that shows its Federation."""
    role = "supervisor" if request.supervises else "member"
    return (
        f"{request.cluster} has joined federation {request.federation} as a {role}; "
        f"see: kubectl --context {request.member.name} get federation {request.federation} -o yaml"
    )
