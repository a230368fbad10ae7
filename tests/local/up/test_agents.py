"""Agents of a local federation that fail: they are started again, as pods would be."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import timedelta

import pytest

from hanse.kube.retry import Backoff
from hanse.local.up import agents
from hanse.local.up.agents import LocalAgents, OpenAgent, RunningAgent
from hanse.local.up.errors import UpError
from hanse.local.up.topology import LocalMember, plan_members

pytestmark = pytest.mark.anyio

ROME = "rome"


class FailingAgent:
    """An agent that runs until a task of it fails."""

    def __init__(self) -> None:
        self.starts = 0
        self.fail: asyncio.Event = asyncio.Event()
        self.on_stop: Callable[[], None] = lambda: None

    @asynccontextmanager
    async def open(self, _: LocalMember) -> AsyncIterator[RunningAgent]:
        self.starts += 1
        async with asyncio.TaskGroup() as group:
            task = group.create_task(self._fail())
            yield RunningAgent(dict, "")
            task.cancel()
            self.on_stop()

    async def _fail(self) -> None:
        await self.fail.wait()
        self.fail.clear()
        _mistake()


def _mistake() -> None:
    raise LookupError("a mistake of ours")


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agents, "RESTART", Backoff(timedelta(0), timedelta(0)))


async def test_an_agent_that_fails_is_started_again() -> None:
    agent, local = FailingAgent(), LocalAgents(plan_members([ROME]))

    async with local.running(agent.open):
        agent.fail.set()
        async with asyncio.timeout(5):
            while agent.starts < 2 or not local.is_running(ROME):  # noqa: ASYNC110 - no event
                await asyncio.sleep(0)
        await local.stop(ROME)

    assert agent.starts == 2


async def test_an_agent_that_fails_while_it_stops_ends_nothing_else() -> None:
    agent, local = FailingAgent(), LocalAgents(plan_members([ROME]))

    async with local.running(agent.open):
        agent.on_stop = _mistake
        await local.stop(ROME)
        agent.on_stop = lambda: None
        await local.start(ROME)

        assert local.is_running(ROME)


class ReplaceableAgent:
    """An agent that starts well at first."""

    def __init__(self) -> None:
        self.current: OpenAgent = FailingAgent().open

    def open(self, member: LocalMember) -> AbstractAsyncContextManager[RunningAgent]:
        return self.current(member)


@asynccontextmanager
async def failing_start(_: LocalMember) -> AsyncIterator[RunningAgent]:
    async with asyncio.TaskGroup():
        _mistake()
        yield RunningAgent(dict, "")


@asynccontextmanager
async def endless_start(_: LocalMember) -> AsyncIterator[RunningAgent]:
    await asyncio.Event().wait()
    yield RunningAgent(dict, "")


@asynccontextmanager
async def broken_agent(
    monkeypatch: pytest.MonkeyPatch,
    local: LocalAgents,
    replaceable: ReplaceableAgent,
    broken: OpenAgent,
) -> AsyncIterator[None]:
    """Agents run, that of rome is stopped, and does not start in the short time that it has."""
    monkeypatch.setattr(agents, "STARTED_WITHIN", timedelta(milliseconds=50))
    async with asyncio.timeout(5), local.running(replaceable.open):
        await local.stop(ROME)
        replaceable.current = broken
        yield


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (failing_start, "the agent of rome does not start: a mistake of ours; it is started again"),
        (endless_start, "the agent of rome has not started within 0.05 s; it is started again"),
    ],
)
async def test_an_agent_that_does_not_start_is_told_and_can_be_stopped_and_started(
    monkeypatch: pytest.MonkeyPatch, broken: OpenAgent, message: str
) -> None:
    replaceable, local = ReplaceableAgent(), LocalAgents(plan_members([ROME]))

    async with broken_agent(monkeypatch, local, replaceable, broken):
        with pytest.raises(UpError, match=message):
            await local.start(ROME)
        await local.stop(ROME)
        replaceable.current = FailingAgent().open
        await local.start(ROME)

        assert local.is_running(ROME)


async def test_agents_that_do_not_start_do_not_keep_the_federation_from_ending(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    replaceable, local = ReplaceableAgent(), LocalAgents(plan_members([ROME]))

    async with broken_agent(monkeypatch, local, replaceable, endless_start):
        with pytest.raises(UpError):
            await local.start_all()

    assert not local.is_running(ROME)


async def test_agents_try_again_at_once_what_is_back_and_not_what_is_cut(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(agents, "REACHED_WITHIN", timedelta(milliseconds=50))
    seen = {"rome": "Synced", "paris": "Unreachable: no", "gslb/oslo": "Unreachable: no"}
    tried: list[str] = []

    @asynccontextmanager
    async def open_agent(_: LocalMember) -> AsyncIterator[RunningAgent]:
        yield RunningAgent(lambda: seen, "", tried.append)

    local = LocalAgents(plan_members([ROME]))
    async with local.running(open_agent):
        await local.reconnect({"rome", "paris", "oslo"}, [("paris", "rome")])

    assert tried == ["oslo"]
