"""An agent with all features in a process of its own, which reports its counters.

    python -m bench.agent CLUSTER KUBECONFIG

It prints `synced` once it has listed everything and `settled` once nothing is left to write; then
it answers each line on standard input with its counters, until the input ends.
"""

import asyncio
import sys
import time
from pathlib import Path

import msgspec
from msgspec import Struct

from bench.counting_transport import CountingTransport
from bench.processes import most_resident, resident
from hanse.app import BROKER, features
from hanse.app.agent import Agent, AgentParts, AgentSettings
from hanse.cli.process import run_async
from hanse.kube import credentials
from hanse.kube.http_transport import HttpTransport
from hanse.model.facts import ClusterState, Phase


class AgentCounters(Struct, frozen=True):
    """What an agent has sent and used so far."""

    sent: int
    refused: int
    leases: int
    cpu: float
    resident: float
    most_resident: float
    quiet: bool
    objects: int


async def main(cluster: str, kubeconfig: Path) -> None:
    """Work until standard input ends."""
    home, broker = (
        CountingTransport(HttpTransport(credentials.find_credentials(kubeconfig, context=context)))
        for context in (cluster, BROKER)
    )
    settings = AgentSettings(cluster=cluster, identity="bench", replicated=False)
    agent = Agent(settings, AgentParts(local=home, broker=broker, features=features()))
    async with agent.running():
        await synced(agent)
        say("synced")
        await settled(agent)
        say("settled")
        questions = await lines_of_input()
        while await questions.readline():
            say(msgspec.json.encode(counters_of(agent, home, broker)).decode())
    await agent.close()


async def settled(agent: Agent) -> None:
    """Wait until no key is due."""
    while not agent.reconciler.queue.is_settled:  # noqa: ASYNC110 - it sends no event
        await asyncio.sleep(0.01)


def counters_of(agent: Agent, *transports: CountingTransport) -> AgentCounters:
    """The counters of an agent that runs in this process."""
    return AgentCounters(
        sent=sum(t.sent for t in transports),
        refused=sum(t.refused for t in transports),
        leases=sum(t.leases for t in transports),
        cpu=time.process_time(),
        resident=resident(),
        most_resident=most_resident(),
        quiet=agent.reconciler.queue.is_settled,
        objects=sum(
            len(store)
            for several in agent.reconciler.informers.stores.values()
            for store in several
        ),
    )


async def synced(agent: Agent) -> None:
    """Wait until an agent has synced every cluster."""
    facts = agent.reconciler.informers.facts
    while any(s.phase is not Phase.SYNCED for s in facts.all(ClusterState)):  # noqa: ASYNC110 - there is no event for it
        await asyncio.sleep(0.005)


async def lines_of_input() -> asyncio.StreamReader:
    """Standard input, to be read by lines."""
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    return reader


def say(text: str) -> None:
    """Print a line at once."""
    print(text, flush=True)


if __name__ == "__main__":
    run_async(lambda: main(sys.argv[1], Path(sys.argv[2])), long_running=True)  # as agents run
