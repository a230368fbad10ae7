"""Links that can be cut: what gets through, what does not, and what breaks off."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from hanse.kube.errors import Unreachable
from hanse.kube.request import Request, Response
from hanse.local.links import Links

ASK = Request("GET", "/version")
WATCH = Request("GET", "/api/v1/pods", query=(("watch", "true"),))


class Answering:
    """A cluster that answers when it is let, and whose watch tells one line and then stays."""

    def __init__(self) -> None:
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.asked = 0
        self.closed = 0

    async def send(self, request: Request) -> Response:
        self.asked += 1
        await self.may_answer.wait()
        return Response(200)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        yield self._lines()
        self.closed += 1

    async def close(self) -> None:
        """Nothing is held."""

    async def _lines(self) -> AsyncIterator[bytes]:
        yield b"first"
        await asyncio.get_running_loop().create_future()


pytestmark = pytest.mark.anyio


async def test_a_cut_holds_in_both_directions() -> None:
    links = Links()
    ways = [
        links.transport("lubeck", "bergen", Answering()),
        links.transport("bergen", "lubeck", Answering()),
    ]

    links.cut("lubeck", "bergen")

    for way in ways:
        with pytest.raises(Unreachable, match="does not answer"):
            await way.send(ASK)


async def test_a_cut_touches_no_other_link() -> None:
    links = Links()
    other = links.transport("lubeck", "broker", Answering())

    links.cut("lubeck", "bergen")

    assert (await other.send(ASK)).status == 200


async def test_an_answer_that_is_under_way_when_the_link_is_cut_never_arrives() -> None:
    links, cluster = Links(), Answering()
    cluster.may_answer.clear()
    way = links.transport("lubeck", "bergen", cluster)
    asking = asyncio.ensure_future(way.send(ASK))
    await asyncio.sleep(0)

    links.cut("lubeck", "bergen")
    cluster.may_answer.set()

    with pytest.raises(Unreachable):
        await asking
    assert cluster.asked == 1


async def test_watches_break_off_at_a_cut_and_begin_anew_when_it_is_healed() -> None:
    links = Links()
    way = links.transport("lubeck", "bergen", Answering())
    async with way.stream(WATCH) as lines:
        assert await anext(lines) == b"first"
        following = asyncio.ensure_future(anext(lines))
        await asyncio.sleep(0)

        links.cut("bergen", "lubeck")

        with pytest.raises(Unreachable, match="reset"):
            await following

    with pytest.raises(Unreachable):
        async with way.stream(WATCH):
            pass
    links.heal("lubeck", "bergen")
    async with way.stream(WATCH) as lines:
        assert await anext(lines) == b"first"


async def test_a_reader_that_is_stopped_leaves_nothing_behind() -> None:
    way = Links().transport("lubeck", "bergen", Answering())

    async def follow() -> None:
        async with way.stream(WATCH) as lines:
            async for _ in lines:
                following.set()

    following = asyncio.Event()
    before = asyncio.all_tasks()
    task = asyncio.create_task(follow())
    await following.wait()

    task.cancel()
    await asyncio.wait({task})

    assert asyncio.all_tasks() == before


async def test_each_cut_pair_is_told_once_until_all_are_healed() -> None:
    links = Links()

    links.cut("lubeck", "bergen")
    links.cut("broker", "bergen")
    assert links.cuts == [("bergen", "broker"), ("bergen", "lubeck")]

    links.heal_all()
    assert links.cuts == []
