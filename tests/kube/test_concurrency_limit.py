"""How many requests a cluster gets at once, found out by how it answers."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from datetime import timedelta

import pytest

from hanse.kube.concurrency_limit import AdaptiveConcurrencyLimit
from hanse.kube.errors import Unreachable
from hanse.kube.transport import Request, Response
from tinykube.virtual_time import ON_VIRTUAL_TIME

pytestmark = pytest.mark.anyio

OK = Response(200)
BUSY = Response(429)


@pytest.fixture
def anyio_backend() -> object:
    return ON_VIRTUAL_TIME


class Server:
    """Answers each request after a while, and counts how many it has at once."""

    def __init__(self, *, takes: float = 0.1) -> None:
        self.takes = takes
        self.answer: Response | None = OK
        self.at_once = 0
        self.most_at_once = 0
        self.order: list[str] = []
        self.just_before_answering: Callable[[], object] = lambda: None

    async def send(self, request: Request) -> Response:
        self.order.append(request.path)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await asyncio.sleep(self.takes)
        finally:
            self.at_once -= 1
        asyncio.get_running_loop().call_soon(self.just_before_answering)
        if self.answer is None:
            raise Unreachable("no answer")
        return self.answer

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        raise NotImplementedError

    async def close(self) -> None:
        pass


async def send_all(limit: AdaptiveConcurrencyLimit, server: Server, count: int) -> None:
    async with asyncio.TaskGroup() as group:
        for n in range(count):
            group.create_task(limit.send(server, Request("GET", f"/{n}")), name=f"request {n}")


async def test_no_more_than_the_window_are_sent_at_once() -> None:
    server = Server()

    await send_all(AdaptiveConcurrencyLimit(first=3, most=3), server, 20)

    assert server.most_at_once == 3


async def test_a_window_that_is_widened_admits_those_who_wait() -> None:
    server = Server()
    limit = AdaptiveConcurrencyLimit(first=1, most=1)

    async with asyncio.TaskGroup() as group:
        group.create_task(send_all(limit, server, 20), name="requests")
        await asyncio.sleep(server.takes / 2)
        before = server.at_once
        limit.widen(4)
        limit.widen(2)

    assert (before, server.most_at_once) == (1, 4)


async def test_requests_go_in_the_order_they_came() -> None:
    server = Server()

    await send_all(AdaptiveConcurrencyLimit(first=2, most=4), server, 30)

    assert server.order == [f"/{n}" for n in range(30)]


async def test_good_answers_widen_the_window_up_to_its_cap() -> None:
    limit = AdaptiveConcurrencyLimit(first=2, most=8)

    await send_all(limit, Server(), 50)

    assert limit.width == 8


async def test_a_server_that_has_enough_to_do_is_not_given_more_at_once() -> None:
    limit, server = AdaptiveConcurrencyLimit(first=4), Server(takes=0.02)
    await send_all(limit, server, 1)
    width = limit.width

    server.takes = 0.2  # what waits in the server might as well wait here
    await send_all(limit, server, 50)

    assert limit.width == width


async def test_a_far_server_is_given_more_at_once_for_as_long_as_it_keeps_its_pace() -> None:
    limit = AdaptiveConcurrencyLimit(first=4, most=32)

    await send_all(limit, Server(takes=0.3), 200)

    assert limit.width == 32


async def test_a_near_server_needs_no_more_connections_than_an_agent_keeps_busy() -> None:
    limit = AdaptiveConcurrencyLimit(first=4, most=32)

    await send_all(limit, Server(takes=0.0055), 200)

    assert limit.width == 11


async def test_a_window_full_of_429_is_halved_once() -> None:
    limit, server = AdaptiveConcurrencyLimit(first=16), Server()
    server.answer = BUSY

    await send_all(limit, server, 16)

    assert limit.width == 8


async def test_slow_answers_halve_it_down_to_one_and_never_to_none() -> None:
    limit, server = AdaptiveConcurrencyLimit(first=4, slow=timedelta(seconds=3)), Server(takes=5)

    await send_all(limit, server, 20)

    assert limit.width == 1


async def test_after_trouble_it_grows_by_one_for_each_window_of_good_answers() -> None:
    limit, server = AdaptiveConcurrencyLimit(first=8), Server()
    server.answer = BUSY
    await send_all(limit, server, 1)
    server.answer = OK

    await send_all(limit, server, 4)
    after_one_window = limit.width
    await send_all(limit, server, 4)

    assert (after_one_window, limit.width) == (5, 5)


async def test_a_refused_connection_changes_nothing() -> None:
    limit, server = AdaptiveConcurrencyLimit(first=8), Server()
    server.answer = None

    with pytest.raises(Unreachable):
        await limit.send(server, Request("GET", "/"))

    assert (limit.width, limit.active) == (8, 0)


async def test_retry_after_holds_everything_back_for_as_long_as_it_says() -> None:
    limit, server = AdaptiveConcurrencyLimit(), Server(takes=0)
    server.answer = Response(429, headers={"retry-after": "7"})
    await limit.send(server, Request("GET", "/refused"))
    server.answer = OK

    await send_all(limit, server, 3)

    assert asyncio.get_running_loop().time() == pytest.approx(7, abs=0.01)
    assert limit.active == 0


async def test_whoever_gives_up_waiting_leaves_the_queue() -> None:
    limit, server = AdaptiveConcurrencyLimit(first=1, most=1), Server(takes=1)
    tasks = [
        asyncio.create_task(limit.send(server, Request("GET", f"/{n}")), name=f"request {n}")
        for n in range(3)
    ]
    await asyncio.sleep(0.5)

    tasks[1].cancel()
    await asyncio.gather(*tasks, return_exceptions=True)

    assert server.order == ["/0", "/2"]
    assert (limit.active, limit.waiting) == (0, 0)


async def test_a_turn_given_and_cancelled_in_one_moment_goes_to_the_next() -> None:
    limit, server = AdaptiveConcurrencyLimit(first=1, most=1), Server(takes=1)
    tasks = [
        asyncio.create_task(limit.send(server, Request("GET", f"/{n}")), name=f"request {n}")
        for n in range(3)
    ]
    server.just_before_answering = tasks[1].cancel

    await asyncio.gather(*tasks, return_exceptions=True)

    assert server.order == ["/0", "/2"]
    assert (limit.active, limit.waiting) == (0, 0)


async def test_all_who_are_cancelled_at_once_end_as_cancelled() -> None:
    limit, server = AdaptiveConcurrencyLimit(first=1, most=1), Server(takes=1)
    tasks = [
        asyncio.create_task(limit.send(server, Request("GET", f"/{n}")), name=f"request {n}")
        for n in range(3)
    ]
    await asyncio.sleep(0.5)

    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)

    assert all(task.cancelled() for task in tasks)
    assert (limit.active, limit.waiting) == (0, 0)
