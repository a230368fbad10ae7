"""Fault injection between an agent and an API server: cut, hung, slow and lossy links."""

import asyncio
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
)
from contextlib import aclosing, asynccontextmanager, contextmanager
from datetime import timedelta
from random import Random
from typing import Literal

import msgspec
from msgspec import Struct

from hanse.kube import requests
from hanse.kube.errors import BadCredentials, Unreachable, error_from_response
from hanse.kube.repeated_timeout import RepeatedTimeout
from hanse.kube.transport import Request, Response, Transport
from hanse.local import links
from hanse.model import naming
from hanse.model.kinds.core import Namespace
from hanse.runtime.health_probe import FAILURE_THRESHOLD, PROBE_TIMEOUT, QUIET_PERIOD

DETECTION_TIME = QUIET_PERIOD + FAILURE_THRESHOLD * PROBE_TIMEOUT
"""When a cluster that stops answering is known to be unresponsive."""

READ_METHODS = frozenset({"GET", "HEAD"})
IDENTITY_NAMESPACE = requests.resource_path(Namespace.kind, name=naming.IDENTITY_NAMESPACE)
"""The health probe of an idle connection: not counted as a request."""


class LinkFaults(Struct, frozen=True):
    """The faults of a link, as probabilities and delays."""

    delay: timedelta = timedelta(0)
    refused: float = 0.0
    """Share of requests answered with an error status and not executed."""
    lost: float = 0.0
    """Share of requests without an answer; half of these are executed."""
    breaks: float = 0.0
    """Share of watch events after which the watch breaks."""
    lag: timedelta = timedelta(0)
    """The maximum delay of a third of the watch events; those of one watch stay in order."""
    lags: str = ""
    """A resource: all events of its watches, and no others, are delayed by `lag`."""
    late: str = ""
    """A resource whose lists and watches start `LATE` after all others."""
    fails: str = ""
    """A resource: its lists and watches, and nothing else, are answered with an error status."""
    forbids: Literal["", "writes", "everything"] = ""
    """What is answered with 403, as if the agent had lost its rights."""


NO_FAULTS = LinkFaults()
LATE = timedelta(seconds=5)
WATCH_LAGS = (0.0, 0.0, 0.0, 0.02, 0.2, 1.0)
"""Seconds that the events of one watch take."""

_REFUSALS: tuple[tuple[int, str], ...] = (
    (409, "Conflict"),
    (429, "TooManyRequests"),
    (500, "InternalError"),
    (503, "ServiceUnavailable"),
    (504, "Timeout"),
)


class Sent(Struct, frozen=True):
    """One request sent on a link, and the status of its answer."""

    source: str
    target: str
    request: Request
    status: int | None


