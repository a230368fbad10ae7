"""Faults between two parties: cut, hung, slow, failing and lossy links, watches that break off."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager
from datetime import timedelta
from random import Random
from typing import Literal

import msgspec
from msgspec import Struct

from hanse.kube import requests
from hanse.kube.errors import Unreachable, error_of
from hanse.kube.request import Request, Response, Transport
from hanse.local import links
from hanse.model import rights
from hanse.model.kinds.core import Namespace

READ_METHODS = frozenset({"GET", "HEAD"})
IDENTITY = requests.path_of(Namespace.kind, name=rights.IDENTITY)
"""Asked of a cluster that is quiet, whenever that is: no step of anybody's work, nor counted."""


class LinkFaults(Struct, frozen=True):
    """How often things go wrong on a link, as shares of its requests."""

    delay: timedelta = timedelta(0)
    refused: float = 0.0
    """Answered with an error status, nothing done."""
    lost: float = 0.0
    """No answer: half of these were done all the same."""
    breaks: float = 0.0
    """Lines of a watch after which it breaks off."""
    lag: timedelta = timedelta(0)
    """How late one in three lines of a watch may come; those of one watch stay in order."""
    lags: str = ""
    """A resource: every line of its watches comes so late, and no other does."""
    late: str = ""
    """A resource whose lists and watches begin `LATE` after all others."""


NO_FAULTS = LinkFaults()
LATE = timedelta(seconds=5)

_REFUSALS: tuple[tuple[int, str], ...] = (
    (409, "Conflict"),
    (429, "TooManyRequests"),
    (500, "InternalError"),
    (503, "ServiceUnavailable"),
    (504, "Timeout"),
)


class Sent(Struct, frozen=True):
    """One request that went out on a link, and what came of it."""

    source: str
    target: str
    request: Request
    status: int | None


