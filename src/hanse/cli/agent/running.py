"""The agent that runs in a cluster, by its Lease."""

from datetime import UTC, datetime

from hanse.cli.errors import InputError
from hanse.cli.inventory import agent_lease_at
from hanse.kube.client import Client
from hanse.kube.errors import KubeError
from hanse.model.kinds.coordination import Lease
from hanse.model.naming import AGENT, SYSTEM_NAMESPACE, holder_cluster
from hanse.model.objects import ClusterId


async def running_agent(client: Client, namespace: str = SYSTEM_NAMESPACE) -> ClusterId:
    """The cluster id in the holder of the agent's Lease, if that was renewed in time.

    "" if it was not, nobody holds it, or it cannot be read.
    """
    try:
        lease = await client.read(Lease, AGENT, namespace)
    except KubeError:
        return ""
    agent = agent_lease_at(lease, datetime.now(UTC))
    return holder_cluster(agent.holder) if agent is not None and agent.alive else ""


async def check_running_agent(client: Client, context: str, cluster: ClusterId) -> None:
    """Raise `InputError` if an agent with another cluster id runs there, by its Lease."""
    running = await running_agent(client)
    if running not in ("", cluster):
        raise InputError(
            f"an agent runs in {context} as {running!r}; use that --cluster-id, or stop the agent "
            "first"
        )