class Link(links.Link):
    """A link from an agent to a cluster, with its faults."""

    def __init__(self, source: str, target: str) -> None:
        super().__init__(source, target)
        self.faults = NO_FAULTS
        self.rejects = False
        """Whether the cluster does not know the agent's token any more."""
        self.answers = asyncio.Event()
        self.answers.set()
        self._reading: dict[RepeatedTimeout, None] = {}  # in order, so that seeds replay

    def break_watches(self) -> None:
        super().break_watches()
        for reading in self._reading:
            asyncio.get_running_loop().call_soon(reading.expire)

    async def answer(self, request: Request) -> None:
        """Wait while the link hangs, up to the request's timeout."""
        if self.answers.is_set():
            return
        patience = request.timeout.total_seconds()
        try:
            async with asyncio.timeout(patience):
                await self.answers.wait()
        except TimeoutError:
            raise Unreachable(f"no answer from {self.target} within {patience:.0f} s") from None

    async def read(self, lines: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
        """The events of a watch until the link breaks; cheaper than a task for each event."""
        broken, reading = self.broken, RepeatedTimeout(None)
        while not broken.is_set():
            self._reading[reading] = None  # the last to wait is the last to be told
            try:
                with reading:
                    line = await anext(lines, None)
                    if not self.answers.is_set():
                        await self.answers.wait()
            except TimeoutError:
                break
            finally:
                del self._reading[reading]
            if line is None:
                return
            yield line
        raise Unreachable("the connection was reset")


class WatchLags:
    """Lags of watches, one for each link and path, the same for a seed: kinds arrive in any order.

    They are short beside every bound of time that a user is promised.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._drawn: dict[tuple[str, str, str], float] = {}

    def of(self, link: Link, path: str) -> float:
        """Seconds by which each event of a watch is late."""
        key = (link.source, link.target, path)
        if key not in self._drawn:
            self._drawn[key] = Random(f"{self._seed} {key}").choice(WATCH_LAGS)
        return self._drawn[key]


class Network:
    """All links of a test, and every request that was sent on them."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.latency = timedelta(0)
        """What every request takes, faults or not."""
        self.sent: list[Sent] = []
        self.watched: list[Sent] = []
        """Watches that were begun; their status is not known."""
        self.watch_lags: WatchLags | None = None
        """How late the events of each watch arrive, faults or not."""
        self.requests = 0
        self.before_write: Callable[[Link, Request], Awaitable[None]] | None = None
        """What others do just before a write is carried out, after its sender has decided on it."""
        self._awaited: tuple[int, asyncio.Future[None]] | None = None
        self._crash_at: int | None = None
        self._on_crash: asyncio.Future[str] | None = None
        self._links: dict[tuple[str, str], Link] = {}

    def link(self, source: str, target: str) -> Link:
        found = self._links.get((source, target))
        if found is None:
            found = self._links[source, target] = Link(source, target)
        return found

    def transport(self, source: str, target: str, inner: Transport) -> "FaultyTransport":
        """Wrap a transport with the faults of the link between two parties."""
        return FaultyTransport(self, self.link(source, target), inner)

    def cut(self, source: str, target: str) -> None:
        """Cut a link: no request gets through, and watches break."""
        link = self.link(source, target)
        link.cut = True
        self.break_watches(source, target)

    def hang(self, source: str, target: str) -> None:
        """Hang a link: requests are accepted and never answered, and watches are silent."""
        self.link(source, target).answers.clear()

    def heal(self, source: str, target: str) -> None:
        link = self.link(source, target)
        link.cut = False
        link.answers.set()

    def heal_all(self) -> None:
        """Remove all faults from all links."""
        for link in self._links.values():
            self.heal(link.source, link.target)
            link.faults = NO_FAULTS

    async def kill_task(
        self, source: str, targets: Iterable[str], task: "asyncio.Task[None]"
    ) -> None:
        """Cancel an agent's task with its links cut: none of its remaining requests arrives."""
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

    @property
    def links(self) -> Iterable[Link]:
        return self._links.values()

    def targets_of(self, source: str) -> Iterator[str]:
        """The targets that a source has sent requests to."""
        return (link.target for link in self._links.values() if link.source == source)

    def links_to(self, target: str) -> Iterator[Link]:
        return (link for link in self._links.values() if link.target == target)

    def break_watches(self, source: str, target: str) -> None:
        """End the open watches of a link; new ones may start."""
        self.link(source, target).break_watches()

    @property
    def writes(self) -> list[Sent]:
        """All requests that are not reads."""
        return [s for s in self.sent if s.request.method not in READ_METHODS]

    @contextmanager
    def counting_writes(self) -> Iterator[list[Sent]]:
        """The writes that are sent while the block runs."""
        writes: list[Sent] = []
        start = len(self.sent)
        yield writes
        writes.extend(s for s in self.sent[start:] if s.request.method not in READ_METHODS)

    def crash_at(self, request: int) -> "asyncio.Future[str]":
        """A future of the sender of the n-th request from now, set when it is sent."""
        self._crash_at = self.requests + request
        self._on_crash = asyncio.get_running_loop().create_future()
        return self._on_crash

    def cancel_crash(self) -> None:
        """Cancel a crash that has not happened."""
        self._on_crash = None

    def after(self, requests: int) -> "asyncio.Future[None]":
        """A future that is done after so many more requests: virtual time stops for a busy loop."""
        awaited: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._awaited = (self.requests + requests, awaited)
        return awaited

    def count(self, link: Link) -> bool:
        """Count a request; True if its sender crashes now."""
        self.requests += 1
        if self._awaited is not None and self.requests == self._awaited[0]:
            self._awaited[1].set_result(None)
        if self._on_crash is None or self.requests != self._crash_at:
            return False
        self._on_crash.set_result(link.source)
        self._on_crash = None
        return True


class FaultyTransport:
    """A transport with the faults of a link."""

    def __init__(self, network: Network, link: Link, inner: Transport) -> None:
        self._network = network
        self._link = link
        self._inner = inner

    async def send(self, request: Request) -> Response:
        network, link = self._network, self._link
        if request.path != IDENTITY_NAMESPACE and network.count(link):
            await asyncio.sleep(3600)  # the sender is killed and never continues
        await asyncio.sleep(self._delay(request))
        try:
            await link.answer(request)
        except Unreachable:
            network.sent.append(Sent(link.source, link.target, request, None))
            raise
        outcome = self._draw_outcome(request)
        if (forbidden := self._is_forbidden(request)) or outcome == "refused":
            answer = _error(403, "Forbidden") if forbidden else _refusal(network.random)
            network.sent.append(Sent(link.source, link.target, request, answer.status))
            return answer
        if link.cut or outcome == "lost before":
            network.sent.append(Sent(link.source, link.target, request, None))
            raise link.error
        if link.rejects:
            network.sent.append(Sent(link.source, link.target, request, 401))
            raise BadCredentials("Unauthorized")
        if network.before_write is not None and request.method not in READ_METHODS:
            await network.before_write(link, request)
        answer = await self._inner.send(request)
        if self._link.cut or outcome == "lost after":  # cut meanwhile, as seen from here
            network.sent.append(Sent(link.source, link.target, request, None))
            raise link.error
        network.sent.append(Sent(link.source, link.target, request, answer.status))
        return answer

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        link = self._link
        self._network.watched.append(Sent(link.source, link.target, request, None))
        await asyncio.sleep(self._delay(request))
        await link.answer(request)
        if self._is_forbidden(request):
            raise error_from_response(_error(403, "Forbidden"))
        match self._draw_outcome(request):
            case "refused":
                raise error_from_response(_refusal(self._network.random))
            case "lost before" | "lost after":
                raise link.error
            case "answered":
                pass
        if link.cut:
            raise link.error
        async with (
            self._inner.stream(request) as lines,
            aclosing(link.read(lines)) as read,
        ):
            faults, resource = link.faults, request.path.rpartition("/")[2]
            whole = self._with_watch_lags(read, request.path)
            if faults.lags == resource:
                async with aclosing(_delivered_late(whole, faults.lag)) as late:
                    yield self._with_random_breaks(late)
            else:
                yield self._with_random_breaks(whole, resource)

    async def close(self) -> None:
        await self._inner.close()

    async def _with_watch_lags(
        self, lines: AsyncIterator[bytes], path: str
    ) -> AsyncIterator[bytes]:
        """The lines, late as all of this watch are now; what arrived meanwhile does not wait."""
        network, link, loop = self._network, self._link, asyncio.get_running_loop()
        waits_since = loop.time()
        async for line in lines:
            if network.watch_lags is not None and loop.time() > waits_since:
                await asyncio.sleep(network.watch_lags.of(link, path))
            yield line
            waits_since = loop.time()

    async def _with_random_breaks(
        self, lines: AsyncIterator[bytes], resource: str = ""
    ) -> AsyncIterator[bytes]:
        """The lines, each delayed as the link says now; `resource` is empty if they are already."""
        async for line in lines:
            if self._link.faults.lag:
                await asyncio.sleep(self._lag(resource).total_seconds())
            yield line
            if self._network.random.random() < self._link.faults.breaks:
                raise Unreachable("the connection was reset")

    def _is_forbidden(self, request: Request) -> bool:
        forbids = self._link.faults.forbids
        return forbids == "everything" or (
            forbids == "writes" and request.method not in READ_METHODS
        )

    def _lag(self, resource: str) -> timedelta:
        faults, random = self._link.faults, self._network.random
        if faults.lags:
            return faults.lag if resource == faults.lags else timedelta(0)
        return faults.lag * random.random() if random.random() < 1 / 3 else timedelta(0)

    def _delay(self, request: Request) -> float:
        faults = self._link.faults
        late = request.method == "GET" and request.path.rpartition("/")[2] == faults.late
        delay = self._network.latency + faults.delay + (LATE if late else timedelta(0))
        return delay.total_seconds()

    def _draw_outcome(
        self, request: Request
    ) -> Literal["answered", "refused", "lost before", "lost after"]:
        faults, random = self._link.faults, self._network.random
        if faults.fails and request.path.rpartition("/")[2] == faults.fails:
            return "refused"
        if faults.refused and random.random() < faults.refused:
            return "refused"
        if faults.lost and random.random() < faults.lost:
            return "lost before" if random.random() < 0.5 else "lost after"
        return "answered"


async def _delivered_late(
    lines: AsyncIterator[bytes], lag: timedelta
) -> AsyncGenerator[bytes, None]:
    """Each line a fixed time after its arrival; their number does not add to it."""
    loop = asyncio.get_running_loop()
    arrived: asyncio.Queue[tuple[float, bytes | Exception | None]] = asyncio.Queue()

    def arrive(what: bytes | Exception | None) -> None:
        arrived.put_nowait((loop.time() + lag.total_seconds(), what))

    async def read() -> None:
        try:
            async for line in lines:
                arrive(line)
        except Exception as error:  # noqa: BLE001 - raised where lines are delivered
            arrive(error)
        else:
            arrive(None)

    reading = asyncio.create_task(read(), name="late lines")
    try:
        while True:
            due, what = await arrived.get()
            await asyncio.sleep(due - loop.time())
            if isinstance(what, Exception):
                raise what
            if what is None:
                return
            yield what
    finally:
        reading.cancel()
        await asyncio.wait({reading})


def _refusal(random: Random) -> Response:
    return _error(*random.choice(_REFUSALS))


def _error(code: int, reason: str) -> Response:
    status = {"kind": "Status", "code": code, "reason": reason, "message": f"injected {reason}"}
    headers = {"retry-after": "1"} if code == 429 else {}
    return Response(code, msgspec.json.encode(status), headers)
