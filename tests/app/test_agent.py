"""The connections of an agent."""

import pytest

from hanse.app import BROKER
from hanse.app.agent import Agent, AgentParts, AgentSettings
from hanse.kube.clock import WallClock
from hanse.local.in_process import InProcessTransport
from tinykube.apiserver import ApiServer

pytestmark = pytest.mark.anyio


class ClosedOnce(InProcessTransport):
    """A transport that says whether it was closed."""

    closed = False

    async def close(self) -> None:
        self.closed = True


async def test_the_connection_to_a_broker_that_was_left_stays_open_until_the_agent_ends() -> None:
    local = InProcessTransport(ApiServer("rome", clock=WallClock()))
    broker = ClosedOnce(ApiServer("broker", clock=WallClock()))
    parts = AgentParts(local=local, broker=broker)
    agent = Agent(AgentSettings("rome", "pod"), parts)

    await agent.reconciler.informers.disconnect(BROKER)
    assert not broker.closed  # this cluster may join again

    await agent.close()
    assert broker.closed
