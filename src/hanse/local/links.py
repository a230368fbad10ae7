"""The ways between parties, which a person can cut and heal."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from typing import Any

from hanse.kube.errors import Unreachable
from hanse.kube.request import Request, Response, Transport


class Link:
    """The way from one party to another."""

    def __init__(self, source: str, target: str) -> None:
        self.source = source
        self.target = target
        self.cut = False
        self.broken = asyncio.Event()

    @property
    def silence(self) -> Unreachable:
        """What the source is told of a target that it cannot reach."""
        return Unreachable(f"{self.target} does not answer {self.source}")

    def break_watches(self) -> None:
        """End the watches that stand on the link; new ones may begin."""
        self.broken.set()
        self.broken = asyncio.Event()


class Links:
    """All ways between parties, by who asks and who answers."""

    def __init__(self) -> None:
        self._links: dict[tuple[str, str], Link] = {}

    def link(self, source: str, target: str) -> Link:
        return self._links.setdefault((source, target), Link(source, target))

    def transport(self, source: str, target: str, inner: Transport) -> "LinkedTransport":
        """A party's way to another's API, for as long as nobody cuts it."""
        return LinkedTransport(self.link(source, target), inner)

    def cut(self, one: str, other: str) -> None:
        """Nothing gets through between the two any more, and watches break off."""
        for link in self._between(one, other):
            link.cut = True
            link.break_watches()

    def heal(self, one: str, other: str) -> None:
        """Let everything through between the two again."""
        for link in self._between(one, other):
            link.cut = False

    def heal_all(self) -> None:
        """Let everything through everywhere."""
        for link in self._links.values():
            link.cut = False

    @property
    def cuts(self) -> list[tuple[str, str]]:
        """The pairs that are cut, each once."""
        pairs = (sorted(pair) for pair, link in self._links.items() if link.cut)
        return sorted({(one, other) for one, other in pairs})

    def _between(self, one: str, other: str) -> tuple[Link, Link]:
        return self.link(one, other), self.link(other, one)


class LinkedTransport:
    """A transport whose link can be cut, also while an answer is on its way."""

    def __init__(self, link: Link, inner: Transport) -> None:
        self._link = link
        self._inner = inner

    async def send(self, request: Request) -> Response:
        if self._link.cut:
            raise self._link.silence
        answer = await self._inner.send(request)
        if self._link.cut:  # cut meanwhile: it was done, and the source will never know
            raise self._link.silence
        return answer

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        if self._link.cut:
            raise self._link.silence
        broken = self._link.broken
        async with (
            self._inner.stream(request) as lines,
            aclosing(read_until_broken(lines, broken)) as whole,
        ):
            yield whole

    async def close(self) -> None:
        await self._inner.close()


class UnreachableTransport:
    """The way to a place that cannot be reached from where we are."""

    def __init__(self, why: str) -> None:
        self._why = why

    async def send(self, request: Request) -> Response:  # noqa: ARG002 - nothing gets there
        raise Unreachable(self._why)

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:  # noqa: ARG002
        raise Unreachable(self._why)

    async def close(self) -> None:
        """Nothing is held."""


async def read_until_broken(
    lines: AsyncIterator[bytes], broken: asyncio.Event
) -> AsyncGenerator[bytes, None]:
    """The lines until an event breaks the connection, at which `Unreachable` is raised."""
    breaking = asyncio.ensure_future(broken.wait())
    try:
        while (line := await _before(breaking, lines)) is not None:
            yield line
    finally:
        breaking.cancel()


async def _before(breaking: "asyncio.Future[Any]", lines: AsyncIterator[bytes]) -> bytes | None:
    """The next line, None at the end; whatever ends the waiting also ends the reading."""
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
