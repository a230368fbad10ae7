"""The workflows of a federation: a cluster joins it, and leaves it."""

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from datetime import UTC, datetime, timedelta

import click
import msgspec
from msgspec import Struct

from hanse import app
from hanse.cli.apply import apply, define, remove, show, standing
from hanse.cli.clusters import ClusterAccess
from hanse.cli.errors import Oops, Trouble
from hanse.cli.inventory import expiry_of
from hanse.cli.join.claims import check_id, claimed
from hanse.cli.reaching import reached
from hanse.features.federation import manifests
from hanse.features.federation.claims import SUPERVISOR_MARK
from hanse.features.federation.members import ABANDONED, CA, TOKEN, server_url_error
from hanse.kube.client import Client
from hanse.kube.client_config import ClientConfig, Identity, ServerEndpoint, StaticCredentials
from hanse.kube.errors import KubeError, NotFound
from hanse.kube.http_transport import HttpTransport
from hanse.kube.lease import ObservedLease
from hanse.kube.requests import resource_path
from hanse.kube.transport import Request
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

PATIENCE = timedelta(seconds=60)
"""How long supervisors may take to withdraw what they wrote."""

_LOOK_AGAIN = timedelta(milliseconds=500)


class Membership(Struct, frozen=True):
    """Who joins or leaves which federation, and who supervises it."""

    federation: str
    cluster: str
    member: ClusterAccess
    supervisors: tuple[ClusterAccess, ...] = ()
    supervises: bool = False
    server: str = ""
    lifetime: timedelta = timedelta(days=7)


class Party(Struct, frozen=True):
    """A cluster that takes part, and a client of it."""

    way: ClusterAccess
    client: Client

    @property
    def name(self) -> str:
        return self.way.name


async def join_federation(wish: Membership, *, dry_run: bool) -> None:
    """Do each step by which a cluster becomes a member, as far as it is not done yet."""
    async with AsyncExitStack() as stack:
        member = Party(wish.member, await stack.enter_async_context(reached(wish.member)))
        others = [
            Party(way, await stack.enter_async_context(reached(way)))
            for way in wish.supervisors
            if way.name != wish.member.name
        ]
        await _check(member, others, wish)
        done = await define(member.client, crd_manifests(), dry_run=dry_run)
        rules = manifests.rules_for(app.watches(), wish.cluster)
        said = manifests.claims(wish.cluster, wish.federation, supervisor=wish.supervises)
        done += await apply(member.client, (*manifests.account(rules), *said), dry_run=dry_run)
        known = await _members(others, wish)
        known[wish.cluster] = manifests.entry(wish.cluster, await _server(wish))
        secret = await _credentials(member.client, others, wish, dry_run=dry_run)
        for party in others:
            told = await apply(party.client, secret, dry_run=dry_run)
            told += await apply(party.client, [_federation(wish, known)], dry_run=dry_run)
            show(party.name, told, dry_run=dry_run)
        if wish.supervises:
            copies = [await _copy(one, others, wish, dry_run=dry_run) for one in known.values()]
            secrets = [secret for several in copies for secret in several]
            done += await apply(member.client, secrets, dry_run=dry_run)
        own = known if wish.supervises else {}
        done += await apply(member.client, [_federation(wish, own)], dry_run=dry_run)
        show(member.name, done, dry_run=dry_run)
    if not dry_run:
        click.echo(_what_next(wish))


async def leave_federation(wish: Membership, *, dry_run: bool, force: bool) -> None:
    """Do each step by which a cluster leaves; by force, without asking the cluster itself."""
    async with AsyncExitStack() as stack:
        supervisors = [
            Party(way, await stack.enter_async_context(reached(way)))
            for way in wish.supervisors
            if force or way.name != wish.member.name
        ]
        if force:
            await _check_given_up(supervisors, wish)
            for party in supervisors:
                await _strike(party, wish, abandon=True, dry_run=dry_run)
            click.echo(
                f"{wish.cluster} is given up; what was written there stays behind, "
                "see status.abandoned of the Federation"
            )
            return
        member = Party(wish.member, await stack.enter_async_context(reached(wish.member)))
        await _check_leaving(member, wish)
        gone = await remove(member.client, [_federation(wish, {})], dry_run=dry_run)
        show(member.name, gone, dry_run=dry_run)
        for party in supervisors:
            await _strike(party, wish, abandon=False, dry_run=dry_run)
        if not dry_run:
            await _withdrawn(member, wish)
        for party in supervisors:
            secret = manifests.member_secret(wish.cluster, "", b"")
            show(party.name, await remove(party.client, [secret], dry_run=dry_run), dry_run=dry_run)
        rules = manifests.rules_for(app.watches(), wish.cluster)
        said = manifests.claims(wish.cluster, wish.federation, supervisor=True)[1:]
        account = [m for m in manifests.account(rules) if m.kind.name != "Namespace"]
        # the claim that it is a member goes last: until then, leaving can be taken up again
        left = await remove(member.client, reversed([*said, *account]), dry_run=dry_run)
        show(member.name, left, dry_run=dry_run)
    if not dry_run:
        click.echo(f"{wish.cluster} has left federation {wish.federation}")


