"""Join a cluster to a Federation, and let it leave."""

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from datetime import UTC, datetime, timedelta

import click
import msgspec
from msgspec import Struct

from hanse import app
from hanse.cli.apply import apply, apply_definitions, read_existing, remove, report_applied
from hanse.cli.clusters import ClusterAccess, connect, open_client
from hanse.cli.errors import CommandFailed, InputError
from hanse.cli.inventory import credentials_expiry
from hanse.cli.join.claims import check_cluster_id, read_claims
from hanse.cli.join.guard import await_policies_in_force, supervisors_attack
from hanse.features.federation import manifests
from hanse.features.federation.claims import SUPERVISOR_MARK
from hanse.features.federation.members import ABANDONED, CA, TOKEN, server_url_error
from hanse.kube.client import Client
from hanse.kube.client_config import ClientConfig, Identity, ServerEndpoint, StaticCredentials
from hanse.kube.errors import KubeError, NotFound
from hanse.kube.lease import ObservedLease
from hanse.kube.requests import resource_path
from hanse.kube.transport import Request
from hanse.model.feature_names import FEATURES
from hanse.model.kinds.coordination import Lease
from hanse.model.kinds.core import Secret
from hanse.model.kinds.federation import (
    CLUSTER_ID,
    CLUSTER_SET,
    SYSTEM,
    ClusterClaim,
    Federation,
    Member,
    spelled_value,
)
from hanse.model.manifests import SERVICE_ACCOUNT, Manifest, crd_manifests
from hanse.model.naming import holder_cluster
from hanse.model.objects import Wire

RELEASE_TIMEOUT = timedelta(seconds=60)
"""How long supervisors may take to remove what they wrote."""

_POLL_INTERVAL = timedelta(milliseconds=500)


class MembershipRequest(Struct, frozen=True):
    """A cluster that joins or leaves a Federation, and its supervisors."""

    federation: str
    cluster: str
    member: ClusterAccess
    supervisors: tuple[ClusterAccess, ...] = ()
    supervises: bool = False
    server: str = ""
    lifetime: timedelta = timedelta(days=7)
    features: tuple[str, ...] = FEATURES

    @property
    def options(self) -> app.Options:
        return app.Options(features=self.features)


class Participant(Struct, frozen=True):
    """A cluster that takes part, and a client for it."""

    access: ClusterAccess
    client: Client

    @property
    def name(self) -> str:
        return self.access.name


async def join_federation(request: MembershipRequest, *, dry_run: bool) -> None:
    """Check, then write in member and supervisors what membership lacks, and print it."""
    async with AsyncExitStack() as stack:
        member = Participant(
            request.member, await stack.enter_async_context(connect(request.member))
        )
        others = [
            Participant(cluster, await stack.enter_async_context(connect(cluster)))
            for cluster in request.supervisors
            if cluster.name != request.member.name
        ]
        await _check(member, others, request)
        kinds = crd_manifests(app.own_kinds(request.options))
        done = await apply_definitions(member.client, kinds, dry_run=dry_run)
        rules = manifests.rules_for(app.watches(request.options), request.cluster)
        claims = manifests.claims(
            request.cluster, request.federation, supervisor=request.supervises
        )
        policies = manifests.supervisor_policies(app.supervisor_rules(), request.cluster)
        account = (*policies, *manifests.account(rules))
        done += await apply(member.client, (*account, *claims), dry_run=dry_run)
        known = await _members(others, request)
        known[request.cluster] = manifests.member_entry(request.cluster, await _server_url(request))
        secret = await _credentials(member, others, request, dry_run=dry_run)
        for participant in others:
            applied = await apply(participant.client, secret, dry_run=dry_run)
            applied += await apply(
                participant.client, [_federation_manifest(request, known)], dry_run=dry_run
            )
            report_applied(participant.name, applied, dry_run=dry_run)
        if request.supervises:
            copies = [
                await _copied_credentials(one, others, request, dry_run=dry_run)
                for one in known.values()
            ]
            secrets = [secret for several in copies for secret in several]
            done += await apply(member.client, secrets, dry_run=dry_run)
        own = known if request.supervises else {}
        done += await apply(member.client, [_federation_manifest(request, own)], dry_run=dry_run)
        report_applied(member.name, done, dry_run=dry_run)
    if not dry_run:
        click.echo(_next_steps(request))