class Link(links.Link):
    """The way from one party to another, and what goes wrong on it by chance."""

    def __init__(self, source: str, target: str) -> None:
        super().__init__(source, target)
        self.faults = NO_FAULTS
        self.answers = asyncio.Event()
        self.answers.set()
        self._reading: dict[asyncio.Timeout, None] = {}  # in order, so that seeds replay

    def break_watches(self) -> None:
        super().break_watches()
        for reading in self._reading:
            reading.reschedule(0)
        self._reading.clear()  # what is about to end cannot be ended again

    async def answer(self, request: Request) -> None:
        """Wait while the other side takes everything and says nothing, as long as a client does."""
        patience = request.timeout.total_seconds()
        try:
            async with asyncio.timeout(patience):
                await self.answers.wait()
        except TimeoutError:
            raise Unreachable(f"no answer from {self.target} within {patience:.0f} s") from None

    async def read(self, lines: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
        """A watch's lines until the link breaks; cheaper than a task for every line."""
        broken = self.broken
        while not broken.is_set():
            try:
                async with asyncio.timeout(None) as reading:
                    self._reading[reading] = None
                    try:
                        line = await anext(lines, None)
                        await self.answers.wait()
                    finally:
                        self._reading.pop(reading, None)
            except TimeoutError:
                break
            if line is None:
                return
            yield line
        raise Unreachable("the connection was reset")


class Network:
    """All links of a test world, and everything that was sent on them."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.sent: list[Sent] = []
        self.requests = 0
        self._awaited: tuple[int, asyncio.Future[None]] | None = None
        self._crash_at: int | None = None
        self._on_crash: asyncio.Future[str] | None = None
        self._links: dict[tuple[str, str], Link] = {}

    def link(self, source: str, target: str) -> Link:
        return self._links.setdefault((source, target), Link(source, target))

    def transport(self, source: str, target: str, inner: Transport) -> "FaultyTransport":
        """The way of a party to another's API, through whatever happens on their link."""
        return FaultyTransport(self, self.link(source, target), inner)

    def cut(self, source: str, target: str) -> None:
        """Nothing gets through any more, and watches break off."""
        link = self.link(source, target)
        link.cut = True
        self.break_watches(source, target)

    def hang(self, source: str, target: str) -> None:
        """Everything is taken and nothing answered: requests wait, and watches stand in silence."""
        self.link(source, target).answers.clear()

    def heal(self, source: str, target: str) -> None:
        link = self.link(source, target)
        link.cut = False
        link.answers.set()

    def heal_all(self) -> None:
        """Fair weather everywhere."""
        for link in self._links.values():
            self.heal(link.source, link.target)
            link.faults = NO_FAULTS

    async def kill_task(
        self, source: str, targets: Iterable[str], task: "asyncio.Task[None]"
    ) -> None:
        """End a party's task wherever it is: nothing that it still says is heard."""
        links = [self.link(source, target) for target in targets]
        were_cut = [link.cut for link in links]
        for link in links:
            self.cut(source, link.target)
        task.cancel()
        await asyncio.wait({task})
        for link, was_cut in zip(links, were_cut, strict=True):
            link.cut = was_cut
        if not task.cancelled() and (error := task.exception()) is not None:
            raise error

    def links_to(self, target: str) -> Iterator[Link]:
        return (link for link in self._links.values() if link.target == target)

    def break_watches(self, source: str, target: str) -> None:
        """End the watches that stand on a link; new ones may begin."""
        self.link(source, target).break_watches()

    @property
    def writes(self) -> list[Sent]:
        """What was sent that is not a read."""
        return [s for s in self.sent if s.request.method not in READ_METHODS]

    @contextmanager
    def counting_writes(self) -> Iterator[list[Sent]]:
        """The writes that are sent while the block runs."""
        writes: list[Sent] = []
        start = len(self.sent)
        yield writes
        writes.extend(s for s in self.sent[start:] if s.request.method not in READ_METHODS)

    def crash_at(self, request: int) -> "asyncio.Future[str]":
        """Name the party that makes request number n, at the moment it makes it."""
        self._crash_at = self.requests + request
        self._on_crash = asyncio.get_running_loop().create_future()
        return self._on_crash

    def cancel_crash(self) -> None:
        """Call off a crash that has not come."""
        self._on_crash = None

    def after(self, requests: int) -> "asyncio.Future[None]":
        """Done when so many more requests were made: time stands still for whoever never rests."""
        awaited: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._awaited = (self.requests + requests, awaited)
        return awaited

    def count(self, link: Link) -> bool:
        """Count a request; True when its sender is to crash now."""
        self.requests += 1
        if self._awaited is not None and self.requests == self._awaited[0]:
            self._awaited[1].set_result(None)
        if self._on_crash is None or self.requests != self._crash_at:
            return False
        self._on_crash.set_result(link.source)
        self._on_crash = None
        return True


class FaultyTransport:
    """A transport on a link of a network."""

    def __init__(self, network: Network, link: Link, inner: Transport) -> None:
        self._network = network
        self._link = link
        self._inner = inner

    async def send(self, request: Request) -> Response:
        network, link = self._network, self._link
        if request.path != IDENTITY and network.count(link):
            await asyncio.sleep(3600)  # the sender is about to be killed and never goes on
        await asyncio.sleep(_delay(link.faults, request).total_seconds())
        try:
            await link.answer(request)
        except Unreachable:
            network.sent.append(Sent(link.source, link.target, request, None))
            raise
        fate = self._fate()
        if fate == "refused":
            answer = _refusal(network.random)
            network.sent.append(Sent(link.source, link.target, request, answer.status))
            return answer
        if link.cut or fate == "lost before":
            network.sent.append(Sent(link.source, link.target, request, None))
            raise link.silence
        answer = await self._inner.send(request)
        if self._link.cut or fate == "lost after":  # cut meanwhile, as seen from here
            network.sent.append(Sent(link.source, link.target, request, None))
            raise link.silence
        network.sent.append(Sent(link.source, link.target, request, answer.status))
        return answer

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        link = self._link
        await asyncio.sleep(_delay(link.faults, request).total_seconds())
        await link.answer(request)
        match self._fate():
            case "refused":
                raise error_of(_refusal(self._network.random))
            case "lost before" | "lost after":
                raise link.silence
            case "answered":
                pass
        if link.cut:
            raise link.silence
        async with (
            self._inner.stream(request) as lines,
            aclosing(link.read(lines)) as whole,
        ):
            yield self._until_chance_breaks(whole, request.path)

    async def close(self) -> None:
        await self._inner.close()

    async def _until_chance_breaks(
        self, lines: AsyncIterator[bytes], path: str
    ) -> AsyncIterator[bytes]:
        async for line in lines:
            if self._link.faults.lag:
                await asyncio.sleep(self._lag(path).total_seconds())
            yield line
            if self._network.random.random() < self._link.faults.breaks:
                raise Unreachable("the connection was reset")

    def _lag(self, path: str) -> timedelta:
        faults, random = self._link.faults, self._network.random
        if faults.lags:
            return faults.lag if path.rpartition("/")[2] == faults.lags else timedelta(0)
        return faults.lag * random.random() if random.random() < 1 / 3 else timedelta(0)

    def _fate(self) -> Literal["answered", "refused", "lost before", "lost after"]:
        faults, random = self._link.faults, self._network.random
        if faults.refused and random.random() < faults.refused:
            return "refused"
        if faults.lost and random.random() < faults.lost:
            return "lost before" if random.random() < 0.5 else "lost after"
        return "answered"


def _delay(faults: LinkFaults, request: Request) -> timedelta:
    late = request.method == "GET" and request.path.rpartition("/")[2] == faults.late
    return faults.delay + LATE if late else faults.delay


def _refusal(random: Random) -> Response:
    code, reason = random.choice(_REFUSALS)
    status = {"kind": "Status", "code": code, "reason": reason, "message": f"injected {reason}"}
    headers = {"retry-after": "1"} if code == 429 else {}
    return Response(code, msgspec.json.encode(status), headers)
