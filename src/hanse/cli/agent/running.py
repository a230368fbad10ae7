"""The agent that runs in a cluster, by its Lease."""

from datetime import UTC, datetime

from hanse.cli.errors import InputError
from hanse.cli.inventory import AgentLease, agent_lease_at, server_clock
from hanse.kube import requests
from hanse.kube.client import Client
from hanse.kube.decoding import decode_object
from hanse.kube.errors import KubeError, NotFound
from hanse.model.kinds.coordination import Lease
from hanse.model.naming import AGENT, SYSTEM_NAMESPACE, holder_cluster
from hanse.model.objects import ClusterId


async def read_agent_lease(client: Client, namespace: str = SYSTEM_NAMESPACE) -> AgentLease | None:
    """The Lease of a cluster's agent as of the API server's time; None without one.

    Raises `KubeError`.
    """
    try:
        response = await client.send(requests.read(Lease.kind, AGENT, namespace))
    except NotFound:
        return None
    now = server_clock(response, datetime.now(UTC))
    return agent_lease_at(decode_object(response.body, Lease), now)


async def running_agent(client: Client, namespace: str = SYSTEM_NAMESPACE) -> ClusterId:
    """The cluster id in the holder of the agent's Lease, if that was renewed in time.

    "" if it was not, nobody holds it, or it cannot be read.
    """
    try:
        agent = await read_agent_lease(client, namespace)
    except KubeError:
        return ""
    return holder_cluster(agent.holder) if agent is not None and agent.alive else ""


async def check_running_agent(client: Client, context: str, cluster: ClusterId) -> None:
    """Raise `InputError` if an agent with another cluster id runs in a cluster, by its Lease.

    No error if the Lease is missing, not renewed in time, or cannot be read. `context` is the name
    of the cluster in the error.
    """
    running = await running_agent(client)
    if running not in ("", cluster):
        raise InputError(
            f"an agent runs in {context} as {running!r}; use that --cluster-id, or stop the agent "
            "first"
        )