async def leave_federation(request: MembershipRequest, *, dry_run: bool, force: bool) -> None:
    """Remove a cluster, wait until released, delete its rights; by force only on supervisors."""
    async with AsyncExitStack() as stack:
        supervisors = [
            Participant(cluster, await stack.enter_async_context(connect(cluster)))
            for cluster in request.supervisors
            if force or cluster.name != request.member.name
        ]
        if force:
            await _check_abandoned(supervisors, request)
            for participant in supervisors:
                await _remove_member(participant, request, abandon=True, dry_run=dry_run)
            click.echo(
                f"{request.cluster} is given up; what was written there stays behind, "
                "see status.abandoned of the Federation"
            )
            return
        member = Participant(
            request.member, await stack.enter_async_context(connect(request.member))
        )
        await _check_leaving(member, request)
        gone = await remove(member.client, [_federation_manifest(request, {})], dry_run=dry_run)
        report_applied(member.name, gone, dry_run=dry_run)
        for participant in supervisors:
            await _remove_member(participant, request, abandon=False, dry_run=dry_run)
        if not dry_run:
            await _wait_until_released(member, request)
        for participant in supervisors:
            secret = manifests.member_secret(request.cluster, "", b"")
            report_applied(
                participant.name,
                await remove(participant.client, [secret], dry_run=dry_run),
                dry_run=dry_run,
            )
        rules = manifests.rules_for(app.watches(), request.cluster)
        claims = manifests.claims(request.cluster, request.federation, supervisor=True)[1:]
        policies = manifests.supervisor_policies(app.supervisor_rules(), request.cluster)
        account = [m for m in (*policies, *manifests.account(rules)) if m.kind.name != "Namespace"]
        # the claim of membership goes last: until then, leaving can be repeated
        left = await remove(member.client, reversed([*claims, *account]), dry_run=dry_run)
        report_applied(member.name, left, dry_run=dry_run)
    if not dry_run:
        click.echo(f"{request.cluster} has left federation {request.federation}")


async def _check(
    member: Participant, others: Sequence[Participant], request: MembershipRequest
) -> None:
    """Refuse a wrong id, another federation, or a missing supervisor before anything is written."""
    claims = await read_claims(member.client)
    check_cluster_id(claims, member.name, request.cluster)
    if claims.get(CLUSTER_SET, request.federation) != request.federation:
        raise InputError(
            f"{member.name} belongs to {claims[CLUSTER_SET]!r} (ClusterClaim {CLUSTER_SET}); "
            f"let it leave that first: hanse leave --federation {claims[CLUSTER_SET]}"
        )
    if not others and not request.supervises:
        raise InputError(
            "name the supervisors with --supervisor, or let this one be with --supervises"
        )
    for participant in others:
        their_claims = await read_claims(participant.client)
        if spelled_value(their_claims, SUPERVISOR_MARK) in (None, "false"):
            raise InputError(
                f"{participant.name} is no supervisor; let it join as one first: hanse join "
                f"--federation {request.federation} --supervises --context {participant.name}"
            )


async def _check_leaving(member: Participant, request: MembershipRequest) -> None:
    """Refuse a cluster with another id, or one that is not in the Federation."""
    claims = await read_claims(member.client)
    check_cluster_id(claims, member.name, request.cluster)
    claimed_set = claims.get(CLUSTER_SET, "")
    if claimed_set == request.federation:
        return
    if claimed_set:
        raise InputError(
            f"there is no Federation {request.federation!r} in {member.name}, which belongs to "
            f"{claimed_set!r} (ClusterClaim {CLUSTER_SET}); use --federation {claimed_set}"
        )
    if await read_existing(member.client, _federation_manifest(request, {})) is None:
        raise _no_federation(member, request)


async def _check_abandoned(supervisors: Sequence[Participant], request: MembershipRequest) -> None:
    """Refuse to abandon a cluster that no supervisor knows; repeating it is fine."""
    known: set[str] = set()
    for participant in supervisors:
        found = await read_existing(participant.client, _federation_manifest(request, {}))
        if found is None:
            raise _no_federation(participant, request)
        known |= {one["clusterID"] for one in found.get("spec", {}).get("members") or ()}
        known |= _abandoned_members(found)
    if request.cluster not in known:
        raise InputError(
            f"Federation {request.federation!r} has no member {request.cluster!r}; "
            f"there is: {', '.join(sorted(known))}"
        )


def _no_federation(participant: Participant, request: MembershipRequest) -> InputError:
    return InputError(
        f"there is no Federation {request.federation!r} in {participant.name}; "
        f"see: kubectl --context {participant.name} get federations"
    )


async def _members(others: Sequence[Participant], request: MembershipRequest) -> dict[str, Member]:
    """All members that any supervisor's Federation lists; on a conflict, the first one's entry."""
    known: dict[str, Member] = {}
    for participant in others:
        with suppress(NotFound):
            found = await participant.client.read(Federation, request.federation)
            for member in found.spec.members:
                known.setdefault(member.cluster_id, member)
    return known


async def _server_url(request: MembershipRequest) -> str:
    """The URL of --server, else of the member's kubeconfig; raises `InputError` if invalid."""
    endpoint = (await request.member.credentials.config()).endpoint
    server = request.server or endpoint.url
    if why := server_url_error(server):
        raise InputError(f"--server {server!r} {why}")
    return server


async def _credentials(
    member: Participant, others: Sequence[Participant], request: MembershipRequest, *, dry_run: bool
) -> tuple[Manifest, ...]:
    """The member's Secret for supervisors; none without supervisors or if all are reusable."""
    endpoint = (await request.member.credentials.config()).endpoint
    name = manifests.secret_name(request.cluster)
    if others and all([await _is_reusable(p.client, name, endpoint, request) for p in others]):
        return ()
    if not others:
        return ()
    token = ""
    if not dry_run:
        token = await _request_token(member, request)
    return (manifests.member_secret(request.cluster, token, endpoint.ca),)


