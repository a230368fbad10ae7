"""The agent of one cluster of `hanse up`, in this process."""

import asyncio
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from hanse import app
from hanse.app.agent import Agent, AgentParts, AgentSettings
from hanse.app.dns import LocalDns
from hanse.cli.up.dashboard import LOOPBACK, LocalDashboard
from hanse.features.admission.options import AdmissionOptions
from hanse.features.federated.options import FederatedOptions
from hanse.features.gslb.options import GslbOptions
from hanse.features.networks.options import NetworksOptions
from hanse.features.services.manifests import KUBECONFIG
from hanse.kube.client import Client
from hanse.kube.client_config import ClientConfig, StaticCredentials
from hanse.kube.followed_credentials import FollowedCredentials, secret_config
from hanse.local.up.agents import DialCluster, RunningAgent
from hanse.local.up.sample import EXTERNAL_HOSTNAME
from hanse.local.up.topology import BROKER, LocalMember
from hanse.model.facts import ClusterState, Phase
from hanse.model.naming import BROKER_SECRET, SYSTEM_NAMESPACE
from hanse.runtime.readiness import not_ready_reason

if TYPE_CHECKING:  # only nodes with containers need them
    from hanse.local.real.nodes.fabric import Fabric

AGENT_START_TIMEOUT = timedelta(seconds=10)


@asynccontextmanager
async def run_agent(
    dns: LocalDns,
    page: LocalDashboard,
    gslb: GslbOptions,
    networks: NetworksOptions,
    fabric: "Fabric | None",
    member: LocalMember,
    access: Mapping[str, ClientConfig],
    dial: DialCluster,
) -> AsyncIterator[RunningAgent]:
    """Run one cluster's agent until the block ends; its health and webhook ports are on loopback.

    The block starts when the agent is ready, or after `AGENT_START_TIMEOUT` all the same. Its token
    for the broker follows the Secret that `hanse join` writes into the cluster. With a fabric it
    probes from its cluster's network. The page shows it, and it feeds the DNS views, meanwhile.
    """
    own = StaticCredentials(access[member.name])
    home = Client(dial(member.name, own))
    place = (SYSTEM_NAMESPACE, BROKER_SECRET, KUBECONFIG)
    broker = FollowedCredentials(StaticCredentials(access[BROKER]), secret_config(home, *place))
    transports = dial(member.name, own), dial(BROKER, broker)
    # One federation runs in a folder at a time, so the same identity takes over an old Lease.
    listener, health = socket.create_server((LOOPBACK, 0)), socket.create_server((LOOPBACK, 0))
    url = f"https://{LOOPBACK}:{listener.getsockname()[1]}"
    metrics = f"http://{LOOPBACK}:{health.getsockname()[1]}/metrics"
    options = app.Options(
        admission=AdmissionOptions(enabled=True, url=url),
        federated=FederatedOptions(hostname=EXTERNAL_HOSTNAME),
        gslb=gslb,
        networks=networks,
    )
    settings = AgentSettings(cluster=member.name, identity="local", options=options)
    agent = Agent(
        settings,
        AgentParts(
            local=transports[0],
            broker=transports[1],
            broker_credentials=broker,
            open_socket=partial(fabric.open_socket, member.name)
            if fabric is not None
            else socket.socket,
            features=app.features(options),
            hooks=app.hooks(options),
            extra_watches=dns.watches_for(member.name),
            new_transport=dial,
        ),
    )
    try:
        async with (
            page.showing(agent),
            broker.following(),
            agent.running(health, listener),
            dns.feeding_from(agent),
        ):
            await _wait_until_ready(agent)
            yield RunningAgent(lambda: _cluster_phases(agent), metrics, partial(_reconnect, agent))
    finally:
        await agent.close()
        for transport in transports:
            await transport.close()
        await home.close()


def _cluster_phases(agent: Agent) -> dict[str, str]:
    """By cluster, the phase of an agent's connection to it, as PHASE or `PHASE: REASON`."""
    states = agent.reconciler.informers.facts.all(ClusterState)
    return {s.cluster: f"{s.phase}: {s.reason}" if s.reason else str(s.phase) for s in states}


def _reconnect(agent: Agent, target: str) -> None:
    """Restart the informers of an agent's Unreachable connections to the cluster `target`.

    They need not wait for their next attempt; other connections stay as they are.
    """
    informers = agent.reconciler.informers
    for state in list(informers.facts.all(ClusterState)):
        if state.phase is Phase.UNREACHABLE and state.cluster.rpartition("/")[2] == target:
            informers.restart_informers(state.cluster)


async def _wait_until_ready(agent: Agent) -> None:
    """Wait until an agent is ready and its Lease shows its cluster to others.

    Returns also after `AGENT_START_TIMEOUT`, without an error. Placement would skip a cluster that
    is not published yet.
    """
    with suppress(TimeoutError):
        async with asyncio.timeout(AGENT_START_TIMEOUT.total_seconds()):
            while not agent.is_published or not_ready_reason(agent.reconciler):  # noqa: ASYNC110 - for us alone
                await asyncio.sleep(0.01)
