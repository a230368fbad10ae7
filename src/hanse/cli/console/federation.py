"""The members of a Federation, by the credentials that its supervisor has for them."""

from hanse.cli.clusters import ClusterAccess, open_client
from hanse.cli.errors import CommandFailed
from hanse.kube.client_config import ClientConfig, Identity, ServerEndpoint, StaticCredentials
from hanse.kube.errors import KubeError
from hanse.model.kinds.core import Secret
from hanse.model.kinds.federation import SYSTEM, Federation


async def federation_members(supervisor: ClusterAccess) -> tuple[ClusterAccess, ...]:
    """Read the supervisor's Federations and Secrets: each member with its server and token.

    Members are named by cluster id; those without a Secret or server are left out. Raises
    `CommandFailed` if they cannot be read, or no Federation names any member.
    """
    try:
        async with open_client(supervisor.credentials) as client:
            federations = (await client.list(Federation)).objects
            secrets = {
                one.name: one for one in (await client.list(Secret, namespace=SYSTEM)).objects
            }
    except KubeError as error:
        raise CommandFailed(
            f"the Federation of {supervisor.name} cannot be read: {error}"
        ) from None
    members = [member for one in federations for member in one.spec.members]
    if not members:
        raise CommandFailed(f"{supervisor.name} has no Federation with members")
    found = {}
    for member in members:
        secret = secrets.get(member.secret)
        if secret is not None and member.server:
            data = secret.data
            endpoint = ServerEndpoint(member.server, ca=data.get("ca.crt", b""))
            identity = Identity(token=data.get("token", b"").decode())
            credentials = StaticCredentials(ClientConfig(endpoint, identity))
            found[member.cluster_id] = ClusterAccess(member.cluster_id, credentials)
    return tuple(found.values())
