"""Leave the broker before a cluster is uninstalled, with the account that the cluster has there."""

import asyncio
from collections.abc import Callable

from msgspec import Struct

from hanse.cli.agent.running import running_agent
from hanse.cli.clusters import open_client
from hanse.cli.errors import CommandFailed
from hanse.cli.join.claims import is_supervisor, read_claims
from hanse.cli.member_records import set_phase
from hanse.features.services.manifests import CLUSTER_ID, KUBECONFIG
from hanse.kube import credentials
from hanse.kube.client import Client
from hanse.kube.client_config import Credentials
from hanse.kube.errors import BadCredentials, KubeError, NotFound
from hanse.kube.optional_reads import list_or_empty
from hanse.model.kinds.core import Namespace, Secret
from hanse.model.kinds.federation import CLUSTER_ID as FEDERATED_ID
from hanse.model.kinds.federation import CLUSTER_SET, Federation
from hanse.model.kinds.hanse import ClusterMember
from hanse.model.naming import BROKER_NAMESPACE, BROKER_SECRET, IDENTITY_NAMESPACE, SYSTEM_NAMESPACE
from hanse.model.objects import ClusterId
from hanse.model.summaries import first_of

LEAVE_TIMEOUT = 120.0
"""Seconds that the agent may take to withdraw everything."""

_POLL_INTERVAL = 0.5


class JoinedBroker(Struct, frozen=True):
    """The broker that a cluster has joined, and its id there."""

    cluster: ClusterId
    namespace: str
    credentials: Credentials


async def find_joined_broker(client: Client) -> JoinedBroker | None:
    """Read the cluster's Secret with the broker's kubeconfig; None if it is missing or unusable.

    Also None without the annotation that has the cluster's id. The broker is not asked.
    """
    try:
        secret = await client.read(Secret, BROKER_SECRET, SYSTEM_NAMESPACE)
        access = credentials.from_secret(
            secret.data.get(KUBECONFIG, b""), origin=f"Secret {BROKER_SECRET}"
        )
        config = await access.config()
    except (NotFound, BadCredentials):
        return None
    cluster = secret.metadata.annotations.get(CLUSTER_ID, "")
    return JoinedBroker(cluster, config.namespace or BROKER_NAMESPACE, access) if cluster else None


async def check_members(client: Client, name: str) -> None:
    """Raise `CommandFailed` if a cluster is in a Federation with others, or the broker of others.

    Members that have left the broker, and the cluster's own record, do not count.
    """
    await _check_federation(client, name)
    records = await list_or_empty(client, ClusterMember)
    own = (await client.read(Namespace, IDENTITY_NAMESPACE)).metadata.uid
    members = sorted(r.name for r in records if not r.has_left and r.spec.uid != own)
    if members:
        raise CommandFailed(
            f"{name} is the broker of {first_of(members)}, which would lose what they share; let "
            f"them leave first: hanse leave --broker {name} --cluster-id {members[0]}; or add "
            "--force"
        )


async def _check_federation(client: Client, name: str) -> None:
    """Raise `CommandFailed` if a cluster is in a Federation with others, by its claims.

    A supervisor whose Federations list no other member passes, and so does a cluster that claims no
    Federation.
    """
    claims = await read_claims(client)
    league, own = claims.get(CLUSTER_SET, ""), claims.get(FEDERATED_ID, "")
    listed = [m for f in await list_or_empty(client, Federation) for m in f.spec.members]
    others = {member.cluster_id for member in listed} - {own}
    if league and (others or not is_supervisor(claims)):
        raise CommandFailed(
            f"{name} is in federation {league}, whose supervisors have accounts in its members; "
            f"let it leave first: hanse leave --federation {league} --cluster-id {own} --context "
            f"{name}; or add --force"
        )


async def leave_first(
    client: Client, name: str, joined: JoinedBroker, echo: Callable[[str], None]
) -> None:
    """Set the cluster's record on the broker to Leaving, and wait until it has left.

    Its agent has to withdraw what it published. Returns at once if there is no record, or it has
    left. Raises `CommandFailed` if no agent of that id runs, the broker fails, or after
    `LEAVE_TIMEOUT`. The account on the broker stays.
    """
    by_force = (
        f"or add --force, and let an administrator of the broker run `hanse leave --broker BROKER "
        f"--cluster-id {joined.cluster} --force`"
    )
    async with open_client(joined.credentials) as broker:
        try:
            record = await broker.read(ClusterMember, joined.cluster, joined.namespace)
            if record.has_left:
                return
            if await running_agent(client) != joined.cluster:
                raise CommandFailed(
                    f"{name}: no agent runs that could withdraw what {joined.cluster} shares; "
                    f"start it, {by_force}"
                )
            if record.status.phase != "Leaving":
                await set_phase(broker, record, "Leaving")
            echo(f"waiting until {joined.cluster} has left its broker")
            async with asyncio.timeout(LEAVE_TIMEOUT):
                await _wait_until_left(broker, joined)
        except NotFound:
            return  # no record: nothing to wait for
        except (KubeError, TimeoutError) as error:
            why = str(error) or "its agent has not withdrawn everything in time"
            raise CommandFailed(
                f"{name}: {joined.cluster} cannot leave its broker: {why}; try again, {by_force}"
            ) from None
    echo(
        f"{joined.cluster} has left its broker; an administrator deletes its account there: "
        f"hanse leave --broker BROKER --cluster-id {joined.cluster} --context {name}"
    )


async def _wait_until_left(broker: Client, joined: JoinedBroker) -> None:
    """Poll the record until its phase is Left or Replaced; raises `NotFound` if it goes."""
    place = (ClusterMember, joined.cluster, joined.namespace)
    while not (await broker.read(*place)).has_left:  # noqa: ASYNC110 - polls a server
        await asyncio.sleep(_POLL_INTERVAL)
