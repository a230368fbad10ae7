"""A cluster that says nothing is asked, and told as silent when it does not answer."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from random import Random

import pytest

from hanse.kube.errors import BadCredentials, Forbidden, KubeError, Status
from hanse.local.in_process import InProcessTransport
from hanse.model.facts import ClusterState, Phase, Role
from hanse.runtime.api import ClusterClient
from hanse.runtime.connection import Connection
from hanse.runtime.health_probe import (
    DETECTION_TIME,
    NO_ANSWER,
    PROBE_TIMEOUT,
    QUIET_PERIOD,
    run_probe,
)
from tests.runtime.toy_world import toy_world
from tests.support.world import BROKER
from tinykube.apiserver import ApiServer
from tinykube.virtual_time import ON_VIRTUAL_TIME, LoopClock

pytestmark = pytest.mark.anyio

REFUSED = "cannot connect to bergen: connection refused"


@pytest.fixture
def anyio_backend() -> object:
    return ON_VIRTUAL_TIME


class Listening:
    """A listener to a cluster that answers questions as it is told, the last way for ever."""

    def __init__(self, *answers: str) -> None:
        api = ClusterClient(InProcessTransport(ApiServer("bergen", clock=LoopClock())), Random(0))
        now = datetime(2026, 1, 1, tzinfo=UTC)
        self.connection = Connection("bergen", frozenset({Role.MEMBER}), api, now)
        self.asked: list[float] = []
        self.silent_at: float | None = None
        self._answers: Sequence[str] = answers

    def hear(self) -> None:
        self.connection.answered_at = asyncio.get_running_loop().time()

    async def _ask(self, _: Connection) -> str:
        answer = self._answers[min(len(self.asked), len(self._answers) - 1)]
        self.asked.append(asyncio.get_running_loop().time())
        if answer == NO_ANSWER:
            await asyncio.get_running_loop().create_future()
        if not answer:
            self.hear()
        return answer

    def _fell_silent(self, _: Connection) -> None:
        self.silent_at = asyncio.get_running_loop().time()

    @asynccontextmanager
    async def running(self) -> AsyncIterator["Listening"]:
        task = asyncio.create_task(run_probe(self.connection, self._ask, self._fell_silent))
        try:
            yield self
        finally:
            task.cancel()
            await asyncio.wait({task})


def seconds(number: float) -> object:
    return pytest.approx(number, abs=0.01)


async def test_a_quiet_cluster_is_asked_now_and_then() -> None:
    async with Listening("").running() as told:
        await asyncio.sleep(2.5 * QUIET_PERIOD.total_seconds())

    assert told.asked == [
        seconds(QUIET_PERIOD.total_seconds()),
        seconds(2 * QUIET_PERIOD.total_seconds()),
    ]
    assert told.silent_at is None


async def test_one_of_which_anything_is_heard_is_not_asked() -> None:
    async with Listening(NO_ANSWER).running() as told:
        for _ in range(10):
            await asyncio.sleep(QUIET_PERIOD.total_seconds() / 2)
            told.hear()

    assert told.asked == []


async def test_one_that_answers_nothing_is_silent_within_half_a_minute() -> None:
    async with Listening(NO_ANSWER).running() as told:
        await asyncio.sleep(60)

        assert told.silent_at == seconds(DETECTION_TIME.total_seconds())
        assert told.silent_at is not None
        assert told.silent_at <= 30
        assert told.connection.next_state(LoopClock().now()).reason == NO_ANSWER


async def test_one_question_may_be_lost() -> None:
    async with Listening(NO_ANSWER, "").running() as told:
        await asyncio.sleep(40)

    assert told.silent_at is None


async def test_why_it_cannot_be_asked_is_told() -> None:
    async with Listening(REFUSED).running() as told:
        await asyncio.sleep(60)

        assert told.connection.unresponsive == REFUSED
    assert told.asked[1] - told.asked[0] == seconds(PROBE_TIMEOUT.total_seconds())


async def test_one_that_is_doubted_is_asked_at_once() -> None:
    async with Listening("").running() as told:
        await asyncio.sleep(3)
        told.connection.suspected.set()
        await asyncio.sleep(1)

    assert told.asked == [seconds(3)]


async def test_a_hung_broker_is_unreachable_until_it_answers_again() -> None:
    async with toy_world() as world:
        facts = world.agents["hamburg"].reconciler.informers.facts
        await asyncio.sleep(10)
        world.network.hang("hamburg", BROKER)
        await asyncio.sleep(DETECTION_TIME.total_seconds() + 1)
        during = facts.get(ClusterState, BROKER)
        world.network.heal_all()
        await asyncio.sleep(1)
        after = facts.get(ClusterState, BROKER)

    assert during is not None
    assert (during.phase, during.reason) == (Phase.UNREACHABLE, NO_ANSWER)
    assert after is not None
    assert after.phase is Phase.SYNCED


@pytest.mark.parametrize(
    "error",
    [Forbidden(Status(code=403, message="no")), BadCredentials("the token is too old")],
    ids=["forbidden", "too old a token"],
)
async def test_a_refusal_is_an_answer(error: KubeError, monkeypatch: pytest.MonkeyPatch) -> None:
    async def refused(_: ClusterClient) -> str:
        raise error

    monkeypatch.setattr(ClusterClient, "identity", refused)
    async with toy_world() as world:
        await asyncio.sleep(2 * DETECTION_TIME.total_seconds())
        state = world.agents["hamburg"].reconciler.informers.facts.get(ClusterState, BROKER)

    assert state is not None
    assert state.phase is Phase.SYNCED
