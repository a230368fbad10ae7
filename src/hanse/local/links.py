"""Network links between clusters, which can be cut and healed."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any

from hanse.kube.errors import Unreachable
from hanse.kube.transport import Request, Response, Transport


class Link:
    """The link from one cluster's agent to another cluster's API server."""

    def __init__(self, source: str, target: str) -> None:
        """A link that is not cut; `broken` is set, and replaced, to end its watches."""
        self.source = source
        self.target = target
        self.cut = False
        self.broken = asyncio.Event()

    @property
    def error(self) -> Unreachable:
        """The error of requests over a cut link, to be raised."""
        return Unreachable(f"{self.target} does not answer {self.source}")

    def break_watches(self) -> None:
        """End the open watches of the link; new ones can start."""
        self.broken.set()
        self.broken = asyncio.Event()


class Links:
    """All links by source and target."""

    def __init__(self) -> None:
        self._links: dict[tuple[str, str], Link] = {}

    def link(self, source: str, target: str) -> Link:
        """The link in this direction; it is created, not cut, if it does not exist."""
        return self._links.setdefault((source, target), Link(source, target))

    def transport(self, source: str, target: str, inner: Transport) -> "LinkedTransport":
        """Wrap a transport: it raises `Unreachable` while the link in this direction is cut."""
        return LinkedTransport(self.link(source, target), inner)

    def cut(self, one: str, other: str) -> None:
        """Cut both links between the two: requests fail until `heal`, and open watches end."""
        for link in self._both_directions(one, other):
            link.cut = True
            link.break_watches()

    def heal(self, one: str, other: str) -> None:
        """Undo a cut in both directions; watches that it ended stay ended."""
        for link in self._both_directions(one, other):
            link.cut = False

    def heal_all(self) -> None:
        """Undo all cuts; watches that they ended stay ended."""
        for link in self._links.values():
            link.cut = False

    @property
    def cuts(self) -> list[tuple[str, str]]:
        """The cut pairs, each once; sorted, also within a pair."""
        pairs = (sorted(pair) for pair, link in self._links.items() if link.cut)
        return sorted({(one, other) for one, other in pairs})

    def _both_directions(self, one: str, other: str) -> tuple[Link, Link]:
        """The links from one to the other and back; they are created if they do not exist."""
        return self.link(one, other), self.link(other, one)


class LinkedTransport:
    """A transport whose link can be cut, also while a request is in flight."""

    def __init__(self, link: Link, inner: Transport) -> None:
        self._link = link
        self._inner = inner

    async def send(self, request: Request) -> Response:
        """Send, or raise `Unreachable` if the link is cut.

        If the link is cut when the response arrives it raises, too, although the server has handled
        the request.
        """
        if self._link.cut:
            raise self._link.error
        response = await self._inner.send(request)
        if self._link.cut:  # cut in flight: the write is done, but the source cannot know
            raise self._link.error
        return response

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        """Stream, or raise `Unreachable` if the link is cut.

        Reading from the open stream raises `Unreachable` once the link is cut or its watches are
        broken.
        """
        if self._link.cut:
            raise self._link.error
        broken = self._link.broken
        async with (
            self._inner.stream(request) as lines,
            aclosing(read_until_broken(lines, broken)) as connected_lines,
        ):
            yield connected_lines

    async def close(self) -> None:
        """Close the transport below."""
        await self._inner.close()


async def read_until_broken(
    lines: AsyncIterator[bytes], broken: asyncio.Event
) -> AsyncGenerator[bytes, None]:
    """Yield lines until they end; raise `Unreachable` once the event is set.

    If the next line is there as well, it comes first.
    """
    breaking = asyncio.ensure_future(broken.wait())
    try:
        while (line := await _next_line(breaking, lines)) is not None:
            yield line
    finally:
        breaking.cancel()


async def _next_line(breaking: "asyncio.Future[Any]", lines: AsyncIterator[bytes]) -> bytes | None:
    """The next line, None at the end; raises `Unreachable` if `breaking` ends first.

    The read is cancelled then, and if this is cancelled.
    """
    reading: asyncio.Future[bytes | None] = asyncio.ensure_future(anext(lines, None))
    either: set[asyncio.Future[Any]] = {reading, breaking}
    try:
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if reading.done():
            return reading.result()
        raise Unreachable("the connection was reset")
    finally:
        if not reading.done():
            reading.cancel()
            await asyncio.wait({reading})
