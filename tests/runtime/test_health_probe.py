"""A quiet cluster is probed, and unresponsive when it does not answer."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from random import Random

import pytest

from hanse.kube.errors import BadCredentials, Forbidden, KubeError, Status
from hanse.local.in_process import InProcessTransport
from hanse.model.facts import ClusterState, Phase, Role
from hanse.runtime.api import ClusterClient
from hanse.runtime.connection import NO_ANSWER, Connection
from hanse.runtime.health_probe import (
    PROBE_INTERVAL,
    PROBE_TIMEOUT,
    QUIET_PERIOD,
    run_probe,
)
from tests.runtime.toy_world import toy_world
from tests.support.faults import DETECTION_TIME
from tests.support.world import BROKER
from tinykube.apiserver import ApiServer
from tinykube.virtual_time import ON_VIRTUAL_TIME, LoopClock

pytestmark = pytest.mark.anyio

REFUSED = "cannot connect to bergen: connection refused"


@pytest.fixture
def anyio_backend() -> object:
    return ON_VIRTUAL_TIME


class ProbedConnection:
    """A probed connection whose probes get these answers, the last one for ever."""

    def __init__(self, *answers: str) -> None:
        api = ClusterClient(InProcessTransport(ApiServer("bergen", clock=LoopClock())), Random(0))
        now = datetime(2026, 1, 1, tzinfo=UTC)
        self.connection = Connection("bergen", frozenset({Role.MEMBER}), api, now)
        self.probed_at: list[float] = []
        self.unresponsive_at: float | None = None
        self.delay = timedelta(0)
        """How late an answer comes."""
        self.slowness: list[bool] = []
        """Whether it was slow at each change."""
        self._answers: Sequence[str] = answers

    def hear(self) -> None:
        self.connection.answered_at = asyncio.get_running_loop().time()

    async def _probe(self, _: Connection) -> str:
        answer = self._answers[min(len(self.probed_at), len(self._answers) - 1)]
        self.probed_at.append(asyncio.get_running_loop().time())
        if answer == NO_ANSWER:
            await asyncio.get_running_loop().create_future()
        await asyncio.sleep(self.delay.total_seconds())
        if not answer:
            self.hear()
        return answer

    def _on_change(self, connection: Connection) -> None:
        self.slowness.append(connection.slow)
        if connection.unresponsive:
            self.unresponsive_at = asyncio.get_running_loop().time()

    @asynccontextmanager
    async def running(self) -> AsyncIterator["ProbedConnection"]:
        task = asyncio.create_task(run_probe(self.connection, self._probe, self._on_change))
        try:
            yield self
        finally:
            task.cancel()
            await asyncio.wait({task})


def seconds(number: float) -> object:
    return pytest.approx(number, abs=0.01)


async def test_a_quiet_cluster_is_probed_now_and_then() -> None:
    async with ProbedConnection("").running() as probed:
        await asyncio.sleep(2.5 * QUIET_PERIOD.total_seconds())

    assert probed.probed_at == [
        seconds(QUIET_PERIOD.total_seconds()),
        seconds(2 * QUIET_PERIOD.total_seconds()),
    ]
    assert probed.unresponsive_at is None


async def test_a_busy_cluster_is_probed_rarely_since_watches_outlive_credentials() -> None:
    async with ProbedConnection(NO_ANSWER).running() as probed:
        for _ in range(10):
            await asyncio.sleep(QUIET_PERIOD.total_seconds() / 2)
            probed.hear()

    assert probed.probed_at == [seconds(PROBE_INTERVAL.total_seconds())]
    assert probed.unresponsive_at is None


async def test_a_cluster_that_answers_nothing_is_unresponsive_within_half_a_minute() -> None:
    async with ProbedConnection(NO_ANSWER).running() as probed:
        await asyncio.sleep(60)

        assert probed.unresponsive_at == seconds(DETECTION_TIME.total_seconds())
        assert probed.unresponsive_at is not None
        assert probed.unresponsive_at <= 30
        assert probed.connection.current_state(LoopClock().now()).reason == NO_ANSWER


async def test_one_probe_may_be_lost() -> None:
    async with ProbedConnection(NO_ANSWER, "").running() as probed:
        await asyncio.sleep(40)

    assert probed.unresponsive_at is None


async def test_a_cluster_that_answers_late_is_slow_until_it_answers_in_time() -> None:
    async with ProbedConnection("").running() as probed:
        probed.delay = timedelta(seconds=3)
        await asyncio.sleep(3 * QUIET_PERIOD.total_seconds())
        slow = probed.connection.current_state(LoopClock().now())
        probed.delay = timedelta(0)
        await asyncio.sleep(2 * QUIET_PERIOD.total_seconds())
        quick = probed.connection.current_state(LoopClock().now())

    assert (slow.slow, quick.slow) == (True, False)
    assert probed.slowness == [True, False], "the fact changes twice"
    assert probed.unresponsive_at is None


async def test_a_probe_that_fails_at_once_says_nothing_of_the_speed_of_other_answers() -> None:
    async with ProbedConnection(REFUSED).running() as probed:
        while probed.unresponsive_at is None and len(probed.probed_at) < 3:
            await asyncio.sleep(1)
            if len(probed.probed_at) == 1:
                probed.hear()

    assert probed.slowness.count(True) == 0


async def test_the_reason_of_a_failed_probe_is_in_the_state() -> None:
    async with ProbedConnection(REFUSED).running() as probed:
        await asyncio.sleep(60)

        assert probed.connection.unresponsive == REFUSED
    assert probed.probed_at[1] - probed.probed_at[0] == seconds(PROBE_TIMEOUT.total_seconds())


async def test_a_suspected_cluster_is_probed_at_once() -> None:
    async with ProbedConnection("").running() as probed:
        await asyncio.sleep(3)
        probed.connection.suspected.set()
        await asyncio.sleep(1)

    assert probed.probed_at == [seconds(3)]


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
    ("error", "phase", "reason"),
    [
        (Forbidden(Status(code=403, message="no")), Phase.SYNCED, ""),
        (
            BadCredentials("the token is too old"),
            Phase.UNREACHABLE,
            "it rejects the agent's credentials (401: the token is too old); let it `hanse join",
        ),
    ],
    ids=["forbidden", "too old a token"],
)
async def test_a_refusal_is_an_answer(
    error: KubeError, phase: Phase, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refused(_: ClusterClient) -> str:
        raise error

    monkeypatch.setattr(ClusterClient, "identity", refused)
    async with toy_world() as world:
        await asyncio.sleep(2 * DETECTION_TIME.total_seconds())
        state = world.agents["hamburg"].reconciler.informers.facts.get(ClusterState, BROKER)

    assert state is not None
    assert state.phase is phase
    assert state.reason.startswith(reason)
