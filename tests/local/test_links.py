"""Links that can be cut: requests in flight and open watches."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from hanse.kube.errors import Unreachable
from hanse.kube.transport import Request, Response
from hanse.local.links import Links

GET_VERSION = Request("GET", "/version")
WATCH = Request("GET", "/api/v1/pods", query=(("watch", "true"),))


class FakeTransport:
    """A transport that answers when allowed, and whose watch yields one line and stays open."""

    def __init__(self) -> None:
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.requests = 0
        self.closed = 0

    async def send(self, request: Request) -> Response:
        self.requests += 1
        await self.may_answer.wait()
        return Response(200)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        yield self._lines()
        self.closed += 1

    async def close(self) -> None:
        """There is nothing to release."""

    async def _lines(self) -> AsyncIterator[bytes]:
        yield b"first"
        await asyncio.get_running_loop().create_future()


pytestmark = pytest.mark.anyio


async def test_a_cut_holds_in_both_directions() -> None:
    links = Links()
    transports = [
        links.transport("lubeck", "bergen", FakeTransport()),
        links.transport("bergen", "lubeck", FakeTransport()),
    ]

    links.cut("lubeck", "bergen")

    for transport in transports:
        with pytest.raises(Unreachable, match="does not answer"):
            await transport.send(GET_VERSION)


async def test_a_cut_affects_no_other_link() -> None:
    links = Links()
    other = links.transport("lubeck", "broker", FakeTransport())

    links.cut("lubeck", "bergen")

    assert (await other.send(GET_VERSION)).status == 200


async def test_a_response_in_flight_when_the_link_is_cut_never_arrives() -> None:
    links, cluster = Links(), FakeTransport()
    cluster.may_answer.clear()
    transport = links.transport("lubeck", "bergen", cluster)
    asking = asyncio.ensure_future(transport.send(GET_VERSION))
    await asyncio.sleep(0)

    links.cut("lubeck", "bergen")
    cluster.may_answer.set()

    with pytest.raises(Unreachable):
        await asking
    assert cluster.requests == 1


async def test_watches_end_at_a_cut_and_start_again_when_it_is_healed() -> None:
    links = Links()
    transport = links.transport("lubeck", "bergen", FakeTransport())
    async with transport.stream(WATCH) as lines:
        assert await anext(lines) == b"first"
        following = asyncio.ensure_future(anext(lines))
        await asyncio.sleep(0)

        links.cut("bergen", "lubeck")

        with pytest.raises(Unreachable, match="reset"):
            await following

    with pytest.raises(Unreachable):
        async with transport.stream(WATCH):
            pass
    links.heal("lubeck", "bergen")
    async with transport.stream(WATCH) as lines:
        assert await anext(lines) == b"first"


async def test_a_cancelled_reader_leaves_no_task_behind() -> None:
    transport = Links().transport("lubeck", "bergen", FakeTransport())

    async def follow() -> None:
        async with transport.stream(WATCH) as lines:
            async for _ in lines:
                following.set()

    following = asyncio.Event()
    before = asyncio.all_tasks()
    task = asyncio.create_task(follow())
    await following.wait()

    task.cancel()
    await asyncio.wait({task})

    assert asyncio.all_tasks() == before


async def test_each_cut_pair_is_listed_once_until_all_are_healed() -> None:
    links = Links()

    links.cut("lubeck", "bergen")
    links.cut("broker", "bergen")
    assert links.cuts == [("bergen", "broker"), ("bergen", "lubeck")]

    links.heal_all()
    assert links.cuts == []