async def _is_reusable(
    supervisor: Client, name: str, endpoint: ServerEndpoint, request: MembershipRequest
) -> bool:
    """Whether the Secret has this CA and a token that is accepted, with half the lifetime left."""
    try:
        secret = await supervisor.read(Secret, name, SYSTEM)
    except NotFound:
        return False
    identity = Identity(token=secret.data.get(TOKEN, b"").decode("ascii", "replace").strip())
    if not identity.token or secret.data.get(CA, b"") != endpoint.ca:
        return False
    expires = credentials_expiry(identity)
    if expires is not None and expires - datetime.now(UTC) < request.lifetime / 2:
        return False
    async with open_client(StaticCredentials(ClientConfig(endpoint, identity))) as client:
        try:
            await client.list(ClusterClaim)
        except KubeError:
            return False
    return True


async def _request_token(member: Participant, request: MembershipRequest) -> str:
    """A new token of the account for supervisors, once policies refuse an attack with it.

    Raises `CommandFailed` if none is issued, or none is in force.
    """
    path = resource_path(SERVICE_ACCOUNT, SYSTEM, manifests.ACCOUNT, "token")
    wanted = manifests.token_request(int(request.lifetime.total_seconds()))
    answer = await member.client.send(Request("POST", path, body=msgspec.json.encode(wanted)))
    token = msgspec.json.decode(answer.body)["status"].get("token")
    if not token:
        raise CommandFailed(f"no token was issued for {manifests.ACCOUNT} in {request.federation}")
    await await_policies_in_force(member.access, str(token), supervisors_attack())
    return str(token)


async def _copied_credentials(
    member: Member, others: Sequence[Participant], request: MembershipRequest, *, dry_run: bool
) -> tuple[Manifest, ...]:
    """The Secret by which a new supervisor reaches a member: a copy, or one with a new token."""
    if member.cluster_id == request.cluster:
        return ()  # its own cluster needs none
    for participant in others:
        with suppress(NotFound):
            found = await participant.client.read(Secret, member.secret, SYSTEM)
            token = found.data.get(TOKEN, b"").decode("ascii", "replace")
            return (manifests.member_secret(member.cluster_id, token, found.data.get(CA, b"")),)
    for participant in others:
        if (await read_claims(participant.client)).get(CLUSTER_ID) == member.cluster_id:
            ca = (await participant.access.credentials.config()).endpoint.ca
            token = "" if dry_run else await _request_token(participant, request)
            return (manifests.member_secret(member.cluster_id, token, ca),)
    return ()


def _federation_manifest(request: MembershipRequest, known: dict[str, Member]) -> Manifest:
    return manifests.federation_with_members(
        request.federation, request.federation, tuple(known.values())
    )


async def _remove_member(
    participant: Participant, request: MembershipRequest, *, abandon: bool, dry_run: bool
) -> None:
    """Patch the member out of a supervisor's Federation, if it exists, and print it."""
    wanted = _federation_manifest(request, {})
    found = await read_existing(participant.client, wanted)
    if found is None:
        return
    listed = found.get("spec", {}).get("members") or []
    left = [one for one in listed if one["clusterID"] != request.cluster]
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


def _abandoned_members(federation: Wire) -> set[str]:
    """The members that the Federation's annotation names as abandoned."""
    annotations = federation["metadata"].get("annotations") or {}
    return {name for name in annotations.get(ABANDONED, "").split(",") if name}


async def _wait_until_released(member: Participant, request: MembershipRequest) -> None:
    """Wait until no supervisor leads the cluster: leaders remove what they wrote before that.

    A Lease that is not renewed meanwhile counts as released. Raises `CommandFailed` after
    `RELEASE_TIMEOUT`.
    """
    now = asyncio.get_running_loop().time
    sighting = ObservedLease(await _read_lease(member.client, request), now())
    began = sighting.since
    while (
        sighting.lease is not None
        and sighting.lease.spec.holder_identity
        and now() < sighting.expires
    ):
        if now() - began > RELEASE_TIMEOUT.total_seconds():
            leader = holder_cluster(sighting.lease.spec.holder_identity)
            raise CommandFailed(
                f"{leader} still leads {request.cluster} after {RELEASE_TIMEOUT.seconds} s; "
                "name every supervisor with --supervisor, or see `hanse doctor`"
            )
        await asyncio.sleep(_POLL_INTERVAL.total_seconds())
        sighting = sighting.after(await _read_lease(member.client, request), now())


async def _read_lease(client: Client, request: MembershipRequest) -> Lease | None:
    """The Lease of the joining cluster, None if there is none."""
    try:
        return await client.read(Lease, request.cluster, SYSTEM)
    except NotFound:
        return None


def _next_steps(request: MembershipRequest) -> str:
    role = "supervisor" if request.supervises else "member"
    return (
        f"{request.cluster} has joined federation {request.federation} as a {role}; "
        f"see: kubectl --context {request.member.name} get federation {request.federation} -o yaml"
    )