async def _check(member: Party, others: Sequence[Party], wish: Membership) -> None:
    """Refuse what would end badly, before anything is written."""
    claims = await claimed(member.client)
    check_id(claims, member.name, wish.cluster)
    if claims.get(CLUSTER_SET, wish.federation) != wish.federation:
        raise Oops(
            f"{member.name} belongs to {claims[CLUSTER_SET]!r} (ClusterClaim {CLUSTER_SET}); "
            f"let it leave that first: hanse leave --federation {claims[CLUSTER_SET]}"
        )
    if not others and not wish.supervises:
        raise Oops("name the supervisors with --supervisor, or let this one be with --supervises")
    for party in others:
        said = await claimed(party.client)
        if spelled_value(said, SUPERVISOR_MARK) in (None, "false"):
            raise Oops(
                f"{party.name} is no supervisor; let it join as one first: hanse join "
                f"--federation {wish.federation} --supervises --context {party.name}"
            )


async def _check_leaving(member: Party, wish: Membership) -> None:
    """Refuse to take another cluster, or one that is not in it, for the one that leaves."""
    claims = await claimed(member.client)
    check_id(claims, member.name, wish.cluster)
    belongs = claims.get(CLUSTER_SET, "")
    if belongs == wish.federation:
        return
    if belongs:
        raise Oops(
            f"there is no Federation {wish.federation!r} in {member.name}, which belongs to "
            f"{belongs!r} (ClusterClaim {CLUSTER_SET}); use --federation {belongs}"
        )
    if await standing(member.client, _federation(wish, {})) is None:
        raise _no_federation(member, wish)


async def _check_given_up(supervisors: Sequence[Party], wish: Membership) -> None:
    """Refuse to give up what no supervisor knows; one given up before may be so again."""
    known: set[str] = set()
    for party in supervisors:
        found = await standing(party.client, _federation(wish, {}))
        if found is None:
            raise _no_federation(party, wish)
        known |= {one["clusterID"] for one in found.get("spec", {}).get("members") or ()}
        known |= _given_up(found)
    if wish.cluster not in known:
        raise Oops(
            f"Federation {wish.federation!r} has no member {wish.cluster!r}; "
            f"there is: {', '.join(sorted(known))}"
        )


def _no_federation(party: Party, wish: Membership) -> Oops:
    return Oops(
        f"there is no Federation {wish.federation!r} in {party.name}; "
        f"see: kubectl --context {party.name} get federations"
    )


async def _members(others: Sequence[Party], wish: Membership) -> dict[str, Member]:
    """All members that any supervisor knows; they are to agree from now on."""
    known: dict[str, Member] = {}
    for party in others:
        with suppress(NotFound):
            found = await party.client.read(Federation, wish.federation)
            for member in found.spec.members:
                known.setdefault(member.cluster_id, member)
    return known


async def _server(wish: Membership) -> str:
    endpoint = (await wish.member.credentials.config()).endpoint
    server = wish.server or endpoint.url
    if why := server_url_error(server):
        raise Oops(f"--server {server!r} {why}")
    return server


async def _credentials(
    member: Client, others: Sequence[Party], wish: Membership, *, dry_run: bool
) -> tuple[Manifest, ...]:
    """The member's Secret for supervisors: none where theirs will all do for long enough."""
    endpoint = (await wish.member.credentials.config()).endpoint
    name = manifests.secret_name(wish.cluster)
    if others and all([await _still_good(p.client, name, endpoint, wish) for p in others]):
        return ()
    if not others:
        return ()
    token = "" if dry_run else await _token(member, wish)
    return (manifests.member_secret(wish.cluster, token, endpoint.ca),)


