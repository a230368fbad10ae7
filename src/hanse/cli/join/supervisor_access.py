"""The accounts of supervisors in a member, and the Secrets with their tokens in supervisors."""

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial

from msgspec import Struct

from hanse import app
from hanse.cli.apply import AppliedManifest, apply, deleted, read_existing, remove
from hanse.cli.clusters import open_client
from hanse.cli.inventory import credentials_expiry
from hanse.cli.join.guard import await_policies_in_force, supervisors_attack
from hanse.cli.join.participants import Participant
from hanse.cli.join.rotation import finish_rotation
from hanse.features.federation import manifests
from hanse.features.federation.members import CA, token_of
from hanse.kube.bound_tokens import issue_token
from hanse.kube.client import Client
from hanse.kube.client_config import ClientConfig, Identity, ServerEndpoint, StaticCredentials
from hanse.kube.errors import KubeError, NotFound
from hanse.kube.requests import resource_path
from hanse.kube.transport import Request
from hanse.model.json_input import decode_json
from hanse.model.kinds.core import Secret
from hanse.model.kinds.federation import SYSTEM, ClusterClaim, Federation
from hanse.model.manifests import SERVICE_ACCOUNT, Manifest
from hanse.model.naming import account_user
from hanse.model.objects import ClusterId
from hanse.model.tokens import TokenAccount, parse_claims

OPAQUE = "Opaque"
"""The type of the Secrets with tokens."""


class AccessGrant(Struct, frozen=True):
    """A member that gives a supervisor access: with which features, and for how long."""

    member: Participant
    cluster: ClusterId
    supervisor: Participant
    supervisor_id: ClusterId
    options: app.Options
    lifetime: timedelta

    @property
    def account(self) -> TokenAccount:
        """The account of the supervisor in the member."""
        return manifests.token_account(self.member.name, self.supervisor_id)


def account_manifests(grant: AccessGrant) -> tuple[Manifest, ...]:
    """The manifests for a member: policies for all supervisors, and the account of this one.

    The account comes with its rights; nothing is written.
    """
    rules = manifests.rules_for(app.watches(grant.options), grant.cluster, grant.supervisor_id)
    policies = manifests.supervisor_policies(app.supervisor_rules(), grant.cluster)
    return (*policies, *manifests.account_manifests(rules, grant.supervisor_id))


async def grant_secret(grant: AccessGrant, *, rotate: bool, dry_run: bool) -> list[AppliedManifest]:
    """Request a token in the member, and write it into the supervisor's Secret for that member.

    Returns the effect, or nothing if the token there is still fit. A Secret of another type than
    Opaque is replaced. With `rotate` there is a new token in any case, and the earlier ones are
    revoked once the supervisor uses it. A dry run requests and writes nothing, and returns what
    would be written. Raises `CommandFailed` if policies are not in force, or the token is not used,
    in time.
    """
    endpoint = (await grant.member.access.credentials.config()).endpoint
    if not rotate and await _is_reusable(grant, endpoint):
        return []
    token, member = "", grant.member.client
    if not dry_run:
        token = await issue_token(member, grant.account, grant.lifetime, separate=rotate)
        await await_policies_in_force(grant.member.access, token, supervisors_attack())
    secret = manifests.member_secret(grant.cluster, token, endpoint.ca)
    if not dry_run:
        await _delete_of_other_type(grant.supervisor.client, secret)
    done = await apply(grant.supervisor.client, [secret], dry_run=dry_run)
    if rotate and not dry_run:
        used, agent = partial(_used_token, grant), grant.supervisor_id
        await finish_rotation(member, grant.account, token, used, agent, grant.cluster)
    return done


async def _delete_of_other_type(supervisor: Client, wanted: Manifest) -> None:
    """Delete the Secret of the wanted name if its type is not Opaque: types cannot be changed.

    Nothing if there is none, or it has no type.
    """
    found = await read_existing(supervisor, wanted)
    if found is not None and found.get("type", OPAQUE) != OPAQUE:
        await remove(supervisor, [wanted])


async def _used_token(grant: AccessGrant) -> str:
    """The digest of the token by which a supervisor reaches the member, by its Federation's status.

    Empty if no Federation there has the member as reachable.
    """
    for federation in (await grant.supervisor.client.list(Federation)).objects:
        for member in federation.status.members:
            if member.cluster_id == grant.cluster and member.reachable:
                return member.token_digest
    return ""


async def revoke_account(
    member: Client, cluster: ClusterId, supervisor: ClusterId, *, dry_run: bool
) -> list[AppliedManifest]:
    """Delete the account of one supervisor in a member, which revokes its tokens and no others.

    Returns what was deleted, or in a dry run would be. The empty id is the account that supervisors
    shared before each had its own. The ServiceAccount goes last: who repeats it finds what is left
    by that.
    """
    rules = manifests.rules_for(app.watches(), cluster, supervisor)
    account = [
        m for m in manifests.account_manifests(rules, supervisor) if m.kind.name != "Namespace"
    ]
    return deleted(await remove(member, reversed(account), dry_run=dry_run))


async def account_owners(member: Client) -> list[ClusterId]:
    """The ids of supervisors that have an account in a member, by the names of ServiceAccounts.

    "" stands for the account that all shared before. Empty if the namespace does not exist.
    """
    path = resource_path(SERVICE_ACCOUNT, SYSTEM)
    try:
        answer = await member.send(Request("GET", path))
    except NotFound:
        return []
    names = [item["metadata"]["name"] for item in decode_json(answer.body)["items"]]
    prefix = manifests.account_name("x").removesuffix("x")
    owners = [name.removeprefix(prefix) for name in names if name.startswith(prefix)]
    return [*owners, *([""] if manifests.ACCOUNTS in names else [])]


async def _is_reusable(grant: AccessGrant, endpoint: ServerEndpoint) -> bool:
    """Whether the supervisor's Secret has the member's CA, and a token that the member accepts.

    The token must be of the supervisor's own account, and expire, with half of the lifetime left.
    False without a Secret, or for one of a type other than Opaque.
    """
    try:
        secret = await grant.supervisor.client.read(
            Secret, manifests.secret_name(grant.cluster), SYSTEM
        )
    except NotFound:
        return False
    if secret.type not in ("", OPAQUE):  # one of a ServiceAccount here, which never ends
        return False
    identity = Identity(token=token_of(secret))
    claims = parse_claims(identity.token)
    own = account_user(grant.account.namespace, grant.account.name)
    if claims is None or claims.subject != own or secret.data.get(CA, b"") != endpoint.ca:
        return False
    expires = credentials_expiry(identity)
    if expires is None or expires - datetime.now(UTC) < grant.lifetime / 2:
        return False
    async with open_client(StaticCredentials(ClientConfig(endpoint, identity))) as client:
        with suppress(KubeError):
            await client.list(ClusterClaim)
            return True
    return False
