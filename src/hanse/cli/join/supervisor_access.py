"""The accounts of supervisors in a member, and the Secrets with their tokens in supervisors."""

from contextlib import suppress
from datetime import UTC, datetime, timedelta

import msgspec
from msgspec import Struct

from hanse import app
from hanse.cli.apply import AppliedManifest, apply, deleted, remove
from hanse.cli.clusters import open_client
from hanse.cli.errors import CommandFailed
from hanse.cli.inventory import credentials_expiry
from hanse.cli.join.guard import await_policies_in_force, supervisors_attack
from hanse.cli.join.participants import Participant
from hanse.features.federation import manifests
from hanse.features.federation.members import CA, TOKEN
from hanse.kube.client import Client
from hanse.kube.client_config import ClientConfig, Identity, ServerEndpoint, StaticCredentials
from hanse.kube.errors import KubeError, NotFound
from hanse.kube.requests import resource_path
from hanse.kube.token_requests import issued_token, token_request
from hanse.kube.transport import Request
from hanse.model.kinds.core import Secret
from hanse.model.kinds.federation import SYSTEM, ClusterClaim
from hanse.model.manifests import SERVICE_ACCOUNT, Manifest
from hanse.model.objects import ClusterId
from hanse.model.tokens import parse_claims


class AccessGrant(Struct, frozen=True):
    """A member that gives a supervisor access: with which features, and for how long."""

    member: Participant
    cluster: ClusterId
    supervisor: Participant
    supervisor_id: ClusterId
    options: app.Options
    lifetime: timedelta


def account_manifests(grant: AccessGrant) -> tuple[Manifest, ...]:
    """The manifests in a member: policies for all supervisors, and the account of this one."""
    rules = manifests.rules_for(app.watches(grant.options), grant.cluster, grant.supervisor_id)
    policies = manifests.supervisor_policies(app.supervisor_rules(), grant.cluster)
    return (*policies, *manifests.account(rules, grant.supervisor_id))


async def grant_secret(grant: AccessGrant, *, dry_run: bool) -> list[AppliedManifest]:
    """Request a token in the member, and write it into the supervisor's Secret for that member.

    Returns nothing if the token there is still fit. A dry run requests and writes nothing, and
    returns what would be written.
    """
    endpoint = (await grant.member.access.credentials.config()).endpoint
    if await _is_reusable(grant, endpoint):
        return []
    token = ""
    if not dry_run:
        token = await _request_token(grant)
        await await_policies_in_force(grant.member.access, token, supervisors_attack())
    secret = manifests.member_secret(grant.cluster, token, endpoint.ca)
    return await apply(grant.supervisor.client, [secret], dry_run=dry_run)


async def revoke_account(
    member: Client, cluster: ClusterId, supervisor: ClusterId, *, dry_run: bool
) -> list[AppliedManifest]:
    """Delete the account of one supervisor in a member, which revokes its tokens and no others.

    The empty id is the account that supervisors shared before each had its own.
    """
    rules = manifests.rules_for(app.watches(), cluster, supervisor)
    account = [m for m in manifests.account(rules, supervisor) if m.kind.name != "Namespace"]
    return deleted(await remove(member, account, dry_run=dry_run))


async def account_owners(member: Client) -> list[ClusterId]:
    """The ids of supervisors that have an account in a member, by the names of ServiceAccounts.

    "" stands for the account that all shared before.
    """
    path = resource_path(SERVICE_ACCOUNT, SYSTEM)
    try:
        answer = await member.send(Request("GET", path))
    except NotFound:
        return []
    names = [item["metadata"]["name"] for item in msgspec.json.decode(answer.body)["items"]]
    prefix = manifests.account_name("x").removesuffix("x")
    owners = [name.removeprefix(prefix) for name in names if name.startswith(prefix)]
    return [*owners, *([""] if manifests.ACCOUNTS in names else [])]


async def _is_reusable(grant: AccessGrant, endpoint: ServerEndpoint) -> bool:
    """Whether the supervisor's Secret has the member's CA, and a token that the member accepts.

    It must be of the supervisor's own account, with half of the lifetime left.
    """
    try:
        secret = await grant.supervisor.client.read(
            Secret, manifests.secret_name(grant.cluster), SYSTEM
        )
    except NotFound:
        return False
    identity = Identity(token=secret.data.get(TOKEN, b"").decode("ascii", "replace").strip())
    claims = parse_claims(identity.token)
    own = f"system:serviceaccount:{SYSTEM}:{manifests.account_name(grant.supervisor_id)}"
    if claims is None or claims.subject != own or secret.data.get(CA, b"") != endpoint.ca:
        return False
    expires = credentials_expiry(identity)
    if expires is not None and expires - datetime.now(UTC) < grant.lifetime / 2:
        return False
    async with open_client(StaticCredentials(ClientConfig(endpoint, identity))) as client:
        with suppress(KubeError):
            await client.list(ClusterClaim)
            return True
    return False


async def _request_token(grant: AccessGrant) -> str:
    """A new token of the supervisor's account; raises `CommandFailed` if none is issued."""
    account = manifests.account_name(grant.supervisor_id)
    request = token_request(SYSTEM, account, int(grant.lifetime.total_seconds()))
    token = issued_token(await grant.member.client.send(request))
    if not token:
        raise CommandFailed(f"no token was issued for {account} in {grant.member.name}")
    return token