async def _still_good(
    supervisor: Client, name: str, endpoint: ServerEndpoint, wish: Membership
) -> bool:
    try:
        secret = await supervisor.read(Secret, name, SYSTEM)
    except NotFound:
        return False
    identity = Identity(token=secret.data.get(TOKEN, b"").decode("ascii", "replace").strip())
    if not identity.token or secret.data.get(CA, b"") != endpoint.ca:
        return False
    expires = expiry_of(identity)
    if expires is not None and expires - datetime.now(UTC) < wish.lifetime / 2:
        return False
    client = Client(HttpTransport(StaticCredentials(ClientConfig(endpoint, identity))))
    try:
        await client.list(ClusterClaim)
    except KubeError:
        return False
    finally:
        await client.close()
    return True


async def _token(member: Client, wish: Membership) -> str:
    path = resource_path(SERVICE_ACCOUNT, SYSTEM, manifests.ACCOUNT, "token")
    wanted = manifests.token_request(int(wish.lifetime.total_seconds()))
    answer = await member.send(Request("POST", path, body=msgspec.json.encode(wanted)))
    token = msgspec.json.decode(answer.body)["status"].get("token")
    if not token:
        raise Trouble(f"no token was issued for {manifests.ACCOUNT} in {wish.federation}")
    return str(token)


async def _copy(
    member: Member, others: Sequence[Party], wish: Membership, *, dry_run: bool
) -> tuple[Manifest, ...]:
    """What a new supervisor needs to reach a member: another's Secret, or a token of its own."""
    if member.cluster_id == wish.cluster:
        return ()  # home needs none
    for party in others:
        with suppress(NotFound):
            found = await party.client.read(Secret, member.secret, SYSTEM)
            token = found.data.get(TOKEN, b"").decode("ascii", "replace")
            return (manifests.member_secret(member.cluster_id, token, found.data.get(CA, b"")),)
    for party in others:
        if (await claimed(party.client)).get(CLUSTER_ID) == member.cluster_id:
            ca = (await party.way.credentials.config()).endpoint.ca
            token = "" if dry_run else await _token(party.client, wish)
            return (manifests.member_secret(member.cluster_id, token, ca),)
    return ()


def _federation(wish: Membership, known: dict[str, Member]) -> Manifest:
    return manifests.federation_of(wish.federation, wish.federation, tuple(known.values()))


async def _strike(party: Party, wish: Membership, *, abandon: bool, dry_run: bool) -> None:
    """Take a member off a supervisor's list."""
    wanted = _federation(wish, {})
    found = await standing(party.client, wanted)
    if found is None:
        return
    listed = found.get("spec", {}).get("members") or []
    left = [one for one in listed if one["clusterID"] != wish.cluster]
    change: Wire = {"spec": {"members": left}}
    if abandon:
        given_up = _given_up(found) | {wish.cluster}
        change["metadata"] = {"annotations": {ABANDONED: ",".join(sorted(given_up))}}
    elif left == listed:
        click.echo(f"{party.name}: nothing to change")
        return
    verb = "would change" if dry_run else "changed"
    if not dry_run:
        await party.client.patch(Federation, wish.federation, "", change)
    click.echo(f"{party.name}: {verb} {wanted}")


def _given_up(federation: Wire) -> set[str]:
    marks = federation["metadata"].get("annotations") or {}
    return {name for name in marks.get(ABANDONED, "").split(",") if name}


async def _withdrawn(member: Party, wish: Membership) -> None:
    """Wait until no supervisor leads the cluster any more: then nothing of theirs is left.

    A Lease that is not renewed before our eyes leads nobody: its holder cannot come back for it.
    """
    now = asyncio.get_running_loop().time
    seen = ObservedLease(await _lease(member.client, wish), now())
    began = seen.since
    while seen.lease is not None and seen.lease.spec.holder_identity and now() < seen.expires:
        if now() - began > PATIENCE.total_seconds():
            leader = holder_cluster(seen.lease.spec.holder_identity)
            raise Trouble(
                f"{leader} still leads {wish.cluster} after {int(PATIENCE.total_seconds())} s; "
                "name every supervisor with --supervisor, or see `hanse doctor`"
            )
        await asyncio.sleep(_LOOK_AGAIN.total_seconds())
        seen = seen.after(await _lease(member.client, wish), now())


async def _lease(client: Client, wish: Membership) -> Lease | None:
    try:
        return await client.read(Lease, wish.cluster, SYSTEM)
    except NotFound:
        return None


def _what_next(wish: Membership) -> str:
    role = "supervisor" if wish.supervises else "member"
    return (
        f"{wish.cluster} has joined federation {wish.federation} as a {role}; "
        f"see: kubectl --context {wish.member.name} get federation {wish.federation} -o yaml"
    )
