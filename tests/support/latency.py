"""Random latencies of requests and watch events, as of busy API servers."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from datetime import timedelta
from random import Random

from hanse.kube.transport import Request, Response, Transport
from tinykube.controllers.kubelet import PodTiming

_SHARES = ((0.7, 0.03), (0.95, 0.3), (1.0, 1.2))
"""Which share of latencies is below which seconds, cumulated."""


def draw_latency(random: Random) -> float:
    """Seconds that one request or event takes: mostly few, sometimes over one."""
    drawn = random.random()
    return random.random() * next(most for share, most in _SHARES if drawn <= share)


def draw_timing(random: Random) -> PodTiming:
    """How long pods take to start and to stop."""
    start, stop = (timedelta(seconds=0.1 + draw_latency(random)) for _ in range(2))
    return PodTiming(start_after=start, stop_after=stop)


class LatentTransport:
    """A transport whose requests, and with `watches` also events, take a random time."""

    def __init__(self, inner: Transport, random: Random, *, watches: bool) -> None:
        """Wrap a transport; who measures by a watch sees its events at once."""
        self._inner = inner
        self._random = random
        self._watches = watches

    async def send(self, request: Request) -> Response:
        """Send after a latency, and answer after another."""
        await self._pass_time()
        answer = await self._inner.send(request)
        await self._pass_time()
        return answer

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        """Stream events, each after those before it and a latency."""
        async with self._inner.stream(request) as lines:
            if not self._watches:
                yield lines
                return
            async with aclosing(self._late(lines)) as late:
                yield late

    async def close(self) -> None:
        await self._inner.close()

    async def _late(self, lines: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
        async for line in lines:
            await self._pass_time()
            yield line

    async def _pass_time(self) -> None:
        await asyncio.sleep(draw_latency(self._random))
